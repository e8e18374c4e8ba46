// SPDX-License-Identifier: Apache-2.0
// For cuda_case.h: the device is the PTX interpreter, in this process. It gets the folder with the
// PTX of all sources, runs each launch at once and checks every access. The kernels that the folder
// CASE_PLANTED has, if it is in the environment, are taken from there, and the program ends with
// the first case that is wrong.
#ifndef TESTS_GPU_CASE_INTERPRETER_H
#define TESTS_GPU_CASE_INTERPRETER_H
#include "kernels/cuda/cuda_params.h"
#include "tests/gpu/case_buffers.h"
#include "tests/gpu/case_changes.h"
#include "tests/gpu/emu/ptx.h"

enum { CASE_PTX_MAX = 1 << 23, CASE_SM = 80 };
#define CASE_ROUGHER     1.0 // a bound of the interpreter is the format's own
#define CASE_SECTORS_MAX 1.1 // times the bytes that were asked for
#define CASE_BYTES_MAX   1.2 // times the floor

static struct case_device {
    const char *folder, *planted;
    struct ptx_module *module[CUDA_SOURCE_COUNT], *changed[CUDA_SOURCE_COUNT];
    uint64_t buffer[CASE_BUFFERS_MAX], seed;
    int n_buffers;
    struct ptx_counts counts; // of the kernels of one case
} dev;

static const char *const case_sources[CUDA_SOURCE_COUNT] = {
#define X(source) #source,
    CUDA_SOURCES(X)
#undef X
};

static void device_open(const char *folder) {
    const char *seed = getenv("EMU_SEED");
    dev.folder = folder;
    dev.seed = seed ? strtoull(seed, NULL, 10) : 1;
    dev.planted = getenv("CASE_PLANTED");
    changes_open();
}

// The PTX of sm_75 has other bodies than that of newer ones, and 9.0 has kernels of its own.
static int device_capability(void) {
    const char *capability = getenv("CASE_CAPABILITY");
    return capability ? (int)strtol(capability, NULL, 10) : CASE_SM;
}

static void device_close(void) {
    changes_end_case();
    for (int i = 0; i < CUDA_SOURCE_COUNT; i++)
        if (dev.module[i]) {
            changes_close((enum cuda_source)i, dev.module[i]);
            ptx_unload(dev.module[i]);
            if (dev.changed[i])
                ptx_unload(dev.changed[i]);
        }
}

static struct ptx_module *case_load(const char *folder, enum cuda_source source) {
    static char text[CASE_PTX_MAX], why[PTX_TEXT_MAX];
    char path[512];
    snprintf(path, sizeof path, "%s/%s.ptx", folder, case_sources[source]);
    FILE *f = fopen(path, "r");
    if (!f && folder == dev.planted)
        return NULL;
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (!n || n == sizeof text)
        bail_out("cannot read '%s'", path);
    fclose(f);
    struct ptx_module *m = ptx_load(text, n, device_capability(), why);
    if (!m)
        bail_out("%s: %s", path, why);
    return m;
}

static struct ptx_kernel *case_kernel(const struct cuda_kernel_info *info) {
    enum cuda_source source = info->source;
    if (!dev.module[source]) {
        dev.module[source] = case_load(dev.folder, source);
        dev.changed[source] = dev.planted ? case_load(dev.planted, source) : NULL;
    }
    struct ptx_module *changed = dev.changed[source];
    struct ptx_kernel *k = changed ? ptx_find(changed, info->name) : NULL;
    if (!k)
        k = ptx_find(dev.module[source], info->name);
    if (!k || ptx_param_count(k) != 1)
        bail_out("no kernel '%s' of one parameter", info->name);
    return k;
}

static void device_launch(struct cuda_queue *q, enum cuda_kernel kernel, const unsigned grid[3],
                          unsigned threads, unsigned shared, void *params) {
    const struct cuda_kernel_info *info = &cuda_kernel_info[kernel];
    char why[PTX_TEXT_MAX];
    (void)q;
    struct ptx_kernel *k = case_kernel(info);
    struct ptx_launch l = {.grid = {grid[0], grid[1], grid[2]},
                           .block = {threads, 1, 1},
                           .dynamic_shared = shared,
                           .seed = dev.seed,
                           .params = params};
    changes_try(info->source, dev.module[info->source], k, &l);
    if (ptx_run(k, &l, why) == 0)
        return;
    fail("%s", why); // the rest of the program could say nothing
    exit(done_testing());
}

static int device_tensor_map(const struct cuda_matrix *m, void *map) {
    char why[PTX_TEXT_MAX];
    uint32_t bytes = m->type == KERNEL_TF32 ? 4 : 2;
    const struct ptx_tensor t = {.address = (uint64_t)m->at,
                                 .dim = {(uint64_t)m->columns, (uint64_t)m->rows},
                                 .pitch = (uint64_t)m->pitch,
                                 .box = {CUDA_TMA_BYTES / bytes, (uint32_t)m->box_rows},
                                 .bytes = bytes,
                                 .swizzle = CUDA_TMA_BYTES};
    if (ptx_tensor_map(map, &t, why) == 0)
        return 0;
    fail("%s", why);
    return -1;
}

// A case begins.
static void device_begin(void) {
    changes_end_case();
    if (dev.planted && tap_failed)
        exit(done_testing());
}

static void *device_empty(size_t bytes) {
    uint64_t at = ptx_alloc(bytes ? bytes : 1);
    if (!at || dev.n_buffers == CASE_BUFFERS_MAX)
        bail_out("no room on the device");
    dev.buffer[dev.n_buffers++] = at;
    return (void *)at;
}

static void *device_copy(const void *host, size_t bytes) {
    void *at = device_empty(bytes);
    memcpy(ptx_host((uint64_t)at, bytes), host, bytes);
    ptx_wrote((uint64_t)at, bytes);
    return at;
}

// The bytes there now.
static const void *device_bytes(const void *at, size_t bytes) {
    return ptx_host((uint64_t)at, bytes);
}
static bool device_written(const void *at, size_t bytes) {
    return ptx_written((uint64_t)at, bytes);
}

static void device_end(void) {
    dev.counts = ptx_take_counts();
    while (dev.n_buffers)
        ptx_free(dev.buffer[--dev.n_buffers]);
}

// The last case met no bank twice, and asked for few more sectors than its bytes fill.
static inline void case_counts(const char *what) {
    struct ptx_counts c = dev.counts;
    ok(c.shared_conflicts == 0, "%s: wrong result unless %d bank conflicts are none", what,
       (int)c.shared_conflicts);
    ok((double)c.global_sectors * 32 <= CASE_SECTORS_MAX * (double)c.global_bytes,
       "%s: wrong result unless %d sectors are few for %d bytes", what, (int)c.global_sectors,
       (int)c.global_bytes);
}

// The last case moved at most CASE_BYTES_MAX times so many bytes.
static inline void case_few_bytes(int floor, const char *what) {
    ok((double)dev.counts.global_bytes <= CASE_BYTES_MAX * floor,
       "%s: wrong result unless %d bytes are few for a floor of %d", what,
       (int)dev.counts.global_bytes, floor);
}

// The last case moved so many bytes.
static inline void case_moved(int bytes, const char *what) {
    is_int(dev.counts.global_bytes, bytes, "%s", what);
}

#endif
