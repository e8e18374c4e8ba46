// SPDX-License-Identifier: Apache-2.0
// Chooses large tiles by shape, and packs their operands.
#include <assert.h>

#include "kernels/cuda/cuda_impl.h"

// Large tiles from so many rows, columns and terms on: fewer are padding, or too little work for
// the operands to be packed first. Every rule holds for larger shapes, too.
static const struct large_rule {
    int rows, columns, terms;
} rules[CUDA_PRODUCTS] = {[CUDA_GEMM] = {128, 128, 64},
                          [CUDA_FORWARD] = {128, 128, 64},
                          [CUDA_DATA] = {128, 128, 64},
                          [CUDA_WEIGHT] = {128, 128, 128}};

// Types that have large tiles. A word of a packed operand has so many bytes. hopper: with wgmma,
// for which words of four bytes must be contiguous along the terms, in both operands.
static const struct large_type {
    int bytes;
    enum cuda_kernel pack, product[CUDA_PRODUCTS], hopper[CUDA_PRODUCTS];
} types[KERNEL_TYPES] = {
    [KERNEL_BF16] = {2,
                     CUDA_KERNEL_pack_bf16,
                     {CUDA_KERNEL_gemm_large_bf16, CUDA_KERNEL_conv_forward_large_bf16,
                      CUDA_KERNEL_conv_data_large_bf16, CUDA_KERNEL_conv_weight_large_bf16},
                     {CUDA_KERNEL_gemm_hopper_bf16, CUDA_KERNEL_conv_forward_hopper_bf16,
                      CUDA_KERNEL_conv_data_hopper_bf16, CUDA_KERNEL_conv_weight_hopper_bf16}},
    [KERNEL_HALF] = {2,
                     CUDA_KERNEL_pack_half,
                     {CUDA_KERNEL_gemm_large_half, CUDA_KERNEL_conv_forward_large_half,
                      CUDA_KERNEL_conv_data_large_half, CUDA_KERNEL_conv_weight_large_half},
                     {CUDA_KERNEL_gemm_hopper_half, CUDA_KERNEL_conv_forward_hopper_half,
                      CUDA_KERNEL_conv_data_hopper_half, CUDA_KERNEL_conv_weight_hopper_half}},
    [KERNEL_TF32] = {4,
                     CUDA_KERNEL_pack_tf32,
                     {CUDA_KERNEL_gemm_large_tf32, CUDA_KERNEL_conv_forward_large_tf32,
                      CUDA_KERNEL_conv_data_large_tf32, CUDA_KERNEL_conv_weight_large_tf32},
                     {[CUDA_GEMM] = CUDA_KERNEL_gemm_hopper_tf32,
                      [CUDA_FORWARD] = CUDA_KERNEL_conv_forward_hopper_tf32}},
};

static int depth_of(const struct large_type *t) { // terms of a stage
    return CUDA_LARGE_BYTES / t->bytes;
}
static int chunk_of(const struct large_type *t) { // columns that are copied at once
    return CUDA_CHUNK_BYTES / t->bytes;
}

// by_terms: both operands are contiguous along the terms.
static void run(struct cuda_queue *q, const struct large_type *t, enum cuda_product product,
                bool by_terms, int times, void *params, struct product_out *o) {
    bool hopper = q->capability == CUDA_HOPPER_CAPABILITY && (by_terms || t->bytes == 2);
    const struct product_tiles tiles = {CUDA_LARGE_TILE, depth_of(t), CUDA_LARGE_THREADS,
                                        CUDA_LARGE_SHARED};
    cuda_product_run(q, (hopper ? t->hopper : t->product)[product], &tiles, times, params, o);
}

static bool is_worth(enum cuda_product product, int64_t rows, int64_t columns, int64_t terms) {
    const struct large_rule *r = &rules[product];
    return rows >= r->rows && columns >= r->columns && terms >= r->terms;
}

static int padded(int n, int to) {
    return (int)cuda_blocks(n, to) * to;
}

// Rows of a packed operand: where they are terms, whole stages.
static int64_t packed_rows(const struct large_type *t, int64_t rows, bool terms) {
    int64_t depth = depth_of(t);
    return terms ? (rows + depth - 1) / depth * depth : rows;
}

