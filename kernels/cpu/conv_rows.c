// SPDX-License-Identifier: Apache-2.0
// Convolution and its data gradient, as one kind of product. Each output position is a row. Its
// terms are runs of adjacent source pixels, read in place and multiplied by packed filters.
// Positions that lose the same taps to padding form a class, and those taps are skipped: a 3x3
// filter on a 1x1 image costs one ninth. With few input channels x is copied with its border, and a
// filter row is one run.
#include <assert.h>

#include "kernels/cpu/conv_rows.h"
#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/winograd.h"

enum {
    depth_max = 2048,        // words of the longest sum of one pass; its panel (256 KB) fits
                             // the second-level cache
    group_words = 16 * 1024, // words of panels that one tile is multiplied with in turn: 64 KB
    // Of spaced types, whose tiles are read faster: a quarter of a usual second-level cache.
    spaced_group_words = 128 * 1024,
    copy_words = 128 * 1024, // of a worker's part of the source: another quarter
    line_min = 12,           // a shorter line of outputs fills too little of spaced_rows
};

// Output positions with the same taps, of all images.
struct pixel_class {
    const struct axis_group *y, *x;
    int64_t rows, tiles;
    int depth; // terms per output; 0 when padding covers all
    // Spaced types. Positions are read at equal distances: along lines, which may consist of
    // several rows of an image, or at the same place of the images. Rows of an image begin `pitch`
    // positions apart; between the outputs of two rows may be positions of none.
    int by_image;
    int64_t lines, line, pitch;
    ptrdiff_t step; // words from one position of a line to the next
};

static size_t panels_size(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    const struct cpu_type *type = &ctx->type[s->type];
    size_t taps = (size_t)s->kh * s->kw;
    size_t forward = taps * pack_panels_words(ctx, type, s->c, s->o);
    size_t data = taps * pack_panels_words(ctx, type, s->o, s->c);
    return forward > data ? forward : data;
}

// A line of dst_w outputs is not cut where padding begins.
static int whole_lines(const struct cpu_type *type, int n, int dst_w) {
    return type->spaced && (dst_w >= line_min || n < spaced_rows);
}

static struct image_source forward_source(const struct conv2d_shape *s, int whole) {
    int border = conv_narrow(s) || whole ? s->pad : 0;
    return (struct image_source){
        .n = s->n, .h = s->h, .w = s->w, .c = s->c, .border = border, .store = s->x_store};
}

// Rows or columns beyond dy that a tap of some x reads.
static int data_border(int in, int out, int k, const struct conv2d_shape *s) {
    int low = (k - 1 - s->pad) / s->stride, high = (in - 1 + s->pad) / s->stride - (out - 1);
    return (int)clamp64(low > high ? low : high, 0, k);
}

static struct image_source data_source(const struct conv2d_shape *s, int whole) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct image_source src = {.n = s->n, .h = oh, .w = ow, .c = s->o, .store = s->y_store};
    if (whole) {
        int y = data_border(s->h, oh, s->kh, s), x = data_border(s->w, ow, s->kw, s);
        src.border = y > x ? y : x;
    }
    return src;
}

// Images that are copied and multiplied at a time: what the caches of all workers hold, but enough
// to fill tiles with them where lines are short. Where a product reads its source itself, all.
static int images_at_once(const struct kernel_ctx *ctx, const struct cpu_type *type,
                          const struct image_source *src, int dst_w) {
    struct image_source one = *src;
    one.n = 1;
    if (pack_images_lie(type, src))
        return src->n;
    int64_t fit = (int64_t)copy_words * ctx->workers / (int64_t)pack_images_words(type, &one);
    int64_t most = fit / tile_rows_max * tile_rows_max;
    if (most == 0)
        most = type->spaced && dst_w < line_min ? tile_rows_max : fit;
    return (int)clamp64(most, 1, src->n);
}

// Words of the copy that a product reads instead of its source; 0: it reads the source.
static size_t copy_size(const struct kernel_ctx *ctx, const struct conv2d_shape *s,
                        const struct image_source *src, int dst_w) {
    const struct cpu_type *type = &ctx->type[s->type];
    struct image_source part = *src;
    part.n = images_at_once(ctx, type, src, dst_w);
    // Positions beyond a line's end are read, too.
    size_t more = type->spaced ? spaced_rows * (size_t)s->stride * pack_words(type, src->c) : 0;
    return pack_images_lie(type, src) ? 0 : pack_images_words(type, &part) + more;
}

