// SPDX-License-Identifier: Apache-2.0
// For tests of the kernels of kernels/cuda: a queue that runs each launch at once in the
// interpreter, buffers of the device for one case, and comparison with the plain-C reference.
// A test program gets the folder with the PTX of all sources, and the families to run (none: all).
#ifndef TESTS_GPU_CUDA_CASE_H
#define TESTS_GPU_CUDA_CASE_H
#include "kernels/cuda/cuda_launch.h"
#include "tests/gpu/emu/ptx.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CASE_PTX_MAX = 1 << 23, CASE_BUFFERS_MAX = 64, CASE_SM = 90 };
#define CASE_SECTORS_MAX 1.1               // times the bytes that were asked for
#define CASE_UNIT        (1.0 / (1 << 24)) // relative error of one operation in float

static struct cuda_case {
    struct cuda_queue queue;
    struct kernel_ctx *reference;
    struct ptx_module *module[CUDA_SOURCE_COUNT];
    uint64_t buffer[CASE_BUFFERS_MAX], seed;
    void *host[CASE_BUFFERS_MAX];
    int n_buffers, n_host;
    struct ptx_counts counts; // of the kernels of one case
} test;

static const char *const case_sources[CUDA_SOURCE_COUNT] = {
#define X(source) #source,
    CUDA_SOURCES(X)
#undef X
};
static const char *case_folder;

static void case_load(enum cuda_source source) {
    static char text[CASE_PTX_MAX], why[PTX_TEXT_MAX];
    char path[512];
    snprintf(path, sizeof path, "%s/%s.ptx", case_folder, case_sources[source]);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (!n || n == sizeof text)
        bail_out("cannot read '%s'", path);
    fclose(f);
    if (!(test.module[source] = ptx_load(text, n, CASE_SM, why)))
        bail_out("%s: %s", path, why);
}

static void case_launch(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                        unsigned threads, unsigned shared, void *params) {
    const struct cuda_kernel_info *info = &cuda_kernel_info[kernel];
    char why[PTX_TEXT_MAX];
    (void)q;
    if (!test.module[info->source])
        case_load(info->source);
    struct ptx_kernel *k = ptx_find(test.module[info->source], info->name);
    if (!k || ptx_param_count(k) != 1)
        bail_out("no kernel '%s' of one parameter", info->name);
    struct ptx_launch l = {.grid = {grid[0], grid[1], grid[2]},
                           .block = {threads, 1, 1},
                           .dynamic_shared = shared,
                           .seed = test.seed,
                           .params = params};
    if (ptx_run(k, &l, why) == 0)
        return;
    fail("%s", why); // the rest of the program could say nothing
    exit(done_testing());
}

static void *device_empty(size_t bytes) {
    uint64_t at = ptx_alloc(bytes ? bytes : 1);
    if (!at || test.n_buffers == CASE_BUFFERS_MAX)
        bail_out("no room on the device");
    test.buffer[test.n_buffers++] = at;
    return (void *)at;
}

static void *device_copy(const void *host, size_t bytes) {
    void *at = device_empty(bytes);
    memcpy(ptx_host((uint64_t)at, bytes), host, bytes);
    ptx_wrote((uint64_t)at, bytes);
    return at;
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

// Buffers of floats by their host's copy.
static inline void *device_floats(const float *host, size_t n) {
    return device_copy(host, n * sizeof *host);
}

// The device has these floats, each within its bound: `relative` of `size` (NULL: of want), and one
// rounding.
static void case_close(const void *device, const float *want, const float *size, size_t n,
                       double relative, const char *what) {
    const float *got = ptx_host((uint64_t)device, n * sizeof *got);
    if (!got || !ptx_written((uint64_t)device, n * sizeof *got)) {
        fail("%s: not all of the result was written", what);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double bound = relative * fabs((double)(size ? size[i] : want[i])) +
                       2 * CASE_UNIT * fabs((double)want[i]) + (double)FLT_MIN;
        if (fabs((double)got[i] - (double)want[i]) <= bound || (isnan(got[i]) && isnan(want[i])))
            continue;
        fail("%s: wrong result at %zu of %zu: %g instead of %g, %g apart and not %g", what, i, n,
             (double)got[i], (double)want[i], (double)got[i] - (double)want[i], bound);
        return;
    }
    pass("%s", what);
}

// Begins a case with a workspace of its own, so that nothing of the last one is in there.
static void case_begin(size_t workspace) {
    if (workspace < CUDA_WORKSPACE_BYTES_MIN)
        workspace = CUDA_WORKSPACE_BYTES_MIN;
    test.queue = (struct cuda_queue){case_launch, device_empty(workspace), workspace};
}

static void case_end(void) {
    test.counts = ptx_take_counts();
    while (test.n_buffers)
        ptx_free(test.buffer[--test.n_buffers]);
    while (test.n_host)
        free(test.host[--test.n_host]);
}

// The last case met no bank twice, and asked for few more sectors than its bytes fill.
static inline void case_counts(const char *what) {
    struct ptx_counts c = test.counts;
    ok(c.shared_conflicts == 0, "%s: wrong result unless %d bank conflicts are none", what,
       (int)c.shared_conflicts);
    ok((double)c.global_sectors * 32 <= CASE_SECTORS_MAX * (double)c.global_bytes,
       "%s: wrong result unless %d sectors are few for %d bytes", what, (int)c.global_sectors,
       (int)c.global_bytes);
}

struct case_family {
    const char *name;
    void (*run)(void);
};

static int case_main(int argc, char **argv, const struct case_family *family, int n) {
    if (argc < 2)
        bail_out("usage: %s FOLDER [FAMILY…]", argv[0]);
    case_folder = argv[1];
    const char *seed = getenv("EMU_SEED");
    test.seed = seed ? strtoull(seed, NULL, 10) : 1;
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
    for (int i = 0; i < CUDA_SOURCE_COUNT; i++)
        if (test.module[i])
            ptx_unload(test.module[i]);
    return done_testing();
}

#endif
