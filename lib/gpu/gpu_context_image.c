// SPDX-License-Identifier: Apache-2.0
// Pixels of a batch. Images that the device keeps are read there. The others, which lie anywhere in
// the host's memory, go through one pinned buffer in one copy.
#include "gpu/gpu_impl.h"

#include <errno.h>
#include <string.h>

int gpu_context_image_keep(struct gpu_context *ctx, const uint8_t *pixels, size_t bytes) {
    size_t left = 0, total = 0;
    struct gpu_kept *k = ctx->kept;
    while (k < ctx->kept + IMAGES_KEPT_MAX && k->bytes)
        k++;
    if (k == ctx->kept + IMAGES_KEPT_MAX ||
        ctx->gpu->driver.memory_info(&left, &total) != CUDA_SUCCESS || bytes > left / 2)
        return -ENOMEM;
    void *there = gpu_context_alloc(ctx, bytes);
    if (!there)
        return -ENOMEM;
    gpu_context_write(ctx, there, pixels, bytes);
    *k = (struct gpu_kept){pixels, bytes, (CUdeviceptr)(uintptr_t)there};
    return 0;
}

void gpu_context_image_close(struct gpu_context *ctx) {
    for (int i = 0; i < IMAGES_KEPT_MAX; i++)
        gpu_context_free(ctx, (void *)(uintptr_t)ctx->kept[i].device);
}

// Where the device keeps an image, or 0.
static CUdeviceptr kept_at(const struct gpu_context *ctx, const uint8_t *image) {
    for (int i = 0; i < IMAGES_KEPT_MAX; i++) {
        const struct gpu_kept *k = &ctx->kept[i];
        size_t at = (uintptr_t)image - (uintptr_t)k->host;
        if (at < k->bytes)
            return k->device + at;
    }
    return 0;
}

// Where the parts of a batch lie in a stage; bytes.
struct parts {
    size_t src, offset_y, offset_x, flip, pixels, image, all;
};

static size_t part(size_t *total, size_t bytes) {
    enum { ALIGN = 256 };
    size_t at = *total;
    *total += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static struct parts parts_of(const struct image_args *a, size_t copied) {
    size_t n = (size_t)a->n, total = 0;
    struct parts p = {.image = (size_t)a->src_h * (size_t)a->src_w * (size_t)a->channels};
    p.src = part(&total, n * sizeof(CUdeviceptr));
    p.offset_y = part(&total, n * sizeof *a->offset_y);
    p.offset_x = part(&total, n * sizeof *a->offset_x);
    p.flip = part(&total, n);
    p.pixels = part(&total, copied * p.image);
    p.all = total;
    return p;
}

// The copy of a host's array, or NULL where there is none.
static const void *put(const struct gpu_stage *s, size_t at, const void *from, size_t bytes) {
    if (!from)
        return NULL;
    memcpy((char *)s->host + at, from, bytes);
    return (const void *)(uintptr_t)(s->device + at);
}

void gpu_context_image(struct gpu_context *ctx, const struct image_args *a) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    size_t n = (size_t)a->n, copied = 0;
    for (size_t i = 0; i < n; i++)
        copied += !kept_at(ctx, a->src[i]);
    struct parts p = parts_of(a, copied);
    struct gpu_stage *s = gpu_context_stage(ctx, p.all);
    if (!s)
        return;
    CUdeviceptr *src = (void *)((char *)s->host + p.src);
    for (size_t i = 0, at = p.pixels; i < n; i++) {
        src[i] = kept_at(ctx, a->src[i]);
        if (src[i])
            continue;
        memcpy((char *)s->host + at, a->src[i], p.image);
        src[i] = s->device + at;
        at += p.image;
    }
    struct image_args there = *a;
    there.src = (const uint8_t *const *)(uintptr_t)(s->device + p.src);
    there.offset_y = put(s, p.offset_y, a->offset_y, n * sizeof *a->offset_y);
    there.offset_x = put(s, p.offset_x, a->offset_x, n * sizeof *a->offset_x);
    there.flip = put(s, p.flip, a->flip, n);
    if (!gpu_context_good(ctx, d->copy_in(s->device, s->host, p.all, ctx->stream),
                          "copying pixels to the GPU"))
        return;
    cuda_image_normalize(&ctx->queue, &there);
    gpu_context_good(ctx, d->event_record(s->used, ctx->stream), "copying pixels to the GPU");
}
