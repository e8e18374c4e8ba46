// SPDX-License-Identifier: Apache-2.0
// A driver for lib/gpu without a GPU and without libcuda.so.1: each call can fail, copies are late
// until an event behind them is reached, and handles and memory are counted.
#ifndef DTCTL_TESTS_DRIVER_FAKE_H
#define DTCTL_TESTS_DRIVER_FAKE_H

#include "gpu/gpu_impl.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum driver_call {
#define X(field, symbol, params) CALL_##field,
    GPU_DRIVER_CALLS(X) GPU_DRIVER_EXTRAS(X)
#undef X
        CALLS
};
enum { FAKE_COPIES_MAX = 256, FAKE_HANDLE_BYTES = 8 };
enum { FAKE_ERROR = 999 }; // an error that lib/gpu does not know

struct fake_copy {
    void *to;
    const void *from; // NULL: fills
    size_t n;
};

static struct fake {
    CUresult code[CALLS]; // what a call returns; 0: it succeeds
    int calls[CALLS];
    int good[CALLS]; // so many calls succeed first
    const char *name;
    int version, gpus, capability, mode;
    size_t left;   // memory of the device, in bytes
    int live;      // handles and memory that were not given back
    int open;      // the driver
    bool hangs;    // no event is reached
    bool older;    // the driver has no calls but those that are needed
    uint64_t made; // copies so far
    int late;      // copies that are not made yet, in their order
    struct fake_copy copy[FAKE_COPIES_MAX];
    void *params; // NULL, or where a launch leaves its parameters, of so many bytes
    size_t params_bytes;
    int shared;         // bytes of shared memory that a function may have
    unsigned launch[5]; // grid, threads and shared memory of the last launch
    struct {
        int type;
        uint64_t columns, rows, pitch;
        uint32_t box_columns, box_rows;
    } map; // the last tensor map
} fake;

static void fake_reset(void) {
    fake = (struct fake){.name = "NVIDIA Test",
                         .version = 13000,
                         .gpus = 2,
                         .capability = 90,
                         .left = (size_t)3 << 30};
}

static CUresult called(enum driver_call c) {
    return fake.calls[c]++ < fake.good[c] ? CUDA_SUCCESS : fake.code[c];
}

// A handle, or memory; that of the device is the host's here. It is not clean.
static CUresult make(enum driver_call c, void *handle, size_t bytes) {
    CUresult r = called(c);
    void *p = r == CUDA_SUCCESS ? malloc(bytes) : NULL;
    if (!p)
        return r;
    memset(p, c == CALL_event_new ? 0 : 0xa5, bytes);
    memcpy(handle, &p, sizeof p);
    fake.live++;
    return CUDA_SUCCESS;
}

static void catch_up(uint64_t until) {
    for (; fake.made < until; fake.made++, fake.late--) {
        struct fake_copy c = fake.copy[0];
        if (c.from)
            memcpy(c.to, c.from, c.n);
        else
            memset(c.to, 0, c.n);
        memmove(fake.copy, fake.copy + 1, sizeof fake.copy - sizeof *fake.copy);
    }
}

static CUresult drop(enum driver_call c, void *handle) {
    catch_up(fake.made + (uint64_t)fake.late);
    free(handle);
    fake.live--;
    return called(c);
}

static CUresult later(enum driver_call c, void *to, const void *from, size_t n) {
    CUresult r = called(c);
    if (r != CUDA_SUCCESS)
        return r;
    if (fake.late == FAKE_COPIES_MAX)
        bail_out("too many copies that nothing waits for");
    fake.copy[fake.late++] = (struct fake_copy){to, from, n};
    return CUDA_SUCCESS;
}

#define DEVICE(p) ((void *)(uintptr_t)(p))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

// Calls without an effect here, which are counted.
#define X(field, symbol, params)                                                                   \
    static CUresult count_##field params {                                                         \
        return called(CALL_##field);                                                               \
    }
GPU_DRIVER_CALLS(X)
GPU_DRIVER_EXTRAS(X)
#undef X

