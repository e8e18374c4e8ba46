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
    const struct kernel_ctx *ctx;
    const struct pool2d_shape *s;
    int oh, ow;
    const void *in; // x forward, dy backward
    void *out;      // y forward, dx backward
    uint8_t *index; // written forward
    const uint8_t *winner;
};

static struct pool_job pool_job_of(const struct kernel_ctx *ctx, const struct pool2d_shape *s) {
    assert(s->k <= 15 && s->pad < s->k);
    struct pool_job job = {.ctx = ctx, .s = s};
    job.oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    job.ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    return job;
}

// Channels [from, from + n) of a pixel.
struct channels {
    int from;
    size_t n;
};

// The next channels that are done at a time; 0 behind the last ones.
static int next_channels(const struct pool2d_shape *s, struct channels *c) {
    int step = s->store == KERNEL_FLOAT ? s->c : stored_piece;
    c->from += (int)c->n;
    c->n = (size_t)(s->c - c->from < step ? s->c - c->from : step);
    return c->n > 0;
}

// One output pixel, tap by tap.
static void max_pixel(const struct pool_job *job, int64_t image, int oy, int ox, float *best,
                      const struct channels *c, uint8_t *which) {
    const struct pool2d_shape *s = job->s;
    float other[stored_piece];
    int first = 1;
    for (int ky = 0; ky < s->k; ky++) {
        for (int kx = 0; kx < s->k; kx++) {
            int y = oy * s->stride - s->pad + ky, x = ox * s->stride - s->pad + kx;
            if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                continue;
            const float *in = stored_read(job->ctx, s->store, c->n, job->in,
                                          ((image * s->h + y) * s->w + x) * s->c + c->from, other);
            uint8_t tap = (uint8_t)(ky * s->k + kx);
            if (first) {
                memcpy(best, in, c->n * sizeof *best);
                memset(which, tap, c->n);
                first = 0;
            } else {
                job->ctx->isa->max_into((int)c->n, in, tap, best, which);
            }
        }
    }
    assert(!first); // pad < k: every window sees the image
}

static void max_rows(void *arg, int worker, int workers) {
    const struct pool_job *job = arg;
    const struct pool2d_shape *s = job->s;
    struct share mine = share_of((int64_t)s->n * job->oh, worker, workers);
    float piece[stored_piece];
    for (int64_t i = mine.begin * job->ow; i < mine.end * job->ow; i++)
        for (struct channels c = {0}; next_channels(s, &c);) {
            int64_t at = i * s->c + c.from, line = i / job->ow;
            float *best = stored_begin(s->store, job->out, at, piece);
            max_pixel(job, line / job->oh, (int)(line % job->oh), (int)(i % job->ow), best, &c,
                      job->index + at);
            stored_end(job->ctx, s->store, c.n, best, job->out, at);
        }
}

// x[n][h][w][c] -> y[n][oh][ow][c], index[n][oh][ow][c]
void cpu_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *x,
                         void *y, uint8_t *index) {
    struct pool_job job = pool_job_of(ctx, s);
    job.in = x, job.out = y, job.index = index;
    ctx_parallel(ctx, max_rows, &job);
}

// The first window along one axis that covers a position.
static int first_window(const struct pool2d_shape *s, int at) {
    int past = at + s->pad - s->k; // windows that begin there end before it
    return past < 0 ? 0 : past / s->stride + 1;
}

// One pixel of the input gradient collects from every window that covers it, in window order.
static void unpool_pixel(const struct pool_job *job, int64_t image, int y, int x,
                         const struct channels *c, float *sum) {
    const struct pool2d_shape *s = job->s;
    float piece[stored_piece];
    memset(sum, 0, c->n * sizeof *sum);
    for (int oy = first_window(s, y); oy < job->oh && oy * s->stride <= y + s->pad; oy++)
        for (int ox = first_window(s, x); ox < job->ow && ox * s->stride <= x + s->pad; ox++) {
            int ky = y + s->pad - oy * s->stride, kx = x + s->pad - ox * s->stride;
            int64_t at = ((image * job->oh + oy) * job->ow + ox) * s->c + c->from;
            const float *dy = stored_read(job->ctx, s->store, c->n, job->in, at, piece);
            job->ctx->isa->add_where((int)c->n, dy, job->winner + at, (uint8_t)(ky * s->k + kx),
                                     sum);
        }
}

static void unpool_rows(void *arg, int worker, int workers) {
    const struct pool_job *job = arg;
    const struct pool2d_shape *s = job->s;
    struct share mine = share_of((int64_t)s->n * s->h, worker, workers);
    float piece[stored_piece];
    for (int64_t i = mine.begin * s->w; i < mine.end * s->w; i++)
        for (struct channels c = {0}; next_channels(s, &c);) {
            int64_t at = i * s->c + c.from, line = i / s->w;
            float *sum = stored_begin(s->store, job->out, at, piece);
            unpool_pixel(job, line / s->h, (int)(line % s->h), (int)(i % s->w), &c, sum);
            stored_end(job->ctx, s->store, c.n, sum, job->out, at);
        }
}

// dy[n][oh][ow][c], index[n][oh][ow][c] -> dx[n][h][w][c]
void cpu_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s, const void *dy,
                          const uint8_t *index, void *dx) {
    struct pool_job job = pool_job_of(ctx, s);
    job.in = dy, job.out = dx, job.winner = index;
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
        job->isa->norm[KERNEL_FLOAT].column_sums(count, job->c, (const float *)job->in + from, out);
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
