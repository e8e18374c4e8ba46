// SPDX-License-Identifier: Apache-2.0
// Launches products: shapes to grids, and terms to splits where a result has few tiles.
#include "kernels/cuda/cuda_impl.h"

enum {
    SPLIT_BYTES = (int)sizeof(float),
    SPLIT_TERMS_MIN = 64, // shorter ones are not worth the sum
};

size_t cuda_gemm_workspace(enum kernel_type type, int m, int n, int k) {
    return CUDA_WORKSPACE_BYTES_MIN + cuda_large_gemm_bytes(type, m, n, k);
}

static int64_t conv_pixels(const struct conv2d_shape *s) { // of y
    return (int64_t)s->n * kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
           kernel_conv_out(s->w, s->kw, s->stride, s->pad);
}

size_t cuda_conv2d_front(const struct conv2d_shape *s) {
    enum { ALIGN = 256 };
    size_t tiles = cuda_blocks(conv_pixels(s), CUDA_TILE);
    size_t bytes = cuda_batchnorm_workspace(0, s->o) + tiles * 2 * (size_t)s->o * sizeof(float);
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return bytes > CUDA_WORKSPACE_BYTES_MIN ? bytes : CUDA_WORKSPACE_BYTES_MIN;
}

size_t cuda_conv2d_workspace(const struct conv2d_shape *s) {
    return cuda_conv2d_front(s) + cuda_large_conv_bytes(s);
}

static const struct product_tiles small_tiles = {CUDA_TILE, CUDA_TILE_K, CUDA_THREADS,
                                                 CUDA_PRODUCT_SHARED};

static int splits_of(int64_t tiles, int side, int terms) {
    int64_t most = CUDA_WORKSPACE_BYTES_MIN / ((int64_t)side * side * SPLIT_BYTES),
            splits = tiles ? most / tiles : 1;
    if (splits > terms / SPLIT_TERMS_MIN)
        splits = terms / SPLIT_TERMS_MIN;
    return splits > 1 ? (int)splits : 1;
}

static void product_plan(struct cuda_queue *q, struct product_out *o, int times,
                         const struct product_tiles *by, unsigned grid[3]) {
    grid[0] = cuda_blocks(o->m, by->side);
    grid[1] = cuda_blocks(o->n, by->side);
    o->splits = splits_of((int64_t)grid[0] * grid[1] * times, by->side, o->k);
    o->k_split = (int)cuda_blocks(cuda_blocks(o->k, o->splits), by->depth) * by->depth;
    o->partial = o->splits > 1 ? q->workspace : NULL;
    grid[2] = (unsigned)(o->splits * times);
    assert(grid[1] <= CUDA_GRID_MAX && grid[2] <= CUDA_GRID_MAX);
}

static const enum cuda_kernel kernel_of[CUDA_PRODUCTS][KERNEL_TYPES] = {
    [CUDA_GEMM] = {CUDA_KERNEL_gemm_float, CUDA_KERNEL_gemm_bf16, CUDA_KERNEL_gemm_half,
                   CUDA_KERNEL_gemm_tf32},
    [CUDA_FORWARD] = {CUDA_KERNEL_conv_forward_float, CUDA_KERNEL_conv_forward_bf16,
                      CUDA_KERNEL_conv_forward_half, CUDA_KERNEL_conv_forward_tf32},
    [CUDA_DATA] = {CUDA_KERNEL_conv_data_float, CUDA_KERNEL_conv_data_bf16,
                   CUDA_KERNEL_conv_data_half, CUDA_KERNEL_conv_data_tf32},
    [CUDA_WEIGHT] = {CUDA_KERNEL_conv_weight_float, CUDA_KERNEL_conv_weight_bf16,
                     CUDA_KERNEL_conv_weight_half, CUDA_KERNEL_conv_weight_tf32}};

static void run_small(struct cuda_queue *q, enum cuda_product product, enum kernel_type type,
                      int times, void *params, struct product_out *o) {
    assert(type != KERNEL_TF32 || q->capability >= CUDA_TF32_CAPABILITY_MIN);
    cuda_product_run(q, kernel_of[product][type], &small_tiles, times, params, o);
}

void cuda_product_run(struct cuda_queue *q, enum cuda_kernel kernel, const struct product_tiles *by,
                      int times, void *params, struct product_out *o) {
    unsigned grid[3];
    product_plan(q, o, times, by, grid);
    if (!grid[0] || !grid[1])
        return;
    q->launch(q, kernel, grid, by->threads, by->shared, params);
    if (o->partial)
        cuda_enqueue(q, CUDA_KERNEL_product_sum, cuda_blocks(o->size, CUDA_THREADS), 1, o);
}

static enum cuda_act act_of(const struct gemm_args *a) {
    return a->gelu      ? CUDA_ACT_GELU
           : a->relu_of ? CUDA_ACT_RELU_GRAD
           : a->gelu_of ? CUDA_ACT_GELU_GRAD
                        : CUDA_ACT_NONE;
}

static void *beside_of(const struct gemm_args *a) {
    const void *x = a->relu_of ? a->relu_of : a->gelu_of;
    return a->gelu ? a->gelu : (void *)(uintptr_t)x;
}

// Kernels with small tiles have no GELU: it follows, unless the sum of the splits has had it.
static void gemm_small(struct cuda_queue *q, const struct gemm_args *a, struct gemm_params *p) {
    size_t n = (size_t)p->out.size;
    run_small(q, CUDA_GEMM, a->type, 1, p, &p->out);
    if (p->out.partial)
        return;
    if (a->gelu)
        cuda_gelu_forward(q, a->c_store, n, a->c, a->gelu);
    if (a->gelu_of)
        cuda_gelu_backward(q, a->c_store, n, a->gelu_of, a->c, a->c);
}

