// SPDX-License-Identifier: Apache-2.0
// The part of reference_body.h for flat buffers: elementwise, reductions, optimizers. Included by
// it.

#ifdef REF_TABLE

static void ref_relu_forward(struct kernel_ctx *ctx, size_t n, const void *vx, void *vy) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

static void ref_relu_backward(struct kernel_ctx *ctx, size_t n, const void *vy, const void *vdy,
                              void *vdx) {
    (void)ctx;
    const REAL *y = vy, *dy = vdy;
    REAL *dx = vdx;
    for (size_t i = 0; i < n; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

static void ref_add(struct kernel_ctx *ctx, size_t n, const void *va, const void *vb, void *vy) {
    (void)ctx;
    const REAL *a = va, *b = vb;
    REAL *y = vy;
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void ref_axpy(struct kernel_ctx *ctx, size_t n, double alpha, const void *vx, void *vy) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    for (size_t i = 0; i < n; i++)
        y[i] += (REAL)alpha * x[i];
}

static void ref_scale(struct kernel_ctx *ctx, size_t n, double alpha, void *vx) {
    (void)ctx;
    REAL *x = vx;
    for (size_t i = 0; i < n; i++)
        x[i] *= (REAL)alpha;
}

static void ref_zero(struct kernel_ctx *ctx, size_t n, void *x) {
    (void)ctx;
    memset(x, 0, n * sizeof(REAL));
}

static void ref_sum_squares(struct kernel_ctx *ctx, size_t n, const void *vx, double *out) {
    (void)ctx;
    const REAL *x = vx;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    *out = sum;
}

// torch.optim.SGD with dampening 0.
static void ref_sgd(struct kernel_ctx *ctx, const struct sgd_args *a) {
    (void)ctx;
    REAL *p = a->p, *buf = a->momentum_buf;
    const REAL *grad = a->g;
    for (const struct optim_range *r = a->ranges; r < a->ranges + a->nranges; r++) {
        for (size_t i = r->begin; i < r->end; i++) {
            double g = a->grad_scale * (double)grad[i] + r->weight_decay * (double)p[i], step = g;
            if (a->momentum != 0) {
                step = a->momentum * (double)buf[i] + g;
                buf[i] = (REAL)step;
                step = a->nesterov ? g + a->momentum * step : step;
            }
            p[i] = (REAL)((double)p[i] - a->lr * r->lr_scale * step);
        }
    }
}

// torch.optim.Adam and AdamW.
static void ref_adam(struct kernel_ctx *ctx, const struct adam_args *a) {
    (void)ctx;
    REAL *p = a->p, *m = a->m, *v = a->v;
    const REAL *grad = a->g;
    double correct1 = 1 - pow(a->beta1, (double)a->step);
    double correct2 = 1 - pow(a->beta2, (double)a->step);
    for (const struct optim_range *r = a->ranges; r < a->ranges + a->nranges; r++) {
        double lr = a->lr * r->lr_scale;
        for (size_t i = r->begin; i < r->end; i++) {
            double g = a->grad_scale * (double)grad[i], x = (double)p[i];
            if (a->decoupled)
                x *= 1 - lr * r->weight_decay;
            else
                g += r->weight_decay * x;
            double first = a->beta1 * (double)m[i] + (1 - a->beta1) * g;
            double second = a->beta2 * (double)v[i] + (1 - a->beta2) * g * g;
            m[i] = (REAL)first;
            v[i] = (REAL)second;
            p[i] = (REAL)(x - lr / correct1 * first / (sqrt(second / correct2) + a->eps));
        }
    }
}

// y = x * Phi(x), Phi the distribution function of the normal distribution (torch's default GELU).
static void ref_gelu_forward(struct kernel_ctx *ctx, size_t n, const void *vx, void *vy) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    for (size_t i = 0; i < n; i++)
        y[i] = (REAL)((double)x[i] * 0.5 * erfc(-(double)x[i] * M_SQRT1_2));
}

static void ref_gelu_backward(struct kernel_ctx *ctx, size_t n, const void *vx, const void *vdy,
                              void *vdx) {
    (void)ctx;
    const REAL *x = vx, *dy = vdy;
    REAL *dx = vdx;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], density = exp(-0.5 * v * v) * M_SQRT1_2 * M_2_SQRTPI * 0.5;
        dx[i] = (REAL)((double)dy[i] * (0.5 * erfc(-v * M_SQRT1_2) + v * density));
    }
}

#endif
