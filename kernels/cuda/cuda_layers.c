// SPDX-License-Identifier: Apache-2.0
// Launches attention, tokens, pooling, loss, image input and flat buffers.
#include <math.h>
#include <stddef.h>

#include "kernels/cuda/cuda_impl.h"

enum {
    OWN_ROWS = 16,  // of a block of attention; attention.cu
    TILE_ROWS = 32, // that it walks over at a time
    NARROW_MAX = 64,
    WARPS = CUDA_THREADS / 32,
    FLAT_BLOCKS_MAX = 1024, // more than any GPU runs at once
};

// ---- attention --------------------------------------------------------------------------------
size_t cuda_attention_workspace(const struct attention_shape *s) {
    return (size_t)s->n * (size_t)s->t * (size_t)s->heads * sizeof(float);
}

static struct attention_params attention_shape(const struct attention_shape *s, const void *qkv) {
    int wide = s->heads * s->d, keys = s->keys ? s->keys : s->t;
    int bf16 = cuda_is_bf16(s->store);
    size_t bytes = (size_t)wide * (bf16 ? sizeof(uint16_t) : sizeof(float));
    const char *q = qkv, *kv = s->keys ? q + (size_t)s->n * s->t * bytes : q + bytes;
    assert(s->d <= CUDA_HEAD_MAX && s->heads <= CUDA_GRID_MAX && s->n <= CUDA_GRID_MAX);
    return (struct attention_params){
        .q = q,
        .k = kv,
        .v = kv + bytes,
        .bf16 = bf16,
        .n = s->n,
        .t = s->t,
        .keys = keys,
        .heads = s->heads,
        .d = s->d,
        .q_pitch = s->keys ? wide : 3 * wide,
        .kv_pitch = s->keys ? 2 * wide : 3 * wide,
        .scale = (float)(1 / sqrt((double)s->d)),
    };
}

static void attention_launch(struct cuda_queue *q, enum cuda_kernel narrow, enum cuda_kernel wide,
                             struct attention_params *p, int rows, int rows_shared) {
    const unsigned grid[3] = {cuda_blocks(rows, OWN_ROWS), (unsigned)p->heads, (unsigned)p->n};
    size_t shared = (size_t)rows_shared * (size_t)(p->d | 1) * sizeof(float);
    if (grid[0] && grid[1] && grid[2])
        q->launch(q, p->d <= NARROW_MAX ? narrow : wide, grid, CUDA_THREADS, (unsigned)shared, p);
}

void cuda_attention_forward(struct cuda_queue *q, const struct attention_shape *s, const void *qkv,
                            void *y, void *lse) {
    struct attention_params p = attention_shape(s, qkv);
    p.out = y, p.out_lse = lse;
    attention_launch(q, CUDA_KERNEL_attention_forward_64, CUDA_KERNEL_attention_forward_256, &p,
                     p.t, OWN_ROWS + 2 * TILE_ROWS);
}

void cuda_attention_backward(struct cuda_queue *q, const struct attention_shape *s, const void *qkv,
                             const void *y, const void *lse, const void *dy, void *dqkv) {
    struct attention_params p = attention_shape(s, qkv), d = attention_shape(s, dqkv);
    p.y = y, p.lse = lse, p.dy = dy, p.delta = q->workspace;
    p.dq = (void *)(uintptr_t)d.q, p.dk = (void *)(uintptr_t)d.k, p.dv = (void *)(uintptr_t)d.v;
    cuda_enqueue(q, CUDA_KERNEL_attention_delta, cuda_blocks((int64_t)p.n * p.t * p.heads, WARPS),
                 1, &p);
    attention_launch(q, CUDA_KERNEL_attention_grad_queries_64,
                     CUDA_KERNEL_attention_grad_queries_256, &p, p.t, 2 * OWN_ROWS + 2 * TILE_ROWS);
    attention_launch(q, CUDA_KERNEL_attention_grad_keys_64, CUDA_KERNEL_attention_grad_keys_256, &p,
                     p.keys, 2 * OWN_ROWS + 2 * TILE_ROWS);
}

// ---- tokens -----------------------------------------------------------------------------------
static void tokens_launch(struct cuda_queue *q, enum cuda_kernel kernel, struct tokens_params p,
                          int64_t size) {
    p.size = size;
    cuda_enqueue(q, kernel, cuda_blocks(size, CUDA_THREADS), 1, &p);
}

void cuda_tokens_forward(struct cuda_queue *q, const struct tokens_shape *s, const void *x,
                         const void *first, const void *pos, void *y) {
    struct tokens_params p = {.x = x, .first = first, .pos = pos, .y = y, .n = s->n, .p = s->p};
    p.bf16 = cuda_is_bf16(s->store);
    p.t = s->p + (first != NULL), p.d = s->d;
    tokens_launch(q, CUDA_KERNEL_tokens_forward, p, (int64_t)p.n * p.t * p.d);
}

