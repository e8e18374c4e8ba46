// SPDX-License-Identifier: Apache-2.0
// driver.c: devices, contexts, modules, memory and errors of the stand-in for libcuda.so.1. Its
// device is called "emulated (tests only)". The environment sets what it pretends to be: EMU_CC
// (compute capability, 80), EMU_SEED, EMU_DEVICES (1), EMU_MEMORY_MB (8192), EMU_DRIVER (13000),
// EMU_SAME_VALUES (0: each word has one writer at a time), EMU_NUMA (0: no nodes; of N nodes device
// d is attached to d % N), and what graph.c and tensor_map.c say.
#include "tests/gpu/driver/driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 16, SHARED_OPTIN = PTX_SHARED_MAX, PINNED_MAX = 1024, NAME_SPACE = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int depth, in_host;
static char message[MESSAGE_MAX];
static CUresult broken;
static bool initialised;
static _Thread_local CUcontext current;
static struct context { int retained; } primary[DEVICES_MAX];
static size_t used_bytes;
static int cc, devices, driver_version;
static size_t memory_bytes;

void driver_lock(void) {
    if (depth++ == 0)
        pthread_mutex_lock(&mutex);
}
void driver_unlock(void) {
    if (--depth == 0)
        pthread_mutex_unlock(&mutex);
}
void driver_in_host(bool in) {
    in_host += in ? 1 : -1;
}

__attribute__((format(printf, 2, 0))) static CUresult failed(CUresult code, const char *fmt,
                                                             va_list ap) {
    vsnprintf(message, sizeof message, fmt, ap);
    fprintf(stderr, "emulated CUDA: error %d: %s\n", code, message);
    return code;
}
CUresult driver_fail(CUresult code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    failed(code, fmt, ap);
    va_end(ap);
    return code;
}
CUresult driver_broken(const char *fmt, ...) {
    va_list ap;
    if (broken)
        return broken;
    va_start(ap, fmt);
    broken = failed(CUDA_ERROR_LAUNCH_FAILED, fmt, ap);
    va_end(ap);
    return broken;
}

CUresult driver_state(void) {
    if (in_host)
        return driver_fail(CUDA_ERROR_NOT_PERMITTED, "a host function calls the driver");
    if (!initialised)
        return driver_fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
    if (!current)
        return driver_fail(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    return broken;
}

CUresult driver_unsafe(const char *call) {
    CUresult r = driver_state();
    if (r || !capturing)
        return r;
    capturing->invalid = true;
    return driver_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s during a capture", call);
}

// Every entry of the driver: locked, and refused in a broken state. call says what the body
// returns.
#define ENTER(check, body)                                                                         \
    driver_lock();                                                                                 \
    CUresult r = (check);                                                                          \
    if (!r)                                                                                        \
        r = (body);                                                                                \
    driver_unlock();                                                                               \
    return r

long driver_setting(const char *name, long otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtol(s, NULL, 10) : otherwise;
}

// ---- devices -----------------------------------------------------------------------------------
API CUresult cuInit(unsigned flags) {
    driver_lock();
    if (!initialised) {
        cc = (int)driver_setting("EMU_CC", 80);
        devices = (int)driver_setting("EMU_DEVICES", 1);
        driver_version = (int)driver_setting("EMU_DRIVER", 13000);
        memory_bytes = (size_t)driver_setting("EMU_MEMORY_MB", 8192) << 20;
        schedule = (uint64_t)driver_setting("EMU_SEED", 1);
        ptx_count_accesses(false);
        initialised = true;
    }
    driver_unlock();
    return flags ? CUDA_ERROR_INVALID_VALUE : 0;
}
API CUresult cuDriverGetVersion(int *version) {
    *version = (int)driver_setting("EMU_DRIVER", 13000);
    return 0;
}
API CUresult cuDeviceGetCount(int *n) {
    *n = devices;
    return initialised ? 0 : CUDA_ERROR_NOT_INITIALIZED;
}
API CUresult cuDeviceGet(CUdevice *d, int n) {
    *d = n;
    return n >= 0 && n < devices && n < DEVICES_MAX ? 0 : CUDA_ERROR_INVALID_DEVICE;
}
API CUresult cuDeviceGetName(char *name, int n, CUdevice d) {
    (void)d;
    snprintf(name, (size_t)n, "emulated (tests only)");
    return 0;
}
API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) {
    (void)d;
    *bytes = memory_bytes;
    return 0;
}
API CUresult cuDeviceGetPCIBusId(char *id, int n, CUdevice d) {
    snprintf(id, (size_t)n, "0000:%02x:00.0", (unsigned)d + 1);
    return 0;
}
API CUresult cuDeviceGetAttribute(int *v, int attribute, CUdevice d) {
    int nodes = (int)driver_setting("EMU_NUMA", 0);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = PTX_THREADS_MAX; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *v = PTX_SHARED_STATIC_MAX; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = SHARED_OPTIN; return 0;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *v = 32; return 0;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *v = 1000; return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 2; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = cc / 10; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = cc % 10; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *v = 0; return 0;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: *v = nodes > 0 ? d % nodes : -1; return 0;
    default:
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "the device attribute %d is not known",
                           attribute);
    }
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    if (d < 0 || d >= devices || d >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    primary[d].retained++;
    *c = &primary[d];
    return 0;
}
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    if (d < 0 || d >= DEVICES_MAX || primary[d].retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    primary[d].retained--;
    return 0;
}
API CUresult cuCtxSetCurrent(CUcontext c) {
    current = c;
    return 0;
}
API CUresult cuCtxGetCurrent(CUcontext *c) {
    *c = current;
    return 0;
}
API CUresult cuCtxSynchronize(void) {
    ENTER(driver_unsafe("cuCtxSynchronize"), stream_drain(NULL));
}

