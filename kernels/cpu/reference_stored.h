// SPDX-License-Identifier: Apache-2.0
// The part of reference_body.h for activations in bfloat16: an op on copies that are reals.
// Included by it.

#ifdef REF_TABLE

// A tensor as reals: itself, or a copy of what is stored.
static REAL *ref_widen(enum kernel_type store, const void *x, size_t n) {
    if (store == KERNEL_FLOAT || !x)
        return (REAL *)x;
    REAL *copy = calloc(n + 1, sizeof *copy);
    assert(copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = (REAL)bf16_widen(((const uint16_t *)x)[i]);
    return copy;
}

static void ref_drop(enum kernel_type store, const void *copy) {
    if (store != KERNEL_FLOAT)
        free((void *)copy);
}

// The end of a copy that is a result.
static void ref_store(enum kernel_type store, const void *copy, void *x, size_t n) {
    for (size_t i = 0; store != KERNEL_FLOAT && x && i < n; i++)
        ((uint16_t *)x)[i] = bf16_narrow((float)((const REAL *)copy)[i]);
    ref_drop(store, copy);
}

static size_t ref_span(int rows, int cols, int ld) {
    return (size_t)(rows - 1) * (size_t)ld + (size_t)cols;
}

static void ref_stored_gemm(struct kernel_ctx *ctx, const struct gemm_args *g) {
    struct gemm_args w = *g;
    size_t a = g->trans_a ? ref_span(g->k, g->m, g->lda) : ref_span(g->m, g->k, g->lda);
    size_t b = g->trans_b ? ref_span(g->n, g->k, g->ldb) : ref_span(g->k, g->n, g->ldb);
    size_t c = ref_span(g->m, g->n, g->ldc);
    w.a = ref_widen(g->a_store, g->a, a);
    w.b = ref_widen(g->b_store, g->b, b);
    REAL *sums = ref_widen(g->c_store, g->c, c);
    for (int i = 0; g->from && i < g->m * g->n; i++) {
        size_t at = (size_t)(i / g->n) * g->ldc + i % g->n;
        sums[at] = (REAL)bf16_widen(((const uint16_t *)g->from)[at]);
    }
    w.c = sums;
    ref_gemm(ctx, &w);
    ref_drop(g->a_store, w.a);
    ref_drop(g->b_store, w.b);
    ref_store(g->c_store, w.c, g->c, c);
}

static size_t ref_conv_x(const struct conv2d_shape *s) {
    return (size_t)s->n * s->h * s->w * s->c;
}

static size_t ref_conv_y(const struct conv2d_shape *s) {
    return (size_t)s->n * kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
           kernel_conv_out(s->w, s->kw, s->stride, s->pad) * s->o;
}

static void ref_stored_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                      const void *vx, const void *w, const void *bias, int relu,
                                      void *vy) {
    REAL *x = ref_widen(s->x_store, vx, ref_conv_x(s));
    REAL *y = ref_widen(s->y_store, vy, ref_conv_y(s));
    ref_conv2d_forward(ctx, s, x, w, bias, relu, y);
    ref_drop(s->x_store, x);
    ref_store(s->y_store, y, vy, ref_conv_y(s));
}

static void ref_stored_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                            const void *vdy, const void *w, void *vdx,
                                            int accumulate) {
    REAL *dy = ref_widen(s->y_store, vdy, ref_conv_y(s));
    REAL *dx = ref_widen(s->x_store, vdx, ref_conv_x(s));
    ref_conv2d_backward_data(ctx, s, dy, w, dx, accumulate);
    ref_drop(s->y_store, dy);
    ref_store(s->x_store, dx, vdx, ref_conv_x(s));
}

static void ref_stored_conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                              const void *vx, const void *vdy, void *dw,
                                              int accumulate) {
    REAL *x = ref_widen(s->x_store, vx, ref_conv_x(s));
    REAL *dy = ref_widen(s->y_store, vdy, ref_conv_y(s));
    ref_conv2d_backward_weight(ctx, s, x, dy, dw, accumulate);
    ref_drop(s->x_store, x);
    ref_drop(s->y_store, dy);
}

static void ref_stored_batchnorm(struct kernel_ctx *ctx, const struct batchnorm_args *a,
                                 void (*op)(struct kernel_ctx *ctx,
                                            const struct batchnorm_args *a)) {
    struct batchnorm_args w = *a;
    size_t n = (size_t)a->rows * a->channels;
    w.x = ref_widen(a->store, a->x, n);
    w.residual = ref_widen(a->store, a->residual, n);
    w.y = ref_widen(a->store, a->y, n);
    op(ctx, &w);
    ref_drop(a->store, w.x);
    ref_drop(a->store, w.residual);
    ref_store(a->store, w.y, a->y, n);
}

static void ref_stored_batchnorm_forward_train(struct kernel_ctx *ctx,
                                               const struct batchnorm_args *a) {
    ref_stored_batchnorm(ctx, a, ref_batchnorm_forward_train);
}

static void ref_stored_batchnorm_forward_eval(struct kernel_ctx *ctx,
                                              const struct batchnorm_args *a) {
    ref_stored_batchnorm(ctx, a, ref_batchnorm_forward_eval);
}

