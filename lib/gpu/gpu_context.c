// SPDX-License-Identifier: Apache-2.0
// The context of the kernels on a GPU: one stream, a workspace, and pinned buffers that copies to
// and from the device go through. Nothing here waits but mem_read, and a stage that is still in
// use.
#include "gpu/gpu_impl.h"
#include "kernels/cuda/cuda_params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool gpu_context_good(struct gpu_context *ctx, CUresult code, const char *what) {
    if (code != CUDA_SUCCESS && !ctx->failure[0])
        snprintf(ctx->failure, sizeof ctx->failure, "%s: %s: %s", ctx->gpu->name, what,
                 gpu_driver_error(&ctx->gpu->driver, code));
    return !ctx->failure[0];
}

const char *gpu_context_failure(const struct gpu_context *ctx) {
    return ctx->failure[0] ? ctx->failure : NULL;
}

const char *gpu_context_isa(const struct gpu_context *ctx) {
    return ctx->isa;
}

// Older GPUs multiply floats in place of bfloat16, and would convert all that they read.
bool gpu_context_keeps_bf16(const struct gpu_context *ctx) {
    return ctx->keep == KERNEL_KEEP_ALWAYS ||
           (ctx->keep == KERNEL_KEEP_AUTO && ctx->queue.capability >= CUDA_BF16_CAPABILITY_MIN);
}

