// SPDX-License-Identifier: Apache-2.0
// The floor of a step on a GPU: how fast it copies its memory, and how fast our kernels multiply
// large matrices. And how much of its memory others take.
#include "gpu/gpu_impl.h"
#include "tests/gpu/device_parts.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    COPY_BYTES = 1 << 30, // of each of two buffers
    COPY_BYTES_EMULATED = 1 << 16,
    SIDE = 8192, // of a square matrix
    SIDE_EMULATED = 64,
    ROUNDS = 5,       // the best counts
    RUNS = 8,         // of a round
    WATCH_MS = 50,    // between two looks
    WATCH_S_MAX = 600 // a watcher ends by itself
};

static struct bed {
    struct gpu *gpu;
    struct kernel_ctx *ctx;
    bool emulated;
    CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s);
} bed;

static int fail_of(const char *why) {
    fprintf(stderr, "device: %s\n", why);
    return 1;
}

static int bed_open(const char *index) {
    const char *emulated = getenv("DTTRAIN_EMULATED");
    struct err e;
    bed.emulated = emulated && strcmp(emulated, "1") == 0;
    if (gpu_open(&bed.gpu, (int)strtol(index, NULL, 10), bed.emulated, &e) < 0)
        return fail_of(e.text);
    if (gpu_kernels.open(&bed.ctx, &(struct kernel_config){.device = bed.gpu}) < 0)
        return fail_of("no memory on the GPU");
    *(void **)&bed.copy = dlsym(bed.gpu->driver.library, "cuMemcpyDtoDAsync_v2");
    return bed.copy ? 0 : fail_of("the driver has no cuMemcpyDtoDAsync");
}

static int bed_close(int status) {
    const char *why = bed.ctx ? gpu_kernels.failure(bed.ctx) : NULL;
    if (why)
        status = fail_of(why);
    gpu_kernels.close(bed.ctx);
    gpu_close(bed.gpu);
    return status;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void copy(void *arg) {
    void **two = arg;
    size_t bytes = bed.emulated ? COPY_BYTES_EMULATED : COPY_BYTES;
    struct gpu_context *ctx = gpu_context_of(bed.ctx);
    gpu_context_good(ctx,
                     bed.copy((CUdeviceptr)(uintptr_t)two[0], (CUdeviceptr)(uintptr_t)two[1], bytes,
                              ctx->stream),
                     "copying");
}

static void multiply(void *arg) {
    gpu_kernels.gemm(bed.ctx, arg);
}

// Seconds of one run, in the best of some rounds; at is memory of the device that can be read.
static double best_s(void (*work)(void *arg), void *arg, const void *at) {
    float word;
    double best = 0;
    work(arg); // the first one may load the kernel
    for (int round = 0; round < ROUNDS; round++) {
        gpu_kernels.mem_read(bed.ctx, &word, at, sizeof word);
        double began = now_s();
        for (int i = 0; i < RUNS; i++)
            work(arg);
        gpu_kernels.mem_read(bed.ctx, &word, at, sizeof word);
        double took = (now_s() - began) / RUNS;
        best = best > 0 && best < took ? best : took;
    }
    return best;
}

int device_speed(int argc, char **argv) {
    static const char *const type_names[KERNEL_TYPES] = {"f32", "bf16", "f16", "tf32"};
    if (argc != 2 || bed_open(argv[1]) != 0)
        return bed_close(1);
    int side = bed.emulated ? SIDE_EMULATED : SIDE;
    size_t bytes = bed.emulated ? COPY_BYTES_EMULATED : COPY_BYTES;
    size_t square = (size_t)side * (size_t)side * sizeof(float);
    void *p[3];
    for (int i = 0; i < 3; i++)
        if (!(p[i] = gpu_kernels.mem_alloc(bed.ctx, i < 2 && bytes > square ? bytes : square)))
            return bed_close(fail_of("no memory on the GPU"));
    printf("{\"gpu\":\"%s\",\"copy_gb_per_s\":%.1f,\"own_tflops\":{", gpu_about(bed.gpu),
           2 * (double)bytes / best_s(copy, p, p[0]) / 1e9);
    for (int type = 0; type < KERNEL_TYPES; type++) {
        if (type == KERNEL_TF32 && !gpu_has_tf32(bed.gpu))
            continue;
        if (gpu_kernels.reserve(bed.ctx, gpu_kernels.gemm_workspace(bed.ctx, (enum kernel_type)type,
                                                                    side, side, side)) < 0)
            return bed_close(fail_of("no memory on the GPU"));
        struct gemm_args a = {.type = (enum kernel_type)type,
                              .m = side,
                              .n = side,
                              .k = side,
                              .a = p[0],
                              .b = p[1],
                              .c = p[2],
                              .lda = side,
                              .ldb = side,
                              .ldc = side,
                              .alpha = 1};
        double flop = 2.0 * side * side * side;
        printf("%s\"%s\":%.6f", type ? "," : "", type_names[type],
               flop / best_s(multiply, &a, p[2]) / 1e12);
    }
    printf("}}\n");
    for (int i = 0; i < 3; i++)
        gpu_kernels.mem_free(bed.ctx, p[i], i < 2 && bytes > square ? bytes : square);
    return bed_close(0);
}

// Says "ready", and at the end the most bytes that were taken besides those before.
int device_memory(int argc, char **argv) {
    if (argc != 2 || bed_open(argv[1]) != 0)
        return bed_close(1);
    size_t before = gpu_memory_free(bed.gpu), least = before;
    double until = now_s() + WATCH_S_MAX;
    printf("ready\n");
    fflush(stdout);
    for (struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
         poll(&in, 1, WATCH_MS) == 0 && now_s() < until;) {
        size_t left = gpu_memory_free(bed.gpu);
        least = left < least ? left : least;
    }
    printf("%zu\n", before - least);
    return bed_close(0);
}
