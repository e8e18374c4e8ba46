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

static const struct product_tiles large_tiles = {CUDA_LARGE_TILE, CUDA_LARGE_K, CUDA_LARGE_THREADS,
                                                 CUDA_LARGE_SHARED};

static const enum cuda_kernel kernel_of[CUDA_PRODUCTS][KERNEL_TYPES] = {
    [CUDA_GEMM] =
        {[KERNEL_BF16] = CUDA_KERNEL_gemm_large_bf16, [KERNEL_HALF] = CUDA_KERNEL_gemm_large_half},
    [CUDA_FORWARD] = {[KERNEL_BF16] = CUDA_KERNEL_conv_forward_large_bf16,
                      [KERNEL_HALF] = CUDA_KERNEL_conv_forward_large_half},
    [CUDA_DATA] = {[KERNEL_BF16] = CUDA_KERNEL_conv_data_large_bf16,
                   [KERNEL_HALF] = CUDA_KERNEL_conv_data_large_half},
    [CUDA_WEIGHT] = {[KERNEL_BF16] = CUDA_KERNEL_conv_weight_large_bf16,
                     [KERNEL_HALF] = CUDA_KERNEL_conv_weight_large_half}};

static bool is_worth(enum cuda_product product, int64_t rows, int64_t columns, int64_t terms) {
    const struct large_rule *r = &rules[product];
    return rows >= r->rows && columns >= r->columns && terms >= r->terms;
}

static int padded(int n, int to) {
    return (int)cuda_blocks(n, to) * to;
}

// Bytes of a packed operand of whole stages, with its alignment.
static size_t packed_bytes(int64_t rows, int64_t pitch) {
    enum { ALIGN = 256 };
    rows = (rows + CUDA_LARGE_K - 1) / CUDA_LARGE_K * CUDA_LARGE_K;
    return (size_t)(rows * pitch * 2 + ALIGN - 1) / ALIGN * ALIGN;
}

// The type is not known: that of the operands that need most.
size_t cuda_large_gemm_bytes(int m, int n, int k) {
    int64_t terms = padded(k, CUDA_LARGE_K);
    return !is_worth(CUDA_GEMM, m, n, k) ? 0
                                         : packed_bytes(padded(m, CUDA_LARGE_K), terms) +
                                               packed_bytes(padded(n, CUDA_LARGE_K), terms);
}

// Whole stages have one tap, and whole chunks are of one pixel.
static bool conv_is_large(const struct conv2d_shape *s, enum cuda_product product) {
    int64_t pixels = (int64_t)s->n * kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
                     kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    int64_t taps = (int64_t)s->kh * s->kw;
    int64_t each = (int64_t)cuda_blocks(s->h, s->stride) * cuda_blocks(s->w, s->stride);
    if (s->type == KERNEL_FLOAT || s->c % CUDA_PACKED || s->o % CUDA_PACKED ||
        taps > CUDA_LARGE_TAPS)
        return false;
    switch (product) {
    case CUDA_FORWARD:
        return s->c % CUDA_LARGE_K == 0 && is_worth(product, pixels, s->o, taps * s->c);
    case CUDA_DATA: return s->o % CUDA_LARGE_K == 0 && is_worth(product, s->n * each, s->c, s->o);
    case CUDA_WEIGHT: return is_worth(product, s->o, taps * s->c, pixels);
    default: return false;
    }
}

size_t cuda_large_conv_bytes(const struct conv2d_shape *s) {
    int64_t x = (int64_t)s->n * s->h * s->w, y = (int64_t)s->n *
                                                 kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
                                                 kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t of[] = {packed_bytes(x, s->c), packed_bytes(y, s->o),
                   packed_bytes((int64_t)s->o * s->kh * s->kw, s->c)};
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

// Packs rows x cols into the workspace, behind what is there; the address. Where rows are terms,
// they are filled up to whole stages.
static const float *pack(struct cuda_queue *q, enum kernel_type type, const float *x, int64_t rows,
                         bool terms, int cols, int ld, int pitch, size_t *used) {
    int64_t all = terms ? (rows + CUDA_LARGE_K - 1) / CUDA_LARGE_K * CUDA_LARGE_K : rows;
    struct pack_params p = {.x = x,
                            .y = (uint16_t *)(void *)((char *)q->workspace + *used),
                            .rows = rows,
                            .all_rows = all,
                            .cols = cols,
                            .ld = ld,
                            .pitch = pitch};
    *used += packed_bytes(rows, pitch);
    assert(*used <= q->workspace_bytes);
    cuda_enqueue(q, type == KERNEL_HALF ? CUDA_KERNEL_pack_half : CUDA_KERNEL_pack_bf16,
                 cuda_blocks(all * pitch / 4, CUDA_THREADS), 1, &p);
    return (const float *)(const void *)p.y;
}

bool cuda_large_gemm(struct cuda_queue *q, enum kernel_type type, struct gemm_params *p) {
    struct product_out *o = &p->out;
    size_t used = CUDA_WORKSPACE_BYTES_MIN;
    if (q->capability < CUDA_LARGE_CAPABILITY || type == KERNEL_FLOAT ||
        (p->trans_a && p->trans_b) || !is_worth(CUDA_GEMM, o->m, o->n, o->k))
        return false;
    int terms = padded(o->k, CUDA_LARGE_K), a = p->trans_a ? padded(o->m, CUDA_PACKED) : terms,
        b = p->trans_b ? terms : padded(o->n, CUDA_PACKED);
    p->a = pack(q, type, p->a, p->trans_a ? o->k : o->m, p->trans_a, p->trans_a ? o->m : o->k,
                p->lda, a, &used);
    p->b = pack(q, type, p->b, p->trans_b ? o->n : o->k, !p->trans_b, p->trans_b ? o->k : o->n,
                p->ldb, b, &used);
    p->lda = a, p->ldb = b;
    cuda_product_run(q, kernel_of[CUDA_GEMM][type], &large_tiles, 1, p, o);
    return true;
}

bool cuda_large_conv(struct cuda_queue *q, enum cuda_product product, const struct conv2d_shape *s,
                     struct conv_params *p, int times) {
    size_t used = CUDA_WORKSPACE_BYTES_MIN;
    int64_t x = (int64_t)s->n * s->h * s->w, y = (int64_t)s->n * p->oh * p->ow,
            w = (int64_t)s->o * s->kh * s->kw;
    if (q->capability < CUDA_LARGE_CAPABILITY || !conv_is_large(s, product))
        return false;
    bool from_x = product == CUDA_FORWARD, of_weight = product == CUDA_WEIGHT;
    int a = from_x ? s->c : s->o;
    p->a = pack(q, s->type, p->a, from_x ? x : y, of_weight, a, a, a, &used);
    p->b = pack(q, s->type, p->b, of_weight ? x : w, false, s->c, s->c, s->c, &used);
    cuda_product_run(q, kernel_of[product][s->type], &large_tiles, times, p, &p->out);
    return true;
}
