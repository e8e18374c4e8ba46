// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a convolution: for every tap, the product over output pixels of dy and the
// source pixel that tap saw, both read where they lie. Pixels whose source is padding are left out.
// With few input channels a tap would fill only part of a vector: then x is copied with a zero
// border, a whole filter row counts as one tap, and the product is made transposed.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

enum {
    pixels_max = 512,          // terms per pass
    block_floats = 128 * 1024, // of dy per pass: 512 KB
    narrow_channels_max = 8,   // below: the transposed way
};

struct weight_job {
    const struct conv2d_shape *s;
    const struct cpu_isa *isa;
    int oh, ow, accumulate;
    const float *x, *dy;
    float *dw;
    // The transposed way only.
    float *padded;     // x with its border: [n][h + 2 pad][w + 2 pad][c]
    float *transposed; // [kh][kw * c][o]
};

// Output pixels whose source for one tap is inside: rectangle [y0, y1) x [x0, x1) of each image.
struct tap_pixels {
    int ky, kx, y0, y1, x0, x1;
    int64_t count;
};

static int narrow(const struct conv2d_shape *s) {
    return s->c <= narrow_channels_max;
}

static size_t padded_size(const struct conv2d_shape *s) {
    return (size_t)s->n * (s->h + 2 * s->pad) * (s->w + 2 * s->pad) * s->c;
}