// ---- modules -----------------------------------------------------------------------------------
struct module {
    struct ptx_module *ptx;
};

// A container of nvcc: a header of 16 bytes, and entries of which each has its own.
enum {
    FATBIN_MAGIC = 0x50,
    FATBIN_HEADER = 16,
    ENTRY_HEADER = 64,
    ENTRY_PTX = 1,
    COMPRESSED = 0x2000
};

static uint64_t at(const unsigned char *p, int offset, int bytes) {
    uint64_t v = 0;
    memcpy(&v, p + offset, (size_t)bytes);
    return v;
}

// The PTX for the greatest compute capability that this device has; NULL where there is none.
static const char *in_fatbin(const unsigned char *p, size_t *len) {
    const unsigned char *end = p + at(p, 6, 2) + at(p, 8, 8), *e = p + at(p, 6, 2);
    const char *found = NULL;
    int best = -1;
    while (end - e >= ENTRY_HEADER) {
        uint64_t header = at(e, 4, 4), bytes = at(e, 8, 8);
        int sm = (int)at(e, 28, 4);
        bool fits =
            at(e, 0, 2) == ENTRY_PTX && sm <= cc && sm > best && !(at(e, 40, 8) & COMPRESSED);
        if (header + bytes > (uint64_t)(end - e))
            break;
        if (fits) {
            best = sm;
            found = (const char *)e + header;
            *len = strnlen(found, bytes);
        }
        e += header + bytes;
    }
    return found;
}

static CUresult load(CUmodule *m, const void *image) {
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    char text[PTX_TEXT_MAX];
    const char *source = image;
    size_t len = 0;
    if (memcmp(image, magic, sizeof magic) == 0)
        source = in_fatbin(image, &len);
    else
        len = strlen(source);
    if (!source)
        return driver_fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                           "the module has no PTX for compute_%d or less, "
                           "or has it compressed",
                           cc);
    struct ptx_module *ptx = ptx_load(source, len, cc, text);
    if (!ptx)
        return driver_fail(CUDA_ERROR_INVALID_PTX, "%s", text);
    *m = malloc(sizeof **m);
    if (!*m)
        abort();
    (*m)->ptx = ptx;
    return 0;
}
API CUresult cuModuleLoadData(CUmodule *m, const void *image) {
    ENTER(driver_unsafe("cuModuleLoadData"), load(m, image));
}
API CUresult cuModuleUnload(CUmodule m) {
    driver_lock();
    CUresult r = driver_unsafe("cuModuleUnload");
    if (!r)
        r = stream_drain(NULL);
    ptx_unload(m->ptx);
    free(m);
    driver_unlock();
    return r;
}
API CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    *f = ptx_find(m->ptx, name);
    return *f ? 0 : driver_fail(CUDA_ERROR_NOT_FOUND, "the module has no kernel '%s'", name);
}
API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *bytes, CUmodule m, const char *name) {
    size_t n = 0;
    uint64_t where = ptx_variable(m->ptx, name, &n);
    if (p)
        *p = where;
    if (bytes)
        *bytes = n;
    return where ? 0 : driver_fail(CUDA_ERROR_NOT_FOUND, "the module has no variable '%s'", name);
}

// ---- memory ------------------------------------------------------------------------------------
static CUresult allocate(CUdeviceptr *p, size_t n) {
    if (n == 0)
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    if (n > memory_bytes - used_bytes || !(*p = ptx_alloc(n)))
        return driver_fail(CUDA_ERROR_OUT_OF_MEMORY,
                           "an allocation of %zu bytes, of %zu that are free", n,
                           memory_bytes - used_bytes);
    used_bytes += n;
    return 0;
}
static CUresult release(CUdeviceptr p) {
    size_t n;
    CUresult r = stream_drain(NULL);
    if (p == 0 || r)
        return r;
    if (ptx_allocation(p, &n) != p || ptx_free(p))
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "cuMemFree of what cuMemAlloc did not return");
    used_bytes -= n;
    return 0;
}
API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    ENTER(driver_unsafe("cuMemAlloc"), allocate(p, n));
}
API CUresult cuMemFree_v2(CUdeviceptr p) {
    ENTER(driver_unsafe("cuMemFree"), release(p));
}
API CUresult cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = memory_bytes - used_bytes;
    *total = memory_bytes;
    return 0;
}
API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) {
    (void)flags;
    driver_lock();
    CUresult r = driver_unsafe("cuMemHostAlloc");
    if (!r)
        r = posix_memalign(p, 4096, n ? n : 1) ? CUDA_ERROR_OUT_OF_MEMORY : 0;
    driver_unlock();
    return r;
}
API CUresult cuMemFreeHost(void *p) {
    driver_lock();
    CUresult r = driver_unsafe("cuMemFreeHost");
    if (!r)
        r = stream_drain(NULL);
    free(p);
    driver_unlock();
    return r;
}
API void *emu_bytes(CUdeviceptr p, size_t n, int writes) {
    void *host = ptx_host(p, n);
    if (host && writes)
        ptx_wrote(p, n);
    return host && !writes && !ptx_written(p, n) ? NULL : host;
}

// ---- errors ------------------------------------------------------------------------------------
API const char *emu_fault(void) {
    return message;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
};
API CUresult cuGetErrorName(CUresult code, const char **s) {
    *s = NULL;
    for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
        if (errors[n].code == code)
            *s = errors[n].name;
    return *s ? 0 : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGetErrorString(CUresult code, const char **s) {
    *s = NULL;
    for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
        if (errors[n].code == code)
            *s = errors[n].text;
    return *s ? 0 : CUDA_ERROR_INVALID_VALUE;
}
