// SPDX-License-Identifier: Apache-2.0
// Convolution and its data gradient, as one kind of product: every output position is a row whose
// terms are runs of neighbouring source pixels, read where they lie, times packed filters. Where
// padding cuts taps off, positions with the same taps form a class of their own and the missing
// taps are never touched (a 3x3 filter on a 1x1 image costs one ninth).
#include <assert.h>

#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

// Longest product done in one go: its panel (256 KB) stays in the second-level cache.
enum { depth_max = 2048 };

struct rows_job {
    const struct conv2d_shape *s;
    const struct cpu_isa *isa;
    struct axis_plan y, x;
    int data; // 0: convolution, 1: data gradient
    int src_h, src_w, src_c, dst_h, dst_w, dst_c;
    const float *src, *w, *bias;
    float *dst;
    float *panels; // [panel of dst_c][y slot][x slot][src_c][tile_cols]
    int accumulate, relu;
};

// Output positions with the same taps, of all images.
struct pixel_class {
    const struct axis_group *y, *x;
    int64_t rows;
    int depth; // terms per output; 0 when padding covers all
};

static size_t panels_size(const struct cpu_isa *isa, const struct conv2d_shape *s) {
    size_t nr = (size_t)isa->tile_cols, taps = (size_t)s->kh * s->kw;
    size_t forward = (size_t)div_up(s->o, nr) * nr * taps * s->c;
    size_t data = (size_t)div_up(s->c, nr) * nr * taps * s->o;
    return forward > data ? forward : data;
}

size_t cpu_conv2d_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return panels_size(ctx->isa, s) * sizeof(float);
}

// Visits the taps that any class uses, as slots and in the filter.
static int next_tap(const struct rows_job *job, int slot, int *tap) {
    int kw = job->s->kw, slots = job->s->kh * kw;
    for (; slot < slots; slot++)
        if (job->y.slot_used[slot / kw] && job->x.slot_used[slot % kw]) {
            *tap = job->y.slot_tap[slot / kw] * kw + job->x.slot_tap[slot % kw];
            return slot;
        }
    return -1;
}

// Convolution: panels of filters, transposed so that filters are columns. A worker takes panels and
// reads each of its filters from end to end.
static void pack_filters(const struct rows_job *job, int worker, int workers) {
    const struct conv2d_shape *s = job->s;
    int nr = job->isa->tile_cols, slots = s->kh * s->kw, tap = 0;
    size_t filter = (size_t)slots * s->c, tap_size = (size_t)s->c * nr;
    struct share mine = share_of(div_up(s->o, nr) * slots, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int first = (int)(i / slots) * nr, cols = s->o - first < nr ? s->o - first : nr;
        int slot = next_tap(job, (int)(i % slots), &tap);
        if (slot != i % slots)
            continue;
        job->isa->pack_transposed(s->c, cols, job->w + first * filter + (size_t)tap * s->c,
                                  (ptrdiff_t)filter, job->panels + i * tap_size);
    }
}

// Data gradient: columns are input channels, which already lie side by side. A worker takes a few
// filters at a time and spreads them over all panels.
static void pack_channels(const struct rows_job *job, int worker, int workers) {
    enum { filters_at_once = 32 };
    const struct conv2d_shape *s = job->s;
    int nr = job->isa->tile_cols, slots = s->kh * s->kw, tap = 0;
    size_t filter = (size_t)slots * s->c, tap_size = (size_t)s->o * nr;
    struct share mine = share_of(div_up(s->o, filters_at_once), worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int o = (int)i * filters_at_once;
        int count = s->o - o < filters_at_once ? s->o - o : filters_at_once;
        for (int slot = next_tap(job, 0, &tap); slot >= 0; slot = next_tap(job, slot + 1, &tap))
            for (int c = 0, panel = 0; c < s->c; c += nr, panel++)
                job->isa->pack_copied(
                    count, s->c - c < nr ? s->c - c : nr,
                    job->w + o * filter + (size_t)tap * s->c + c, (ptrdiff_t)filter,
                    job->panels + ((size_t)panel * slots + slot) * tap_size + (size_t)o * nr);
    }
}

static void pack(void *arg, int worker, int workers) {
    const struct rows_job *job = arg;
    if (job->data)
        pack_channels(job, worker, workers);
    else
        pack_filters(job, worker, workers);
}

// Where a row of a class reads and writes.
static void locate_rows(const struct rows_job *job, const struct pixel_class *k, int64_t row0,
                        int rows, const float **src, float **dst) {
    int64_t per_image = (int64_t)k->y->count * k->x->count;
    int64_t image = row0 / per_image, rest = row0 % per_image;
    int iy = (int)(rest / k->x->count), ix = (int)(rest % k->x->count);
    for (int r = 0; r < rows; r++) {
        int64_t sy = k->y->src + iy * k->y->src_step, sx = k->x->src + ix * k->x->src_step;
        int64_t dy = k->y->first + iy * k->y->step, dx = k->x->first + ix * k->x->step;
        src[r] = job->src + ((image * job->src_h + sy) * job->src_w + sx) * job->src_c;
        dst[r] = job->dst + ((image * job->dst_h + dy) * job->dst_w + dx) * job->dst_c;
        if (++ix == k->x->count) {
            ix = 0;
            if (++iy == k->y->count) {
                iy = 0;
                image++;
            }
        }
    }
}

