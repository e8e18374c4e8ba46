// SPDX-License-Identifier: Apache-2.0
// Convolution and its data gradient in Winograd's form: the values of all filters at the points,
// packed, then runs of tiles: their pixels to points, a product for each point, and the products
// to outputs. A run's planes stay in the caches of its worker.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/winograd.h"

enum {
    run_floats = 1024 * 1024, // of a run's planes
    run_tiles_min = 24,
    run_tiles_max = 96,
    run_step = 24,
    pack_depth = 16,
    spare_floats = 16, // behind a row, so that rows fall on different cache sets
};

struct tiles_job {
    const struct conv2d_shape *s;
    const struct kernel_ctx *ctx;
    struct winograd_grid grid;
    struct winograd_images src; // before the tiles' first outputs by `pad`
    int pad, data;
    const float *w, *bias;
    float *dst;
    int dst_c, accumulate, relu;
    int run, col_parts;
    size_t filter_plane, in_row, in_plane, out_row, out_plane;
    float *zeros, *filters, *runs; // filters: [plane][panel of dst_c][src.c][tile_cols]
};

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

// Sizes for `in` channels of the source and `out` of the result.
static void size_up(struct tiles_job *job, int in, int out) {
    int nr = job->ctx->isa->tile_cols;
    size_t cols = round_up((size_t)out, (size_t)nr);
    int fit = (int)clamp64(run_floats / winograd_planes / (in + out), run_tiles_min, run_tiles_max);
    job->run = (int)clamp64(job->grid.tiles, 1, fit / run_step * run_step);
    job->in_row = round_up((size_t)in, tile_cols_max) + spare_floats;
    job->out_row = cols + spare_floats;
    job->filter_plane = winograd_plane((size_t)in * cols);
    job->in_plane = winograd_plane((size_t)job->run * job->in_row);
    job->out_plane = winograd_plane((size_t)job->run * job->out_row);
}

static size_t run_size(const struct tiles_job *job) {
    return winograd_planes * (job->in_plane + job->out_plane);
}

static size_t zeros_size(int c) {
    return round_up((size_t)c, tile_cols_max);
}

size_t winograd_rows_floats(const struct kernel_ctx *ctx, const struct winograd_grid *g, int in,
                            int out) {
    struct tiles_job job = {.ctx = ctx, .grid = *g};
    size_up(&job, in, out);
    return zeros_size(in) + winograd_planes * job.filter_plane +
           (size_t)ctx->workers * run_size(&job);
}

// One panel of columns, source channels [k, k + depth): the nine taps are packed, then spread.
// w[o][3][3][c] -> filters[plane][panel of dst_c][src.c][tile_cols], a part of one panel
static void spread_filters(const struct tiles_job *job, int panel, int k, int depth) {
    const struct conv2d_shape *s = job->s;
    const struct cpu_isa *isa = job->ctx->isa;
    int nr = isa->tile_cols, first = panel * nr;
    int cols = job->dst_c - first < nr ? job->dst_c - first : nr;
    ptrdiff_t filter = (ptrdiff_t)9 * s->c;
    float taps[9][pack_depth * tile_cols_max];
    struct winograd_in in = {.kind = WINOGRAD_FILTER, .channels = depth * nr, .panel = nr};
    for (int tap = 0; tap < 9; tap++) {
        // The data gradient is a convolution with the filters turned around.
        if (job->data)
            isa->pack_copied(depth, cols, job->w + k * filter + (8 - tap) * s->c + first, filter,
                             taps[tap]);
        else
            isa->pack_transposed(depth, cols, job->w + first * filter + tap * s->c + k, filter,
                                 taps[tap]);
        in.at[winograd_points * (tap / 3) + tap % 3] = taps[tap];
    }
    for (int i = 0; i < winograd_classes; i++)
        in.out[i] = job->filters + ((size_t)panel * job->src.c + k) * nr;
    in.plane = (ptrdiff_t)job->filter_plane;
    isa->winograd_in(&in);
}

