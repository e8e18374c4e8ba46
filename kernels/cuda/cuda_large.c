// SPDX-License-Identifier: Apache-2.0
// Chooses large tiles by shape, and packs their operands.
#include "kernels/cuda/cuda_impl.h"

// Large tiles from so many rows, columns and terms on: fewer are padding, or too little work for
// the operands to be packed first. Every rule holds for larger shapes, too.
static const struct large_rule {
    int rows, columns, terms;
} rules[CUDA_PRODUCTS] = {[CUDA_GEMM] = {128, 128, 64},
                          [CUDA_FORWARD] = {128, 128, 64},
                          [CUDA_DATA] = {128, 128, 64},
                          [CUDA_WEIGHT] = {128, 128, 128}};

// Types that have large tiles. A word of a packed operand has so many bytes. hopper: with wgmma;
// tma: and with operands by tensor maps.
static const struct large_type {
    int bytes;
    enum cuda_kernel pack, product[CUDA_PRODUCTS], hopper[CUDA_PRODUCTS], tma;
} types[KERNEL_TYPES] = {
    [KERNEL_BF16] = {2,
                     CUDA_KERNEL_pack_bf16,
                     {CUDA_KERNEL_gemm_large_bf16, CUDA_KERNEL_conv_forward_large_bf16,
                      CUDA_KERNEL_conv_data_large_bf16, CUDA_KERNEL_conv_weight_large_bf16},
                     {CUDA_KERNEL_gemm_hopper_bf16, CUDA_KERNEL_conv_forward_hopper_bf16,
                      CUDA_KERNEL_conv_data_hopper_bf16, CUDA_KERNEL_conv_weight_hopper_bf16},
                     CUDA_KERNEL_gemm_tma_bf16},
    [KERNEL_HALF] = {2,
                     CUDA_KERNEL_pack_half,
                     {CUDA_KERNEL_gemm_large_half, CUDA_KERNEL_conv_forward_large_half,
                      CUDA_KERNEL_conv_data_large_half, CUDA_KERNEL_conv_weight_large_half},
                     {CUDA_KERNEL_gemm_hopper_half, CUDA_KERNEL_conv_forward_hopper_half,
                      CUDA_KERNEL_conv_data_hopper_half, CUDA_KERNEL_conv_weight_hopper_half},
                     CUDA_KERNEL_gemm_tma_half},
    [KERNEL_TF32] = {4,
                     CUDA_KERNEL_pack_tf32,
                     {CUDA_KERNEL_gemm_large_tf32, CUDA_KERNEL_conv_forward_large_tf32,
                      CUDA_KERNEL_conv_data_large_tf32, CUDA_KERNEL_conv_weight_large_tf32},
                     {CUDA_KERNEL_gemm_hopper_tf32, CUDA_KERNEL_conv_forward_hopper_tf32,
                      CUDA_KERNEL_conv_data_hopper_tf32, CUDA_KERNEL_conv_weight_hopper_tf32},
                     CUDA_KERNEL_gemm_tma_tf32},
};

static int depth_of(const struct large_type *t) { // terms of a stage
    return CUDA_LARGE_BYTES / t->bytes;
}
static int chunk_of(const struct large_type *t) { // columns that are copied at once
    return CUDA_CHUNK_BYTES / t->bytes;
}

// Both operands have to be contiguous along the terms: ldmatrix and wgmma transpose words of two
// bytes alone.
static bool is_by_terms(const struct large_type *t) {
    return t->bytes == 4;
}

