// SPDX-License-Identifier: Apache-2.0
// The part of reference_body.h for transformers: layer norm, attention, tokens. Included by it.

#ifdef REF_TABLE

static void ref_layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a) {
    (void)ctx;
    const REAL *gamma = a->gamma, *beta = a->beta;
    for (int64_t r = 0; r < a->rows; r++) {
        const REAL *x = (const REAL *)a->x + r * a->cols;
        REAL *y = (REAL *)a->y + r * a->cols;
        if (a->residual) {
            const REAL *residual = (const REAL *)a->residual + r * a->cols;
            REAL *sum = (REAL *)a->sum + r * a->cols;
            for (int c = 0; c < a->cols; c++)
                sum[c] = x[c] + residual[c];
            x = sum;
        }
        double mean, var;
        ref_moments(a->cols, 1, x, &mean, &var);
        double invstd = 1 / sqrt(var + a->eps);
        if (a->save_mean) {
            ((REAL *)a->save_mean)[r] = (REAL)mean;
            ((REAL *)a->save_invstd)[r] = (REAL)invstd;
        }
        for (int c = 0; c < a->cols; c++)
            y[c] = (REAL)(((double)x[c] - mean) * invstd * (double)gamma[c] + (double)beta[c]);
    }
}

// With g = dy * gamma: dx = invstd * (g - mean(g) - xhat * mean(g * xhat)) (Ba and others 2016).
static void ref_layernorm_row(const struct layernorm_grad_args *a, int64_t r) {
    const REAL *x = (const REAL *)a->x + r * a->cols, *dy = (const REAL *)a->dy + r * a->cols;
    const REAL *gamma = a->gamma;
    const REAL *more = a->dsum ? (const REAL *)a->dsum + r * a->cols : NULL;
    REAL *dx = (REAL *)a->dx + r * a->cols;
    double mean = (double)((const REAL *)a->save_mean)[r];
    double invstd = (double)((const REAL *)a->save_invstd)[r], sum = 0, dot = 0;
    for (int c = 0; c < a->cols; c++) {
        double g = (double)dy[c] * (double)gamma[c];
        sum += g;
        dot += g * ((double)x[c] - mean) * invstd;
    }
    for (int c = 0; c < a->cols; c++) {
        double g = (double)dy[c] * (double)gamma[c], xhat = ((double)x[c] - mean) * invstd;
        double v = invstd * (g - sum / a->cols - xhat * dot / a->cols);
        dx[c] = (REAL)(v + (more ? (double)more[c] : 0));
    }
}

static void ref_layernorm_backward(struct kernel_ctx *ctx, const struct layernorm_grad_args *a) {
    (void)ctx;
    REAL *dgamma = a->dgamma, *dbeta = a->dbeta;
    for (int c = 0; c < a->cols; c++) {
        double sum = a->accumulate ? (double)dbeta[c] : 0;
        double dot = a->accumulate ? (double)dgamma[c] : 0;
        for (int64_t r = 0; r < a->rows; r++) {
            double mean = (double)((const REAL *)a->save_mean)[r];
            double invstd = (double)((const REAL *)a->save_invstd)[r];
            double dy = (double)((const REAL *)a->dy)[r * a->cols + c];
            sum += dy;
            dot += dy * ((double)((const REAL *)a->x)[r * a->cols + c] - mean) * invstd;
        }
        dbeta[c] = (REAL)sum;
        dgamma[c] = (REAL)dot;
    }
    for (int64_t r = 0; r < a->rows; r++) // after the sums: dx may be dy
        ref_layernorm_row(a, r);
}

// Row `token` of q (which 0), k (1) or v (2) of a head.
static const REAL *ref_qkv(const struct attention_shape *s, const REAL *qkv, int which, int image,
                           int head, int token) {
    size_t row = ((size_t)image * s->t + token) * 3 + which;
    if (s->keys && which == 0)
        row = (size_t)image * s->t + token;
    else if (s->keys)
        row = (size_t)s->n * s->t + ((size_t)image * s->keys + token) * 2 + which - 1;
    return qkv + (row * s->heads + head) * s->d;
}

static int ref_keys(const struct attention_shape *s) {
    return s->keys ? s->keys : s->t;
}

static double ref_dot(int n, const REAL *a, const REAL *b) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double ref_score(const struct attention_shape *s, const REAL *qkv, int image, int head,
                        int i, int j) {
    return ref_dot(s->d, ref_qkv(s, qkv, 0, image, head, i), ref_qkv(s, qkv, 1, image, head, j)) /
           sqrt((double)s->d);
}

static void ref_attention_row(const struct attention_shape *s, const REAL *qkv, REAL *y, REAL *lse,
                              int image, int head, int i) {
    REAL *out = y + (((size_t)image * s->t + i) * s->heads + head) * s->d;
    double max = -HUGE_VAL, sum = 0;
    for (int j = 0; j < ref_keys(s); j++)
        max = fmax(max, ref_score(s, qkv, image, head, i, j));
    for (int j = 0; j < ref_keys(s); j++)
        sum += exp(ref_score(s, qkv, image, head, i, j) - max);
    double log_sum = max + log(sum);
    for (int c = 0; c < s->d; c++) {
        double v = 0;
        for (int j = 0; j < ref_keys(s); j++)
            v += exp(ref_score(s, qkv, image, head, i, j) - log_sum) *
                 (double)ref_qkv(s, qkv, 2, image, head, j)[c];
        out[c] = (REAL)v;
    }
    lse[((size_t)image * s->heads + head) * s->t + i] = (REAL)log_sum;
}

