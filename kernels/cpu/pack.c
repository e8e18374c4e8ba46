// SPDX-License-Identifier: Apache-2.0
// Packs the operands of a product into panels of the product's type.
#include "kernels/cpu/pack.h"

#include <string.h>

size_t pack_panels_words(const struct kernel_ctx *ctx, const struct cpu_type *t, int k, int cols) {
    int nr = ctx->isa->tile_cols;
    return (size_t)div_up(cols, nr) * (size_t)nr * (size_t)pack_words(t, k);
}

static void pack_floats(const struct cpu_isa *isa, const struct panel_source *src, float *dst) {
    if (src->transposed)
        isa->pack_transposed(src->k, src->cols, src->at, src->stride, dst);
    else
        isa->pack_copied(src->k, src->cols, src->at, src->stride, dst);
}

// Sources in bfloat16 become floats a piece at a time, where no function takes them as they are.
static void pack_bits(const struct kernel_ctx *ctx, const struct cpu_type *t,
                      const struct panel_source *src, float *dst) {
    enum { step = 64 }; // even, so that no pair is split
    float some[step * tile_cols_max];
    struct panel_source part = *src;
    part.store = KERNEL_FLOAT;
    part.at = some;
    part.stride = src->transposed ? step : tile_cols_max;
    for (int p = 0; p < src->k; p += part.k, part.lead = 0) {
        part.k = src->k - p < step - part.lead ? src->k - p : step - part.lead;
        int runs = src->transposed ? src->cols : part.k, n = src->transposed ? part.k : src->cols;
        const uint16_t *from = src->bits + (src->transposed ? p : p * src->stride);
        for (int i = 0; i < runs; i++)
            ctx->isa->widen((size_t)n, from + i * src->stride, some + i * part.stride);
        pack_panel(ctx, t, &part, dst);
        dst += pack_words(t, part.lead + part.k) * ctx->isa->tile_cols;
    }
}

void pack_panel(const struct kernel_ctx *ctx, const struct cpu_type *t,
                const struct panel_source *src, float *dst) {
    enum { step = 64 }; // rows converted at a time; even
    float some[step * tile_cols_max];
    if (src->store == KERNEL_BF16) {
        if (t->pack_copied16 && !src->transposed)
            t->pack_copied16(src->lead, src->k, src->cols, src->bits, src->stride, dst);
        else if (t->pack_transposed16 && src->transposed && src->lead == 0)
            t->pack_transposed16(src->k, src->cols, src->bits, src->stride, dst);
        else
            pack_bits(ctx, t, src, dst);
        return;
    }
    if (!t->convert) {
        pack_floats(ctx->isa, src, dst);
        return;
    }
    if (t->pack_copied && !src->transposed) {
        t->pack_copied(src->lead, src->k, src->cols, src->at, src->stride, dst);
        return;
    }
    if (t->pack_transposed && src->transposed && src->lead == 0) {
        t->pack_transposed(src->k, src->cols, src->at, src->stride, dst);
        return;
    }
    int nr = ctx->isa->tile_cols, lead = src->lead;
    struct panel_source part = *src;
    memset(some, 0, (size_t)lead * nr * sizeof *some);
    for (int p = 0; p < src->k; p += part.k, lead = 0) {
        part.k = src->k - p < step - lead ? src->k - p : step - lead;
        pack_floats(ctx->isa, &part, some + lead * nr);
        t->convert_panel(lead + part.k, some, dst);
        dst += pack_words(t, lead + part.k) * nr;
        part.at += src->transposed ? part.k : part.k * src->stride;
    }
}

void pack_run(const struct cpu_type *t, size_t n, const float *x, float *words) {
    if (t->convert)
        t->convert(n, x, words);
    else
        memcpy(words, x, n * sizeof *x);
}

void pack_stored_run(const struct kernel_ctx *ctx, const struct cpu_type *t, enum kernel_type store,
                     size_t n, const void *x, size_t from, float *words) {
    if (store == KERNEL_FLOAT) {
        pack_run(t, n, (const float *)x + from, words);
        return;
    }
    const uint16_t *bits = (const uint16_t *)x + from;
    if (t->pair == 1) { // a float that needs no rounding
        ctx->isa->widen(n, bits, words);
        return;
    }
    if (n % 2)
        words[n / 2] = 0;
    memcpy(words, bits, n * sizeof *bits);
}

size_t pack_images_words(const struct cpu_type *t, const struct image_source *src) {
    size_t h = (size_t)src->h + 2 * (size_t)src->border,
           w = (size_t)src->w + 2 * (size_t)src->border;
    return (size_t)src->n * h * w * (size_t)pack_words(t, src->c);
}

struct images_job {
    const struct kernel_ctx *ctx;
    const struct cpu_type *t;
    const struct image_source *src;
    float *words;
};

static void pack_image_rows(void *arg, int worker, int workers) {
    const struct images_job *job = arg;
    const struct image_source *s = job->src;
    int h = s->h + 2 * s->border, w = s->w + 2 * s->border;
    size_t pixel = (size_t)pack_words(job->t, s->c), edge = (size_t)s->border * pixel;
    struct share mine = share_of((int64_t)s->n * h, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        float *to = job->words + (size_t)i * (size_t)w * pixel;
        int64_t y = i % h - s->border;
        if (y < 0 || y >= s->h) {
            memset(to, 0, (size_t)w * pixel * sizeof *to);
            continue;
        }
        size_t from = (size_t)((i / h * s->h + y) * s->w * s->c);
        memset(to, 0, edge * sizeof *to);
        to += edge;
        if (s->c % job->t->pair == 0)
            pack_stored_run(job->ctx, job->t, s->store, (size_t)s->w * (size_t)s->c, s->x, from,
                            to);
        else
            for (int x = 0; x < s->w; x++)
                pack_stored_run(job->ctx, job->t, s->store, (size_t)s->c, s->x,
                                from + (size_t)x * (size_t)s->c, to + x * pixel);
        memset(to + (size_t)s->w * pixel, 0, edge * sizeof *to);
    }
}

void pack_images(struct kernel_ctx *ctx, const struct cpu_type *t, const struct image_source *src,
                 float *words) {
    struct images_job job = {ctx, t, src, words};
    ctx_parallel(ctx, pack_image_rows, &job);
}