void cuda_tokens_backward(struct cuda_queue *q, const struct tokens_shape *s, const void *dy,
                          void *dx, void *dfirst, void *dpos, int accumulate) {
    struct tokens_params p = {.x = dy, .y = dx, .dfirst = dfirst, .dpos = dpos, .n = s->n};
    p.bf16 = cuda_is_bf16(s->store);
    p.p = s->p, p.t = s->p + (dfirst != NULL), p.d = s->d, p.accumulate = accumulate;
    if (dx)
        tokens_launch(q, CUDA_KERNEL_tokens_grad_input, p, (int64_t)p.n * p.p * p.d);
    if (dfirst || dpos)
        tokens_launch(q, CUDA_KERNEL_tokens_grad_sums, p, dpos ? (int64_t)p.t * p.d : p.d);
}

void cuda_first_token_forward(struct cuda_queue *q, enum kernel_type store, int n, int t, int d,
                              const void *x, void *y) {
    struct tokens_params p = {.x = x, .y = y, .n = n, .t = t, .d = d, .bf16 = cuda_is_bf16(store)};
    tokens_launch(q, CUDA_KERNEL_first_token_forward, p, (int64_t)n * d);
}

void cuda_first_token_backward(struct cuda_queue *q, enum kernel_type store, int n, int t, int d,
                               const void *dy, void *dx) {
    struct tokens_params p = {
        .x = dy, .y = dx, .n = n, .t = t, .d = d, .bf16 = cuda_is_bf16(store)};
    tokens_launch(q, CUDA_KERNEL_first_token_backward, p, (int64_t)n * t * d);
}

// ---- pooling ----------------------------------------------------------------------------------
static struct pool_params pool_shape(const struct pool2d_shape *s) {
    return (struct pool_params){.h = s->h,
                                .w = s->w,
                                .c = s->c,
                                .bf16 = cuda_is_bf16(s->store),
                                .k = s->k,
                                .stride = s->stride,
                                .pad = s->pad,
                                .oh = kernel_conv_out(s->h, s->k, s->stride, s->pad),
                                .ow = kernel_conv_out(s->w, s->k, s->stride, s->pad)};
}

static void pool_launch(struct cuda_queue *q, enum cuda_kernel kernel, int64_t size, int pairs,
                        void *params) {
    cuda_enqueue(q, kernel, cuda_blocks(size, pairs ? 2 * CUDA_THREADS : CUDA_THREADS), 1, params);
}

void cuda_maxpool_forward(struct cuda_queue *q, const struct pool2d_shape *s, const void *x,
                          void *y, uint8_t *index) {
    struct pool_params p = pool_shape(s);
    p.x = x, p.y = y, p.index = index, p.size = (int64_t)s->n * p.oh * p.ow * p.c;
    p.pairs = CUDA_PAIRS(s->store, s->c, x, y, index);
    pool_launch(q, CUDA_KERNEL_maxpool_forward, p.size, p.pairs, &p);
}

void cuda_maxpool_backward(struct cuda_queue *q, const struct pool2d_shape *s, const void *dy,
                           const uint8_t *index, void *dx) {
    struct pool_params p = pool_shape(s);
    p.x = dy, p.y = dx, p.index = (uint8_t *)(uintptr_t)index;
    p.size = (int64_t)s->n * p.h * p.w * p.c;
    p.pairs = CUDA_PAIRS(s->store, s->c, dy, dx, index);
    pool_launch(q, CUDA_KERNEL_maxpool_backward, p.size, p.pairs, &p);
}

void cuda_avgpool_forward(struct cuda_queue *q, enum kernel_type store, int n, int hw, int c,
                          const void *x, void *y) {
    struct average_params p = {.x = x, .y = y, .hw = hw, .c = c, .size = (int64_t)n * c};
    p.bf16 = cuda_is_bf16(store);
    p.pairs = CUDA_PAIRS(store, c, x, y);
    pool_launch(q, CUDA_KERNEL_avgpool_forward, p.size, p.pairs, &p);
}

void cuda_avgpool_backward(struct cuda_queue *q, enum kernel_type store, int n, int hw, int c,
                           const void *dy, void *dx) {
    struct average_params p = {.x = dy, .y = dx, .hw = hw, .c = c, .size = (int64_t)n * hw * c};
    p.bf16 = cuda_is_bf16(store);
    p.pairs = CUDA_PAIRS(store, c, dy, dx);
    pool_launch(q, CUDA_KERNEL_avgpool_backward, p.size, p.pairs, &p);
}