void cuda_gemm(struct cuda_queue *q, const struct gemm_args *a) {
    struct gemm_params p = {
        .a = a->a,
        .b = a->b,
        .a_bf16 = cuda_is_bf16(a->a_store),
        .b_bf16 = cuda_is_bf16(a->b_store),
        .lda = a->lda,
        .ldb = a->ldb,
        .trans_a = a->trans_a,
        .trans_b = a->trans_b,
        .out = {.c = a->c,
                .beside = beside_of(a),
                .from = a->from ? a->from : a->c,
                .bf16 = cuda_is_bf16(a->c_store),
                .act = act_of(a),
                .bias = a->bias,
                .size = (int64_t)a->m * a->n,
                .m = a->m,
                .n = a->n,
                .k = a->k,
                .ldc = a->ldc,
                .alpha = (float)a->alpha,
                .beta = (float)a->beta,
                .relu = a->relu},
    };
    assert(a->type == KERNEL_BF16 || (!p.a_bf16 && !p.b_bf16 && !p.out.bf16));
    assert(!p.out.act || (a->ldc == a->n && !a->relu));
    if (!cuda_large_gemm(q, a->type, &p))
        gemm_small(q, a, &p);
}

// Forward a is x, and c is y; of data a is dy, and c is dx; of weight a is dy, and b is x.
static struct conv_params conv_shape(const struct conv2d_shape *s, enum cuda_product product,
                                     const void *a, const void *b, void *c, int accumulate) {
    int x_bf16 = cuda_is_bf16(s->x_store), y_bf16 = cuda_is_bf16(s->y_store);
    bool forward = product == CUDA_FORWARD, weight = product == CUDA_WEIGHT;
    assert(s->type == KERNEL_BF16 || (!x_bf16 && !y_bf16));
    return (struct conv_params){
        .a = a,
        .b = b,
        .a_bf16 = forward ? x_bf16 : y_bf16,
        .b_bf16 = weight && x_bf16,
        .h = s->h,
        .w = s->w,
        .c = s->c,
        .o = s->o,
        .kh = s->kh,
        .kw = s->kw,
        .stride = s->stride,
        .pad = s->pad,
        .oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad),
        .ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad),
        .images = s->n,
        .out = {.c = c,
                .from = c,
                .bf16 = !weight && (forward ? y_bf16 : x_bf16),
                .alpha = 1,
                .beta = accumulate ? 1 : 0},
    };
}

static void conv_launch(struct cuda_queue *q, enum cuda_product product,
                        const struct conv2d_shape *s, struct conv_params *p, int times) {
    p->out.ldc = p->out.n;
    if (cuda_large_conv(q, product, s, p, times))
        return;
    run_small(q, product, s->type, times, p, &p->out);
}

static struct conv_params conv_forward(const struct conv2d_shape *s, const void *x, const void *w,
                                       const void *bias, void *y) {
    struct conv_params p = conv_shape(s, CUDA_FORWARD, x, w, y, 0);
    p.out.bias = bias;
    p.out.m = s->n * p.oh * p.ow, p.out.n = s->o, p.out.k = s->kh * s->kw * s->c;
    p.out.size = (int64_t)p.out.m * p.out.n;
    return p;
}

void cuda_conv2d_forward(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                         const void *w, const void *bias, int relu, void *y) {
    struct conv_params p = conv_forward(s, x, w, bias, y);
    p.out.relu = relu;
    conv_launch(q, CUDA_FORWARD, s, &p, 1);
}

int cuda_conv2d_sums(const struct cuda_queue *q, const struct conv2d_shape *s) {
    int side = cuda_large_conv_is(q, CUDA_FORWARD, s) ? CUDA_LARGE_TILE : CUDA_TILE;
    int64_t tiles = (int64_t)cuda_blocks(conv_pixels(s), side) * cuda_blocks(s->o, side);
    return splits_of(tiles, side, s->kh * s->kw * s->c) == 1 ? side : 0;
}

void cuda_conv2d_forward_sums(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                              const void *w, const void *bias, void *y) {
    struct conv_params p = conv_forward(s, x, w, bias, y);
    assert(cuda_conv2d_sums(q, s));
    assert(cuda_conv2d_front(s) <= q->workspace_bytes);
    p.out.sums = cuda_sums(q, s->o);
    conv_launch(q, CUDA_FORWARD, s, &p, 1);
}

// One product for each phase of the stride; rows and terms are those of the largest.
void cuda_conv2d_backward_data(struct cuda_queue *q, const struct conv2d_shape *s, const void *dy,
                               const void *w, void *dx, int accumulate) {
    struct conv_params p = conv_shape(s, CUDA_DATA, dy, w, dx, accumulate);
    int rows = (int)(cuda_blocks(s->h, s->stride) * cuda_blocks(s->w, s->stride));
    int taps = (int)(cuda_blocks(s->kh, s->stride) * cuda_blocks(s->kw, s->stride));
    p.out.m = s->n * rows, p.out.n = s->c, p.out.k = taps * s->o;
    p.out.size = (int64_t)s->n * s->h * s->w * s->c;
    conv_launch(q, CUDA_DATA, s, &p, s->stride * s->stride);
}

void cuda_conv2d_backward_weight(struct cuda_queue *q, const struct conv2d_shape *s, const void *x,
                                 const void *dy, void *dw, int accumulate) {
    struct conv_params p = conv_shape(s, CUDA_WEIGHT, dy, x, dw, accumulate);
    p.out.m = s->o, p.out.n = s->kh * s->kw * s->c, p.out.k = s->n * p.oh * p.ow;
    p.out.size = (int64_t)p.out.m * p.out.n;
    conv_launch(q, CUDA_WEIGHT, s, &p, 1);
}
