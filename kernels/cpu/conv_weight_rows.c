// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a convolution for types that are spaced (isa.h): for each tap, the product of
// dy, whose rows are filters, and the source pixels under the tap. dy is transposed once for all
// taps, in blocks of a few lines that are multiplied while they are near; of x, the pixels under
// one tap are packed a piece at a time, with zeros where they are padding. So all taps have the
// same terms. With few input channels x is copied with its border, and a filter row is one tap.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/share.h"

enum {
    // Of dy: 256 KB, an eighth of a usual second-level cache, but a whole piece if that takes no
    // more
    // than 1 MB: dw is read and written for each block.
    block_words = 64 * 1024,
    block_words_max = 256 * 1024,
    piece_words = 256, // terms of a product, in words; a piece of x is that long
    step_words = 16,   // a block and a piece have whole steps
};

struct turned_job {
    const struct conv2d_shape *s;
    const struct kernel_ctx *ctx;
    const struct cpu_type *type;
    int oh, ow, line_words, accumulate;
    int taps, tap_cols; // columns of dw that are one tap's
    const void *x, *dy;
    float *dw;
    // The block of dy: a line is one row of one image's outputs.
    int64_t line, lines, lines_max, words; // words: filled up with zeros to whole steps
    ptrdiff_t stride;                      // words from one filter to the next
    float *grads;  // [o][stride], with filters of zeros that fill the last tile
    float *pieces; // of x, one per worker: [piece_words][tile_cols]
    float *padded; // with few channels: x with its border, [n][h + 2 pad][w + 2 pad][c]
};

static const struct cpu_type *padded_type(const struct kernel_ctx *ctx) {
    return &ctx->type[KERNEL_FLOAT];
}

static int64_t round_up(int64_t n, int64_t to) {
    return div_up(n, to) * to;
}

static int64_t filters_of(const struct turned_job *job) {
    return round_up(job->s->o, job->ctx->isa->tile_cols);
}

static struct turned_job job_of(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct turned_job job = {.s = s, .ctx = ctx, .type = &ctx->type[s->type]};
    job.oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    job.line_words = (int)pack_words(job.type, job.ow);
    job.taps = conv_narrow(s) ? s->kh : s->kh * s->kw;
    job.tap_cols = conv_narrow(s) ? s->kw * s->c : s->c;
    int64_t most = block_words_max / filters_of(&job), usual = block_words / filters_of(&job);
    int64_t words = clamp64(piece_words, usual, most > usual ? most : usual);
    job.lines_max = clamp64(words / job.line_words, 1, (int64_t)s->n * job.oh);
    // Not a multiple of a page, so that filters do not fall on the same cache sets.
    job.stride = (ptrdiff_t)round_up(job.lines_max * job.line_words, step_words) + step_words;
    return job;
}

size_t conv_weight_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct turned_job job = job_of(ctx, s);
    size_t pieces = (size_t)ctx->workers * piece_words * ctx->isa->tile_cols;
    struct image_source src = conv_padded_source(s);
    if (conv_narrow(s))
        pieces += pack_images_words(padded_type(ctx), &src);
    return ((size_t)(filters_of(&job) * job.stride) + pieces) * sizeof(float);
}

// One panel of filters of a block. Lines of an even number of outputs are one line; others end with
// half a word.
static void turn_panel(const struct turned_job *job, int64_t panel) {
    int nr = job->ctx->isa->tile_cols, o = job->s->o, pair = job->type->pair;
    int even = job->ow % pair == 0, cols = (int)clamp64(o - panel * nr, 0, nr);
    int64_t pixels = even ? job->lines * job->ow : job->ow, used = job->lines * job->line_words;
    float *to = job->grads + panel * nr * job->stride;
    for (int64_t i = 0; i < (even ? 1 : job->lines); i++) {
        int64_t at = (job->line + i) * job->ow * o + panel * nr;
        float *line = to + i * job->line_words;
        if (job->s->y_store == KERNEL_BF16)
            job->type->turn16((int)pixels, cols, (const uint16_t *)job->dy + at, o, line,
                              job->stride);
        else
            job->type->turn((int)pixels, cols, (const float *)job->dy + at, o, line, job->stride);
    }
    for (int r = 0; r < nr; r++)
        memset(to + r * job->stride + used, 0, (size_t)(job->words - used) * sizeof *to);
}

