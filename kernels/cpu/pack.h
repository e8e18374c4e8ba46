// SPDX-License-Identifier: Apache-2.0
// Operands on their way into a product: packed, and converted to the product's type.
#ifndef DTCTL_KERNELS_CPU_PACK_H
#define DTCTL_KERNELS_CPU_PACK_H

#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

// Words of n numbers that follow each other in a sum.
static inline int64_t pack_words(const struct cpu_type *t, int64_t n) {
    return div_up(n, t->pair);
}

// Words of all panels of `cols` columns and depth k.
size_t pack_panels_words(const struct kernel_ctx *ctx, const struct cpu_type *t, int k, int cols);

// One panel [words of lead + k][tile_cols] of op(src): src[j * stride + k] where transposed, else
// src[k * stride + j]; zero in columns from cols on, and in the first `lead` rows.
struct panel_source {
    const float *at;
    ptrdiff_t stride;
    int transposed;
    int lead, k, cols;      // lead < pair
    enum kernel_type store; // KERNEL_BF16: `bits`, not `at`
    const uint16_t *bits;
};
void pack_panel(const struct kernel_ctx *ctx, const struct cpu_type *t,
                const struct panel_source *src, float *dst);

// n numbers that follow each other.
void pack_run(const struct cpu_type *t, size_t n, const float *x, float *words);

// The same, of numbers in that type of storage from element `from` of x on.
void pack_stored_run(const struct kernel_ctx *ctx, const struct cpu_type *t, enum kernel_type store,
                     size_t n, const void *x, size_t from, float *words);

// Element `from` of a tensor as the source of panels.
static inline void panel_source_at(struct panel_source *src, enum kernel_type store, const void *x,
                                   int64_t from) {
    src->store = store;
    src->at = store == KERNEL_FLOAT ? (const float *)x + from : NULL;
    src->bits = store == KERNEL_FLOAT ? NULL : (const uint16_t *)x + from;
}

// x[n][h][w][c] -> words[n][h + 2 border][w + 2 border][words of c], the border zero.
struct image_source {
    const void *x;
    int n, h, w, c, border;
    enum kernel_type store;
};
// The pixels are words already.
static inline int pack_images_lie(const struct cpu_type *t, const struct image_source *src) {
    if (src->store == KERNEL_FLOAT)
        return !t->convert && src->border == 0;
    return t->pair == 2 && src->c % 2 == 0 && src->border == 0;
}
size_t pack_images_words(const struct cpu_type *t, const struct image_source *src);
void pack_images(struct kernel_ctx *ctx, const struct cpu_type *t, const struct image_source *src,
                 float *words);

#endif