// Bytes of a packed operand, with its alignment.
static size_t packed_bytes(const struct large_type *t, int64_t rows, int64_t pitch) {
    enum { ALIGN = 256 };
    size_t bytes = (size_t)(packed_rows(t, rows, true) * pitch * t->bytes);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

// For any transposes: the operands that need most.
size_t cuda_large_gemm_bytes(enum kernel_type type, int m, int n, int k) {
    const struct large_type *t = &types[type];
    if (!t->bytes || !is_worth(CUDA_GEMM, m, n, k))
        return 0;
    int depth = depth_of(t), terms = padded(k, depth);
    return packed_bytes(t, padded(m, depth), terms) + packed_bytes(t, padded(n, depth), terms);
}

// Whole stages have one tap, and whole chunks are of one pixel.
static bool conv_is_large(const struct conv2d_shape *s, enum cuda_product product) {
    const struct large_type *t = &types[s->type];
    int64_t pixels = (int64_t)s->n * kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
                     kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    int64_t taps = (int64_t)s->kh * s->kw;
    int64_t each = (int64_t)cuda_blocks(s->h, s->stride) * cuda_blocks(s->w, s->stride);
    if (!t->bytes || s->c % chunk_of(t) || s->o % chunk_of(t) || taps > CUDA_LARGE_TAPS)
        return false;
    switch (product) {
    case CUDA_FORWARD:
        return s->c % depth_of(t) == 0 && is_worth(product, pixels, s->o, taps * s->c);
    case CUDA_DATA: return s->o % depth_of(t) == 0 && is_worth(product, s->n * each, s->c, s->o);
    case CUDA_WEIGHT: return is_worth(product, s->o, taps * s->c, pixels);
    default: return false;
    }
}

size_t cuda_large_conv_bytes(const struct conv2d_shape *s) {
    const struct large_type *t = &types[s->type];
    int64_t x = (int64_t)s->n * s->h * s->w, y = (int64_t)s->n *
                                                 kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
                                                 kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    if (!t->bytes)
        return 0;
    size_t of[] = {packed_bytes(t, x, s->c), packed_bytes(t, y, s->o),
                   packed_bytes(t, (int64_t)s->o * s->kh * s->kw, s->c)};
    size_t most = 0, all = of[0] + of[1] + of[2];
    const struct {
        enum cuda_product product;
        size_t bytes;
    } needs[] = {{CUDA_FORWARD, all - of[1]}, {CUDA_DATA, all - of[0]}, {CUDA_WEIGHT, all - of[2]}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (conv_is_large(s, needs[i].product) && needs[i].bytes > most)
            most = needs[i].bytes;
    return most;
}

// Packs rows x cols into the workspace, behind what is there; the address.
static const float *pack(struct cuda_queue *q, const struct large_type *t, const float *x,
                         int64_t rows, bool terms, int cols, int ld, int pitch, size_t *used) {
    struct pack_params p = {.x = x,
                            .y = (char *)q->workspace + *used,
                            .rows = rows,
                            .all_rows = packed_rows(t, rows, terms),
                            .cols = cols,
                            .ld = ld,
                            .pitch = pitch};
    *used += packed_bytes(t, rows, pitch);
    assert(*used <= q->workspace_bytes);
    cuda_enqueue(q, t->pack, cuda_blocks(p.all_rows * pitch / 4, CUDA_THREADS), 1, &p);
    return p.y;
}

bool cuda_large_gemm(struct cuda_queue *q, enum kernel_type type, struct gemm_params *p) {
    const struct large_type *t = &types[type];
    struct product_out *o = &p->out;
    size_t used = CUDA_WORKSPACE_BYTES_MIN;
    if (q->capability < CUDA_LARGE_CAPABILITY || !t->bytes || (p->trans_a && p->trans_b) ||
        !is_worth(CUDA_GEMM, o->m, o->n, o->k))
        return false;
    int terms = padded(o->k, depth_of(t)), a = p->trans_a ? padded(o->m, chunk_of(t)) : terms,
        b = p->trans_b ? terms : padded(o->n, chunk_of(t));
    p->a = pack(q, t, p->a, p->trans_a ? o->k : o->m, p->trans_a, p->trans_a ? o->m : o->k, p->lda,
                a, &used);
    p->b = pack(q, t, p->b, p->trans_b ? o->n : o->k, !p->trans_b, p->trans_b ? o->k : o->n, p->ldb,
                b, &used);
    p->lda = a, p->ldb = b;
    run(q, t, CUDA_GEMM, !p->trans_a && p->trans_b, 1, p, o);
    return true;
}

bool cuda_large_conv(struct cuda_queue *q, enum cuda_product product, const struct conv2d_shape *s,
                     struct conv_params *p, int times) {
    const struct large_type *t = &types[s->type];
    size_t used = CUDA_WORKSPACE_BYTES_MIN;
    int64_t x = (int64_t)s->n * s->h * s->w, y = (int64_t)s->n * p->oh * p->ow,
            w = (int64_t)s->o * s->kh * s->kw;
    if (q->capability < CUDA_LARGE_CAPABILITY || !conv_is_large(s, product))
        return false;
    bool from_x = product == CUDA_FORWARD, of_weight = product == CUDA_WEIGHT;
    int a = from_x ? s->c : s->o;
    p->a = pack(q, t, p->a, from_x ? x : y, of_weight, a, a, a, &used);
    p->b = pack(q, t, p->b, of_weight ? x : w, false, s->c, s->c, s->c, &used);
    run(q, t, product, from_x, times, p, &p->out);
    return true;
}
