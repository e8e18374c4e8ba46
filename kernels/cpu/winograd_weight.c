// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a convolution in Winograd's form: pixels and gradients of a run of tiles go to
// points, and for each point the product over the tiles is added to a sum. The runs are the same
// for any number of workers, who share the tiles, then the products.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/winograd.h"

enum {
    // A run moves the sums once and its planes twice: as many tiles as make both equal.
    run_tiles_min = 128,
    run_tiles_max = 256,
    spare_floats = 16,
};

struct sums_job {
    const struct conv2d_shape *s;
    const struct kernel_ctx *ctx;
    struct winograd_grid grid;
    struct winograd_images x, dy;
    float *dw;
    int run, accumulate;
    int64_t begin, end; // tiles of this run
    struct winograd_rows rows;
    size_t x_plane, dy_row, dy_plane, sum_plane;
    float *zeros;
    float *x_points;  // [plane][panel of c][tile][tile_cols]
    float *dy_points; // [plane][tile][dy_row]
    float *sums;      // [plane][o][c]
    int32_t *dy_at;   // of each tile
};

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static size_t zeros_size(const struct conv2d_shape *s) {
    return round_up((size_t)(s->c > s->o ? s->c : s->o), tile_cols_max);
}

static void size_up(struct sums_job *job) {
    int c = job->s->c, o = job->s->o, nr = job->ctx->isa->tile_cols;
    job->run = (int)clamp64((int64_t)2 * c * o / (c + o), run_tiles_min, run_tiles_max);
    job->run = (int)clamp64(job->grid.tiles, 1, job->run);
    job->x_plane = winograd_plane(round_up((size_t)c, (size_t)nr) * (size_t)job->run);
    job->dy_row = round_up((size_t)o, tile_cols_max) + spare_floats;
    job->dy_plane = winograd_plane(job->dy_row * (size_t)job->run);
    job->sum_plane = winograd_plane((size_t)o * (size_t)round_up((size_t)c, spare_floats));
}

size_t winograd_weight_floats(const struct kernel_ctx *ctx, const struct winograd_grid *g,
                              const struct conv2d_shape *s) {
    struct sums_job job = {.s = s, .ctx = ctx, .grid = *g};
    size_up(&job);
    return zeros_size(s) + winograd_planes * (job.x_plane + job.dy_plane + job.sum_plane) +
           run_tiles_max;
}

// Readers of one tile: of its pixels and of its gradients.
struct readers {
    struct winograd_in x, dy;
};

static void find_pixels(const struct sums_job *job, const struct winograd_tile *t,
                        struct readers *r) {
    winograd_pixels(&job->x, t, job->s->pad, 0, job->zeros, r->x.soon);
    winograd_pixels(&job->dy, t, 0, 2, job->zeros, r->dy.soon);
}

static void read_tile(const struct sums_job *job, const struct winograd_tile *t,
                      const struct winograd_rows *rows, struct readers *r) {
    int nr = job->ctx->isa->tile_cols;
    for (int k = 0; k < winograd_classes; k++) {
        r->x.out[k] = job->x_points + (ptrdiff_t)rows->count[k] * nr;
        r->dy.out[k] = job->dy_points + (size_t)rows->count[k] * job->dy_row;
    }
    r->x.ny = r->dy.ny = t->ny, r->x.nx = r->dy.nx = t->nx;
    job->ctx->isa->winograd_in(&r->x);
    job->ctx->isa->winograd_in(&r->dy);
}

// Every worker counts all tiles of the run and reads its own.
// x[n][h][w][c], dy[n][oh][ow][o] -> x_points, dy_points of the tiles of a run
static void read_tiles(void *arg, int worker, int workers) {
    const struct sums_job *job = arg;
    int nr = job->ctx->isa->tile_cols;
    struct share mine = share_of(job->end - job->begin, worker, workers);
    struct readers r = {.x = {.kind = WINOGRAD_SOURCE, .channels = job->s->c},
                        .dy = {.kind = WINOGRAD_GRAD, .channels = job->s->o, .panel = nr}};
    struct winograd_rows rows = {{0}};
    r.x.plane = (ptrdiff_t)job->x_plane, r.x.panel = (ptrdiff_t)job->run * nr;
    r.dy.plane = (ptrdiff_t)job->dy_plane;
    for (int64_t i = 0; i < mine.end; i++) {
        struct winograd_tile t = winograd_tile_at(&job->grid, job->begin + i);
        if (i == mine.begin)
            find_pixels(job, &t, &r);
        if (i >= mine.begin) {
            struct winograd_tile next =
                winograd_tile_at(&job->grid, job->begin + (i + 1 < mine.end ? i + 1 : i));
            memcpy(r.x.at, r.x.soon, sizeof r.x.at);
            memcpy(r.dy.at, r.dy.soon, sizeof r.dy.at);
            find_pixels(job, &next, &r);
            read_tile(job, &t, &rows, &r);
        }
        winograd_count(&rows, &t);
    }
}