static CUresult do_version(int *version) {
    *version = fake.version;
    return called(CALL_version);
}
static CUresult do_error_name(CUresult code, const char **name) {
    *name = "CUDA_ERROR_TEST";
    return called(CALL_error_name);
}
static CUresult do_device_count(int *count) {
    *count = fake.gpus;
    return called(CALL_device_count);
}
static CUresult do_device_get(CUdevice *d, int index) {
    *d = index;
    return called(CALL_device_get);
}
static CUresult do_device_name(char *name, int room, CUdevice d) {
    snprintf(name, (size_t)room, "%s", fake.name);
    return called(CALL_device_name);
}
static CUresult do_device_attribute(int *value, int attribute, CUdevice d) {
    *value = attribute == CU_COMPUTE_MODE       ? fake.mode
             : attribute == CU_CAPABILITY_MAJOR ? fake.capability / 10
                                                : fake.capability % 10;
    return called(CALL_device_attribute);
}
static CUresult do_context_retain(CUcontext *c, CUdevice d) {
    static char context;
    CUresult r = called(CALL_context_retain);
    if (r == CUDA_SUCCESS)
        *c = (CUcontext)&context, fake.live++;
    return r;
}
static CUresult do_context_release(CUdevice d) {
    fake.live--;
    return called(CALL_context_release);
}
static CUresult do_memory_info(size_t *left, size_t *total) {
    *left = fake.left, *total = (size_t)4 << 30;
    return called(CALL_memory_info);
}
static CUresult do_memory_alloc(CUdeviceptr *p, size_t bytes) {
    return make(CALL_memory_alloc, p, bytes);
}
static CUresult do_memory_free(CUdeviceptr p) {
    return drop(CALL_memory_free, DEVICE(p));
}
static CUresult do_host_alloc(void **p, size_t bytes, unsigned flags) {
    return make(CALL_host_alloc, p, bytes);
}
static CUresult do_host_free(void *p) {
    return drop(CALL_host_free, p);
}
static CUresult do_module_load(CUmodule *m, const void *image) {
    return make(CALL_module_load, m, FAKE_HANDLE_BYTES);
}
static CUresult do_module_unload(CUmodule m) {
    return drop(CALL_module_unload, m);
}
static CUresult do_stream_new(CUstream *s, unsigned flags) {
    return make(CALL_stream_new, s, FAKE_HANDLE_BYTES);
}
static CUresult do_stream_free(CUstream s) {
    return drop(CALL_stream_free, s);
}
static CUresult do_event_new(CUevent *e, unsigned flags) {
    return make(CALL_event_new, e, sizeof(uint64_t));
}
static CUresult do_event_free(CUevent e) {
    return drop(CALL_event_free, e);
}
static CUresult do_event_record(CUevent e, CUstream s) {
    uint64_t until = fake.made + (uint64_t)fake.late;
    memcpy(e, &until, sizeof until);
    return called(CALL_event_record);
}
// Not ready the first time, as on a device that is busy.
static CUresult do_event_query(CUevent e) {
    uint64_t until;
    memcpy(&until, e, sizeof until);
    CUresult r = called(CALL_event_query);
    if (r != CUDA_SUCCESS)
        return r;
    if (fake.hangs || fake.calls[CALL_event_query] % 2)
        return CUDA_ERROR_NOT_READY;
    catch_up(until);
    return CUDA_SUCCESS;
}
static CUresult do_copy_in(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    return later(CALL_copy_in, DEVICE(to), from, n);
}
static CUresult do_copy_out(void *to, CUdeviceptr from, size_t n, CUstream s) {
    return later(CALL_copy_out, to, DEVICE(from), n);
}
static CUresult do_fill(CUdeviceptr to, unsigned char byte, size_t n, CUstream s) {
    return later(CALL_fill, DEVICE(to), NULL, n);
}
static CUresult do_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned x,
                          unsigned y, unsigned z, unsigned shared, CUstream s, void **params,
                          void **extra) {
    if (fake.params)
        memcpy(fake.params, params[0], fake.params_bytes);
    const unsigned launch[] = {gx, gy, gz, x, shared};
    memcpy(fake.launch, launch, sizeof launch);
    return called(CALL_launch);
}
static CUresult do_function_set(CUfunction f, int attribute, int value) {
    fake.shared = value;
    return called(CALL_function_set);
}
static CUresult do_tensor_map(void *map, int type, uint32_t rank, void *at, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box,
                              const uint32_t *element_strides, int interleave, int swizzle,
                              int promotion, int fill) {
    fake.map.type = type, fake.map.columns = dims[0], fake.map.rows = dims[1];
    fake.map.pitch = strides[0], fake.map.box_columns = box[0], fake.map.box_rows = box[1];
    return called(CALL_tensor_map);
}
static CUresult do_graph_make(CUgraphExec *x, CUgraph g, unsigned long long flags) {
    return make(CALL_graph_make, x, FAKE_HANDLE_BYTES);
}
static CUresult do_graph_exec_free(CUgraphExec x) {
    return drop(CALL_graph_exec_free, x);
}
static CUresult do_capture_end(CUstream s, CUgraph *g) {
    return make(CALL_capture_end, g, FAKE_HANDLE_BYTES);
}
static CUresult do_graph_free(CUgraph g) {
    return drop(CALL_graph_free, g);
}
#pragma GCC diagnostic pop

// In place of lib/gpu/gpu_driver.c.
int fake_driver_open(struct gpu_driver *d, struct err *e) __asm__("gpu_driver_open");
void fake_driver_close(struct gpu_driver *d) __asm__("gpu_driver_close");
const char *fake_driver_error(const struct gpu_driver *d,
                              CUresult code) __asm__("gpu_driver_error");

int fake_driver_open(struct gpu_driver *d, struct err *e) {
    (void)e;
    *d = (struct gpu_driver){.library = &fake,
#define X(field, symbol, params) .field = count_##field,
                             GPU_DRIVER_CALLS(X)
#undef X
    };
#define DOES(field) d->field = do_##field
    DOES(version), DOES(error_name), DOES(device_count), DOES(device_get), DOES(device_name);
    DOES(device_attribute), DOES(context_retain), DOES(context_release), DOES(memory_info);
    DOES(memory_alloc), DOES(memory_free), DOES(host_alloc), DOES(host_free), DOES(module_load);
    DOES(module_unload), DOES(stream_new), DOES(stream_free), DOES(event_new), DOES(event_free);
    DOES(event_record), DOES(event_query), DOES(copy_in), DOES(copy_out), DOES(fill);
    DOES(launch), DOES(graph_make), DOES(graph_exec_free), DOES(capture_end), DOES(graph_free);
    DOES(function_set);
#define X(field, symbol, params) d->field = fake.older ? NULL : count_##field;
    GPU_DRIVER_EXTRAS(X)
#undef X
    if (!fake.older)
        DOES(tensor_map);
#undef DOES
    fake.open++;
    return 0;
}

void fake_driver_close(struct gpu_driver *d) {
    fake.open -= d->library != NULL;
    *d = (struct gpu_driver){0};
}

const char *fake_driver_error(const struct gpu_driver *d, CUresult code) {
    const char *name = NULL;
    return d->error_name(code, &name) == CUDA_SUCCESS ? name : "";
}

// The program has no fat binaries of kernels.
#define X(source)                                                                                  \
    extern const unsigned char fatbin_##source[1];                                                 \
    const unsigned char fatbin_##source[1] = {0};
CUDA_SOURCES(X)
#undef X

#endif
