// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a convolution: for each tap, the product, over output pixels, of dy and the
// source pixel under the tap. A few lines of dy at a time are packed into panels once for all taps;
// of x, the pixels under one tap are packed a piece at a time. Pixels whose source is padding
// are left out.
// With few input channels a tap would fill only part of a vector: then x is copied with a zero
// border, a whole filter row counts as one tap, and the product is made transposed.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/winograd.h"

enum {
    block_words = 64 * 1024, // of dy at a time: 256 KB
    piece_words = 256,       // terms of a product, in words; a piece of x is that long
    run_words = 128,         // of one line
};

struct weight_job {
    const struct conv2d_shape *s;
    const struct kernel_ctx *ctx;
    const struct cpu_type *type;
    int oh, ow, line_words, accumulate;
    const void *x, *dy;
    float *dw;
    // The block of dy: a line is one row of one image's outputs.
    int64_t line, lines, lines_max;
    float *grads;  // [panel of o][line][line_words][tile_cols]
    float *pieces; // of x, one per worker: [piece_words][tile_cols]
    // The transposed way only.
    float *padded;     // x with its border: [n][h + 2 pad][w + 2 pad][c]
    float *transposed; // [kh][kw * c][o]
};

// The transposed form reads x unpacked, so a word is one float.
static const struct cpu_type *type_of(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return conv_narrow(s) ? &ctx->isa->type[s->type] : &ctx->type[s->type];
}

static struct weight_job job_of(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct weight_job job = {.s = s, .ctx = ctx, .type = type_of(ctx, s)};
    int nr = ctx->isa->tile_cols;
    job.oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    job.line_words = (int)pack_words(job.type, job.ow);
    int64_t line = div_up(s->o, nr) * nr * job.line_words;
    job.lines_max = clamp64(block_words / line, 1, (int64_t)s->n * job.oh);
    return job;
}

static size_t grads_size(const struct weight_job *job) {
    int nr = job->ctx->isa->tile_cols;
    return (size_t)(div_up(job->s->o, nr) * nr * job->line_words * job->lines_max);
}

static size_t padded_size(const struct weight_job *job) {
    struct image_source src = conv_padded_source(job->s);
    return conv_narrow(job->s) ? pack_images_words(job->type, &src) : 0;
}

static int by_rows(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return ctx->type[s->type].spaced;
}

size_t cpu_conv2d_weight_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    if (by_rows(ctx, s))
        return conv_weight_rows_workspace(ctx, s);
    struct weight_job job = job_of(ctx, s);
    size_t pieces = (size_t)ctx->workers * piece_words * ctx->isa->tile_cols;
    size_t transposed = (size_t)s->kh * s->kw * s->c * s->o;
    return (grads_size(&job) + padded_size(&job) + (conv_narrow(s) ? transposed : pieces)) *
           sizeof(float);
}

static float *grads_at(const struct weight_job *job, int64_t panel, int64_t line) {
    return job->grads +
           (panel * job->lines_max + line) * job->line_words * job->ctx->isa->tile_cols;
}

static void pack_grads(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    int nr = job->ctx->isa->tile_cols, o = job->s->o;
    struct share mine = share_of(div_up(o, nr) * job->lines, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t panel = i / job->lines, line = i % job->lines;
        struct panel_source src = {.stride = o, .k = job->ow};
        panel_source_at(&src, job->s->y_store, job->dy,
                        (job->line + line) * job->ow * o + panel * nr);
        src.cols = (int)clamp64(o - panel * nr, 0, nr);
        pack_panel(job->ctx, job->type, &src, grads_at(job, panel, line));
    }
}

// Packs the block's part of dy, then multiplies: for every block.
static void each_block(struct kernel_ctx *ctx, struct weight_job *job,
                       void (*multiply)(void *arg, int worker, int workers)) {
    int64_t all = (int64_t)job->s->n * job->oh;
    for (job->line = 0; job->line < all; job->line += job->lines_max) {
        job->lines = all - job->line < job->lines_max ? all - job->line : job->lines_max;
        ctx_parallel(ctx, pack_grads, job);
        ctx_parallel(ctx, multiply, job);
    }
}