static void run(struct cuda_queue *q, const struct large_type *t, enum cuda_product product,
                int times, void *params, struct product_out *o) {
    bool hopper = q->capability == CUDA_HOPPER_CAPABILITY;
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

// An operand, and how it is packed: x[rows][cols] in its order, or with images
// x[images][rows][cols] as y[cols][rows][all_images].
struct operand {
    int64_t rows, all_rows; // all_rows: packed
    int cols, ld, pitch;    // pitch: packed
    int images, all_images;
    int bf16; // in memory
};

// Where rows are terms, they are packed as whole stages.
static struct operand in_order(const struct large_type *t, int64_t rows, bool terms, int cols,
                               int ld, int pitch) {
    int64_t depth = depth_of(t);
    return (struct operand){.rows = rows,
                            .all_rows = terms ? (rows + depth - 1) / depth * depth : rows,
                            .cols = cols,
                            .ld = ld,
                            .pitch = pitch};
}

static struct operand turned(const struct large_type *t, int images, int all_images, int rows,
                             int cols, int ld) {
    return (struct operand){.rows = rows,
                            .all_rows = cols,
                            .cols = cols,
                            .ld = ld,
                            .pitch = padded(rows * all_images, depth_of(t)),
                            .images = images,
                            .all_images = all_images};
}

// by_terms: memory is contiguous along the terms.
static struct operand gemm_operand(const struct large_type *t, bool by_terms, int rows, int terms,
                                   int ld) {
    int all = padded(terms, depth_of(t));
    if (by_terms)
        return in_order(t, rows, false, terms, ld, all);
    return is_by_terms(t) ? turned(t, terms, all, 1, rows, ld)
                          : in_order(t, terms, true, rows, ld, padded(rows, chunk_of(t)));
}

// Bytes of a packed operand, with its alignment.
static size_t operand_bytes(const struct large_type *t, struct operand m) {
    enum { ALIGN = 256 };
    size_t bytes = (size_t)(m.all_rows * m.pitch * t->bytes);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

// For any transposes: the operands that need most.
size_t cuda_large_gemm_bytes(enum kernel_type type, int m, int n, int k) {
    const struct large_type *t = &types[type];
    if (!t->bytes || !is_worth(CUDA_GEMM, m, n, k))
        return 0;
    int depth = depth_of(t);
    return operand_bytes(t, gemm_operand(t, true, padded(m, depth), k, k)) +
           operand_bytes(t, gemm_operand(t, true, padded(n, depth), k, k));
}

// The images with which operands of a weight gradient are packed by terms: those of a pixel are
// whole sectors.
static int padded_images(const struct conv2d_shape *s) {
    enum { SECTOR = 8 };
    return padded(s->n, SECTOR);
}

// Whole stages have one tap, and whole chunks are of one pixel. Weight gradients have a pixel in a
// word, and most of their images are no padding.
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
    case CUDA_WEIGHT:
        if (s->h + 2 * s->pad >= CUDA_LARGE_PIXELS || s->w + 2 * s->pad >= CUDA_LARGE_PIXELS ||
            (is_by_terms(t) && 2 * s->n < padded_images(s)))
            return false;
        return is_worth(product, s->o, taps * s->c, pixels);
    default: return false;
    }
}

struct operands {
    struct operand a, b;
};

static struct operands conv_operands(const struct large_type *t, const struct conv2d_shape *s,
                                     enum cuda_product product) {
    int y = kernel_conv_out(s->h, s->kh, s->stride, s->pad) *
            kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    int taps = s->kh * s->kw, images = padded_images(s);
    bool of_data = product == CUDA_DATA, of_weight = product == CUDA_WEIGHT;
    struct operand of_y = in_order(t, (int64_t)s->n * y, of_weight, s->o, s->o, s->o);
    struct operand of_x = in_order(t, (int64_t)s->n * s->h * s->w, false, s->c, s->c, s->c);
    struct operand of_w = in_order(t, (int64_t)s->o * taps, false, s->c, s->c, s->c);
    if (is_by_terms(t) && of_data)
        of_w = turned(t, s->o, s->o, 1, taps * s->c, taps * s->c);
    if (is_by_terms(t) && of_weight) {
        of_y = turned(t, s->n, images, y, s->o, s->o);
        of_x = turned(t, s->n, images, s->h * s->w, s->c, s->c);
    }
    return (struct operands){product == CUDA_FORWARD ? of_x : of_y, of_weight ? of_x : of_w};
}