size_t cpu_conv2d_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    const struct cpu_type *type = &ctx->type[s->type];
    struct image_source forward = forward_source(s, type->spaced); // the larger copy: it must
    struct image_source data = data_source(s, type->spaced);       // be enough for fewer images
    size_t x = copy_size(ctx, s, &forward, data.w), dy = copy_size(ctx, s, &data, s->w);
    return (panels_size(ctx, s) + (x > dy ? x : dy)) * sizeof(float);
}

// Where the rows of a tile read and write, and their distance in the source (struct rows_tile).
struct tile_rows {
    const float *src[tile_rows_max];
    void *dst[tile_rows_max];
    ptrdiff_t step;
};

// Behind a number of dst so many others.
static void *dst_at(const struct rows_job *job, void *from, ptrdiff_t more) {
    return (char *)from + more * (ptrdiff_t)stored_bytes(job->store);
}

// Where a row of a class reads and writes.
static void locate_rows(const struct rows_job *job, const struct pixel_class *k, int64_t row0,
                        int rows, const float **src, void **dst) {
    int64_t per_image = (int64_t)k->y->count * k->x->count;
    int64_t image = row0 / per_image, rest = row0 % per_image;
    int iy = (int)(rest / k->x->count), ix = (int)(rest % k->x->count);
    for (int r = 0; r < rows; r++) {
        int64_t sy = k->y->src + iy * k->y->src_step, sx = k->x->src + ix * k->x->src_step;
        int64_t dy = k->y->first + iy * k->y->step, dx = k->x->first + ix * k->x->step;
        src[r] = job->src + ((image * job->src_h + sy) * job->src_w + sx) * job->src_c;
        dst[r] = dst_at(job, job->dst, ((image * job->dst_h + dy) * job->dst_w + dx) * job->dst_c);
        if (++ix == k->x->count) {
            ix = 0;
            if (++iy == k->y->count) {
                iy = 0;
                image++;
            }
        }
    }
}

// Words from one image of the source to the next.
static ptrdiff_t image_step(const struct rows_job *job) {
    return (ptrdiff_t)job->src_h * job->src_w * job->src_c;
}

// The same place of some images, or nothing that is spaced if they are too few.
static int locate_images(const struct rows_job *job, const struct pixel_class *k, int64_t tile,
                         struct tile_rows *t) {
    int64_t places = (int64_t)k->y->count * k->x->count, image = tile / places * tile_rows_max;
    int rows = (int)clamp64(job->images - image, 0, tile_rows_max);
    locate_rows(job, k, image * places + tile % places, 1, t->src, t->dst);
    for (int r = 1; r < rows; r++) {
        t->src[r] = t->src[0] + r * image_step(job);
        t->dst[r] = dst_at(job, t->dst[0], (ptrdiff_t)r * job->dst_h * job->dst_w * job->dst_c);
    }
    t->step = rows % spaced_rows == 0 ? image_step(job) : 0;
    return rows;
}

// Whether what a row at src reads is not all there.
static int beyond_end(const struct rows_job *job, const struct pixel_class *k, const float *src) {
    ptrdiff_t lines = (ptrdiff_t)(k->y->taps - 1) * job->src_w * job->src_c;
    ptrdiff_t words = (ptrdiff_t)k->x->taps * job->src_c;
    return job->end && k->depth > 0 && job->end - src < lines + words;
}

// Positions [at, at + count) of a line.
static void locate_part(const struct rows_job *job, const struct pixel_class *k, int64_t line,
                        int64_t at, int count, const float **src, void **dst) {
    int64_t wide = k->x->count;
    if (k->pitch == wide) {
        locate_rows(job, k, line * k->line + at, count, src, dst);
        return;
    }
    locate_rows(job, k, line * k->y->count * wide, 1, src, dst);
    const float *first = src[0];
    void *out = dst[0];
    for (int r = 0; r < count; r++, at++) {
        int64_t iy = at / k->pitch, ix = at % k->pitch;
        ptrdiff_t pixel = iy * k->y->step * job->dst_w + ix * k->x->step;
        src[r] = first + at * k->step;
        dst[r] = ix < wide ? dst_at(job, out, pixel * job->dst_c) : NULL;
    }
}