static void turn_grads(void *arg, int worker, int workers) {
    const struct turned_job *job = arg;
    int64_t panels = div_up(job->s->o, job->ctx->isa->tile_cols);
    struct share mine = share_of(panels, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        turn_panel(job, i);
}

static float *clear(float *dst, int64_t words, int nr) {
    memset(dst, 0, (size_t)words * nr * sizeof *dst);
    return dst + words * nr;
}

// Words [at, at + n) of a line: what the tap reads there of columns [col, …).
static void pack_line(const struct turned_job *job, const struct conv_tap *t, int64_t line, int at,
                      int n, int col, float *dst) {
    const struct conv2d_shape *s = job->s;
    int nr = job->ctx->isa->tile_cols, pair = job->type->pair;
    int64_t image = line / job->oh, oy = line % job->oh;
    int first = at * pair, x0 = first < t->x0 ? t->x0 : first;
    int x1 = (at + n) * pair > t->x1 ? t->x1 : (at + n) * pair;
    if (oy < t->y0 || oy >= t->y1 || x0 >= x1) {
        clear(dst, n, nr);
        return;
    }
    struct panel_source src = {.stride = (ptrdiff_t)s->stride * s->c, .k = x1 - x0};
    int64_t y = oy * s->stride - s->pad + t->ky, x = (int64_t)x0 * s->stride - s->pad + t->kx;
    if (conv_narrow(s)) {
        int64_t h = s->h + 2 * s->pad, w = s->w + 2 * s->pad, line_at = image * h + y + s->pad;
        panel_source_at(&src, KERNEL_FLOAT, job->padded, (line_at * w + x + s->pad) * s->c + col);
    } else {
        panel_source_at(&src, s->x_store, job->x, ((image * s->h + y) * s->w + x) * s->c + col);
    }
    src.cols = job->tap_cols - col < nr ? job->tap_cols - col : nr;
    src.lead = (x0 - first) % pair;
    int before = (x0 - first) / pair, words = (int)pack_words(job->type, src.lead + src.k);
    dst = clear(dst, before, nr);
    pack_panel(job->ctx, job->type, &src, dst);
    clear(dst + words * nr, n - before - words, nr);
}

// Words [from, from + n) of the block.
static void pack_piece(const struct turned_job *job, const struct conv_tap *t, int64_t from,
                       int64_t n, int col, float *dst) {
    int nr = job->ctx->isa->tile_cols;
    int64_t line = from / job->line_words, at = from % job->line_words;
    for (; n > 0 && line < job->lines; line++, at = 0) {
        int64_t words = clamp64(job->line_words - at, 0, n);
        pack_line(job, t, job->line + line, (int)at, (int)words, col, dst);
        dst += words * nr;
        n -= words;
    }
    clear(dst, n, nr);
}

// A tile of dw, and the words [from, from + n) of a block that are added to it.
struct turned_tile {
    struct conv_tap tap;
    int o, col;
    int64_t from, n;
};

// A filter row as one tap: of every output, since the border is there.
static struct conv_tap filter_row_at(const struct turned_job *job, int ky) {
    struct conv_tap t = {.ky = ky, .y1 = job->oh, .x1 = job->ow};
    t.count = (int64_t)job->oh * job->ow;
    return t;
}

static struct turned_tile tile_at(const struct turned_job *job, int64_t i) {
    int64_t o_tiles = div_up(job->s->o, job->type->tile_rows);
    int tap = (int)(i / o_tiles % job->taps);
    struct turned_tile t = {.o = (int)(i % o_tiles) * job->type->tile_rows};
    t.tap = conv_narrow(job->s) ? filter_row_at(job, tap) : conv_tap_at(job->s, tap);
    t.col = (int)(i / o_tiles / job->taps) * job->ctx->isa->tile_cols;
    return t;
}

static void do_tile(const struct turned_job *job, const struct turned_tile *t, const float *x) {
    const struct conv2d_shape *s = job->s;
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols;
    size_t filter = (size_t)s->kh * s->kw * s->c;
    const float *a[tile_rows_max];
    float *c[tile_rows_max];
    struct rows_tile m = {.a = a, .b = x, .segs = 1, .k = (int)t->n, .a_step = job->stride};
    m.c_step = (ptrdiff_t)filter;
    m.out = (struct tile_out){.c = c, .alpha = 1, .rows = s->o - t->o < mr ? s->o - t->o : mr};
    m.out.cols = job->tap_cols - t->col < nr ? job->tap_cols - t->col : nr;
    m.out.beta = job->accumulate || job->line > 0 || t->from > 0 ? 1 : 0;
    for (int r = 0; r < m.out.rows; r++) {
        a[r] = job->grads + (t->o + r) * job->stride + t->from;
        c[r] = job->dw + (t->o + r) * filter + (size_t)(t->tap.ky * s->kw + t->tap.kx) * s->c;
        c[r] += t->col;
    }
    job->type->rows(&m);
}

// A tap that never sees the image has no gradient.
static void clear_tile(const struct turned_job *job, const struct turned_tile *t) {
    const struct conv2d_shape *s = job->s;
    int64_t cols = clamp64(s->c - t->col, 0, job->ctx->isa->tile_cols);
    int64_t end = clamp64(t->o + job->type->tile_rows, 0, s->o);
    for (int64_t o = t->o; o < end && !job->accumulate; o++)
        memset(job->dw + ((o * s->kh + t->tap.ky) * s->kw + t->tap.kx) * s->c + t->col, 0,
               (size_t)cols * sizeof(float));
}

// The tiles [i, end) have the same tap and the same columns: what they read of x is packed once.
static void do_tiles(const struct turned_job *job, int64_t i, int64_t end, float *x) {
    struct turned_tile t = tile_at(job, i);
    for (; t.tap.count == 0 && i < end; i++, t.o += job->type->tile_rows)
        if (job->line == 0)
            clear_tile(job, &t);
    for (t.from = 0; i < end && t.from < job->words; t.from += piece_words) {
        struct turned_tile one = t;
        one.n = clamp64(job->words - t.from, 0, piece_words);
        pack_piece(job, &t.tap, t.from, one.n, t.col, x);
        for (int64_t j = i; j < end; j++, one.o += job->type->tile_rows)
            do_tile(job, &one, x);
    }
}

// Every worker does equal parts, in order of panel of c, tap and tile of o.
static void multiply(void *arg, int worker, int workers) {
    const struct turned_job *job = arg;
    int nr = job->ctx->isa->tile_cols;
    int64_t o_tiles = div_up(job->s->o, job->type->tile_rows), panels = div_up(job->tap_cols, nr);
    float *piece = job->pieces + (size_t)worker * piece_words * nr;
    struct share mine = share_of(panels * job->taps * o_tiles, worker, workers);
    ctx_open_tiles(job->type);
    for (int64_t at = mine.begin, past; at < mine.end; at = past) {
        past = clamp64((at / o_tiles + 1) * o_tiles, 0, mine.end);
        do_tiles(job, at, past, piece);
    }
    ctx_close_tiles(job->type);
}

void conv_weight_rows(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                      const void *dy, float *dw, int accumulate) {
    assert(conv_weight_rows_workspace(ctx, s) <= ctx->work_bytes);
    struct turned_job job = job_of(ctx, s);
    job.x = x, job.dy = dy, job.dw = dw, job.accumulate = accumulate;
    job.grads = (float *)ctx->work;
    job.pieces = job.grads + filters_of(&job) * job.stride;
    job.padded = job.pieces + (size_t)ctx->workers * piece_words * ctx->isa->tile_cols;
    struct image_source src = conv_padded_source(s);
    src.x = x;
    if (conv_narrow(s))
        pack_images(ctx, padded_type(ctx), &src, job.padded);
    int64_t all = (int64_t)s->n * job.oh;
    for (; job.line < all; job.line += job.lines_max) {
        job.lines = clamp64(all - job.line, 0, job.lines_max);
        job.words = round_up(job.lines * job.line_words, step_words);
        ctx_parallel(ctx, turn_grads, &job);
        ctx_parallel(ctx, multiply, &job);
    }
}
