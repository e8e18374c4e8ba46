// SPDX-License-Identifier: Apache-2.0
// Patches to tokens, x[n][p][d], first[d], pos[t][d] -> y[n][t][d], and the first token of each
// image, x[n][t][d] -> y[n][d]. Sums over images run in their order.
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

struct tokens_job {
    const struct kernel_ctx *ctx;
    const struct cpu_isa *isa;
    const struct tokens_shape *s;
    int t; // with the class token
    const float *first, *pos;
    const void *x, *dy;
    void *y, *dx;
    float *dfirst, *dpos;
    int accumulate;
};

// y = from (floats, or stored as y is) + pos, from element `at` of y on.
static void forward_token(const struct tokens_job *job, const void *from, enum kernel_type store,
                          const float *pos, int64_t at) {
    const struct tokens_shape *s = job->s;
    float x[stored_piece], out[stored_piece];
    for (int i = 0; i < s->d; i += stored_piece) {
        size_t n = (size_t)(s->d - i < stored_piece ? s->d - i : stored_piece);
        const float *in = stored_read(job->ctx, store, n, from, i, x);
        float *y = stored_begin(s->store, job->y, at + i, out);
        if (pos)
            job->isa->add(n, in, pos + i, y);
        else
            memcpy(y, in, n * sizeof *y);
        stored_end(job->ctx, s->store, n, y, job->y, at + i);
    }
}

static void forward_tokens(void *arg, int worker, int workers) {
    const struct tokens_job *job = arg;
    const struct tokens_shape *s = job->s;
    struct share mine = share_of((int64_t)s->n * job->t, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t image = i / job->t, token = i % job->t, extra = job->t - s->p;
        const float *pos = job->pos ? job->pos + token * s->d : NULL;
        int64_t patch = (image * s->p + token - extra) * s->d;
        if (token < extra)
            forward_token(job, job->first, KERNEL_FLOAT, pos, i * s->d);
        else
            forward_token(job, stored_at(s->store, job->x, patch), s->store, pos, i * s->d);
    }
}

// x[n][p][d], first[d], pos[t][d] -> y[n][t][d]
void cpu_tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *x,
                        const void *first, const void *pos, void *y) {
    struct tokens_job job = {.ctx = ctx, .isa = ctx->isa, .s = s, .t = s->p + (first != NULL)};
    job.x = x, job.first = first, job.pos = pos, job.y = y;
    ctx_parallel(ctx, forward_tokens, &job);
}

// The sum over images of one token's gradient, into out.
static void sum_token(const struct tokens_job *job, int64_t token, float *out) {
    const struct tokens_shape *s = job->s;
    if (!job->accumulate)
        memset(out, 0, (size_t)s->d * sizeof(float));
    float piece[stored_piece];
    for (int64_t n = 0; n < s->n; n++)
        for (int i = 0; i < s->d; i += stored_piece) {
            size_t count = (size_t)(s->d - i < stored_piece ? s->d - i : stored_piece);
            int64_t at = (n * job->t + token) * s->d + i;
            job->isa->add(count, out + i,
                          stored_read(job->ctx, s->store, count, job->dy, at, piece), out + i);
        }
}

static void backward_tokens(void *arg, int worker, int workers) {
    const struct tokens_job *job = arg;
    const struct tokens_shape *s = job->s;
    struct share mine = share_of(job->t, worker, workers);
    int64_t extra = job->t - s->p;
    size_t row = (size_t)s->d * stored_bytes(s->store);
    for (int64_t token = mine.begin; token < mine.end; token++) {
        if (job->dpos)
            sum_token(job, token, job->dpos + token * s->d);
        if (token < extra)
            sum_token(job, token, job->dfirst);
        for (int64_t n = 0; n < s->n && job->dx && token >= extra; n++)
            memcpy((char *)job->dx + (size_t)(n * s->p + token - extra) * row,
                   (const char *)job->dy + (size_t)(n * job->t + token) * row, row);
    }
}

// dy[n][t][d] -> dx[n][p][d], dfirst[d], dpos[t][d]
void cpu_tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *dy,
                         void *dx, void *dfirst, void *dpos, int accumulate) {
    struct tokens_job job = {.ctx = ctx, .isa = ctx->isa, .s = s, .t = s->p + (dfirst != NULL)};
    job.dy = dy, job.dx = dx, job.dfirst = dfirst, job.dpos = dpos, job.accumulate = accumulate;
    ctx_parallel(ctx, backward_tokens, &job);
}

// `number` bytes each.
static void take_first(int n, int t, int d, size_t number, const void *x, void *y) {
    size_t row = (size_t)d * number;
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy((char *)y + i * row, (const char *)x + i * (size_t)t * row, row);
}

static void give_first(int n, int t, int d, size_t number, const void *dy, void *dx) {
    size_t row = (size_t)d * number;
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy((char *)dx + i * (size_t)t * row, (const char *)dy + i * row, row);
}

// x[n][t][d] -> y[n][d]
void cpu_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *x, void *y) {
    (void)ctx;
    take_first(n, t, d, sizeof(float), x, y);
}

void cpu_bf16_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *x,
                                  void *y) {
    (void)ctx;
    take_first(n, t, d, sizeof(uint16_t), x, y);
}

// dy[n][d] -> dx[n][t][d]
void cpu_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                              void *dx) {
    cpu_zero(ctx, (size_t)n * (size_t)t * (size_t)d, dx);
    give_first(n, t, d, sizeof(float), dy, dx);
}

void cpu_bf16_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                                   void *dx) {
    cpu_bf16_zero(ctx, (size_t)n * (size_t)t * (size_t)d, dx);
    give_first(n, t, d, sizeof(uint16_t), dy, dx);
}