// Two parts of lines. Places that a part lacks to be full are read, but not written, or copies of
// the first one.
static int locate_lines(const struct rows_job *job, const struct pixel_class *k, int64_t tile,
                        struct tile_rows *t) {
    int64_t parts = div_up(k->line, spaced_rows), all = k->lines * parts;
    int rows = 0;
    ptrdiff_t step = k->step;
    for (int h = 0; h < 2 && tile * 2 + h < all; h++) {
        const float **src = t->src + h * spaced_rows;
        void **dst = t->dst + h * spaced_rows;
        int64_t line = (tile * 2 + h) / parts, at = (tile * 2 + h) % parts * spaced_rows;
        int count = (int)clamp64(k->line - at, 0, spaced_rows);
        locate_part(job, k, line, at, count, src, dst);
        for (int r = count; r < spaced_rows; r++) {
            src[r] = src[0] + r * k->step;
            dst[r] = NULL;
        }
        rows = h * spaced_rows + count;
        if (count < spaced_rows && beyond_end(job, k, src[spaced_rows - 1]))
            step = 0;
        for (int r = count; r < spaced_rows && step == 0; r++)
            src[r] = src[0];
    }
    t->step = step;
    return rows;
}

static int locate(const struct rows_job *job, const struct pixel_class *k, int64_t tile,
                  struct tile_rows *t) {
    if (job->type->spaced)
        return k->by_image ? locate_images(job, k, tile, t) : locate_lines(job, k, tile, t);
    int mr = job->type->tile_rows, rows = (int)clamp64(k->rows - tile * mr, 0, mr);
    locate_rows(job, k, tile * mr, rows, t->src, t->dst);
    t->step = 0;
    return rows;
}

// One panel of channels for the rows of a tile, which read at a and write to c.
static void do_panel(const struct rows_job *job, const struct pixel_class *k, int panel,
                     const float *const *a, struct rows_tile t) {
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols, segs = k->y->taps;
    size_t slot = (size_t)job->src_c * nr;
    t.k = k->x->taps * job->src_c, t.b_seg = job->s->kw * slot;
    t.out.cols = job->dst_c - panel * nr < nr ? job->dst_c - panel * nr : nr;
    const float *b =
        job->panels + (((size_t)panel * job->s->kh + k->y->slot) * job->s->kw + k->x->slot) * slot;
    int step = k->depth > depth_max && t.k > 0 ? (int)clamp64(depth_max / t.k, 1, segs) : segs;
    for (int q = 0; q == 0 || q < segs; q += step) {
        t.segs = k->depth == 0 ? 0 : segs - q < step ? segs - q : step;
        t.a = a + q * mr;
        t.b = b + q * t.b_seg;
        int last = q + step >= segs;
        t.out.beta = job->accumulate || q > 0 ? 1 : 0;
        t.out.bias = job->bias && last ? job->bias + panel * nr : NULL;
        t.out.relu = job->relu && last;
        job->type->rows(&t);
        if (step == 0)
            break;
    }
}

// Rows of a tile whose outputs in bfloat16 lie at equal distances.
struct stored_run {
    int row, rows;
    uint16_t *at;
    ptrdiff_t step;
};

static int find_runs(const struct tile_rows *t, int rows, struct stored_run *run) {
    int runs = 0;
    for (int r = 0; r < rows; r++) {
        struct stored_run *last = runs > 0 ? &run[runs - 1] : NULL;
        uint16_t *at = t->dst[r];
        if (at && last && last->row + last->rows == r &&
            (last->rows == 1 || at - last->at == last->rows * last->step)) {
            last->step = last->rows == 1 ? at - last->at : last->step;
            last->rows++;
        } else if (at) {
            run[runs++] = (struct stored_run){r, 1, at, 0};
        }
    }
    return runs;
}

// Sums of a tile stay floats until they have all terms.
static void do_stored(const struct rows_job *job, const struct pixel_class *k, int begin, int end,
                      const float *const *a, const struct tile_rows *t, int rows) {
    int nr = job->ctx->isa->tile_cols;
    _Alignas(64) float sums[tile_rows_max * tile_cols_max];
    float *c[tile_rows_max];
    struct stored_run run[tile_rows_max];
    int runs = find_runs(t, rows, run);
    struct rows_tile m = {.a_step = t->step, .c_step = nr};
    m.out = (struct tile_out){.c = c, .alpha = 1};
    m.out.rows = t->step ? (int)div_up(rows, spaced_rows) * spaced_rows : rows;
    for (int r = 0; r < m.out.rows; r++)
        c[r] = sums + r * nr;
    for (int panel = begin; panel < end; panel++) {
        int cols = job->dst_c - panel * nr < nr ? job->dst_c - panel * nr : nr;
        for (int i = 0; i < runs; i++) {
            const uint16_t *from = run[i].at + panel * nr;
            if (job->accumulate)
                job->ctx->isa->widen_tile(run[i].rows, cols, from, run[i].step, c[run[i].row], nr);
            for (int r = 0; r < run[i].rows && !job->accumulate; r++)
                __builtin_prefetch(from + r * run[i].step, 1);
        }
        do_panel(job, k, panel, a, m);
        for (int i = 0; i < runs; i++)
            job->type->narrow_tile(run[i].rows, cols, c[run[i].row], nr, run[i].at + panel * nr,
                                   run[i].step);
    }
}

