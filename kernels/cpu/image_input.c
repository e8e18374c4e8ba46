// SPDX-License-Identifier: Apache-2.0
// Image input: bytes of images to normalised numbers, shifted and mirrored.
#include <assert.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/share.h"

struct image_job {
    const struct image_args *a;
    float value[4][256]; // of every byte in every channel
};

static void normalize_row(const struct image_job *job, int n, int y, float *out) {
    const struct image_args *a = job->a;
    int sy = y + (a->offset_y ? a->offset_y[n] : 0), left = a->offset_x ? a->offset_x[n] : 0;
    int flip = a->flip && a->flip[n], channels = a->channels;
    if (a->reflect)
        sy = kernel_reflect(sy, a->src_h);
    for (int x = 0; x < a->dst_w; x++) {
        int sx = left + (flip ? a->dst_w - 1 - x : x);
        if (a->reflect)
            sx = kernel_reflect(sx, a->src_w);
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