static CUdeviceptr address(const void *p) {
    return (CUdeviceptr)(uintptr_t)p;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Calls the function that watches waits, and moves the time limit when other ranks are the reason.
// False: the wait is over.
static bool look(struct gpu_context *ctx, int64_t *deadline) {
    int others = ctx->look ? ctx->look(ctx->look_arg) : 0;
    if (others > 0)
        *deadline = now_ms() + GPU_STALL_MS_MAX;
    if (others < 0)
        snprintf(ctx->failure, sizeof ctx->failure, "%s waits for ranks that are lost",
                 ctx->gpu->name);
    else if (now_ms() > *deadline)
        snprintf(ctx->failure, sizeof ctx->failure,
                 "%s has not finished its work in %d s (try: nvidia-smi, and dmesg for Xid)",
                 ctx->gpu->name, GPU_STALL_MS_MAX / 1000);
    return !ctx->failure[0];
}

// Polls, so that a device that hangs is found.
bool gpu_context_await(struct gpu_context *ctx, CUevent event) {
    enum { SPINS = 2000, PAUSE_NS = 20000 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t now = now_ms(), deadline = now + GPU_STALL_MS_MAX, next = now + BESIDE_LOOK_MS;
    for (int64_t i = 0;; i++) {
        CUresult r = ctx->gpu->driver.event_query(event);
        if (r != CUDA_ERROR_NOT_READY)
            return gpu_context_good(ctx, r, "waiting");
        if (now_ms() >= next) {
            if (!look(ctx, &deadline))
                return false;
            next = now_ms() + BESIDE_LOOK_MS;
        }
        if (i > SPINS)
            nanosleep(&pause, NULL);
    }
}

static void launch(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                   unsigned threads, unsigned shared, void *params) {
    enum { SHARED_DEFAULT_MAX = 48 << 10 };
    struct gpu_context *ctx = (struct gpu_context *)q;
    struct gpu *g = ctx->gpu;
    const char *name = cuda_kernel_info[kernel].name;
    if (ctx->failure[0])
        return;
    if (shared > SHARED_DEFAULT_MAX && shared > g->shared[kernel]) {
        if (!gpu_context_good(
                ctx,
                g->driver.function_set(g->function[kernel], CU_FUNC_DYNAMIC_SHARED, (int)shared),
                name))
            return;
        g->shared[kernel] = shared;
    }
    gpu_context_good(ctx,
                     g->driver.launch(g->function[kernel], grid[0], grid[1], grid[2], threads, 1, 1,
                                      shared, ctx->stream, &params, NULL),
                     name);
}

static int tensor_map(struct cuda_queue *q, const struct cuda_matrix *m, void *map) {
    static const int types[KERNEL_TYPES] = {[KERNEL_BF16] = CU_TENSOR_MAP_BFLOAT16,
                                            [KERNEL_HALF] = CU_TENSOR_MAP_FLOAT16,
                                            [KERNEL_TF32] = CU_TENSOR_MAP_FLOAT32};
    struct gpu *g = ((struct gpu_context *)q)->gpu;
    uint32_t bytes = m->type == KERNEL_TF32 ? 4 : 2;
    const uint64_t dims[] = {(uint64_t)m->columns, (uint64_t)m->rows};
    const uint64_t stride = (uint64_t)m->pitch;
    const uint32_t box[] = {CUDA_TMA_BYTES / bytes, (uint32_t)m->box_rows};
    const uint32_t element_strides[] = {1, 1};
    return g->driver.tensor_map(map, types[m->type], 2, (void *)(uintptr_t)m->at, dims, &stride,
                                box, element_strides, 0, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_PROMOTION_256B, 0) == CUDA_SUCCESS
               ? 0
               : -1;
}

// ---- memory ------------------------------------------------------------------------------------

static void *take(struct gpu_context *ctx, size_t bytes) {
    CUdeviceptr p = 0;
    return ctx->gpu->driver.memory_alloc(&p, bytes) == CUDA_SUCCESS ? (void *)(uintptr_t)p : NULL;
}

static void give_back(struct gpu_context *ctx, void *p) {
    if (p)
        (void)ctx->gpu->driver.memory_free(address(p));
}

void *gpu_context_alloc(struct gpu_context *ctx, size_t bytes) {
    void *p = take(ctx, bytes ? bytes : 1);
    if (p)
        gpu_context_good(ctx, ctx->gpu->driver.fill(address(p), 0, bytes ? bytes : 1, ctx->stream),
                         "clearing memory");
    return p;
}

void gpu_context_free(struct gpu_context *ctx, void *p) {
    give_back(ctx, p);
}

int gpu_context_reserve(struct gpu_context *ctx, size_t bytes) {
    bytes = bytes < CUDA_WORKSPACE_BYTES_MIN ? CUDA_WORKSPACE_BYTES_MIN : bytes;
    if (bytes <= ctx->queue.workspace_bytes)
        return 0;
    void *work = take(ctx, bytes);
    if (!work)
        return -ENOMEM;
    give_back(ctx, ctx->queue.workspace);
    ctx->queue.workspace = work;
    ctx->queue.workspace_bytes = bytes;
    return 0;
}

void gpu_stage_free(struct gpu_context *ctx, struct gpu_stage *s) {
    give_back(ctx, (void *)(uintptr_t)s->device);
    if (s->host)
        (void)ctx->gpu->driver.host_free(s->host);
    if (s->used)
        (void)ctx->gpu->driver.event_free(s->used);
    *s = (struct gpu_stage){0};
}

CUresult gpu_stage_make(struct gpu_context *ctx, struct gpu_stage *s, size_t bytes, bool device) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    gpu_stage_free(ctx, s);
    CUresult r = d->event_new(&s->used, CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS)
        r = d->host_alloc(&s->host, bytes, 0);
    if (r == CUDA_SUCCESS && device)
        r = d->memory_alloc(&s->device, bytes);
    s->bytes = r == CUDA_SUCCESS ? bytes : 0;
    return r;
}

static struct gpu_stage *next_stage(struct gpu_context *ctx, size_t bytes) {
    bool small = bytes <= GPU_SMALL_BYTES;
    int *next = small ? &ctx->next_small : &ctx->next;
    struct gpu_stage *s = small ? &ctx->small[*next] : &ctx->stage[*next];
    *next = (*next + 1) % (small ? GPU_SMALL_STAGES : GPU_STAGES);
    return s;
}

struct gpu_stage *gpu_context_stage(struct gpu_context *ctx, size_t bytes) {
    struct gpu_stage *s = next_stage(ctx, bytes);
    if (ctx->failure[0] || (s->bytes && !gpu_context_await(ctx, s->used)))
        return NULL;
    size_t least = bytes <= GPU_SMALL_BYTES ? GPU_SMALL_BYTES : GPU_STAGE_BYTES;
    size_t room = s->bytes > least ? s->bytes : least;
    while (room < bytes)
        room *= 2;
    if (room > s->bytes &&
        !gpu_context_good(ctx, gpu_stage_make(ctx, s, room, true), "memory for copies to the GPU"))
        return NULL;
    return s;
}

void gpu_context_write(struct gpu_context *ctx, void *to, const void *from, size_t bytes) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < GPU_PACE_BYTES ? bytes - at : GPU_PACE_BYTES;
        struct gpu_stage *s = gpu_context_stage(ctx, n);
        if (!s)
            return;
        memcpy(s->host, (const char *)from + at, n);
        if (!gpu_context_good(ctx, d->copy_in(address(to) + at, s->host, n, ctx->stream),
                              "copying to the GPU") ||
            !gpu_context_good(ctx, d->event_record(s->used, ctx->stream), "copying to the GPU"))
            return;
        at += n;
    }
}