// One tile: up to tile_rows positions of a class, for panels [begin, end) of channels.
static void do_tile(const struct rows_job *job, const struct pixel_class *k, int64_t tile,
                    int begin, int end) {
    int mr = job->type->tile_rows, nr = job->ctx->isa->tile_cols;
    const float *a[conv_taps_max * tile_rows_max];
    float *c[tile_rows_max];
    struct tile_rows t;
    int rows = locate(job, k, tile, &t);
    int read = t.step ? (int)div_up(rows, spaced_rows) * spaced_rows : rows;
    size_t src_row = (size_t)job->src_w * job->src_c;
    for (int q = 0; q < k->y->taps && k->depth > 0; q++)
        for (int r = 0; r < read; r++)
            a[q * mr + r] = t.src[r] + q * src_row;
    if (job->store == KERNEL_BF16) {
        do_stored(job, k, begin, end, a, &t, rows);
        return;
    }
    struct rows_tile m = {.a_step = t.step, .out = {.c = c, .rows = rows, .alpha = 1}};
    for (int panel = begin; panel < end; panel++) {
        for (int r = 0; r < rows; r++)
            c[r] = t.dst[r] ? (float *)t.dst[r] + panel * nr : NULL;
        do_panel(job, k, panel, a, m);
    }
}

// Lines of positions that lie at equal distances, and the order that fills tiles better.
static void space_rows(const struct rows_job *job, struct pixel_class *k) {
    int64_t x = k->x->src_step, n = job->images;
    k->line = k->x->count;
    k->step = (ptrdiff_t)x * job->src_c;
    if (k->y->count == 1 || (int64_t)k->y->src_step * job->src_w == k->line * x) {
        k->line *= k->y->count;
        if ((int64_t)job->src_h * job->src_w == k->line * x)
            k->line *= n;
    }
    k->lines = k->rows / k->line, k->pitch = k->x->count;
    k->by_image = k->line < line_min && n >= spaced_rows;
    // A whole image, with what is between its rows, where that fills more of the parts.
    int64_t pitch = (int64_t)k->y->src_step * job->src_w / x;
    int64_t all = (k->y->count - 1) * pitch + k->x->count;
    if (!k->by_image && k->line == k->x->count && (int64_t)k->y->src_step * job->src_w % x == 0 &&
        div_up(all, spaced_rows) < k->y->count * div_up(k->line, spaced_rows))
        k->line = all, k->lines = n, k->pitch = pitch;
    int64_t parts = k->lines * div_up(k->line, spaced_rows);
    k->tiles = k->by_image ? div_up(n, tile_rows_max) * (k->rows / n) : div_up(parts, 2);
}

static struct pixel_class class_at(const struct rows_job *job, int i) {
    struct pixel_class k = {.y = &job->y.group[i / job->x.groups],
                            .x = &job->x.group[i % job->x.groups]};
    k.rows = (int64_t)job->images * k.y->count * k.x->count;
    k.depth = k.y->taps * k.x->taps * job->src_c;
    k.tiles = div_up(k.rows, job->type->tile_rows);
    if (job->type->spaced)
        space_rows(job, &k);
    return k;
}

// Number of panels that a tile is multiplied with before the next tile: as many as group_words
// hold.
static int group_of(const struct rows_job *job, const struct pixel_class *k) {
    int nr = job->ctx->isa->tile_cols, words = job->type->spaced ? spaced_group_words : group_words;
    return (int)clamp64(words / (k->depth * nr + 1), 1, div_up(job->dst_c, nr));
}