static void pack_filters(void *arg, int worker, int workers) {
    const struct tiles_job *job = arg;
    int64_t panels = div_up(job->dst_c, job->ctx->isa->tile_cols);
    int parts = (int)div_up(job->src.c, pack_depth);
    struct share mine = share_of(panels * parts, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int k = (int)(i % parts) * pack_depth;
        int depth = job->src.c - k < pack_depth ? job->src.c - k : pack_depth;
        spread_filters(job, (int)(i / parts), k, depth);
    }
}

// src[n][h][w][src.c] -> planes[plane][tile of the run][in_row]
static struct winograd_rows read_tiles(const struct tiles_job *job, int64_t begin, int64_t end,
                                       float *planes) {
    struct winograd_in in = {.kind = WINOGRAD_SOURCE, .channels = job->src.c};
    struct winograd_rows rows = {{0}};
    in.plane = (ptrdiff_t)job->in_plane;
    in.panel = job->ctx->isa->tile_cols;
    struct winograd_tile t = winograd_tile_at(&job->grid, begin);
    winograd_pixels(&job->src, &t, job->pad, 0, job->zeros, in.soon);
    for (int64_t i = begin; i < end; i++) {
        memcpy(in.at, in.soon, sizeof in.at);
        in.ny = t.ny, in.nx = t.nx;
        for (int k = 0; k < winograd_classes; k++)
            in.out[k] = planes + (size_t)rows.count[k] * job->in_row;
        winograd_count(&rows, &t);
        if (i + 1 < end) {
            t = winograd_tile_at(&job->grid, i + 1);
            winograd_pixels(&job->src, &t, job->pad, 0, job->zeros, in.soon);
        }
        job->ctx->isa->winograd_in(&in);
    }
    return rows;
}

// One plane of a run: rows of pixels times panels of filters.
// planes[tile][in_row] x filters[src.c][dst_c] -> products[tile][out_row], of one plane
static void multiply_plane(const struct tiles_job *job, int plane, int rows, struct share panels,
                           const float *in, float *out) {
    int mr = job->ctx->type[KERNEL_FLOAT].tile_rows, nr = job->ctx->isa->tile_cols;
    const float *a[tile_rows_max], *filters = job->filters + (size_t)plane * job->filter_plane;
    float *c[tile_rows_max];
    struct rows_tile t = {.a = a, .segs = 1, .k = job->src.c};
    t.out = (struct tile_out){.c = c, .alpha = 1};
    for (int64_t p = panels.begin; p < panels.end; p++) {
        t.b = filters + (size_t)p * (size_t)job->src.c * nr;
        t.out.cols = (int)clamp64(job->dst_c - p * nr, 0, nr);
        for (int i = 0; i < rows; i += mr) {
            t.out.rows = rows - i < mr ? rows - i : mr;
            for (int r = 0; r < t.out.rows; r++) {
                a[r] = in + (size_t)(i + r) * job->in_row;
                c[r] = out + (size_t)(i + r) * job->out_row + p * nr;
            }
            job->ctx->type[KERNEL_FLOAT].rows(&t);
        }
    }
}

// products[plane][tile of the run][out_row] -> dst[n][oh][ow][dst_c]
static void write_tiles(const struct tiles_job *job, int64_t begin, int64_t end,
                        struct share panels, const float *planes) {
    int nr = job->ctx->isa->tile_cols, first = (int)panels.begin * nr;
    struct winograd_out out = {.kind = WINOGRAD_RESULT, .plane = (ptrdiff_t)job->out_plane};
    struct winograd_rows rows = {{0}};
    out.channels = (int)clamp64(panels.end * nr, 0, job->dst_c) - first;
    out.bias = job->bias ? job->bias + first : NULL;
    out.relu = job->relu, out.accumulate = job->accumulate;
    for (int64_t i = begin; i < end; i++) {
        struct winograd_tile t = winograd_tile_at(&job->grid, i);
        int h = job->grid.y.outputs, w = job->grid.x.outputs;
        out.ny = t.ny, out.nx = t.nx;
        for (int k = 0; k < winograd_outputs * winograd_outputs; k++) {
            int y = t.y + k / winograd_outputs, x = t.x + k % winograd_outputs;
            float *at = job->dst + ((t.image * h + y) * w + x) * job->dst_c + first;
            out.at[k] = y < h && x < w ? at : NULL;
        }
        for (int k = 0; k < winograd_classes; k++)
            out.from[k] = planes + (size_t)rows.count[k] * job->out_row + first;
        winograd_count(&rows, &t);
        job->ctx->isa->winograd_out(&out);
    }
}