static void ref_stored_batchnorm_backward(struct kernel_ctx *ctx,
                                          const struct batchnorm_grad_args *a) {
    struct batchnorm_grad_args w = *a;
    size_t n = (size_t)a->rows * a->channels;
    w.x = ref_widen(a->store, a->x, n);
    w.y = ref_widen(a->store, a->y, n);
    w.dy = ref_widen(a->store, a->dy, n);
    w.dx = ref_widen(a->store, a->dx, n);
    w.dresidual = ref_widen(a->store, a->dresidual, n);
    ref_batchnorm_backward(ctx, &w);
    ref_drop(a->store, w.x);
    ref_drop(a->store, w.y);
    ref_drop(a->store, w.dy);
    ref_store(a->store, w.dx, a->dx, n);
    ref_store(a->store, w.dresidual, a->dresidual, n);
}

static void ref_stored_layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a) {
    struct layernorm_args w = *a;
    size_t n = (size_t)a->rows * a->cols;
    w.x = ref_widen(a->store, a->x, n);
    w.residual = ref_widen(a->store, a->residual, n);
    w.sum = ref_widen(a->store, a->sum, n);
    w.y = ref_widen(a->store, a->y, n);
    ref_layernorm_forward(ctx, &w);
    ref_drop(a->store, w.x);
    ref_drop(a->store, w.residual);
    ref_store(a->store, w.sum, a->sum, n);
    ref_store(a->store, w.y, a->y, n);
}

static void ref_stored_layernorm_backward(struct kernel_ctx *ctx,
                                          const struct layernorm_grad_args *a) {
    struct layernorm_grad_args w = *a;
    size_t n = (size_t)a->rows * a->cols;
    w.x = ref_widen(a->store, a->x, n);
    w.dy = ref_widen(a->store, a->dy, n);
    w.dsum = ref_widen(a->store, a->dsum, n);
    w.dx = ref_widen(a->store, a->dx, n);
    ref_layernorm_backward(ctx, &w);
    ref_drop(a->store, w.x);
    ref_drop(a->store, w.dy);
    ref_drop(a->store, w.dsum);
    ref_store(a->store, w.dx, a->dx, n);
}

static size_t ref_qkv_elements(const struct attention_shape *s) {
    size_t rows = s->keys ? s->t + 2 * (size_t)s->keys : 3 * (size_t)s->t;
    return (size_t)s->n * rows * s->heads * s->d;
}

static size_t ref_attention_elements(const struct attention_shape *s) {
    return (size_t)s->n * s->t * s->heads * s->d;
}

static void ref_stored_attention_forward(struct kernel_ctx *ctx, const struct attention_shape *s,
                                         const void *vqkv, void *vy, void *lse) {
    REAL *qkv = ref_widen(s->store, vqkv, ref_qkv_elements(s));
    REAL *y = ref_widen(s->store, vy, ref_attention_elements(s));
    ref_attention_forward(ctx, s, qkv, y, lse);
    ref_drop(s->store, qkv);
    ref_store(s->store, y, vy, ref_attention_elements(s));
}

static void ref_stored_attention_backward(struct kernel_ctx *ctx, const struct attention_shape *s,
                                          const void *vqkv, const void *vy, const void *lse,
                                          const void *vdy, void *vdqkv) {
    size_t n = ref_attention_elements(s);
    REAL *qkv = ref_widen(s->store, vqkv, ref_qkv_elements(s));
    REAL *dqkv = ref_widen(s->store, vdqkv, ref_qkv_elements(s));
    REAL *y = ref_widen(s->store, vy, n), *dy = ref_widen(s->store, vdy, n);
    ref_attention_backward(ctx, s, qkv, y, lse, dy, dqkv);
    ref_drop(s->store, qkv);
    ref_drop(s->store, y);
    ref_drop(s->store, dy);
    ref_store(s->store, dqkv, vdqkv, ref_qkv_elements(s));
}

static void ref_stored_tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s,
                                      const void *vx, const void *first, const void *pos,
                                      void *vy) {
    size_t x_n = (size_t)s->n * s->p * s->d, y_n = x_n + (first ? (size_t)s->n * s->d : 0);
    REAL *x = ref_widen(s->store, vx, x_n), *y = ref_widen(s->store, vy, y_n);
    ref_tokens_forward(ctx, s, x, first, pos, y);
    ref_drop(s->store, x);
    ref_store(s->store, y, vy, y_n);
}

static void ref_stored_tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s,
                                       const void *vdy, void *vdx, void *dfirst, void *dpos,
                                       int accumulate) {
    size_t x_n = (size_t)s->n * s->p * s->d, y_n = x_n + (dfirst ? (size_t)s->n * s->d : 0);
    REAL *dy = ref_widen(s->store, vdy, y_n), *dx = ref_widen(s->store, vdx, x_n);
    ref_tokens_backward(ctx, s, dy, dx, dfirst, dpos, accumulate);
    ref_drop(s->store, dy);
    ref_store(s->store, dx, vdx, x_n);
}

