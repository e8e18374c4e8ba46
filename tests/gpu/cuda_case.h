// SPDX-License-Identifier: Apache-2.0
// For tests of the kernels of kernels/cuda: a queue, buffers of the device for one case, and
// comparison with the plain-C reference. The device is the interpreter, or with CASE_DRIVER what
// the driver finds. A test program gets what that device is opened by (the folder with the PTX of
// all sources; the number of a GPU), and the families to run (none: all).
#ifndef TESTS_GPU_CUDA_CASE_H
#define TESTS_GPU_CUDA_CASE_H
#include "kernels/bf16.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_params.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define CASE_UNIT      (1.0 / (1 << 24)) // relative error of one operation in float
#define CASE_BF16_UNIT (1.0 / (1 << 8))  // of rounding to bfloat16

#ifdef CASE_DRIVER
#include "tests/gpu/case_driver.h"
#else
#include "tests/gpu/case_interpreter.h"
#endif

static struct cuda_case {
    struct cuda_queue queue;
    int capability; // of the device
    // Launches with large tiles in this case, or the last one; with wgmma; with tensor maps; that
    // pack; of kernels for flat buffers.
    int large, hopper, tma, packs, flat;
    int no_maps;            // the driver makes no tensor maps
    int one_split;          // large tiles have all terms, as where a result has many of them
    enum kernel_type store; // of the tensors of a case
    unsigned blocks_most;   // of a grid whose threads loop over flat buffers; 0: any
    struct kernel_ctx *reference;
    void *host[CASE_BUFFERS_MAX];
    int n_host;
} test;

#define REFERENCE(op, ...) kernels_reference.op(test.reference, __VA_ARGS__)

// The relative error of as many operations.
static inline double roundings(int n) {
    return n * CASE_UNIT;
}