// ---- loss and images --------------------------------------------------------------------------
void cuda_softmax_xent(struct cuda_queue *q, const struct softmax_xent_args *a,
                       struct loss_totals *out) {
    struct xent_params p = {.rows = a->rows,
                            .classes = a->classes,
                            .logits = a->logits,
                            .labels = a->labels,
                            .smoothing = a->smoothing,
                            .grad_scale = a->grad_scale,
                            .step = (const struct step_params *)a->step,
                            .dlogits = a->dlogits,
                            .row = q->workspace,
                            .totals = (struct loss_params *)out};
    assert((size_t)a->rows * sizeof *p.row <= CUDA_WORKSPACE_BYTES_MIN);
    cuda_enqueue(q, CUDA_KERNEL_softmax_xent_rows, cuda_blocks(a->rows, WARPS), 1, &p);
    cuda_enqueue(q, CUDA_KERNEL_softmax_xent_total, 1, 1, &p);
}

void cuda_image_normalize(struct cuda_queue *q, const struct image_args *a) {
    struct image_params p = {.src_h = a->src_h,
                             .src_w = a->src_w,
                             .channels = a->channels,
                             .dst_h = a->dst_h,
                             .dst_w = a->dst_w,
                             .reflect = a->reflect,
                             .src = a->src,
                             .offset_y = a->offset_y,
                             .offset_x = a->offset_x,
                             .flip = a->flip,
                             .out = a->out,
                             .size = (int64_t)a->n * a->dst_h * a->dst_w * a->channels};
    for (int c = 0; c < a->channels; c++) {
        p.scale[c] = (float)(1 / (255 * a->std[c]));
        p.shift[c] = (float)(-a->mean[c] / a->std[c]);
    }
    cuda_enqueue(q, CUDA_KERNEL_image_normalize, cuda_blocks(p.size, CUDA_THREADS), 1, &p);
}

// ---- flat buffers -----------------------------------------------------------------------------
static unsigned flat_blocks(int64_t n) {
    unsigned blocks = cuda_blocks(n, CUDA_THREADS);
    return blocks < FLAT_BLOCKS_MAX ? blocks : FLAT_BLOCKS_MAX;
}

static void flat_launch(struct cuda_queue *q, enum cuda_kernel kernel, size_t n, double alpha,
                        const void *a, const void *b, void *y) {
    struct flat_params p = {.n = (int64_t)n, .alpha = (float)alpha, .a = a, .b = b, .y = y};
    cuda_enqueue(q, kernel, flat_blocks(p.n), 1, &p);
}

// Of bfloat16 a thread takes two.
static void map_launch(struct cuda_queue *q, enum cuda_kernel kernel, enum kernel_type store,
                       size_t n, const void *a, const void *b, void *y) {
    struct flat_params p = {.n = (int64_t)n, .bf16 = cuda_is_bf16(store), .a = a, .b = b, .y = y};
    cuda_enqueue(q, kernel, flat_blocks(p.bf16 ? cuda_blocks(p.n, 2) : p.n), 1, &p);
}

void cuda_relu_forward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                       void *y) {
    map_launch(q, CUDA_KERNEL_relu_forward, store, n, x, NULL, y);
}
void cuda_relu_backward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *y,
                        const void *dy, void *dx) {
    map_launch(q, CUDA_KERNEL_relu_backward, store, n, y, dy, dx);
}
void cuda_gelu_forward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                       void *y) {
    map_launch(q, CUDA_KERNEL_gelu_forward, store, n, x, NULL, y);
}
void cuda_gelu_backward(struct cuda_queue *q, enum kernel_type store, size_t n, const void *x,
                        const void *dy, void *dx) {
    map_launch(q, CUDA_KERNEL_gelu_backward, store, n, x, dy, dx);
}
void cuda_add(struct cuda_queue *q, enum kernel_type store, size_t n, const void *a, const void *b,
              void *y) {
    map_launch(q, CUDA_KERNEL_add, store, n, a, b, y);
}
void cuda_zero(struct cuda_queue *q, enum kernel_type store, size_t n, void *x) {
    map_launch(q, CUDA_KERNEL_zero, store, n, NULL, NULL, x);
}
void cuda_axpy(struct cuda_queue *q, size_t n, double alpha, const void *x, void *y) {
    flat_launch(q, CUDA_KERNEL_axpy, n, alpha, x, NULL, y);
}
void cuda_scale(struct cuda_queue *q, size_t n, double alpha, void *x) {
    flat_launch(q, CUDA_KERNEL_scale, n, alpha, NULL, NULL, x);
}