// [*begin, *end): outputs along one axis whose source for this tap is inside.
static void valid_outputs(int in, int out, int tap, int stride, int pad, int *begin, int *end) {
    *begin = pad > tap ? (pad - tap + stride - 1) / stride : 0;
    int past = in + pad - tap; // first output position times stride that is outside
    *end = past <= 0 ? 0 : (past + stride - 1) / stride;
    *end = *end < out ? *end : out;
    if (*begin > *end)
        *begin = *end;
}

struct conv_tap conv_tap_at(const struct conv2d_shape *s, int tap) {
    struct conv_tap t = {.ky = tap / s->kw, .kx = tap % s->kw};
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    valid_outputs(s->h, oh, t.ky, s->stride, s->pad, &t.y0, &t.y1);
    valid_outputs(s->w, ow, t.kx, s->stride, s->pad, &t.x0, &t.x1);
    t.count = (int64_t)(t.y1 - t.y0) * (t.x1 - t.x0);
    return t;
}

// Tiles of one tap: o (fast), cut inside the panels of dy, and panels of c.
static int64_t o_tiles_of(const struct weight_job *job) {
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols, o = job->s->o;
    return o / nr * div_up(nr, mr) + div_up(o % nr, mr);
}

static int64_t tiles_of(const struct weight_job *job) {
    return o_tiles_of(job) * div_up(job->s->c, job->ctx->isa->tile_cols);
}

// A part of one line that a tap sees: words [begin, end).
struct word_run {
    int64_t line; // of the block
    int begin, end;
};

// Runs that are multiplied together.
struct piece {
    struct word_run run[piece_words];
    int32_t a_at[piece_words]; // of each word in a panel of dy
    int runs, words, first;    // first: starts the tap's sum
};

// Collects the next runs of a tap, from word *at of *line. Returns 0 at the end. The cuts depend on
// the shape only.
static int next_piece(const struct weight_job *job, const struct conv_tap *t, int64_t *line,
                      int *at, struct piece *p) {
    int pair = job->type->pair, begin = t->x0 / pair, end = (int)div_up(t->x1, pair);
    p->runs = p->words = 0;
    for (; *line < job->lines; *line += 1, *at = begin) {
        int64_t oy = (job->line + *line) % job->oh;
        if (oy < t->y0 || oy >= t->y1)
            continue;
        for (*at = *at < begin ? begin : *at; *at < end;) {
            struct word_run r = {*line, *at, end - *at < run_words ? end : *at + run_words};
            if (p->words + r.end - r.begin > piece_words)
                return 1;
            if (p->words == 0)
                p->first = job->line + r.line == t->y0 && r.begin == begin;
            for (int w = r.begin; w < r.end; w++)
                p->a_at[p->words++] =
                    (int32_t)((r.line * job->line_words + w) * job->ctx->isa->tile_cols);
            p->run[p->runs++] = r;
            *at = r.end;
        }
    }
    return p->words > 0;
}

// Packs the input of the tap during the piece, columns [col, col + tile_cols) of c.
static void pack_piece(const struct weight_job *job, const struct conv_tap *t,
                       const struct piece *p, int col, float *dst) {
    const struct conv2d_shape *s = job->s;
    int nr = job->ctx->isa->tile_cols, pair = job->type->pair;
    struct panel_source src = {.stride = (ptrdiff_t)s->stride * s->c};
    src.cols = s->c - col < nr ? s->c - col : nr;
    for (int i = 0; i < p->runs; i++) {
        const struct word_run *r = &p->run[i];
        int64_t line = job->line + r->line, image = line / job->oh;
        int x0 = r->begin * pair < t->x0 ? t->x0 : r->begin * pair;
        int x1 = r->end * pair > t->x1 ? t->x1 : r->end * pair;
        int64_t y = line % job->oh * s->stride - s->pad + t->ky;
        int64_t x = (int64_t)x0 * s->stride - s->pad + t->kx;
        panel_source_at(&src, s->x_store, job->x, ((image * s->h + y) * s->w + x) * s->c + col);
        src.lead = x0 - r->begin * pair;
        src.k = x1 - x0;
        pack_panel(job->ctx, job->type, &src, dst);
        dst += (r->end - r->begin) * nr;
    }
}