void gpu_context_read(struct gpu_context *ctx, void *to, const void *from, size_t bytes) {
    const struct gpu_driver *d = &ctx->gpu->driver;
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < GPU_PACE_BYTES ? bytes - at : GPU_PACE_BYTES;
        struct gpu_stage *s = gpu_context_stage(ctx, n);
        bool good =
            s &&
            gpu_context_good(ctx, d->copy_out(s->host, address(from) + at, n, ctx->stream),
                             "copying from the GPU") &&
            gpu_context_good(ctx, d->event_record(s->used, ctx->stream), "copying from the GPU") &&
            gpu_context_await(ctx, s->used);
        if (!good) {
            memset((char *)to + at, 0, bytes - at);
            return;
        }
        memcpy((char *)to + at, s->host, n);
        at += n;
    }
}

// ---- opening and closing -----------------------------------------------------------------------

int gpu_context_open(struct gpu_context **out, const struct kernel_config *cfg) {
    struct gpu *g = cfg->device;
    if (!g)
        return -EINVAL;
    struct gpu_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return -ENOMEM;
    ctx->gpu = g;
    ctx->keep = cfg->keep;
    ctx->queue.launch = launch;
    ctx->queue.tensor_map = g->driver.tensor_map ? tensor_map : NULL;
    ctx->queue.capability = g->capability;
    snprintf(ctx->isa, sizeof ctx->isa, "sm_%d", g->capability);
    if (g->driver.context_use(g->context) != CUDA_SUCCESS ||
        g->driver.stream_new(&ctx->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        gpu_context_reserve(ctx, CUDA_WORKSPACE_BYTES_MIN) < 0) {
        gpu_context_close(ctx);
        return -ENOMEM;
    }
    *out = ctx;
    return 0;
}

void gpu_context_close(struct gpu_context *ctx) {
    if (!ctx)
        return;
    gpu_context_image_close(ctx);
    for (int i = 0; i < GPU_STAGES; i++)
        gpu_stage_free(ctx, &ctx->stage[i]);
    for (int i = 0; i < GPU_SMALL_STAGES; i++)
        gpu_stage_free(ctx, &ctx->small[i]);
    for (int i = 0; i < LATE_READS; i++)
        gpu_stage_free(ctx, &ctx->late[i]);
    give_back(ctx, ctx->queue.workspace);
    gpu_comm_stream_close(ctx);
    if (ctx->stream)
        (void)ctx->gpu->driver.stream_free(ctx->stream);
    free(ctx);
}