static void ref_stored_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                       const void *vx, void *vy, uint8_t *index) {
    size_t y_n = (size_t)s->n * kernel_conv_out(s->h, s->k, s->stride, s->pad) *
                 kernel_conv_out(s->w, s->k, s->stride, s->pad) * s->c;
    REAL *x = ref_widen(s->store, vx, (size_t)s->n * s->h * s->w * s->c);
    REAL *y = ref_widen(s->store, vy, y_n);
    ref_maxpool_forward(ctx, s, x, y, index);
    ref_drop(s->store, x);
    ref_store(s->store, y, vy, y_n);
}

static void ref_stored_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                        const void *vdy, const uint8_t *index, void *vdx) {
    size_t x_n = (size_t)s->n * s->h * s->w * s->c;
    size_t y_n = (size_t)s->n * kernel_conv_out(s->h, s->k, s->stride, s->pad) *
                 kernel_conv_out(s->w, s->k, s->stride, s->pad) * s->c;
    REAL *dy = ref_widen(s->store, vdy, y_n), *dx = ref_widen(s->store, vdx, x_n);
    ref_maxpool_backward(ctx, s, dy, index, dx);
    ref_drop(s->store, dy);
    ref_store(s->store, dx, vdx, x_n);
}

static void ref_bf16_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *vdy,
                                   void *db, int accumulate) {
    REAL *dy = ref_widen(KERNEL_BF16, vdy, (size_t)rows * cols);
    ref_bias_backward(ctx, rows, cols, dy, db, accumulate);
    ref_drop(KERNEL_BF16, dy);
}

// An op from nx numbers to ny.
#define REF_BF16(op, params, nx, ny, ...)                                                          \
    static void ref_bf16_##op params {                                                             \
        REAL *x = ref_widen(KERNEL_BF16, vx, nx), *y = ref_widen(KERNEL_BF16, vy, ny);             \
        ref_##op(ctx, __VA_ARGS__);                                                                \
        ref_drop(KERNEL_BF16, x);                                                                  \
        ref_store(KERNEL_BF16, y, vy, ny);                                                         \
    }
REF_BF16(first_token_forward,
         (struct kernel_ctx * ctx, int n, int t, int d, const void *vx, void *vy), (size_t)n *t *d,
         (size_t)n *d, n, t, d, x, y)
REF_BF16(first_token_backward,
         (struct kernel_ctx * ctx, int n, int t, int d, const void *vx, void *vy), (size_t)n *d,
         (size_t)n *t *d, n, t, d, x, y)
REF_BF16(avgpool_forward, (struct kernel_ctx * ctx, int n, int hw, int c, const void *vx, void *vy),
         (size_t)n *hw *c, (size_t)n *c, n, hw, c, x, y)
REF_BF16(avgpool_backward,
         (struct kernel_ctx * ctx, int n, int hw, int c, const void *vx, void *vy), (size_t)n *c,
         (size_t)n *hw *c, n, hw, c, x, y)
REF_BF16(relu_forward, (struct kernel_ctx * ctx, size_t n, const void *vx, void *vy), n, n, n, x, y)
REF_BF16(gelu_forward, (struct kernel_ctx * ctx, size_t n, const void *vx, void *vy), n, n, n, x, y)

// An op from two times n numbers to n.
#define REF_BF16_TWO(op)                                                                           \
    static void ref_bf16_##op(struct kernel_ctx *ctx, size_t n, const void *va, const void *vb,    \
                              void *vy) {                                                          \
        REAL *a = ref_widen(KERNEL_BF16, va, n), *b = ref_widen(KERNEL_BF16, vb, n);               \
        REAL *y = ref_widen(KERNEL_BF16, vy, n);                                                   \
        ref_##op(ctx, n, a, b, y);                                                                 \
        ref_drop(KERNEL_BF16, a);                                                                  \
        ref_drop(KERNEL_BF16, b);                                                                  \
        ref_store(KERNEL_BF16, y, vy, n);                                                          \
    }
REF_BF16_TWO(relu_backward)
REF_BF16_TWO(gelu_backward)
REF_BF16_TWO(add)

static void ref_bf16_zero(struct kernel_ctx *ctx, size_t n, void *x) {
    (void)ctx;
    memset(x, 0, n * sizeof(uint16_t));
}

static int ref_keeps_bf16(const struct kernel_ctx *ctx) {
    return ctx->keep != KERNEL_KEEP_NEVER;
}

static const struct kernel_stored ref_bf16 = {
    .bias_backward = ref_bf16_bias_backward,
    .first_token_forward = ref_bf16_first_token_forward,
    .first_token_backward = ref_bf16_first_token_backward,
    .avgpool_forward = ref_bf16_avgpool_forward,
    .avgpool_backward = ref_bf16_avgpool_backward,
    .relu_forward = ref_bf16_relu_forward,
    .relu_backward = ref_bf16_relu_backward,
    .gelu_forward = ref_bf16_gelu_forward,
    .gelu_backward = ref_bf16_gelu_backward,
    .add = ref_bf16_add,
    .zero = ref_bf16_zero,
};

#endif