// The tiles of one tap that one worker computes.
struct tap_work {
    struct conv_tap pixels;
    int64_t begin, end;
};

static void do_tile(const struct weight_job *job, const struct conv_tap *t, const struct piece *p,
                    int64_t o_tile, int col, const float *x) {
    const struct conv2d_shape *s = job->s;
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols;
    int per_panel = (int)div_up(nr, mr), panel = (int)(o_tile / per_panel);
    int wide = s->o - panel * nr < nr ? s->o - panel * nr : nr;
    struct share o = share_of(wide, (int)(o_tile % per_panel), (int)div_up(wide, mr));
    size_t filter = (size_t)s->kh * s->kw * s->c;
    float *c[tile_rows_max];
    struct cols_tile m = {.b = x, .a_at = p->a_at, .b_step = nr, .k = p->words};
    m.a = grads_at(job, panel, 0) + o.begin;
    m.out = (struct tile_out){.c = c, .alpha = 1, .rows = (int)(o.end - o.begin)};
    m.out.cols = s->c - col < nr ? s->c - col : nr;
    m.out.beta = job->accumulate || !p->first ? 1 : 0;
    for (int r = 0; r < m.out.rows; r++)
        c[r] = job->dw + (panel * nr + o.begin + r) * filter +
               (size_t)(t->ky * s->kw + t->kx) * s->c + col;
    job->type->cols(&m);
}

static void do_tap(const struct weight_job *job, const struct tap_work *w, float *x) {
    int64_t o_tiles = o_tiles_of(job), line = 0;
    int nr = job->ctx->isa->tile_cols, at = 0;
    struct piece p;
    while (next_piece(job, &w->pixels, &line, &at, &p))
        for (int64_t i = w->begin; i < w->end;) {
            int64_t panel = i / o_tiles, past = (panel + 1) * o_tiles;
            pack_piece(job, &w->pixels, &p, (int)panel * nr, x);
            for (past = past < w->end ? past : w->end; i < past; i++)
                do_tile(job, &w->pixels, &p, i % o_tiles, (int)panel * nr, x);
        }
}

// A tap that never sees the image has no gradient.
static void clear_tap(const struct weight_job *job, const struct conv_tap *t, struct share o) {
    const struct conv2d_shape *s = job->s;
    for (int64_t i = o.begin; i < o.end && !job->accumulate; i++)
        memset(job->dw + ((i * s->kh + t->ky) * s->kw + t->kx) * s->c, 0,
               (size_t)s->c * sizeof(float));
}

// Every worker does equal parts of the total cost, in order of tap and tile.
static void multiply(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    const struct conv2d_shape *s = job->s;
    int64_t tiles = tiles_of(job), total = 0, at = 0;
    float *piece = job->pieces + (size_t)worker * piece_words * job->ctx->isa->tile_cols;
    for (int i = 0; i < s->kh * s->kw; i++)
        total += conv_tap_at(s, i).count * tiles;
    struct share mine = share_of(total, worker, workers);
    for (int i = 0; i < s->kh * s->kw; i++) {
        struct tap_work w = {.pixels = conv_tap_at(s, i)};
        if (w.pixels.count == 0) {
            clear_tap(job, &w.pixels, share_of(s->o, worker, workers));
            continue;
        }
        w.begin = clamp64(div_up(mine.begin - at, w.pixels.count), 0, tiles);
        w.end = clamp64(div_up(mine.end - at, w.pixels.count), 0, tiles);
        at += w.pixels.count * tiles;
        if (w.begin < w.end)
            do_tap(job, &w, piece);
    }
}

// Pixels of the block that are multiplied together, and where each begins in the padded x.
struct pixels {
    const float *x;
    int32_t x_at[piece_words];
    int64_t from; // pixel of the block
    int count;
};