static void ref_attention_forward(struct kernel_ctx *ctx, const struct attention_shape *s,
                                  const void *qkv, void *y, void *lse) {
    (void)ctx;
    for (int n = 0; n < s->n; n++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->t; i++)
                ref_attention_row(s, qkv, y, lse, n, h, i);
}

// Terms of pair (i, j) of a head: with P = softmax(S), dS = P * (dy.v - dy.y), S = q.k / sqrt(d).
static void ref_attention_pair(const struct attention_shape *s, const REAL *qkv, const REAL *y,
                               double log_sum, const REAL *dy, double *dqkv, int image, int head,
                               int i, int j) {
    size_t at = (((size_t)image * s->t + i) * s->heads + head) * s->d;
    const REAL *q = ref_qkv(s, qkv, 0, image, head, i), *k = ref_qkv(s, qkv, 1, image, head, j);
    const REAL *v = ref_qkv(s, qkv, 2, image, head, j);
    double p = exp(ref_score(s, qkv, image, head, i, j) - log_sum);
    double ds = p * (ref_dot(s->d, dy + at, v) - ref_dot(s->d, dy + at, y + at));
    for (int c = 0; c < s->d; c++) {
        dqkv[q - qkv + c] += ds * (double)k[c] / sqrt((double)s->d);
        dqkv[k - qkv + c] += ds * (double)q[c] / sqrt((double)s->d);
        dqkv[v - qkv + c] += p * (double)dy[at + c];
    }
}

static void ref_attention_backward(struct kernel_ctx *ctx, const struct attention_shape *s,
                                   const void *qkv, const void *y, const void *lse, const void *dy,
                                   void *vdqkv) {
    (void)ctx;
    size_t rows = s->keys ? s->t + 2 * (size_t)s->keys : 3 * (size_t)s->t;
    size_t elements = (size_t)s->n * rows * s->heads * s->d;
    double *sum = calloc(elements, sizeof *sum);
    REAL *dqkv = vdqkv;
    assert(sum);
    for (int n = 0; n < s->n; n++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->t; i++) {
                double log_sum = (double)((const REAL *)lse)[((size_t)n * s->heads + h) * s->t + i];
                for (int j = 0; j < ref_keys(s); j++)
                    ref_attention_pair(s, qkv, y, log_sum, dy, sum, n, h, i, j);
            }
    for (size_t i = 0; i < elements; i++)
        dqkv[i] = (REAL)sum[i];
    free(sum);
}

static void ref_tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *vx,
                               const void *first, const void *vpos, void *vy) {
    (void)ctx;
    const REAL *x = vx, *pos = vpos;
    REAL *y = vy;
    int t = s->p + (first != NULL);
    for (int n = 0; n < s->n; n++)
        for (int i = 0; i < t; i++)
            for (int c = 0; c < s->d; c++) {
                size_t patch = ((size_t)n * s->p + i - (first != NULL)) * s->d + c;
                REAL v = first && i == 0 ? ((const REAL *)first)[c] : x[patch];
                *y++ = v + (pos ? pos[(size_t)i * s->d + c] : 0);
            }
}

static void ref_tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s,
                                const void *vdy, void *vdx, void *dfirst, void *vdpos,
                                int accumulate) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx, *dpos = vdpos;
    int t = s->p + (dfirst != NULL);
    for (int i = 0; i < t; i++)
        for (int c = 0; c < s->d; c++) {
            double sum = 0;
            for (int n = 0; n < s->n; n++) {
                REAL g = dy[((size_t)n * t + i) * s->d + c];
                sum += (double)g;
                if (dx && (!dfirst || i > 0))
                    dx[((size_t)n * s->p + i - (dfirst != NULL)) * s->d + c] = g;
            }
            REAL *first = dfirst && i == 0 ? (REAL *)dfirst + c : NULL;
            REAL *place = dpos ? dpos + (size_t)i * s->d + c : NULL;
            if (first)
                *first = (REAL)(accumulate ? (double)*first + sum : sum);
            if (place)
                *place = (REAL)(accumulate ? (double)*place + sum : sum);
        }
}

static void ref_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *vx,
                                    void *vy) {
    (void)ctx;
    for (int i = 0; i < n; i++)
        memcpy((REAL *)vy + (size_t)i * d, (const REAL *)vx + (size_t)i * t * d,
               (size_t)d * sizeof(REAL));
}

static void ref_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *vdy,
                                     void *vdx) {
    (void)ctx;
    memset(vdx, 0, (size_t)n * t * d * sizeof(REAL));
    for (int i = 0; i < n; i++)
        memcpy((REAL *)vdx + (size_t)i * t * d, (const REAL *)vdy + (size_t)i * d,
               (size_t)d * sizeof(REAL));
}

#endif