void cuda_narrow(struct cuda_queue *q, size_t n, const void *x, void *bf16) {
    flat_launch(q, CUDA_KERNEL_narrow, n, 0, x, NULL, bf16);
}
void cuda_widen(struct cuda_queue *q, size_t n, const void *bf16, void *y) {
    flat_launch(q, CUDA_KERNEL_widen, n, 0, bf16, NULL, y);
}

void cuda_sum_squares(struct cuda_queue *q, size_t n, const void *x, double *out) {
    unsigned blocks = flat_blocks((int64_t)n);
    struct flat_params p = {.n = (int64_t)n, .a = x, .partial = q->workspace, .total = out};
    cuda_enqueue(q, CUDA_KERNEL_sum_squares_partial, blocks, 1, &p);
    p.n = blocks;
    cuda_enqueue(q, CUDA_KERNEL_sum_squares_total, 1, 1, &p);
}

// As many ranges at once as the parameters hold.
static void optimizer_launch(struct cuda_queue *q, enum cuda_kernel kernel,
                             struct optimizer_params *p, const struct optim_range *range,
                             size_t n) {
    while (n) {
        int64_t longest = 0;
        unsigned count = n < CUDA_RANGES ? (unsigned)n : CUDA_RANGES;
        for (unsigned i = 0; i < count; i++) {
            p->range[i] = (struct range_params){(int64_t)range[i].begin, (int64_t)range[i].end,
                                                range[i].weight_decay, range[i].lr_scale};
            int64_t size = p->range[i].end - p->range[i].begin;
            longest = size > longest ? size : longest;
        }
        cuda_enqueue(q, kernel, flat_blocks(longest), count, p);
        range += count, n -= count;
    }
}

void cuda_sgd(struct cuda_queue *q, const struct sgd_args *a) {
    struct optimizer_params p = {.step = (const struct step_params *)a->step,
                                 .now = {.lr = a->lr, .grad_scale = a->grad_scale},
                                 .p = a->p,
                                 .m = a->momentum != 0 ? a->momentum_buf : NULL,
                                 .g = a->g,
                                 .beta1 = a->momentum,
                                 .nesterov = a->nesterov};
    optimizer_launch(q, CUDA_KERNEL_sgd, &p, a->ranges, a->nranges);
}

void cuda_adam(struct cuda_queue *q, const struct adam_args *a) {
    struct optimizer_params p = {.step = (const struct step_params *)a->now,
                                 .now = {.lr = a->lr,
                                         .grad_scale = a->grad_scale,
                                         .correct1 = 1 - pow(a->beta1, (double)a->step),
                                         .correct2 = 1 - pow(a->beta2, (double)a->step)},
                                 .p = a->p,
                                 .m = a->m,
                                 .v = a->v,
                                 .g = a->g,
                                 .beta1 = a->beta1,
                                 .beta2 = a->beta2,
                                 .eps = a->eps,
                                 .decoupled = a->decoupled};
    optimizer_launch(q, CUDA_KERNEL_adam, &p, a->ranges, a->nranges);
}

// ---- the step itself --------------------------------------------------------------------------
_Static_assert(sizeof(struct step_params) == sizeof(struct kernel_step) &&
                   offsetof(struct step_params, totals) == offsetof(struct kernel_step, totals) &&
                   sizeof(struct loss_params) == sizeof(struct loss_totals),
               "the kernels read them");

void cuda_step_totals(struct cuda_queue *q, const struct step_totals_args *a) {
    struct step_totals_params p = {.step = (struct step_params *)a->step,
                                   .losses = (const struct loss_params *)a->losses,
                                   .tail = a->tail,
                                   .squares = a->squares,
                                   .scale = a->scale,
                                   .ranks = a->ranks,
                                   .nlosses = a->nlosses,
                                   .nsquares = a->nsquares};
    cuda_enqueue(q, CUDA_KERNEL_step_totals, 1, 1, &p);
}

void cuda_step_judge(struct cuda_queue *q, const struct step_judge_args *a) {
    struct step_judge_params p = {.step = (struct step_params *)a->step,
                                  .tail = a->tail,
                                  .squares = a->squares,
                                  .beta1 = a->beta1,
                                  .beta2 = a->beta2,
                                  .scale_updates = STEP_SCALE_UPDATES,
                                  .scale_least = STEP_SCALE_LEAST,
                                  .scale_most = STEP_SCALE_MOST,
                                  .nsquares = a->nsquares,
                                  .scaling = a->scaling,
                                  .grads = a->grads,
                                  .ngrads = (int64_t)a->ngrads};
    cuda_enqueue(q, CUDA_KERNEL_step_judge, 1, 1, &p);
}
