// SPDX-License-Identifier: Apache-2.0
// Second half of reference_body.h: pooling, loss, elementwise, optimizers, images. Included by it.

#ifdef REF_TABLE

static int ref_open(struct kernel_ctx **out, const struct kernel_config *cfg) {
    return cfg->isa ? -EINVAL : ctx_open(out, cfg, NULL, "plain");
}

static size_t ref_gemm_workspace(const struct kernel_ctx *ctx, int m, int n, int k) {
    (void)ctx, (void)m, (void)n, (void)k;
    return 0;
}

static size_t ref_conv2d_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    (void)ctx, (void)s;
    return 0;
}

static size_t ref_rows_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    (void)ctx, (void)rows, (void)cols;
    return 0;
}

// The largest element of one window; the first of equals. A NaN wins, as in PyTorch.
static REAL ref_window_max(const struct pool2d_shape *s, const REAL *image, int oy, int ox, int c,
                           uint8_t *index) {
    REAL best = 0;
    int found = 0;
    for (int ky = 0; ky < s->k; ky++) {
        for (int kx = 0; kx < s->k; kx++) {
            int y = oy * s->stride - s->pad + ky, x = ox * s->stride - s->pad + kx;
            if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                continue;
            REAL v = image[((size_t)y * s->w + x) * s->c + c];
            if (!found || v > best || v != v) {
                best = v;
                *index = (uint8_t)(ky * s->k + kx);
                found = 1;
            }
        }
    }
    return best;
}

static void ref_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                const void *vx, void *vy, uint8_t *index) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    int oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    for (int n = 0; n < s->n; n++, x += (size_t)s->h * s->w * s->c)
        for (int oy = 0; oy < oh; oy++)
            for (int ox = 0; ox < ow; ox++)
                for (int c = 0; c < s->c; c++)
                    *y++ = ref_window_max(s, x, oy, ox, c, index++);
}

static void ref_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                 const void *vdy, const uint8_t *index, void *vdx) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    int oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    size_t image = (size_t)s->h * s->w * s->c;
    memset(dx, 0, s->n * image * sizeof *dx);
    for (int n = 0; n < s->n; n++)
        for (int oy = 0; oy < oh; oy++)
            for (int ox = 0; ox < ow; ox++)
                for (int c = 0; c < s->c; c++, index++) {
                    int y = oy * s->stride - s->pad + *index / s->k;
                    int x = ox * s->stride - s->pad + *index % s->k;
                    dx[n * image + ((size_t)y * s->w + x) * s->c + c] += *dy++;
                }
}

static void ref_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *vx,
                                void *vy) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < c; j++) {
            double sum = 0;
            for (int p = 0; p < hw; p++)
                sum += (double)x[((size_t)i * hw + p) * c + j];
            *y++ = (REAL)(sum / hw);
        }
}

static void ref_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *vdy,
                                 void *vdx) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < hw; p++)
            for (int j = 0; j < c; j++)
                *dx++ = (REAL)((double)dy[(size_t)i * c + j] / hw);
}

// How many logits come before the label's: larger ones, and equal ones with a smaller index. A
// NaN anywhere puts it last.
static int ref_rank_of_label(int classes, const REAL *z, int label) {
    int rank = 0;
    for (int j = 0; j < classes; j++) {
        if (z[j] != z[j])
            return classes;
        rank += z[j] > z[label] || (z[j] == z[label] && j < label);
    }
    return rank;
}

static void ref_softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                             struct loss_totals *out) {
    (void)ctx;
    *out = (struct loss_totals){.rows = a->rows};
    for (int i = 0; i < a->rows; i++) {
        const REAL *z = (const REAL *)a->logits + (size_t)i * a->classes;
        REAL *dz = a->dlogits ? (REAL *)a->dlogits + (size_t)i * a->classes : NULL;
        int label = a->labels[i];
        assert(label >= 0 && label < a->classes);
        int rank = ref_rank_of_label(a->classes, z, label);
        double max = (double)z[0], sum = 0, sum_z = 0, each = a->smoothing / a->classes;
        for (int j = 1; j < a->classes; j++)
            max = (double)z[j] > max ? (double)z[j] : max;
        for (int j = 0; j < a->classes; j++) {
            sum += exp((double)z[j] - max);
            sum_z += (double)z[j] - max;
        }
        double log_sum = log(sum); // -log p[j] = log_sum - (z[j] - max)
        out->loss_sum += (1 - a->smoothing) * (log_sum - ((double)z[label] - max)) +
                         each * (a->classes * log_sum - sum_z);
        out->top1 += rank < 1;
        out->top5 += rank < 5 && rank < a->classes;
        for (int j = 0; dz && j < a->classes; j++) {
            double p = exp((double)z[j] - max) / sum;
            double target = each + (j == label ? 1 - a->smoothing : 0);
            dz[j] = (REAL)(a->grad_scale * (p - target));
        }
    }
}

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

static double ref_sum_squares(struct kernel_ctx *ctx, size_t n, const void *vx) {
    (void)ctx;
    const REAL *x = vx;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
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

static void ref_image_normalize(struct kernel_ctx *ctx, const struct image_args *a) {
    (void)ctx;
    REAL *out = a->out;
    for (int n = 0; n < a->n; n++) {
        int top = a->offset_y ? a->offset_y[n] : 0, left = a->offset_x ? a->offset_x[n] : 0;
        for (int y = 0; y < a->dst_h; y++)
            for (int x = 0; x < a->dst_w; x++)
                for (int c = 0; c < a->channels; c++) {
                    int sy = top + y, sx = left + (a->flip && a->flip[n] ? a->dst_w - 1 - x : x);
                    int inside = sy >= 0 && sy < a->src_h && sx >= 0 && sx < a->src_w;
                    size_t at = ((size_t)sy * a->src_w + sx) * a->channels + c;
                    double v = inside ? a->src[n][at] : 0;
                    *out++ = (REAL)((v / 255 - a->mean[c]) / a->std[c]);
                }
    }
}

#endif