size_t cuda_large_conv_bytes(const struct conv2d_shape *s) {
    const struct large_type *t = &types[s->type];
    size_t most = 0;
    for (int product = CUDA_FORWARD; product <= CUDA_WEIGHT; product++) {
        if (!conv_is_large(s, (enum cuda_product)product))
            continue;
        struct operands m = conv_operands(t, s, (enum cuda_product)product);
        size_t bytes = operand_bytes(t, m.a) + operand_bytes(t, m.b);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void pack_in_order(struct cuda_queue *q, const struct large_type *t, const struct operand *m,
                          const void *x, void *y) {
    struct pack_params p = {.x = x,
                            .bf16 = m->bf16,
                            .y = y,
                            .rows = m->rows,
                            .all_rows = m->all_rows,
                            .cols = m->cols,
                            .ld = m->ld,
                            .pitch = m->pitch};
    cuda_enqueue(q, t->pack, cuda_blocks(p.all_rows * p.pitch / 4, CUDA_THREADS), 1, &p);
}

static void pack_turned(struct cuda_queue *q, const struct operand *m, const void *x, void *y) {
    struct pack_turned_params p = {.x = x,
                                   .y = y,
                                   .images = m->images,
                                   .all_images = m->all_images,
                                   .pixels = (int)m->rows,
                                   .cols = m->cols,
                                   .ld = m->ld,
                                   .pitch = m->pitch};
    unsigned down = cuda_blocks(p.cols, CUDA_TURN_TILE);
    assert(down <= CUDA_GRID_MAX);
    cuda_enqueue(q, CUDA_KERNEL_pack_turned_tf32, cuda_blocks(p.pitch, CUDA_TURN_TILE), down, &p);
}

// Packs an operand into the workspace, behind what is there; the address.
static const void *pack(struct cuda_queue *q, const struct large_type *t, struct operand m,
                        const void *x, size_t *used) {
    void *y = (char *)q->workspace + *used;
    *used += operand_bytes(t, m);
    assert(*used <= q->workspace_bytes);
    if (m.images)
        pack_turned(q, &m, x, y);
    else
        pack_in_order(q, t, &m, x, y);
    return y;
}

// Whether an operand is in memory as it would be packed: in bfloat16, from a chunk's address on,
// with rows of whole chunks. cp.async also wants no padding behind it; with tensor maps zeros come
// from beyond the ends.
static bool lies_packed(const struct large_type *t, const struct operand *m, const void *x,
                        bool maps) {
    bool padded_out = m->pitch != m->cols || m->all_rows != m->rows;
    return m->bf16 && (uintptr_t)x % CUDA_CHUNK_BYTES == 0 && m->ld % chunk_of(t) == 0 &&
           (maps || !padded_out);
}

// The address of an operand that is packed, or need not be.
static const void *packed(struct cuda_queue *q, const struct large_type *t, struct operand m,
                          const void *x, size_t *used) {
    return lies_packed(t, &m, x, false) ? x : pack(q, t, m, x, used);
}

// An operand of a GEMM at x, which may have been packed to `at`.
struct placed {
    struct operand m;
    const void *x, *at;
    int ld;
};

// The tensor map of an operand of so many rows and terms, which is packed first where it has to be.
// false: there is none for it.
static bool map_operand(struct cuda_queue *q, enum kernel_type type, bool by_terms, int rows,
                        int terms, struct placed *o, size_t *used, struct cuda_tensor_map *map) {
    const struct large_type *t = &types[type];
    bool lies = lies_packed(t, &o->m, o->x, true);
    o->at = lies ? o->x : pack(q, t, o->m, o->x, used);
    o->ld = lies ? o->m.ld : o->m.pitch;
    struct cuda_matrix m = {.at = o->at,
                            .type = type,
                            .rows = by_terms ? rows : terms,
                            .columns = by_terms ? terms : rows,
                            .pitch = (int64_t)o->ld * t->bytes,
                            .box_rows = by_terms ? CUDA_LARGE_TILE : CUDA_TMA_BYTES / t->bytes};
    bool aligned = (uintptr_t)o->at % CUDA_CHUNK_BYTES == 0 && m.pitch % CUDA_CHUNK_BYTES == 0;
    return aligned && q->tensor_map(q, &m, map) == 0;
}

// The product of operands by tensor maps. false: it has to copy by cp.async; operands that were
// packed stay so.
static bool gemm_by_maps(struct cuda_queue *q, enum kernel_type type, const struct gemm_params *p,
                         struct placed *a, struct placed *b, size_t *used) {
    const struct large_type *t = &types[type];
    const struct product_tiles tiles = {CUDA_LARGE_TILE, CUDA_TMA_BYTES / t->bytes,
                                        CUDA_LARGE_THREADS, CUDA_TMA_SHARED};
    struct gemm_tma_params maps = {.gemm = *p};
    bool a_by_terms = is_by_terms(t) || !p->trans_a, b_by_terms = is_by_terms(t) || p->trans_b;
    const struct product_out *o = &p->out;
    if (q->capability != CUDA_HOPPER_CAPABILITY || !q->tensor_map ||
        !map_operand(q, type, a_by_terms, o->m, o->k, a, used, &maps.a) ||
        !map_operand(q, type, b_by_terms, o->n, o->k, b, used, &maps.b))
        return false;
    cuda_product_run(q, t->tma, &tiles, 1, &maps, &maps.gemm.out);
    return true;
}

// For cp.async: packed, unless that has been done or need not be.
static void place(struct cuda_queue *q, const struct large_type *t, struct placed *o,
                  size_t *used) {
    if (o->at && o->at != o->x)
        return;
    o->at = packed(q, t, o->m, o->x, used);
    o->ld = o->at == o->x ? o->m.ld : o->m.pitch;
}

bool cuda_large_gemm(struct cuda_queue *q, enum kernel_type type, struct gemm_params *p) {
    const struct large_type *t = &types[type];
    struct product_out *o = &p->out;
    size_t used = CUDA_WORKSPACE_BYTES_MIN;
    if (q->capability < CUDA_LARGE_CAPABILITY || !t->bytes || (p->trans_a && p->trans_b) ||
        !is_worth(CUDA_GEMM, o->m, o->n, o->k))
        return false;
    struct placed a = {gemm_operand(t, !p->trans_a, o->m, o->k, p->lda), p->a, NULL, 0};
    struct placed b = {gemm_operand(t, p->trans_b, o->n, o->k, p->ldb), p->b, NULL, 0};
    a.m.bf16 = p->a_bf16, b.m.bf16 = p->b_bf16;
    if (gemm_by_maps(q, type, p, &a, &b, &used))
        return true;
    place(q, t, &a, &used), place(q, t, &b, &used);
    p->a = a.at, p->lda = a.ld, p->b = b.at, p->ldb = b.ld;
    run(q, t, CUDA_GEMM, 1, p, o);
    return true;
}

bool cuda_large_conv_is(const struct cuda_queue *q, enum cuda_product product,
                        const struct conv2d_shape *s) {
    return q->capability >= CUDA_LARGE_CAPABILITY && conv_is_large(s, product);
}

bool cuda_large_conv(struct cuda_queue *q, enum cuda_product product, const struct conv2d_shape *s,
                     struct conv_params *p, int times) {
    const struct large_type *t = &types[s->type];
    size_t used = cuda_conv2d_front(s);
    if (!cuda_large_conv_is(q, product, s))
        return false;
    struct operands m = conv_operands(t, s, product);
    m.a.bf16 = p->a_bf16, m.b.bf16 = p->b_bf16;
    p->a = packed(q, t, m.a, p->a, &used), p->b = packed(q, t, m.b, p->b, &used);
    if (m.b.images && product == CUDA_WEIGHT)
        p->images = m.b.all_images, p->out.k = p->oh * p->ow * p->images;
    run(q, t, product, times, p, &p->out);
    return true;
}
