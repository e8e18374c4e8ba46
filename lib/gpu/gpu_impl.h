// SPDX-License-Identifier: Apache-2.0
// Private to lib/gpu: a GPU that is open, and the context of its kernels.
#ifndef GPU_GPU_IMPL_H
#define GPU_GPU_IMPL_H

#include "gpu/gpu.h"
#include "gpu/gpu_driver.h"
#include "kernels/cuda/cuda_launch.h"

enum {
    GPU_DRIVER_VERSION_MIN = 13000, // CUDA 13.0
    GPU_CAPABILITY_MIN = 75,
    GPU_STALL_MS_MAX = 300 * 1000, // work that does not end
    GPU_STAGES = 4,                // pinned buffers that copies go through, in turn
    GPU_STAGE_BYTES = 1 << 20,     // of each, at first
    GPU_SMALL_STAGES = 32,         // the same for small copies, of which a step has several
    GPU_SMALL_BYTES = 16 << 10,    // of each
    GPU_PACE_BYTES = 4 << 20,      // of one copy
};

struct gpu {
    struct gpu_driver driver;
    CUdevice device;
    CUcontext context;
    char name[GPU_NAME_BYTES_MAX], about[GPU_ABOUT_BYTES_MAX];
    int capability; // 80 is 8.0
    CUmodule module[CUDA_SOURCE_COUNT];
    CUfunction function[CUDA_KERNEL_COUNT];
    unsigned shared[CUDA_KERNEL_COUNT]; // dynamic shared memory that was asked for so far
};

// A pinned buffer of the host, a buffer of the device of that size, and the event behind their last
// use.
struct gpu_stage {
    void *host;
    CUdeviceptr device;
    size_t bytes;
    CUevent used;
};

// Pixels of the host of which the device has a copy.
struct gpu_kept {
    const uint8_t *host;
    size_t bytes;
    CUdeviceptr device;
};

struct gpu_context {
    struct cuda_queue queue; // first: a queue is its context
    struct gpu *gpu;
    CUstream stream;
    struct gpu_stage stage[GPU_STAGES], small[GPU_SMALL_STAGES];
    int next, next_small;                  // stage
    struct gpu_stage late[LATE_READS];     // gpu_capture.c
    struct gpu_kept kept[IMAGES_KEPT_MAX]; // gpu_context_image.c
    // gpu_comm_stream.c
    CUstream comm_stream[BESIDE_QUEUES]; // made when they are first used
    CUevent ready;                       // the operations that collectives wait for have ended
    CUevent mark[BESIDE_MARKS_MAX];
    int (*look)(void *arg);
    void *look_arg;
    CUresult uncaptured; // why the capture did not begin
    char failure[256];   // the first one; empty: none
    char isa[16];
    enum kernel_keep keep; // activations in bfloat16
};

// The context that the kernels' table hands out as its own.
static inline struct gpu_context *gpu_context_of(struct kernel_ctx *ctx) {
    return (struct gpu_context *)(void *)ctx;
}

// gpu_context.c
int gpu_context_open(struct gpu_context **out, const struct kernel_config *cfg);
void gpu_context_close(struct gpu_context *ctx);
int gpu_context_reserve(struct gpu_context *ctx, size_t bytes);
const char *gpu_context_isa(const struct gpu_context *ctx);
const char *gpu_context_failure(const struct gpu_context *ctx);
bool gpu_context_keeps_bf16(const struct gpu_context *ctx);
void *gpu_context_alloc(struct gpu_context *ctx, size_t bytes);
void gpu_context_free(struct gpu_context *ctx, void *p);
void gpu_context_write(struct gpu_context *ctx, void *to, const void *from, size_t bytes);
void gpu_context_read(struct gpu_context *ctx, void *to, const void *from, size_t bytes);
// gpu_context_image.c: pixels of the host, through a stage or kept.
void gpu_context_image(struct gpu_context *ctx, const struct image_args *a);
int gpu_context_image_keep(struct gpu_context *ctx, const uint8_t *pixels, size_t bytes);
void gpu_context_image_close(struct gpu_context *ctx);
// gpu_comm_stream.c: the other streams.
void *gpu_comm_stream_begin(struct gpu_context *ctx, int queue);
void gpu_comm_stream_end(struct gpu_context *ctx, int queue, int mark);
void gpu_comm_stream_await(struct gpu_context *ctx, int mark);
int gpu_comm_stream_done(struct gpu_context *ctx, int mark);
void gpu_comm_stream_close(struct gpu_context *ctx);
// gpu_capture.c: work that is kept to run again, and reads that the host looks at later.
void gpu_capture_begin(struct gpu_context *ctx);
void *gpu_capture_end(struct gpu_context *ctx, const char **why);
void gpu_capture_replay(struct gpu_context *ctx, void *captured);
void gpu_capture_free(struct gpu_context *ctx, void *captured);
void gpu_late_start(struct gpu_context *ctx, int slot, const void *from, size_t bytes);
void gpu_late_end(struct gpu_context *ctx, int slot, void *to, size_t bytes);
// Keeps the first failure; true: code is none, and there was none.
bool gpu_context_good(struct gpu_context *ctx, CUresult code, const char *what);
// The next stage, of at least so many bytes and free to be written; NULL after a failure. Behind
// its last use on the stream, the caller records `used`.
struct gpu_stage *gpu_context_stage(struct gpu_context *ctx, size_t bytes);
// A stage of so many bytes; its pinned buffer alone, unless `device`.
CUresult gpu_stage_make(struct gpu_context *ctx, struct gpu_stage *s, size_t bytes, bool device);
void gpu_stage_free(struct gpu_context *ctx, struct gpu_stage *s); // with its event
bool gpu_context_await(struct gpu_context *ctx, CUevent event);    // false: the device has failed

#endif