// Tiles in order of class, group of panels, row; each worker takes an equal part of the total cost.
static void multiply(void *arg, int worker, int workers) {
    const struct rows_job *job = arg;
    int classes = job->y.groups * job->x.groups;
    int64_t panels = div_up(job->dst_c, job->ctx->isa->tile_cols), total = 0, at = 0;
    for (int i = 0; i < classes; i++) {
        struct pixel_class k = class_at(job, i);
        total += div_up(panels, group_of(job, &k)) * k.tiles * (k.depth + 1) * group_of(job, &k);
    }
    ctx_open_tiles(job->type);
    struct share mine = share_of(total, worker, workers);
    for (int i = 0; i < classes; i++) {
        struct pixel_class k = class_at(job, i);
        int group = group_of(job, &k);
        int64_t cost = (int64_t)(k.depth + 1) * group, all = div_up(panels, group) * k.tiles;
        int64_t begin = clamp64(div_up(mine.begin - at, cost), 0, all);
        int64_t end = clamp64(div_up(mine.end - at, cost), 0, all);
        at += all * cost;
        if (k.depth == 0 && job->accumulate)
            continue;
        for (int64_t t = begin; t < end; t++) {
            int first = (int)(t / k.tiles) * group;
            do_tile(job, &k, t % k.tiles, first, (int)clamp64(first + group, 0, panels));
        }
    }
    ctx_close_tiles(job->type);
}

// Takes what the product reads from src, or from a copy of it.
static void run(struct kernel_ctx *ctx, struct rows_job *job, const struct image_source *src) {
    assert(cpu_conv2d_rows_workspace(ctx, job->s) <= ctx->work_bytes);
    job->ctx = ctx;
    job->type = &ctx->type[job->s->type];
    job->panels = (float *)ctx->work;
    job->src = src->x;
    int lies = pack_images_lie(job->type, src);
    job->src_h = src->h + 2 * src->border, job->src_w = src->w + 2 * src->border;
    job->src_c = (int)pack_words(job->type, src->c);
    struct image_source part = *src;
    job->end = lies ? job->src + (ptrdiff_t)src->n * image_step(job) : NULL;
    int step = images_at_once(ctx, job->type, src, job->dst_w);
    ctx_parallel(ctx, conv_rows_pack, job);
    for (int i = 0; i < src->n; i += step) {
        job->images = part.n = src->n - i < step ? src->n - i : step;
        if (!lies) {
            float *copy = job->panels + panels_size(ctx, job->s);
            pack_images(ctx, job->type, &part, copy);
            job->src = copy;
        }
        ctx_parallel(ctx, multiply, job);
        part.x = stored_at(src->store, part.x, (int64_t)step * src->h * src->w * src->c);
        job->dst = dst_at(job, job->dst, (ptrdiff_t)step * job->dst_h * job->dst_w * job->dst_c);
    }
}

// x[n][h][w][c], w[o][kh][kw][c], bias[o] -> y[n][oh][ow][o]
void cpu_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                        const void *w, const void *bias, int relu, void *y) {
    if (conv_by_patches(s)) {
        conv_patch_forward(ctx, s, x, w, bias, relu, y);
        return;
    }
    if (winograd_forward_wins(ctx, s)) {
        winograd_forward(ctx, s, x, w, bias, relu, y);
        return;
    }
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct image_source src = forward_source(s, whole_lines(&ctx->type[s->type], s->n, ow));
    struct rows_job job = {
        .s = s, .w = w, .bias = bias, .dst = y, .relu = relu, .store = s->y_store};
    int border = src.border, pad = s->pad - border;
    src.x = x;
    job.dst_h = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    job.dst_w = ow;
    job.dst_c = s->o;
    axis_plan_forward(&job.y, s->h + 2 * border, job.dst_h, s->kh, s->stride, pad);
    axis_plan_forward(&job.x, s->w + 2 * border, job.dst_w, s->kw, s->stride, pad);
    run(ctx, &job, &src);
}

// dy[n][oh][ow][o], w[o][kh][kw][c] -> dx[n][h][w][c]
void cpu_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *dy,
                              const void *w, void *dx, int accumulate) {
    if (conv_by_patches(s)) {
        conv_patch_backward_data(ctx, s, dy, w, dx, accumulate);
        return;
    }
    if (winograd_data_wins(ctx, s)) {
        winograd_backward_data(ctx, s, dy, w, dx, accumulate);
        return;
    }
    struct image_source src = data_source(s, whole_lines(&ctx->type[s->type], s->n, s->w));
    struct rows_job job = {.s = s, .w = w, .dst = dx, .accumulate = accumulate, .data = 1};
    job.store = s->x_store;
    src.x = dy;
    job.dst_h = s->h, job.dst_w = s->w, job.dst_c = s->c;
    int pad = s->pad + src.border * s->stride; // dy begins so much later
    axis_plan_data(&job.y, s->h, src.h + 2 * src.border, s->kh, s->stride, pad);
    axis_plan_data(&job.x, s->w, src.w + 2 * src.border, s->kw, s->stride, pad);
    run(ctx, &job, &src);
}