// One tile: up to tile_rows positions of a class, one panel of channels.
static void do_tile(const struct rows_job *job, const struct pixel_class *k, int panel,
                    int64_t row0) {
    int mr = job->isa->tile_rows, nr = job->isa->tile_cols, col = panel * nr;
    int rows = (int)clamp64(k->rows - row0, 0, mr), segs = k->y->taps;
    const float *base[tile_rows_max], *a[conv_taps_max * tile_rows_max];
    float *c[tile_rows_max];
    locate_rows(job, k, row0, rows, base, c);
    for (int r = 0; r < rows; r++)
        c[r] += col;
    size_t src_row = (size_t)job->src_w * job->src_c, slot = (size_t)job->src_c * nr;
    for (int q = 0; q < segs && k->depth > 0; q++)
        for (int r = 0; r < rows; r++)
            a[q * mr + r] = base[r] + q * src_row;
    struct rows_tile t = {.k = k->x->taps * job->src_c, .b_seg = job->s->kw * slot};
    t.out = (struct tile_out){.c = c, .rows = rows, .alpha = 1};
    t.out.cols = job->dst_c - col < nr ? job->dst_c - col : nr;
    const float *b =
        job->panels + (((size_t)panel * job->s->kh + k->y->slot) * job->s->kw + k->x->slot) * slot;
    int step = k->depth > depth_max && t.k > 0 ? (int)clamp64(depth_max / t.k, 1, segs) : segs;
    for (int q = 0; q == 0 || q < segs; q += step) {
        t.segs = k->depth == 0 ? 0 : segs - q < step ? segs - q : step;
        t.a = a + q * mr;
        t.b = b + q * t.b_seg;
        int last = q + step >= segs;
        t.out.beta = job->accumulate || q > 0 ? 1 : 0;
        t.out.bias = job->bias && last ? job->bias + col : NULL;
        t.out.relu = job->relu && last;
        job->isa->rows(&t);
        if (step == 0)
            break;
    }
}

static struct pixel_class class_at(const struct rows_job *job, int i) {
    struct pixel_class k = {.y = &job->y.group[i / job->x.groups],
                            .x = &job->x.group[i % job->x.groups]};
    k.rows = (int64_t)job->s->n * k.y->count * k.x->count;
    k.depth = k.y->taps * k.x->taps * job->src_c;
    return k;
}

// Tiles in order of class, panel, row; each worker takes an equal part of the total cost.
static void multiply(void *arg, int worker, int workers) {
    const struct rows_job *job = arg;
    int classes = job->y.groups * job->x.groups, mr = job->isa->tile_rows;
    int64_t panels = div_up(job->dst_c, job->isa->tile_cols), total = 0, at = 0;
    for (int i = 0; i < classes; i++) {
        struct pixel_class k = class_at(job, i);
        total += panels * div_up(k.rows, mr) * (k.depth + 1);
    }
    struct share mine = share_of(total, worker, workers);
    for (int i = 0; i < classes; i++) {
        struct pixel_class k = class_at(job, i);
        int64_t tiles = div_up(k.rows, mr), cost = k.depth + 1, all = panels * tiles;
        int64_t begin = clamp64(div_up(mine.begin - at, cost), 0, all);
        int64_t end = clamp64(div_up(mine.end - at, cost), 0, all);
        at += all * cost;
        if (k.depth == 0 && job->accumulate)
            continue;
        for (int64_t t = begin; t < end; t++)
            do_tile(job, &k, (int)(t / tiles), t % tiles * mr);
    }
}

static void run(struct kernel_ctx *ctx, struct rows_job *job) {
    assert(cpu_conv2d_rows_workspace(ctx, job->s) <= ctx->work_bytes);
    job->isa = ctx->isa;
    job->panels = (float *)ctx->work;
    ctx_parallel(ctx, pack, job);
    ctx_parallel(ctx, multiply, job);
}

// x[n][h][w][c], w[o][kh][kw][c], bias[o] -> y[n][oh][ow][o]
void cpu_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                        const void *w, const void *bias, int relu, void *y) {
    if (conv_by_patches(s)) {
        conv_patch_forward(ctx, s, x, w, bias, relu, y);
        return;
    }
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct rows_job job = {.s = s, .src = x, .w = w, .bias = bias, .dst = y, .relu = relu};
    job.src_h = s->h, job.src_w = s->w, job.src_c = s->c;
    job.dst_h = oh, job.dst_w = ow, job.dst_c = s->o;
    axis_plan_forward(&job.y, s->h, oh, s->kh, s->stride, s->pad);
    axis_plan_forward(&job.x, s->w, ow, s->kw, s->stride, s->pad);
    run(ctx, &job);
}

// dy[n][oh][ow][o], w[o][kh][kw][c] -> dx[n][h][w][c]
void cpu_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *dy,
                              const void *w, void *dx, int accumulate) {
    if (conv_by_patches(s)) {
        conv_patch_backward_data(ctx, s, dy, w, dx, accumulate);
        return;
    }
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct rows_job job = {.s = s, .src = dy, .w = w, .dst = dx, .accumulate = accumulate};
    job.data = 1;
    job.src_h = oh, job.src_w = ow, job.src_c = s->o;
    job.dst_h = s->h, job.dst_w = s->w, job.dst_c = s->c;
    axis_plan_data(&job.y, s->h, oh, s->kh, s->stride, s->pad);
    axis_plan_data(&job.x, s->w, ow, s->kw, s->stride, s->pad);
    run(ctx, &job);
}
