// SPDX-License-Identifier: Apache-2.0
// A convolution as a matrix product of copied patches: filters that lie side by side, and those too
// long for conv_rows.c. A few lines of outputs are done at a time, and what a patch sees of the
// padding is zero.
// x[n][h][w][c] -> patches[lines * ow][kh * kw * c]; y = patches * w', dpatches = dy * w,
// dw = dy' * patches.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

enum { rows_min = 2048 }; // of a block: enough for the products to be at their best

struct patch_job {
    const struct conv2d_shape *s;
    int oh, ow, depth;   // depth: elements of a patch
    int64_t line, lines; // of the block; a line is one row of one image's outputs
    const struct kernel_ctx *ctx;
    size_t number; // bytes of a number of x and of patches that are copied from it
    const void *x;
    void *dx;
    float *patches, *rows; // rows: one of dx per worker, where that is bfloat16
    int add;               // to the gradient
};

static struct patch_job job_of(const struct conv2d_shape *s) {
    struct patch_job job = {.s = s};
    job.oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    job.depth = s->kh * s->kw * s->c;
    job.number = stored_bytes(s->x_store);
    assert(job.oh > 0 && job.ow > 0);
    return job;
}

static int64_t block_lines(const struct patch_job *job) {
    return clamp64(div_up(rows_min, job->ow), 1, (int64_t)job->s->n * job->oh);
}

// Bytes before the patches: what the products need.
static size_t products_bytes(const struct kernel_ctx *ctx, const struct patch_job *job) {
    int rows = (int)block_lines(job) * job->ow, o = job->s->o;
    const int sizes[3][3] = {{rows, o, job->depth}, {rows, job->depth, o}, {o, job->depth, rows}};
    size_t most = 0;
    for (int i = 0; i < 3; i++) {
        size_t bytes = cpu_gemm_workspace(ctx, job->s->type, sizes[i][0], sizes[i][1], sizes[i][2]);
        most = bytes > most ? bytes : most;
    }
    return (most + 63) / 64 * 64;
}

size_t conv_patch_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct patch_job job = job_of(s);
    size_t rows = (size_t)block_lines(&job) * (size_t)job.ow;
    size_t line = (size_t)ctx->workers * (size_t)s->w * (size_t)s->c;
    return products_bytes(ctx, &job) + (rows * (size_t)job.depth + line) * sizeof(float);
}

// The part of a patch's lines of kw pixels inside the image: [low, high), in elements.
struct inside {
    ptrdiff_t x0; // element of the image's row that the line begins at; may be outside
    ptrdiff_t low, high;
};

static struct inside inside_of(const struct conv2d_shape *s, int64_t ox) {
    int64_t x = ox * s->stride - s->pad;
    int64_t low = clamp64(-x, 0, s->kw), high = clamp64(s->w - x, low, s->kw);
    return (struct inside){x * s->c, low * s->c, high * s->c};
}

static void gather_patch(const struct patch_job *job, int64_t line, int64_t ox, char *to) {
    const struct conv2d_shape *s = job->s;
    struct inside in = inside_of(s, ox);
    size_t number = job->number;
    int64_t image = line / job->oh, y = line % job->oh * s->stride - s->pad;
    ptrdiff_t wide = (ptrdiff_t)s->kw * s->c;
    for (int ky = 0; ky < s->kh; ky++, y++, to += (size_t)wide * number) {
        if (y < 0 || y >= s->h || in.low == in.high) {
            memset(to, 0, (size_t)wide * number);
            continue;
        }
        const char *row = stored_at(s->x_store, job->x, (image * s->h + y) * s->w * s->c);
        size_t low = (size_t)in.low * number, high = (size_t)in.high * number;
        memset(to, 0, low);
        memcpy(to + low, row + in.x0 * (ptrdiff_t)number + low, high - low);
        memset(to + high, 0, (size_t)wide * number - high);
    }
}