size_t cpu_conv2d_weight_workspace(const struct conv2d_shape *s) {
    size_t transposed = (size_t)s->kh * s->kw * s->c * s->o;
    return narrow(s) ? (padded_size(s) + transposed) * sizeof(float) : 0;
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

static struct tap_pixels tap_at(const struct weight_job *job, int tap) {
    const struct conv2d_shape *s = job->s;
    struct tap_pixels t = {.ky = tap / s->kw, .kx = tap % s->kw};
    valid_outputs(s->h, job->oh, t.ky, s->stride, s->pad, &t.y0, &t.y1);
    valid_outputs(s->w, job->ow, t.kx, s->stride, s->pad, &t.x0, &t.x1);
    t.count = (int64_t)s->n * (t.y1 - t.y0) * (t.x1 - t.x0);
    return t;
}

// A pass over some pixels: pointers to the first one's operands, and offsets of each from there.
struct pass {
    const float *dy, *x;
    int32_t dy_at[pixels_max], x_at[pixels_max];
    int count, first; // first: starts the sum
};

// Fills a pass with pixels [from, from + count) of a tap. h, w: of the source image, whose (0, 0)
// is seen by tap (0, 0) at output (-shift, -shift) / stride.
static void fill_pass(const struct weight_job *job, const struct tap_pixels *t, int64_t from,
                      const float *src, int h, int w, int shift, struct pass *p) {
    const struct conv2d_shape *s = job->s;
    int cols = t->x1 - t->x0, rows = t->y1 - t->y0;
    int64_t image = from / (rows * cols), rest = from % (rows * cols), dy0 = 0, x0 = 0;
    int oy = t->y0 + (int)(rest / cols), ox = t->x0 + (int)(rest % cols);
    for (int i = 0; i < p->count; i++) {
        int64_t iy = oy * s->stride - shift + t->ky, ix = ox * s->stride - shift + t->kx;
        int64_t dy = ((image * job->oh + oy) * job->ow + ox) * s->o;
        int64_t x = ((image * h + iy) * w + ix) * s->c;
        if (i == 0) {
            dy0 = dy;
            x0 = x;
        }
        p->dy_at[i] = (int32_t)(dy - dy0);
        p->x_at[i] = (int32_t)(x - x0);
        if (++ox == t->x1) {
            ox = t->x0;
            if (++oy == t->y1) {
                oy = t->y0;
                image++;
            }
        }
    }
    p->dy = job->dy + dy0;
    p->x = src + x0;
}

static int pass_pixels(const struct conv2d_shape *s) {
    return (int)clamp64(block_floats / s->o, 64, pixels_max);
}

// One tap's tiles that a worker does: o in steps of tile_rows (fast), c in steps of tile_cols.
struct tap_work {
    struct tap_pixels pixels;
    int64_t begin, end;
};

// One tap's tiles over its share of the pixels.
static void do_pass(const struct weight_job *job, const struct tap_work *w, struct share pixels) {
    const struct conv2d_shape *s = job->s;
    const struct tap_pixels *t = &w->pixels;
    int mr = job->isa->tile_rows, nr = job->isa->tile_cols;
    int64_t o_tiles = div_up(s->o, mr);
    size_t filter = (size_t)s->kh * s->kw * s->c, tap = (size_t)(t->ky * s->kw + t->kx) * s->c;
    float *c[tile_rows_max];
    struct pass p = {.count = (int)(pixels.end - pixels.begin), .first = pixels.begin == 0};
    fill_pass(job, t, pixels.begin, job->x, s->h, s->w, s->pad, &p);
    for (int64_t i = w->begin; i < w->end; i++) {
        int o = (int)(i % o_tiles) * mr, col = (int)(i / o_tiles) * nr;
        struct cols_tile m = {.a = p.dy + o, .b = p.x + col, .a_at = p.dy_at, .b_at = p.x_at};
        m.k = p.count;
        m.out = (struct tile_out){.c = c, .alpha = 1};
        m.out.rows = s->o - o < mr ? s->o - o : mr;
        m.out.cols = s->c - col < nr ? s->c - col : nr;
        m.out.beta = job->accumulate || !p.first ? 1 : 0;
        for (int r = 0; r < m.out.rows; r++)
            c[r] = job->dw + (o + r) * filter + tap + col;
        job->isa->cols(&m);
    }
}

// A tap that never sees the image has no gradient.
static void clear_tap(const struct weight_job *job, const struct tap_pixels *t, struct share o) {
    const struct conv2d_shape *s = job->s;
    for (int64_t i = o.begin; i < o.end && !job->accumulate; i++)
        memset(job->dw + ((i * s->kh + t->ky) * s->kw + t->kx) * s->c, 0,
               (size_t)s->c * sizeof(float));
}

// A worker's tiles of every tap: equal parts of the total cost, in order of tap and tile.
static int share_taps(const struct weight_job *job, struct share mine, struct tap_work *work) {
    const struct conv2d_shape *s = job->s;
    int64_t tiles = div_up(s->o, job->isa->tile_rows) * div_up(s->c, job->isa->tile_cols), at = 0;
    int count = 0;
    for (int i = 0; i < s->kh * s->kw; i++) {
        struct tap_work w = {.pixels = tap_at(job, i)};
        int64_t cost = w.pixels.count > 0 ? w.pixels.count : 1;
        w.begin = clamp64(div_up(mine.begin - at, cost), 0, tiles);
        w.end = clamp64(div_up(mine.end - at, cost), 0, tiles);
        at += w.pixels.count * tiles;
        if (w.pixels.count > 0 && w.begin < w.end)
            work[count++] = w;
    }
    return count;
}

// Either every tap goes over all pixels before the next (dw stays near), or every few pixels go
// through all taps (x and dy stay near): whichever keeps the larger of the two in the cache.
static void multiply(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    const struct conv2d_shape *s = job->s;
    struct tap_work work[conv_taps_max * conv_taps_max];
    int64_t tiles = div_up(s->o, job->isa->tile_rows) * div_up(s->c, job->isa->tile_cols);
    int64_t total = 0, pixels = (int64_t)s->n * job->oh * job->ow;
    for (int i = 0; i < s->kh * s->kw; i++) {
        struct tap_pixels t = tap_at(job, i);
        total += t.count * tiles;
        if (t.count == 0)
            clear_tap(job, &t, share_of(s->o, worker, workers));
    }
    int taps = share_taps(job, share_of(total, worker, workers), work);
    int parts = (int)div_up(pixels, pass_pixels(s));
    int64_t dw_size = (int64_t)s->o * s->kh * s->kw * s->c, xy_size = pixels * (s->c + s->o);
    int together = dw_size < xy_size ? 1 : parts; // parts that one tap does before the next
    for (int first = 0; first < parts; first += together)
        for (int i = 0; i < taps; i++)
            for (int part = first; part < first + together && part < parts; part++) {
                struct share some = share_of(work[i].pixels.count, part, parts);
                if (some.begin < some.end)
                    do_pass(job, &work[i], some);
            }
}

static void copy_padded(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    const struct conv2d_shape *s = job->s;
    int h = s->h + 2 * s->pad, w = s->w + 2 * s->pad;
    struct share mine = share_of((int64_t)s->n * h, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        float *dst = job->padded + i * w * s->c;
        int64_t y = i % h - s->pad;
        memset(dst, 0, (size_t)w * s->c * sizeof(float));
        if (y >= 0 && y < s->h)
            memcpy(dst + (size_t)s->pad * s->c, job->x + ((i / h * s->h + y) * s->w) * s->c,
                   (size_t)s->w * s->c * sizeof(float));
    }
}

// One tile of the transposed product: rows [i, i + rows) of filter row ky, one panel of o.
static void do_narrow_tile(const struct weight_job *job, const struct pass *p, int ky,
                           struct share rows, int col) {
    const struct conv2d_shape *s = job->s;
    int nr = job->isa->tile_cols, w = s->w + 2 * s->pad;
    float *c[tile_rows_max];
    struct cols_tile m = {.b = p->dy + col, .a_at = p->x_at, .b_at = p->dy_at, .k = p->count};
    m.a = p->x + (ptrdiff_t)ky * w * s->c + rows.begin;
    m.out = (struct tile_out){.c = c, .rows = (int)(rows.end - rows.begin), .alpha = 1};
    m.out.cols = s->o - col < nr ? s->o - col : nr;
    m.out.beta = p->first ? 0 : 1;
    for (int r = 0; r < m.out.rows; r++)
        c[r] = job->transposed + ((size_t)ky * s->kw * s->c + rows.begin + r) * s->o + col;
    job->isa->cols(&m);
}

static void multiply_narrow(void *arg, int worker, int workers) {
    const struct weight_job *job = arg;
    const struct conv2d_shape *s = job->s;
    int width = s->kw * s->c, step = pass_pixels(s);
    // Even rows per tile: 21 = 11 + 10, not 12 + 9.
    int per_ky = (int)div_up(width, job->isa->tile_rows);
    int panels = (int)div_up(s->o, job->isa->tile_cols);
    struct share mine = share_of((int64_t)s->kh * per_ky * panels, worker, workers);
    struct tap_pixels all = {.y1 = job->oh, .x1 = job->ow};
    all.count = (int64_t)s->n * job->oh * job->ow;
    struct pass p;
    for (int64_t from = 0; from < all.count; from += step) {
        p.count = (int)clamp64(all.count - from, 0, step);
        p.first = from == 0;
        fill_pass(job, &all, from, job->padded, s->h + 2 * s->pad, s->w + 2 * s->pad, 0, &p);
        for (int64_t i = mine.begin; i < mine.end; i++)
            do_narrow_tile(job, &p, (int)(i / panels / per_ky),
                           share_of(width, (int)(i / panels) % per_ky, per_ky),
                           (int)(i % panels) * job->isa->tile_cols);
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
    assert(cpu_conv2d_weight_workspace(s) <= ctx->work_bytes);
    assert(s->kh <= conv_taps_max && s->kw <= conv_taps_max);
    struct weight_job job = {.s = s, .isa = ctx->isa, .accumulate = accumulate};
    job.oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    job.x = x, job.dy = dy, job.dw = dw;
    if (!narrow(s)) {
        ctx_parallel(ctx, multiply, &job);
        return;
    }
    job.padded = (float *)ctx->work;
    job.transposed = job.padded + padded_size(s);
    ctx_parallel(ctx, copy_padded, &job);
    ctx_parallel(ctx, multiply_narrow, &job);
    write_transposed(&job);
}
