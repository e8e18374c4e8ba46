// SPDX-License-Identifier: Apache-2.0
// The part of NVIDIA's driver interface (libcuda.so.1) that is used, found when the program runs.
// No header of CUDA's is needed: names, types and numbers are those of the CUDA driver API 13.0.
#ifndef GPU_GPU_DRIVER_H
#define GPU_GPU_DRIVER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
};

enum {
    CU_COMPUTE_MODE = 20,
    CU_CAPABILITY_MAJOR = 75,
    CU_CAPABILITY_MINOR = 76,
    CU_HOST_NUMA_ID = 134, // -1: the machine has one node
    CU_COMPUTE_MODE_PROHIBITED = 2,
    CU_FUNC_DYNAMIC_SHARED = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_TENSOR_MAP_FLOAT16 = 6,
    CU_TENSOR_MAP_FLOAT32 = 7,
    CU_TENSOR_MAP_BFLOAT16 = 9,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_PROMOTION_256B = 3,
};

// field, symbol, parameters
#define GPU_DRIVER_CALLS(X)                                                                        \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(version, "cuDriverGetVersion", (int *version))                                               \
    X(error_name, "cuGetErrorName", (CUresult code, const char **name))                            \
    X(device_count, "cuDeviceGetCount", (int *count))                                              \
    X(device_get, "cuDeviceGet", (CUdevice * d, int index))                                        \
    X(device_name, "cuDeviceGetName", (char *name, int room, CUdevice d))                          \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice d))           \
    X(context_retain, "cuDevicePrimaryCtxRetain", (CUcontext * c, CUdevice d))                     \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice d))                               \
    X(context_use, "cuCtxSetCurrent", (CUcontext c))                                               \
    X(memory_info, "cuMemGetInfo_v2", (size_t * left, size_t * total))                             \
    X(memory_alloc, "cuMemAlloc_v2", (CUdeviceptr * p, size_t bytes))                              \
    X(memory_free, "cuMemFree_v2", (CUdeviceptr p))                                                \
    X(host_alloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                      \
    X(host_free, "cuMemFreeHost", (void *p))                                                       \
    X(module_load, "cuModuleLoadData", (CUmodule * m, const void *image))                          \
    X(module_unload, "cuModuleUnload", (CUmodule m))                                               \
    X(module_function, "cuModuleGetFunction", (CUfunction * f, CUmodule m, const char *name))      \
    X(function_set, "cuFuncSetAttribute", (CUfunction f, int attribute, int value))                \
    X(stream_new, "cuStreamCreate", (CUstream * s, unsigned flags))                                \
    X(stream_free, "cuStreamDestroy_v2", (CUstream s))                                             \
    X(event_new, "cuEventCreate", (CUevent * e, unsigned flags))                                   \
    X(event_free, "cuEventDestroy_v2", (CUevent e))                                                \
    X(event_record, "cuEventRecord", (CUevent e, CUstream s))                                      \
    X(stream_wait, "cuStreamWaitEvent", (CUstream s, CUevent e, unsigned flags))                   \
    X(event_query, "cuEventQuery", (CUevent e))                                                    \
    X(copy_in, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t n, CUstream s))   \
    X(copy_out, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t n, CUstream s))        \
    X(fill, "cuMemsetD8Async", (CUdeviceptr to, unsigned char byte, size_t n, CUstream s))         \
    X(capture_begin, "cuStreamBeginCapture_v2", (CUstream s, int mode))                            \
    X(capture_end, "cuStreamEndCapture", (CUstream s, CUgraph * g))                                \
    X(graph_make, "cuGraphInstantiateWithFlags",                                                   \
      (CUgraphExec * x, CUgraph g, unsigned long long flags))                                      \
    X(graph_free, "cuGraphDestroy", (CUgraph g))                                                   \
    X(graph_launch, "cuGraphLaunch", (CUgraphExec x, CUstream s))                                  \
    X(graph_exec_free, "cuGraphExecDestroy", (CUgraphExec x))                                      \
    X(launch, "cuLaunchKernel",                                                                    \
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
       unsigned shared, CUstream s, void **params, void **extra))

// The same, without which the rest works.
#define GPU_DRIVER_EXTRAS(X)                                                                       \
    X(tensor_map, "cuTensorMapEncodeTiled",                                                        \
      (void *map, int type, uint32_t rank, void *address, const uint64_t *dims,                    \
       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,              \
       int interleave, int swizzle, int promotion, int fill))

struct gpu_driver {
    void *library;
#define X(field, symbol, params) CUresult(*field) params;
    GPU_DRIVER_CALLS(X)
    GPU_DRIVER_EXTRAS(X) // NULL: the driver has none
#undef X
};

// Finds libcuda.so.1 and its functions. ERR_NOT_FOUND: this machine has no driver of NVIDIA's.
int gpu_driver_open(struct gpu_driver *d, struct err *e);
void gpu_driver_close(struct gpu_driver *d);
// The driver's name of an error, "CUDA_ERROR_…".
const char *gpu_driver_error(const struct gpu_driver *d, CUresult code);

#endif
