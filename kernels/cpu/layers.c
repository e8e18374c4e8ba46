// SPDX-License-Identifier: Apache-2.0
// Pooling, loss and image input.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
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
    const struct cpu_isa *isa;
    int n, hw, c;
    const float *in;
    float *out;
};

static void mean_images(void *arg, int worker, int workers) {
    const struct mean_job *job = arg;
    struct share mine = share_of(job->n, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        float *out = job->out + i * job->c;
        job->isa->column_sums(job->hw, job->c, job->in + i * job->hw * job->c, out);
        if (job->hw > 1)
            job->isa->scale((size_t)job->c, 1.0F / (float)job->hw, out);
    }
}

// x[n][hw][c] -> y[n][c]
void cpu_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y) {
    struct mean_job job = {.isa = ctx->isa, .n = n, .hw = hw, .c = c, .in = x, .out = y};
    ctx_parallel(ctx, mean_images, &job);
}

static void spread_images(void *arg, int worker, int workers) {
    const struct mean_job *job = arg;
    struct share mine = share_of((int64_t)job->n * job->hw, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        float *out = job->out + i * job->c;
        memcpy(out, job->in + i / job->hw * job->c, (size_t)job->c * sizeof(float));
        if (job->hw > 1)
            job->isa->scale((size_t)job->c, 1.0F / (float)job->hw, out);
    }
}

// dy[n][c] -> dx[n][hw][c]
void cpu_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy, void *dx) {
    struct mean_job job = {.isa = ctx->isa, .n = n, .hw = hw, .c = c, .in = dy, .out = dx};
    ctx_parallel(ctx, spread_images, &job);
}

enum { loss_parts = 64 }; // sums are made per part, then in order: the same for any workers

struct loss_job {
    const struct softmax_xent_args *a;
    struct loss_totals part[loss_parts];
};

// How many logits come before the label's: larger ones, and equal ones with a smaller index. A
// NaN anywhere puts it last.
static int rank_of_label(int classes, const float *z, int label) {
    int rank = 0;
    for (int j = 0; j < classes; j++) {
        if (z[j] != z[j])
            return classes;
        rank += z[j] > z[label] || (z[j] == z[label] && j < label);
    }
    return rank;
}

static void loss_row(const struct softmax_xent_args *a, int64_t i, struct loss_totals *t) {
    const float *z = (const float *)a->logits + i * a->classes;
    float *dz = a->dlogits ? (float *)a->dlogits + i * a->classes : NULL;
    int label = a->labels[i];
    assert(label >= 0 && label < a->classes);
    int rank = rank_of_label(a->classes, z, label);
    float max = z[0];
    double sum = 0, sum_z = 0, each = a->smoothing / a->classes;
    for (int j = 1; j < a->classes; j++)
        max = z[j] > max ? z[j] : max;
    for (int j = 0; j < a->classes; j++) {
        sum += (double)expf(z[j] - max);
        sum_z += (double)z[j] - (double)max; // of two floats it may be infinite
    }
    double log_sum = log(sum); // -log p[j] = log_sum - (z[j] - max)
    t->loss_sum += (1 - a->smoothing) * (log_sum - ((double)z[label] - (double)max)) +
                   each * (a->classes * log_sum - sum_z);
    t->top1 += rank < 1;
    t->top5 += rank < 5 && rank < a->classes;
    for (int j = 0; dz && j < a->classes; j++) {
        double target = each + (j == label ? 1 - a->smoothing : 0);
        dz[j] = (float)(a->grad_scale * ((double)expf(z[j] - max) / sum - target));
    }
}

static void loss_rows(void *arg, int worker, int workers) {
    struct loss_job *job = arg;
    struct share mine = share_of(loss_parts, worker, workers);
    for (int64_t part = mine.begin; part < mine.end; part++) {
        struct share rows = share_of(job->a->rows, (int)part, loss_parts);
        for (int64_t i = rows.begin; i < rows.end; i++)
            loss_row(job->a, i, &job->part[part]);
    }
}

// logits[rows][classes], labels[rows] -> dlogits[rows][classes]
void cpu_softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                      struct loss_totals *out) {
    struct loss_job job = {.a = a};
    ctx_parallel(ctx, loss_rows, &job);
    *out = (struct loss_totals){.rows = a->rows};
    for (int i = 0; i < loss_parts; i++) {
        out->loss_sum += job.part[i].loss_sum;
        out->top1 += job.part[i].top1;
        out->top5 += job.part[i].top5;
    }
}

struct image_job {
    const struct image_args *a;
    float value[4][256]; // of every byte in every channel
};

static void normalize_row(const struct image_job *job, int n, int y, float *out) {
    const struct image_args *a = job->a;
    int sy = y + (a->offset_y ? a->offset_y[n] : 0), left = a->offset_x ? a->offset_x[n] : 0;
    int flip = a->flip && a->flip[n], channels = a->channels;
    for (int x = 0; x < a->dst_w; x++) {
        int sx = left + (flip ? a->dst_w - 1 - x : x);
        int inside = sy >= 0 && sy < a->src_h && sx >= 0 && sx < a->src_w;
        const uint8_t *src = inside ? a->src[n] + ((size_t)sy * a->src_w + sx) * channels : NULL;
        for (int c = 0; c < channels; c++)
            *out++ = job->value[c][src ? src[c] : 0];
    }
}

static void normalize_rows(void *arg, int worker, int workers) {
    const struct image_job *job = arg;
    const struct image_args *a = job->a;
    struct share mine = share_of((int64_t)a->n * a->dst_h, worker, workers);
    for (int64_t i = mine.begin; i < mine.end; i++)
        normalize_row(job, (int)(i / a->dst_h), (int)(i % a->dst_h),
                      (float *)a->out + i * a->dst_w * a->channels);
}

// n times src[src_h][src_w][channels] (bytes) -> out[n][dst_h][dst_w][channels]
void cpu_image_normalize(struct kernel_ctx *ctx, const struct image_args *a) {
    assert(a->channels >= 1 && a->channels <= 4);
    struct image_job job = {.a = a};
    for (int c = 0; c < a->channels; c++)
        for (int v = 0; v < 256; v++)
            job.value[c][v] = (float)(((double)v / 255 - a->mean[c]) / a->std[c]);
    ctx_parallel(ctx, normalize_rows, &job);
}