static void next_pixels(const struct weight_job *job, int64_t from, struct pixels *p) {
    const struct conv2d_shape *s = job->s;
    int64_t line = job->line + from / job->ow, ox = from % job->ow, first = 0;
    int h = s->h + 2 * s->pad, w = s->w + 2 * s->pad;
    p->from = from;
    p->count = (int)clamp64(job->lines * job->ow - from, 0, piece_words);
    for (int i = 0; i < p->count; line++, ox = 0) {
        int64_t y = line % job->oh * s->stride;
        int64_t x = ((line / job->oh * h + y) * w + ox * s->stride) * s->c;
        first = i == 0 ? x : first;
        for (; ox < job->ow && i < p->count; ox++, x += (int64_t)s->stride * s->c)
            p->x_at[i++] = (int32_t)(x - first);
    }
    p->x = job->padded + first;
}

// Rows [begin, end) of filter row ky, one panel of o.
static void do_narrow_tile(const struct weight_job *job, const struct pixels *p, int ky,
                           struct share rows, int panel) {
    const struct conv2d_shape *s = job->s;
    int nr = job->ctx->isa->tile_cols, w = s->w + 2 * s->pad;
    float *c[tile_rows_max];
    struct cols_tile m = {.a_at = p->x_at, .b_step = nr, .k = p->count};
    m.a = p->x + (ptrdiff_t)ky * w * s->c + rows.begin;
    m.b = grads_at(job, panel, 0) + p->from * nr;
    m.out = (struct tile_out){.c = c, .rows = (int)(rows.end - rows.begin), .alpha = 1};
    m.out.cols = s->o - panel * nr < nr ? s->o - panel * nr : nr;
    m.out.beta = job->line + p->from > 0 ? 1 : 0;
    for (int r = 0; r < m.out.rows; r++)
        c[r] = job->transposed + ((size_t)ky * s->kw * s->c + rows.begin + r) * s->o + panel * nr;
    job->type->cols(&m);
}

static void multiply_narrow(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    const struct conv2d_shape *s = job->s;
    // Tiles have nearly equal numbers of rows: 21 = 11 + 10, not 12 + 9.
    int width = s->kw * s->c, per_ky = (int)div_up(width, job->type->tile_rows);
    int panels = (int)div_up(s->o, job->ctx->isa->tile_cols);
    struct share mine = share_of((int64_t)s->kh * per_ky * panels, worker, workers);
    struct pixels p;
    for (int64_t from = 0; from < job->lines * job->ow; from += p.count) {
        next_pixels(job, from, &p);
        for (int64_t i = mine.begin; i < mine.end; i++)
            do_narrow_tile(job, &p, (int)(i / panels / per_ky),
                           share_of(width, (int)(i / panels) % per_ky, per_ky), (int)(i % panels));
    }
}

static void write_transposed(const struct weight_job *job) {
    const struct conv2d_shape *s = job->s;
    int filter = s->kh * s->kw * s->c;
    for (int o = 0; o < s->o; o++)
        for (int i = 0; i < filter; i++) {
            float *dw = job->dw + (size_t)o * filter + i, v = job->transposed[(size_t)i * s->o + o];
            *dw = job->accumulate ? *dw + v : v;
        }
}

// x[n][h][w][c], dy[n][oh][ow][o] -> dw[o][kh][kw][c]
void cpu_conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *dy, void *dw, int accumulate) {
    if (conv_by_patches(s)) {
        conv_patch_backward_weight(ctx, s, x, dy, dw, accumulate);
        return;
    }
    if (winograd_weight_wins(ctx, s)) {
        winograd_backward_weight(ctx, s, x, dy, dw, accumulate);
        return;
    }
    if (by_rows(ctx, s)) {
        conv_weight_rows(ctx, s, x, dy, dw, accumulate);
        return;
    }
    assert(cpu_conv2d_weight_workspace(ctx, s) <= ctx->work_bytes);
    struct weight_job job = job_of(ctx, s);
    job.x = x, job.dy = dy, job.dw = dw, job.accumulate = accumulate;
    job.grads = (float *)ctx->work;
    job.pieces = job.grads + grads_size(&job);
    if (!conv_narrow(s)) {
        each_block(ctx, &job, multiply);
        return;
    }
    struct image_source src = conv_padded_source(s);
    src.x = x;
    job.padded = job.pieces;
    job.transposed = job.padded + padded_size(&job);
    pack_images(ctx, job.type, &src, job.padded);
    each_block(ctx, &job, multiply_narrow);
    write_transposed(&job);
}