// Workers are a grid of parts of the tiles x parts of the panels.
static void multiply(void *arg, int worker, int workers) {
    const struct tiles_job *job = arg;
    int64_t all = div_up(job->dst_c, job->ctx->isa->tile_cols);
    struct share panels = share_of(all, worker % job->col_parts, job->col_parts);
    struct share tiles =
        share_of(job->grid.tiles, worker / job->col_parts, workers / job->col_parts);
    float *in = job->runs + (size_t)worker * run_size(job);
    float *out = in + winograd_planes * job->in_plane;
    if (panels.begin == panels.end)
        return;
    for (int64_t i = tiles.begin; i < tiles.end; i += job->run) {
        int64_t end = tiles.end - i < job->run ? tiles.end : i + job->run;
        struct winograd_rows rows = read_tiles(job, i, end, in);
        for (int p = 0; p < winograd_planes; p++)
            multiply_plane(job, p, rows.count[winograd_class(p)], panels, in + p * job->in_plane,
                           out + p * job->out_plane);
        write_tiles(job, i, end, panels, out);
    }
}

// Few tiles are not cut further: products of few rows are slow.
static int col_parts_of(const struct tiles_job *job) {
    int workers = job->ctx->workers, parts = 1;
    int64_t panels = div_up(job->dst_c, job->ctx->isa->tile_cols);
    for (int d = 2; d <= workers && d <= panels; d++)
        if (workers % d == 0 && job->grid.tiles / (workers / parts) < run_tiles_min)
            parts = d;
    return parts;
}

static void run(struct kernel_ctx *ctx, struct tiles_job *job) {
    job->ctx = ctx;
    assert(winograd_rows_floats(ctx, &job->grid, job->src.c, job->dst_c) * sizeof(float) <=
           ctx->work_bytes);
    size_up(job, job->src.c, job->dst_c);
    job->zeros = (float *)ctx->work;
    job->filters = job->zeros + zeros_size(job->src.c);
    job->runs = job->filters + winograd_planes * job->filter_plane;
    job->col_parts = col_parts_of(job);
    memset(job->zeros, 0, zeros_size(job->src.c) * sizeof(float));
    ctx_parallel(ctx, pack_filters, job);
    ctx_parallel(ctx, multiply, job);
}

// x[n][h][w][c], w[o][3][3][c], bias[o] -> y[n][oh][ow][o]
void winograd_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *x,
                      const float *w, const float *bias, int relu, float *y) {
    struct tiles_job job = {.s = s, .w = w, .bias = bias, .relu = relu, .dst = y, .dst_c = s->o};
    job.pad = s->pad;
    job.src = (struct winograd_images){x, s->h, s->w, s->c};
    job.grid = winograd_grid_of(s->n, kernel_conv_out(s->h, 3, 1, s->pad),
                                kernel_conv_out(s->w, 3, 1, s->pad));
    run(ctx, &job);
}

// dy[n][oh][ow][o], w[o][3][3][c] -> dx[n][h][w][c]
void winograd_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *dy,
                            const float *w, float *dx, int accumulate) {
    struct tiles_job job = {.s = s, .w = w, .data = 1, .dst = dx, .dst_c = s->c};
    job.pad = 2 - s->pad, job.accumulate = accumulate;
    job.src = (struct winograd_images){dy, kernel_conv_out(s->h, 3, 1, s->pad),
                                       kernel_conv_out(s->w, 3, 1, s->pad), s->o};
    job.grid = winograd_grid_of(s->n, s->h, s->w);
    run(ctx, &job);
}