static void gather(void *arg, int worker, int workers) {
    const struct patch_job *job = arg;
    struct share mine = share_of(job->lines * job->ow, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        gather_patch(job, job->line + i / job->ow, i % job->ow,
                     (char *)job->patches + (size_t)(i * job->depth) * job->number);
}

// One row of dx takes from every line of the block that saw it, in order.
static void scatter_row(const struct patch_job *job, int64_t image, int64_t y, float *row) {
    const struct conv2d_shape *s = job->s;
    int64_t first = image * job->oh, past = y + s->pad - s->kh; // outputs that end above y
    int64_t from = first + (past < 0 ? 0 : past / s->stride + 1);
    int64_t to = first + clamp64((y + s->pad) / s->stride + 1, 0, job->oh);
    from = from > job->line ? from : job->line;
    to = to < job->line + job->lines ? to : job->line + job->lines;
    for (int64_t line = from; line < to; line++) {
        int64_t ky = y + s->pad - (line - first) * s->stride;
        for (int64_t ox = 0; ox < job->ow; ox++) {
            struct inside in = inside_of(s, ox);
            const float *patch = job->patches + ((line - job->line) * job->ow + ox) * job->depth;
            patch += ky * s->kw * s->c;
            for (ptrdiff_t i = in.low; i < in.high; i++)
                row[in.x0 + i] = job->add ? row[in.x0 + i] + patch[i] : patch[i];
        }
    }
}

static void scatter(void *arg, int worker, int workers) {
    const struct patch_job *job = arg;
    const struct conv2d_shape *s = job->s;
    int64_t first = job->line / job->oh, last = (job->line + job->lines - 1) / job->oh;
    struct share mine = share_of((last + 1 - first) * s->h, worker, workers);
    size_t wide = (size_t)s->w * (size_t)s->c;
    float *buffer = job->rows + (size_t)worker * wide;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t at = (first * s->h + i) * (int64_t)wide;
        if (s->x_store == KERNEL_BF16)
            stored_read(job->ctx, s->x_store, wide, job->dx, at, buffer);
        float *row = stored_begin(s->x_store, job->dx, at, buffer);
        scatter_row(job, first + i / s->h, i % s->h, row);
        stored_end(job->ctx, s->x_store, wide, row, job->dx, at);
    }
}

// Calls fn for every block of lines, with the first row of y that belongs to it.
static void each_block(struct kernel_ctx *ctx, struct patch_job *job,
                       void (*fn)(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0,
                                  int rows, const void *arg),
                       const void *arg) {
    assert(conv_patch_workspace(ctx, job->s) <= ctx->work_bytes);
    job->patches = (float *)(void *)(ctx->work + products_bytes(ctx, job));
    job->ctx = ctx;
    job->rows = job->patches + (size_t)block_lines(job) * (size_t)job->ow * (size_t)job->depth;
    int64_t step = block_lines(job), all = (int64_t)job->s->n * job->oh;
    for (job->line = 0; job->line < all; job->line += step) {
        job->lines = all - job->line < step ? all - job->line : step;
        fn(ctx, job, job->line * job->ow, (int)job->lines * job->ow, arg);
    }
}

static void forward_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                          const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    ctx_parallel(ctx, gather, job);
    g.m = rows, g.a = job->patches, g.c = (void *)stored_at(g.c_store, g.c, row0 * job->s->o);
    cpu_gemm(ctx, &g);
}

void conv_patch_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                        const float *w, const float *bias, int relu, void *y) {
    struct patch_job job = job_of(s);
    job.x = x;
    struct gemm_args g = {
        .type = s->type, .n = s->o, .k = job.depth, .trans_b = 1, .b = w, .c = y, .alpha = 1};
    g.lda = g.ldb = job.depth, g.ldc = s->o, g.bias = bias, g.relu = relu;
    g.a_store = s->x_store, g.c_store = s->y_store;
    each_block(ctx, &job, forward_block, &g);
}

static void data_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                       const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    g.m = rows, g.a = stored_at(g.a_store, g.a, row0 * job->s->o), g.c = job->patches;
    cpu_gemm(ctx, &g);
    ctx_parallel(ctx, scatter, job);
}

void conv_patch_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *dy,
                              const float *w, void *dx, int accumulate) {
    struct patch_job job = job_of(s);
    // Every element is written once where patches cover the image and nothing beyond it.
    int exact = s->kh == s->stride && s->kw == s->stride && s->pad == 0 && s->h % s->kh == 0 &&
                s->w % s->kw == 0;
    job.dx = dx, job.add = accumulate || !exact;
    struct gemm_args g = {.type = s->type, .n = job.depth, .k = s->o, .a = dy, .b = w, .alpha = 1};
    g.lda = s->o, g.ldb = g.ldc = job.depth, g.a_store = s->y_store;
    size_t all = (size_t)s->n * s->h * s->w * s->c;
    if (!accumulate && !exact)
        (s->x_store == KERNEL_BF16 ? cpu_bf16_zero : cpu_zero)(ctx, all, dx);
    each_block(ctx, &job, data_block, &g);
}

static void weight_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                         const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    ctx_parallel(ctx, gather, job);
    g.k = rows, g.a = stored_at(g.a_store, g.a, row0 * job->s->o), g.b = job->patches;
    g.beta = job->add || row0 > 0 ? 1 : 0;
    cpu_gemm(ctx, &g);
}

void conv_patch_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *dy, float *dw, int accumulate) {
    struct patch_job job = job_of(s);
    job.x = x, job.add = accumulate;
    struct gemm_args g = {
        .type = s->type, .m = s->o, .n = job.depth, .trans_a = 1, .a = dy, .c = dw, .alpha = 1};
    g.lda = s->o, g.ldb = g.ldc = job.depth;
    g.a_store = s->y_store, g.b_store = s->x_store;
    each_block(ctx, &job, weight_block, &g);
}