// Tiles of the sums: rows of o (fast), panels of c, planes.
// x_points, dy_points -> sums[plane][o][c]
static void add_products(void *arg, int worker, int workers) {
    const struct sums_job *job = arg;
    int mr = job->ctx->type[KERNEL_FLOAT].tile_rows, nr = job->ctx->isa->tile_cols;
    int c = job->s->c, o = job->s->o, sum_row = (int)round_up((size_t)c, spare_floats);
    int64_t o_tiles = div_up(o, mr), panels = div_up(c, nr);
    struct share mine = share_of(winograd_planes * panels * o_tiles, worker, workers);
    float *out[tile_rows_max];
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t plane = i / o_tiles / panels, panel = i / o_tiles % panels;
        struct share rows = share_of(o, (int)(i % o_tiles), (int)o_tiles);
        struct cols_tile t = {.a_at = job->dy_at, .b_step = nr};
        t.k = job->rows.count[winograd_class((int)plane)];
        t.a = job->dy_points + plane * job->dy_plane + rows.begin;
        t.b = job->x_points + plane * job->x_plane + panel * job->run * nr;
        t.out = (struct tile_out){.c = out, .alpha = 1, .beta = job->begin > 0 ? 1 : 0};
        t.out.rows = (int)(rows.end - rows.begin);
        t.out.cols = (int)clamp64(c - panel * nr, 0, nr);
        for (int r = 0; r < t.out.rows; r++)
            out[r] = job->sums + plane * job->sum_plane + (rows.begin + r) * sum_row + panel * nr;
        job->ctx->type[KERNEL_FLOAT].cols(&t);
    }
}

// sums[plane][o][c] -> dw[o][3][3][c]
static void write_filters(void *arg, int worker, int workers) {
    const struct sums_job *job = arg;
    int c = job->s->c, sum_row = (int)round_up((size_t)c, spare_floats);
    struct share mine = share_of(job->s->o, worker, workers);
    struct winograd_out out = {.kind = WINOGRAD_FILTER_GRAD, .channels = c};
    out.plane = (ptrdiff_t)job->sum_plane, out.accumulate = job->accumulate;
    for (int64_t o = mine.begin; o < mine.end; o++) {
        for (int i = 0; i < winograd_classes; i++)
            out.from[i] = job->sums + o * sum_row;
        for (int tap = 0; tap < 9; tap++)
            out.at[winograd_outputs * (tap / 3) + tap % 3] = job->dw + (o * 9 + tap) * c;
        job->ctx->isa->winograd_out(&out);
    }
}

// x[n][h][w][c], dy[n][oh][ow][o] -> dw[o][3][3][c]
void winograd_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *x,
                              const float *dy, float *dw, int accumulate) {
    int oh = kernel_conv_out(s->h, 3, 1, s->pad), ow = kernel_conv_out(s->w, 3, 1, s->pad);
    struct sums_job job = {.s = s, .ctx = ctx, .dw = dw, .accumulate = accumulate};
    job.grid = winograd_grid_of(s->n, oh, ow);
    assert(winograd_weight_floats(ctx, &job.grid, s) * sizeof(float) <= ctx->work_bytes);
    job.x = (struct winograd_images){x, s->h, s->w, s->c};
    job.dy = (struct winograd_images){dy, oh, ow, s->o};
    size_up(&job);
    job.zeros = (float *)ctx->work;
    job.x_points = job.zeros + zeros_size(s);
    job.dy_points = job.x_points + winograd_planes * job.x_plane;
    job.sums = job.dy_points + winograd_planes * job.dy_plane;
    job.dy_at = (int32_t *)(job.sums + winograd_planes * job.sum_plane);
    memset(job.zeros, 0, zeros_size(s) * sizeof(float));
    for (int i = 0; i < job.run; i++)
        job.dy_at[i] = (int32_t)((size_t)i * job.dy_row);
    for (job.begin = 0; job.begin < job.grid.tiles; job.begin = job.end) {
        job.end = job.grid.tiles - job.begin < job.run ? job.grid.tiles : job.begin + job.run;
        job.rows = (struct winograd_rows){{0}};
        for (int64_t i = job.begin; i < job.end; i++) {
            struct winograd_tile t = winograd_tile_at(&job.grid, i);
            winograd_count(&job.rows, &t);
        }
        ctx_parallel(ctx, read_tiles, &job);
        ctx_parallel(ctx, add_products, &job);
    }
    ctx_parallel(ctx, write_filters, &job);
}
