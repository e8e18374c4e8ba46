// SPDX-License-Identifier: Apache-2.0
// Pooling: the largest of each window, and the mean of each channel.
#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

struct pool_job {
    const struct cpu_isa *isa;
    const struct pool2d_shape *s;
    int oh, ow;
    const float *in; // x forward, dy backward
    float *out;      // y forward, dx backward
    uint8_t *index;  // written forward
    const uint8_t *winner;
};

// One output pixel: all channels at once, tap by tap.
static void max_pixel(const struct pool_job *job, const float *image, int oy, int ox, float *best,
                      uint8_t *which) {
    const struct pool2d_shape *s = job->s;
    int first = 1;
    for (int ky = 0; ky < s->k; ky++) {
        for (int kx = 0; kx < s->k; kx++) {
            int y = oy * s->stride - s->pad + ky, x = ox * s->stride - s->pad + kx;
            if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                continue;
            const float *in = image + ((size_t)y * s->w + x) * s->c;
            uint8_t tap = (uint8_t)(ky * s->k + kx);
            if (first) {
                memcpy(best, in, (size_t)s->c * sizeof(float));
                memset(which, tap, (size_t)s->c);
                first = 0;
            } else {
                job->isa->max_into(s->c, in, tap, best, which);
            }
        }
    }
    assert(!first); // pad < k: every window sees the image
}

static void max_rows(void *arg, int worker, int workers) {
    const struct pool_job *job = arg;
    const struct pool2d_shape *s = job->s;
    struct share mine = share_of((int64_t)s->n * job->oh, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float *image = job->in + i / job->oh * s->h * s->w * s->c;
        for (int ox = 0; ox < job->ow; ox++) {
            size_t at = (size_t)(i * job->ow + ox) * s->c;
            max_pixel(job, image, (int)(i % job->oh), ox, job->out + at, job->index + at);
        }
    }
}

// x[n][h][w][c] -> y[n][oh][ow][c], index[n][oh][ow][c]
void cpu_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *x,
                         void *y, uint8_t *index) {
    assert(s->k <= 15 && s->pad < s->k);
    struct pool_job job = {.isa = ctx->isa, .s = s, .in = x, .out = y, .index = index};
    job.oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    ctx_parallel(ctx, max_rows, &job);
}

// One row of the input gradient collects from every window that covers it, in window order.
static void unpool_row(const struct pool_job *job, int64_t image, int y) {
    const struct pool2d_shape *s = job->s;
    float *row = job->out + (image * s->h + y) * s->w * s->c;
    memset(row, 0, (size_t)s->w * s->c * sizeof(float));
    for (int oy = 0; oy < job->oh; oy++) {
        int ky = y + s->pad - oy * s->stride;
        if (ky < 0 || ky >= s->k)
            continue;
        for (int ox = 0; ox < job->ow; ox++)
            for (int kx = 0; kx < s->k; kx++) {
                int x = ox * s->stride - s->pad + kx;
                if (x < 0 || x >= s->w)
                    continue;
                size_t at = (size_t)((image * job->oh + oy) * job->ow + ox) * s->c;
                job->isa->add_where(s->c, job->in + at, job->winner + at, (uint8_t)(ky * s->k + kx),
                                    row + (size_t)x * s->c);
            }
    }
}

static void unpool_rows(void *arg, int worker, int workers) {
    const struct pool_job *job = arg;
    struct share mine = share_of((int64_t)job->s->n * job->s->h, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        unpool_row(job, i / job->s->h, (int)(i % job->s->h));
}

// dy[n][oh][ow][c], index[n][oh][ow][c] -> dx[n][h][w][c]
void cpu_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *dy,
                          const uint8_t *index, void *dx) {
    struct pool_job job = {.isa = ctx->isa, .s = s, .in = dy, .out = dx, .winner = index};
    job.oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    ctx_parallel(ctx, unpool_rows, &job);
}

struct mean_job {
    const struct kernel_ctx *ctx;
    const struct cpu_isa *isa;
    int n, hw, c;
    enum kernel_type store;
    const void *in;
    void *out;
};

// out = the sum of rows of c numbers, `count` of them from element `from` on, times scale; a piece
// of each row at a time.
static void mean_rows(const struct mean_job *job, int count, int64_t from, float scale,
                      int64_t to) {
    float in[stored_piece], sum[stored_piece];
    if (job->store == KERNEL_FLOAT) {
        float *out = (float *)job->out + to;
        job->isa->column_sums(count, job->c, (const float *)job->in + from, out);
        if (scale != 1)
            job->isa->scale((size_t)job->c, scale, out);
        return;
    }
    for (int i = 0; i < job->c; i += stored_piece) {
        size_t n = (size_t)(job->c - i < stored_piece ? job->c - i : stored_piece);
        float *out = stored_begin(job->store, job->out, to + i, sum);
        memset(out, 0, n * sizeof *out);
        for (int r = 0; r < count; r++)
            job->isa->add(
                n, out,
                stored_read(job->ctx, job->store, n, job->in, from + (int64_t)r * job->c + i, in),
                out);
        if (scale != 1)
            job->isa->scale(n, scale, out);
        stored_end(job->ctx, job->store, n, out, job->out, to + i);
    }
}

static void mean_images(void *arg, int worker, int workers) {
    const struct mean_job *job = arg;
    struct share mine = share_of(job->n, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        mean_rows(job, job->hw, i * job->hw * job->c, 1.0F / (float)job->hw, i * job->c);
}

// x[n][hw][c] -> y[n][c]
static void mean_all(struct kernel_ctx *ctx, struct mean_job job) {
    job.ctx = ctx, job.isa = ctx->isa;
    ctx_parallel(ctx, mean_images, &job);
}

void cpu_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y) {
    mean_all(ctx, (struct mean_job){.n = n, .hw = hw, .c = c, .in = x, .out = y});
}

void cpu_bf16_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *x,
                              void *y) {
    mean_all(ctx,
             (struct mean_job){.n = n, .hw = hw, .c = c, .store = KERNEL_BF16, .in = x, .out = y});
}

static void spread_images(void *arg, int worker, int workers) {
    const struct mean_job *job = arg;
    struct share mine = share_of((int64_t)job->n * job->hw, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        mean_rows(job, 1, i / job->hw * job->c, 1.0F / (float)job->hw, i * job->c);
}

// dy[n][c] -> dx[n][hw][c]
static void spread_all(struct kernel_ctx *ctx, struct mean_job job) {
    job.ctx = ctx, job.isa = ctx->isa;
    ctx_parallel(ctx, spread_images, &job);
}

void cpu_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy, void *dx) {
    spread_all(ctx, (struct mean_job){.n = n, .hw = hw, .c = c, .in = dy, .out = dx});
}

void cpu_bf16_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy,
                               void *dx) {
    spread_all(ctx, (struct mean_job){
                        .n = n, .hw = hw, .c = c, .store = KERNEL_BF16, .in = dy, .out = dx});
}