// A host buffer that lives as long as the case.
static void *host_bytes(size_t bytes) {
    void *p = calloc(1, bytes + 1);
    if (!p || test.n_host == CASE_BUFFERS_MAX)
        bail_out("no room on the host");
    return test.host[test.n_host++] = p;
}
static float *host_random(size_t n) {
    float *p = host_bytes(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = random_float();
    return p;
}
static inline float *host_copy(const float *from, size_t n) {
    return memcpy(host_bytes(n * sizeof *from), from, n * sizeof *from);
}
static inline float *host_absolute(const float *from, size_t n) {
    float *p = host_bytes(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = fabsf(from[i]);
    return p;
}

// Numbers as a tensor of this type of storage has them.
static inline float *host_rounded(enum kernel_type store, float *p, size_t n) {
    for (size_t i = 0; store == KERNEL_BF16 && i < n; i++)
        p[i] = bf16_widen(bf16_narrow(p[i]));
    return p;
}
static inline float *host_tensor(enum kernel_type store, size_t n) {
    return host_rounded(store, host_random(n), n);
}
static inline size_t tensor_bytes(enum kernel_type store, size_t n) {
    return n * (store == KERNEL_BF16 ? sizeof(uint16_t) : sizeof(float));
}
static inline void *device_room(enum kernel_type store, size_t n) {
    return device_empty(tensor_bytes(store, n));
}
static inline void *device_tensor(enum kernel_type store, const float *host, size_t n) {
    if (store == KERNEL_FLOAT)
        return device_copy(host, n * sizeof *host);
    uint16_t *words = host_bytes(n * sizeof *words);
    for (size_t i = 0; i < n; i++)
        words[i] = bf16_narrow(host[i]);
    return device_copy(words, n * sizeof *words);
}
// Buffers of floats by their host's copy.
static inline void *device_floats(const float *host, size_t n) {
    return device_copy(host, n * sizeof *host);
}

// The device has these numbers, each within its bound: `relative` of `size` (NULL: of want), and
// one rounding. want is not rounded to the type of storage; what the device has is, once.
static void case_tensor(enum kernel_type store, const void *at, const float *want,
                        const float *size, size_t n, double relative, const char *what) {
    size_t bytes = tensor_bytes(store, n);
    const char *got = device_bytes(at, bytes), *word = store == KERNEL_BF16 ? " in bfloat16" : "";
    double once = store == KERNEL_BF16 ? CASE_BF16_UNIT : 0;
    if (!got || !device_written(at, bytes)) {
        fail("%s%s: not all of the result was written", what, word);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double bound = CASE_ROUGHER * relative * fabs((double)(size ? size[i] : want[i])) +
                       2 * CASE_UNIT * fabs((double)want[i]) + (double)FLT_MIN;
        float is = store == KERNEL_BF16 ? bf16_widen(((const uint16_t *)(const void *)got)[i])
                                        : ((const float *)(const void *)got)[i];
        bound += once * (fabs((double)want[i]) + bound);
        if (fabs((double)is - (double)want[i]) <= bound || (isnan(is) && isnan(want[i])))
            continue;
        fail("%s%s: wrong result at %zu of %zu: %g instead of %g, %g apart and not %g", what, word,
             i, n, (double)is, (double)want[i], (double)is - (double)want[i], bound);
        return;
    }
    pass("%s%s", what, word);
}
static void case_close(const void *at, const float *want, const float *size, size_t n,
                       double relative, const char *what) {
    case_tensor(KERNEL_FLOAT, at, want, size, n, relative, what);
}

// Splits of a large product become one. The kernel that adds splits finds it alone.
static void case_join_splits(struct product_out *o, unsigned grid[3]) {
    grid[2] /= (unsigned)o->splits;
    o->splits = 1, o->k_split = (o->k + CUDA_LARGE_BYTES - 1) / CUDA_LARGE_BYTES * CUDA_LARGE_BYTES;
}

static void case_launch(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                        unsigned threads, unsigned shared, void *params) {
    const struct cuda_kernel_info *info = &cuda_kernel_info[kernel];
    unsigned fewer[3] = {grid[0], grid[1], grid[2]};
    if (test.blocks_most && fewer[0] > test.blocks_most && info->source == CUDA_SOURCE_flat &&
        strncmp(info->name, "sum_", 4) != 0)
        grid = (fewer[0] = test.blocks_most, fewer);
    test.hopper += info->source == CUDA_SOURCE_hopper;
    test.flat += info->source == CUDA_SOURCE_flat;
    test.packs += info->source == CUDA_SOURCE_pack;
    test.tma += strncmp(info->name, "gemm_tma", 8) == 0;
    test.large += info->source == CUDA_SOURCE_hopper || strstr(info->name, "_large");
    if (test.one_split && info->source == CUDA_SOURCE_hopper) {
        bool tma = strncmp(info->name, "gemm_tma", 8) == 0,
             gemm = strncmp(info->name, "gemm", 4) == 0;
        grid = fewer;
        case_join_splits(tma    ? &((struct gemm_tma_params *)params)->gemm.out
                         : gemm ? &((struct gemm_params *)params)->out
                                : &((struct conv_params *)params)->out,
                         fewer);
    }
    device_launch(q, kernel, grid, threads, shared, params);
}

static int case_tensor_map(struct cuda_queue *q, const struct cuda_matrix *m, void *map) {
    (void)q;
    return test.no_maps ? -1 : device_tensor_map(m, map);
}

// Begins a case with a workspace of its own, so that nothing of the last one is in there.
static void case_begin(size_t workspace) {
    if (workspace < CUDA_WORKSPACE_BYTES_MIN)
        workspace = CUDA_WORKSPACE_BYTES_MIN;
    device_begin();
    test.capability = device_capability(), test.large = test.hopper = test.tma = 0;
    test.packs = test.flat = 0;
    test.queue = (struct cuda_queue){case_launch, case_tensor_map, test.capability,
                                     device_empty(workspace), workspace};
}

static void case_end(void) {
    device_end();
    while (test.n_host)
        free(test.host[--test.n_host]);
}

// Runs cases with tensors of either type of storage.
static inline void case_stores(void (*cases)(void)) {
    for (int store = KERNEL_FLOAT; store <= KERNEL_BF16; store++)
        test.store = (enum kernel_type)store, cases();
    test.store = KERNEL_FLOAT;
}

struct case_family {
    const char *name;
    void (*run)(void);
};

static int case_main(int argc, char **argv, const struct case_family *family, int n) {
    if (argc < 2)
        bail_out("usage: %s DEVICE [FAMILY…]", argv[0]);
    device_open(argv[1]);
    if (kernels_reference.open(&test.reference, &(struct kernel_config){0}))
        bail_out("no reference");
    for (int i = 0; i < n; i++) {
        int named = argc == 2;
        for (int k = 2; k < argc; k++)
            named |= strcmp(argv[k], family[i].name) == 0;
        if (named)
            family[i].run();
    }
    kernels_reference.close(test.reference);
    device_close();
    return done_testing();
}

#endif
