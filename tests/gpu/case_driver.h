// SPDX-License-Identifier: Apache-2.0
// For cuda_case.h: the device is a GPU (or the stand-in) through the driver, with the kernels as
// they are shipped. Every buffer lies between two guards, and is no number until it is written.
#ifndef TESTS_GPU_CASE_DRIVER_H
#define TESTS_GPU_CASE_DRIVER_H
#include "gpu/gpu_impl.h"
#include "tests/gpu/case_buffers.h"

enum { CASE_GUARD_BYTES = 256, CASE_GUARD = 0xa5, CASE_UNWRITTEN = 0xff };
// The device sums in tensor cores, which cut off, and its functions are approximations.
#define CASE_ROUGHER 2.0

static struct case_device {
    struct gpu *gpu;
    struct kernel_ctx *ctx;
    struct {
        uint8_t *at; // its first guard
        size_t bytes;
    } buffer[CASE_BUFFERS_MAX];
    int n_buffers;
    void *host; // of device_bytes
} dev;

static void device_open(const char *index) {
    const char *emulated = getenv("DTTRAIN_EMULATED");
    struct err e;
    if (gpu_open(&dev.gpu, (int)strtol(index, NULL, 10), emulated && strcmp(emulated, "1") == 0,
                 &e) < 0)
        bail_out("%s", e.text);
    diag("%s", gpu_about(dev.gpu));
    if (gpu_kernels.open(&dev.ctx, &(struct kernel_config){.device = dev.gpu}) < 0)
        bail_out("no room on the device");
}

// After a failure of the device no later result says anything.
static void device_check(void) {
    const char *why = gpu_kernels.failure(dev.ctx);
    if (!why)
        return;
    fail("%s", why);
    exit(done_testing());
}

static int device_capability(void) {
    return gpu_context_of(dev.ctx)->queue.capability;
}

static void device_close(void) {
    free(dev.host);
    gpu_kernels.close(dev.ctx);
    gpu_close(dev.gpu);
}

static void device_launch(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                          unsigned threads, unsigned shared, void *params) {
    struct cuda_queue *queue = &gpu_context_of(dev.ctx)->queue;
    (void)q;
    queue->launch(queue, kernel, grid, threads, shared, params);
}

static int device_tensor_map(const struct cuda_matrix *m, void *map) {
    struct cuda_queue *queue = &gpu_context_of(dev.ctx)->queue;
    return queue->tensor_map ? queue->tensor_map(queue, m, map) : -1;
}

static void device_fill(void *at, int byte, size_t bytes) {
    struct gpu_context *ctx = gpu_context_of(dev.ctx);
    CUresult r =
        dev.gpu->driver.fill((CUdeviceptr)(uintptr_t)at, (unsigned char)byte, bytes, ctx->stream);
    gpu_context_good(ctx, r, "filling memory");
}

static void *device_empty(size_t bytes) {
    if (dev.n_buffers == CASE_BUFFERS_MAX)
        bail_out("no room for another buffer");
    bytes = bytes ? bytes : 1;
    uint8_t *at = gpu_kernels.mem_alloc(dev.ctx, bytes + 2 * CASE_GUARD_BYTES);
    if (!at)
        bail_out("no room on the device");
    device_fill(at, CASE_GUARD, CASE_GUARD_BYTES);
    device_fill(at + CASE_GUARD_BYTES, CASE_UNWRITTEN, bytes);
    device_fill(at + CASE_GUARD_BYTES + bytes, CASE_GUARD, CASE_GUARD_BYTES);
    dev.buffer[dev.n_buffers].at = at;
    dev.buffer[dev.n_buffers++].bytes = bytes;
    return at + CASE_GUARD_BYTES;
}

static void *device_copy(const void *host, size_t bytes) {
    void *at = device_empty(bytes);
    gpu_kernels.mem_write(dev.ctx, at, host, bytes);
    return at;
}

// The bytes there now; they are the host's until the next call.
static const void *device_bytes(const void *at, size_t bytes) {
    void *host = realloc(dev.host, bytes + 1);
    if (!host)
        bail_out("no room on the host");
    dev.host = host;
    gpu_kernels.mem_read(dev.ctx, host, at, bytes);
    device_check();
    return host;
}

// Only the interpreter knows; here a number without a write is no number.
static bool device_written(const void *at, size_t bytes) {
    (void)at, (void)bytes;
    return true;
}

static bool guard_holds(const uint8_t *at) {
    const uint8_t *guard = device_bytes(at, CASE_GUARD_BYTES);
    int i = 0;
    while (i < CASE_GUARD_BYTES && guard[i] == CASE_GUARD)
        i++;
    return i == CASE_GUARD_BYTES;
}

static void device_end(void) {
    while (dev.n_buffers) {
        uint8_t *at = dev.buffer[--dev.n_buffers].at;
        size_t bytes = dev.buffer[dev.n_buffers].bytes;
        if (!guard_holds(at) || !guard_holds(at + CASE_GUARD_BYTES + bytes))
            fail("wrong result: bytes beside buffer %d, of %zu, were overwritten", dev.n_buffers,
                 bytes);
        gpu_kernels.mem_free(dev.ctx, at, bytes + 2 * CASE_GUARD_BYTES);
    }
}

static void device_begin(void) {}

// The interpreter alone counts accesses.
static inline void case_counts(const char *what) {
    (void)what;
}
static inline void case_few_bytes(int floor, const char *what) {
    (void)floor, (void)what;
}
static inline void case_moved(int bytes, const char *what) {
    (void)bytes, (void)what;
}

#endif
