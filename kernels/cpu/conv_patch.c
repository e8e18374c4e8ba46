// SPDX-License-Identifier: Apache-2.0
// A convolution whose filters lie side by side (kernel = stride, no padding), of any size: patches
// are copied into the rows of a matrix, a few images at a time, and the rest is plain products.
// x[n][h][w][c] -> patches[n * oh * ow][kh * kw * c]; y = patches * w', dpatches = dy * w,
// dw = dy' * patches. Pixels beyond the last whole patch are never read, and have no gradient.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/conv_work.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/share.h"

enum { rows_min = 2048 }; // of a block: enough for the products to be at their best

struct patch_job {
    const struct conv2d_shape *s;
    int oh, ow, depth; // depth: elements of a patch
    int image, images; // of the block
    const float *x;
    float *dx, *patches;
    int accumulate;
};

static struct patch_job job_of(const struct conv2d_shape *s) {
    struct patch_job job = {.s = s};
    job.oh = s->h / s->kh, job.ow = s->w / s->kw;
    job.depth = s->kh * s->kw * s->c;
    assert(job.oh > 0 && job.ow > 0);
    return job;
}

static int block_images(const struct patch_job *job) {
    int64_t per_image = (int64_t)job->oh * job->ow;
    return (int)clamp64(div_up(rows_min, per_image), 1, job->s->n);
}

// Bytes before the patches: what the products need.
static size_t products_bytes(const struct kernel_ctx *ctx, const struct patch_job *job) {
    int rows = block_images(job) * job->oh * job->ow, o = job->s->o;
    const int sizes[3][3] = {{rows, o, job->depth}, {rows, job->depth, o}, {o, job->depth, rows}};
    size_t most = 0;
    for (int i = 0; i < 3; i++) {
        size_t bytes = cpu_gemm_workspace(ctx, sizes[i][0], sizes[i][1], sizes[i][2]);
        most = bytes > most ? bytes : most;
    }
    return (most + 63) / 64 * 64;
}

size_t conv_patch_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct patch_job job = job_of(s);
    size_t rows = (size_t)block_images(&job) * (size_t)job.oh * (size_t)job.ow;
    return products_bytes(ctx, &job) + rows * (size_t)job.depth * sizeof(float);
}

// Where a line of one patch's pixels lies in the image.
static size_t line_at(const struct patch_job *job, int64_t patch, int ky) {
    const struct conv2d_shape *s = job->s;
    int64_t image = job->image + patch / (job->oh * job->ow), at = patch % (job->oh * job->ow);
    int64_t y = at / job->ow * s->kh + ky, x = at % job->ow * s->kw;
    return (size_t)(((image * s->h + y) * s->w + x) * s->c);
}

static void gather(void *arg, int worker, int workers) {
    const struct patch_job *job = arg;
    size_t line = (size_t)job->s->kw * job->s->c;
    struct share mine = share_of((int64_t)job->images * job->oh * job->ow, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        for (int ky = 0; ky < job->s->kh; ky++)
            memcpy(job->patches + i * job->depth + ky * line, job->x + line_at(job, i, ky),
                   line * sizeof(float));
}

static void scatter(void *arg, int worker, int workers) {
    const struct patch_job *job = arg;
    size_t line = (size_t)job->s->kw * job->s->c;
    struct share mine = share_of((int64_t)job->images * job->oh * job->ow, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        for (int ky = 0; ky < job->s->kh; ky++) {
            const float *from = job->patches + i * job->depth + ky * line;
            float *to = job->dx + line_at(job, i, ky);
            for (size_t c = 0; c < line; c++)
                to[c] = job->accumulate ? to[c] + from[c] : from[c];
        }
}

// Calls fn for every block of images, with the first row of y that belongs to it.
static void each_block(struct kernel_ctx *ctx, struct patch_job *job,
                       void (*fn)(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0,
                                  int rows, const void *arg),
                       const void *arg) {
    assert(conv_patch_workspace(ctx, job->s) <= ctx->work_bytes);
    job->patches = (float *)(void *)(ctx->work + products_bytes(ctx, job));
    int step = block_images(job), per_image = job->oh * job->ow;
    for (job->image = 0; job->image < job->s->n; job->image += step) {
        job->images = job->s->n - job->image < step ? job->s->n - job->image : step;
        fn(ctx, job, (int64_t)job->image * per_image, job->images * per_image, arg);
    }
}

static void forward_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                          const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    ctx_parallel(ctx, gather, job);
    g.m = rows, g.a = job->patches, g.c = (float *)g.c + row0 * job->s->o;
    cpu_gemm(ctx, &g);
}

void conv_patch_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *x,
                        const float *w, const float *bias, int relu, float *y) {
    struct patch_job job = job_of(s);
    job.x = x;
    struct gemm_args g = {.n = s->o, .k = job.depth, .trans_b = 1, .b = w, .c = y, .alpha = 1};
    g.lda = g.ldb = job.depth, g.ldc = s->o, g.bias = bias, g.relu = relu;
    each_block(ctx, &job, forward_block, &g);
}

static void data_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                       const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    g.m = rows, g.a = (const float *)g.a + row0 * job->s->o, g.c = job->patches;
    cpu_gemm(ctx, &g);
    ctx_parallel(ctx, scatter, job);
}

void conv_patch_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *dy,
                              const float *w, float *dx, int accumulate) {
    struct patch_job job = job_of(s);
    job.dx = dx, job.accumulate = accumulate;
    struct gemm_args g = {.n = job.depth, .k = s->o, .a = dy, .b = w, .alpha = 1};
    g.lda = s->o, g.ldb = g.ldc = job.depth;
    if (!accumulate && (s->h % s->kh || s->w % s->kw))
        cpu_zero(ctx, (size_t)s->n * s->h * s->w * s->c, dx);
    each_block(ctx, &job, data_block, &g);
}

static void weight_block(struct kernel_ctx *ctx, struct patch_job *job, int64_t row0, int rows,
                         const void *arg) {
    struct gemm_args g = *(const struct gemm_args *)arg;
    ctx_parallel(ctx, gather, job);
    g.k = rows, g.a = (const float *)g.a + row0 * job->s->o, g.b = job->patches;
    g.beta = job->accumulate || row0 > 0 ? 1 : 0;
    cpu_gemm(ctx, &g);
}

void conv_patch_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                const float *x, const float *dy, float *dw, int accumulate) {
    struct patch_job job = job_of(s);
    job.x = x, job.accumulate = accumulate;
    struct gemm_args g = {.m = s->o, .n = job.depth, .trans_a = 1, .a = dy, .c = dw, .alpha = 1};
    g.lda = s->o, g.ldb = g.ldc = job.depth;
    each_block(ctx, &job, weight_block, &g);
}
