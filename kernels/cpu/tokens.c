// SPDX-License-Identifier: Apache-2.0
// Patches to tokens, x[n][p][d], first[d], pos[t][d] -> y[n][t][d], and the first token of each
// image, x[n][t][d] -> y[n][d]. Sums over images run in their order.
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/share.h"

struct tokens_job {
    const struct cpu_isa *isa;
    const struct tokens_shape *s;
    int t; // with the class token
    const float *x, *first, *pos, *dy;
    float *y, *dx, *dfirst, *dpos;
    int accumulate;
};

static void forward_tokens(void *arg, int worker, int workers) {
    const struct tokens_job *job = arg;
    const struct tokens_shape *s = job->s;
    struct share mine = share_of((int64_t)s->n * job->t, worker, workers);
    size_t d = (size_t)s->d;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t image = i / job->t, token = i % job->t, extra = job->t - s->p;
        const float *from =
            token < extra ? job->first : job->x + (image * s->p + token - extra) * s->d;
        if (job->pos)
            job->isa->add(d, from, job->pos + token * s->d, job->y + i * s->d);
        else
            memcpy(job->y + i * s->d, from, d * sizeof(float));
    }
}

// x[n][p][d], first[d], pos[t][d] -> y[n][t][d]
void cpu_tokens_forward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *x,
                        const void *first, const void *pos, void *y) {
    struct tokens_job job = {.isa = ctx->isa, .s = s, .t = s->p + (first != NULL)};
    job.x = x, job.first = first, job.pos = pos, job.y = y;
    ctx_parallel(ctx, forward_tokens, &job);
}

// The sum over images of one token's gradient, into out.
static void sum_token(const struct tokens_job *job, int64_t token, float *out) {
    const struct tokens_shape *s = job->s;
    if (!job->accumulate)
        memset(out, 0, (size_t)s->d * sizeof(float));
    for (int64_t n = 0; n < s->n; n++)
        job->isa->add((size_t)s->d, out, job->dy + (n * job->t + token) * s->d, out);
}

static void backward_tokens(void *arg, int worker, int workers) {
    const struct tokens_job *job = arg;
    const struct tokens_shape *s = job->s;
    struct share mine = share_of(job->t, worker, workers);
    int64_t extra = job->t - s->p;
    for (int64_t token = mine.begin; token < mine.end; token++) {
        if (job->dpos)
            sum_token(job, token, job->dpos + token * s->d);
        if (token < extra)
            sum_token(job, token, job->dfirst);
        for (int64_t n = 0; n < s->n && job->dx && token >= extra; n++)
            memcpy(job->dx + (n * s->p + token - extra) * s->d,
                   job->dy + (n * job->t + token) * s->d, (size_t)s->d * sizeof(float));
    }
}

// dy[n][t][d] -> dx[n][p][d], dfirst[d], dpos[t][d]
void cpu_tokens_backward(struct kernel_ctx *ctx, const struct tokens_shape *s, const void *dy,
                         void *dx, void *dfirst, void *dpos, int accumulate) {
    struct tokens_job job = {.isa = ctx->isa, .s = s, .t = s->p + (dfirst != NULL)};
    job.dy = dy, job.dx = dx, job.dfirst = dfirst, job.dpos = dpos, job.accumulate = accumulate;
    ctx_parallel(ctx, backward_tokens, &job);
}

// x[n][t][d] -> y[n][d]
void cpu_first_token_forward(struct kernel_ctx *ctx, int n, int t, int d, const void *x, void *y) {
    (void)ctx;
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy((float *)y + i * (size_t)d, (const float *)x + i * (size_t)t * (size_t)d,
               (size_t)d * sizeof(float));
}

// dy[n][d] -> dx[n][t][d]
void cpu_first_token_backward(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                              void *dx) {
    size_t width = (size_t)d, image = (size_t)t * width;
    cpu_zero(ctx, (size_t)n * image, dx);
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy((float *)dx + i * image, (const float *)dy + i * width, width * sizeof(float));
}
