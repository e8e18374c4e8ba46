// SPDX-License-Identifier: Apache-2.0
// test_driver.c: the stand-in for libcuda.so.1: everything asynchronous is late, only events order
// streams, graphs keep their edges, and what the real driver refuses is refused. A step of training
// in miniature (gradient, all-reduce on its own stream, update) must fail when an edge is left out.
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, BYTES = 4 * WORDS, RUNS = 24 };

#define CALLS(X)                                                                                   \
    X(cuInit, unsigned)                                                                            \
    X(cuDeviceGetCount, int *)                                                                     \
    X(cuDeviceGetAttribute, int *, int, CUdevice)                                                  \
    X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                             \
    X(cuCtxSetCurrent, CUcontext)                                                                  \
    X(cuCtxSynchronize, void)                                                                      \
    X(cuModuleLoadData, CUmodule *, const void *)                                                  \
    X(cuModuleGetFunction, CUfunction *, CUmodule, const char *)                                   \
    X(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule, const char *)                       \
    X(cuStreamCreate, CUstream *, unsigned)                                                        \
    X(cuStreamSynchronize, CUstream)                                                               \
    X(cuStreamQuery, CUstream)                                                                     \
    X(cuStreamWaitEvent, CUstream, CUevent, unsigned)                                              \
    X(cuStreamBeginCapture_v2, CUstream, int)                                                      \
    X(cuStreamEndCapture, CUstream, CUgraph *)                                                     \
    X(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)                     \
    X(cuGraphGetNodes, CUgraph, CUgraphNode *, size_t *)                                           \
    X(cuGraphLaunch, CUgraphExec, CUstream)                                                        \
    X(cuGraphExecDestroy, CUgraphExec)                                                             \
    X(cuGraphDestroy, CUgraph)                                                                     \
    X(cuEventCreate, CUevent *, unsigned)                                                          \
    X(cuEventRecord, CUevent, CUstream)                                                            \
    X(cuEventQuery, CUevent)                                                                       \
    X(cuEventSynchronize, CUevent)                                                                 \
    X(cuMemAlloc_v2, CUdeviceptr *, size_t)                                                        \
    X(cuMemFree_v2, CUdeviceptr)                                                                   \
    X(cuMemHostAlloc, void **, size_t, unsigned)                                                   \
    X(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)                           \
    X(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)                                 \
    X(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)                            \
    X(cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream)                                   \
    X(cuLaunchHostFunc, CUstream, CUhostFn *, void *)                                              \
    X(cuTensorMapEncodeTiled, void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,   \
      const uint32_t *, const uint32_t *, int, int, int, int)                                      \
    X(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
      unsigned, CUstream, void **, void **)
static struct {
#define X(name, ...) CUresult (*name)(__VA_ARGS__);
    CALLS(X)
#undef X
    const char *(*emu_fault)(void);
} cu;

// y[i] = a x[i] + b
static const char source[] =
    ".version 9.0\n.target sm_75\n.address_size 64\n.global .align 4 .u32 scale = 3;\n"
    ".visible .entry line(.param .u64 y, .param .u64 x, .param .u32 a, .param .u32 b)\n"
    ".maxntid 64, 1, 1\n{\n"
    ".reg .b32 %r<6>; .reg .b64 %d<5>;\n"
    "ld.param.u64 %d1, [y]; ld.param.u64 %d2, [x]; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b];\n"
    "mov.u32 %r3, %tid.x; mul.wide.u32 %d3, %r3, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
    "ld.global.u32 %r4, [%d2]; mad.lo.s32 %r5, %r4, %r1, %r2; st.global.u32 [%d1], %r5; ret;\n}\n";

static CUfunction line;
static CUmodule module;
static CUstream compute, comm;
static CUevent edge[2];

static void open_driver(void) {
    CUcontext context;
    void *so = dlopen("libcuda.so.1", RTLD_NOW);
    if (!so)
        bail_out("%s", dlerror());
#define X(name, ...) *(void **)&cu.name = dlsym(so, #name);
    CALLS(X)
#undef X
    *(void **)&cu.emu_fault = dlsym(so, "emu_fault");
    is_int(cu.cuStreamCreate(&compute, 1), CUDA_ERROR_NOT_INITIALIZED,
           "nothing works before cuInit");
    cu.cuInit(0);
    is_int(cu.cuStreamCreate(&compute, 1), CUDA_ERROR_INVALID_CONTEXT,
           "no call works without a context");
    cu.cuDevicePrimaryCtxRetain(&context, 0);
    cu.cuCtxSetCurrent(context);
    is_int(cu.cuModuleLoadData(&module, source), 0, "a module of PTX is loaded");
    is_int(cu.cuModuleGetFunction(&line, module, "line"), 0, "the module's kernel is found");
    is_int(cu.cuModuleGetFunction(&(CUfunction){NULL}, module, "none"), CUDA_ERROR_NOT_FOUND,
           "an unknown kernel is not found");
    cu.cuStreamCreate(&compute, 1);
    cu.cuStreamCreate(&comm, 1);
    cu.cuEventCreate(&edge[0], 0);
    cu.cuEventCreate(&edge[1], 0);
}

static CUresult apply(CUdeviceptr y, CUdeviceptr x, uint32_t a, uint32_t b, CUstream s) {
    return cu.cuLaunchKernel(line, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&y, &x, &a, &b}, NULL);
}

static void ran(void *flag) {
    *(int *)flag = 1;
}
static void calls_back(void *result) {
    *(CUresult *)result = cu.cuStreamQuery(compute);
}

static void late(CUdeviceptr p) {
    uint32_t host[WORDS] = {0}, *pinned;
    CUresult inner = 0;
    int flag = 0;
    cu.cuMemHostAlloc((void **)&pinned, BYTES, 0);
    for (uint32_t n = 0; n < WORDS; n++)
        pinned[n] = n;
    cu.cuMemcpyHtoDAsync_v2(p, pinned, BYTES, compute);
    pinned[5] = 500; // too early: the copy has not read it yet
    cu.cuMemcpyDtoHAsync_v2(host, p, BYTES, compute);
    ok(host[4] != 4, "a copy to the host is not there before a synchronisation");
    cu.cuLaunchHostFunc(compute, ran, &flag);
    is_int(flag, 0, "a host function has not run before a synchronisation");
    cu.cuLaunchHostFunc(compute, calls_back, &inner);
    is_int(cu.cuStreamSynchronize(compute), 0, "the stream is synchronised");
    is_int(flag, 1, "the host function has run");
    is_int(inner, CUDA_ERROR_NOT_PERMITTED, "a host function may not call the driver");
    is_uint(host[5], 500, "a copy from the host reads its source when it runs");
    cu.cuEventRecord(edge[0], compute);
    int polls = 0;
    while (cu.cuEventQuery(edge[0]) == CUDA_ERROR_NOT_READY && polls < 100)
        polls++;
    ok(polls < 100, "an event that is polled is reached");
}

// Gradient on one stream, doubled on the other, used on the first: 7 x + 1, twice. `left_out` is an
// edge that is missing, or -1.
static void step(CUdeviceptr p, CUdeviceptr g, int left_out) {
    apply(g, p, 7, 1, compute);
    if (left_out != 0) {
        cu.cuEventRecord(edge[0], compute);
        cu.cuStreamWaitEvent(comm, edge[0], 0);
    }
    apply(g, g, 2, 0, comm);
    if (left_out != 1) {
        cu.cuEventRecord(edge[1], comm);
        cu.cuStreamWaitEvent(compute, edge[1], 0);
    }
    apply(p, g, 1, 0, compute);
}

// How often of RUNS the numbers are right.
static int right(CUdeviceptr p, CUdeviceptr g, int left_out) {
    uint32_t host[WORDS];
    int good = 0;
    for (int n = 0; n < RUNS; n++) {
        cu.cuMemsetD32Async(p, 3, WORDS, compute);
        cu.cuMemsetD32Async(g, 1000, WORDS, compute);
        cu.cuCtxSynchronize();
        step(p, g, left_out);
        cu.cuCtxSynchronize();
        cu.cuMemcpyDtoHAsync_v2(host, p, BYTES, compute);
        cu.cuStreamSynchronize(compute);
        good += host[0] == 44 && host[WORDS - 1] == 44;
    }
    return good;
}

static void edges(CUdeviceptr p, CUdeviceptr g) {
    is_int(right(p, g, -1), RUNS, "with both events every order gives the same");
    ok(right(p, g, 0) < RUNS, "without the first event the results differ");
    ok(right(p, g, 1) < RUNS, "without the second event the results differ");
}

static void graphs(CUdeviceptr p, CUdeviceptr g) {
    uint32_t host[WORDS];
    CUgraph graph = NULL;
    CUgraphExec run;
    size_t nodes = 0;
    cu.cuMemsetD32Async(p, 3, WORDS, compute);
    cu.cuCtxSynchronize();
    is_int(cu.cuStreamBeginCapture_v2(compute, 0), 0, "a capture begins");
    step(p, g, -1);
    is_int(cu.cuStreamEndCapture(compute, &graph), 0, "a capture ends");
    cu.cuGraphGetNodes(graph, NULL, &nodes);
    is_uint(nodes, 3, "the graph has a node for each kernel");
    cu.cuGraphInstantiateWithFlags(&run, graph, 0);
    for (int n = 0; n < 3; n++)
        cu.cuGraphLaunch(run, compute);
    cu.cuMemcpyDtoHAsync_v2(host, p, BYTES, compute);
    is_int(cu.cuStreamSynchronize(compute), 0, "the graph is replayed three times");
    is_uint(host[7], 14 * (14 * 44 + 2) + 2,
            "the replay respects the edges: 14 x + 2, three times");
    cu.cuGraphExecDestroy(run);
    cu.cuGraphDestroy(graph);

    cu.cuStreamBeginCapture_v2(compute, 0);
    step(p, g, 1);
    is_int(cu.cuStreamEndCapture(compute, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
           "a stream that is not joined to the origin is refused");
    cu.cuStreamBeginCapture_v2(compute, 0);
    is_int(cu.cuStreamSynchronize(compute), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "a synchronisation in a capture is refused");
    is_int(cu.cuMemAlloc_v2(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "an allocation in a capture is refused");
    is_int(cu.cuStreamEndCapture(compute, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
           "refused calls invalidate the capture");
}

static void refused(CUdeviceptr p) {
    CUdeviceptr scale = 0, none;
    size_t bytes = 0;
    uint32_t got = 0;
    is_int(apply(p, p, 1, 1, NULL), CUDA_ERROR_INVALID_HANDLE, "the default stream is refused");
    is_int(cu.cuLaunchKernel(line, 1, 1, 1, 65, 1, 1, 0, compute, (void *[]){&p, &p, &got, &got},
                             NULL),
           CUDA_ERROR_INVALID_VALUE, "more threads than the kernel allows are refused");
    is_int(cu.cuLaunchKernel(line, 1, 1, 1, 1, 1, 1, 1 << 16, compute,
                             (void *[]){&p, &p, &got, &got}, NULL),
           CUDA_ERROR_INVALID_VALUE, "shared memory beyond the limit is refused");
    is_int(cu.cuMemAlloc_v2(&none, (size_t)1 << 44), CUDA_ERROR_OUT_OF_MEMORY, "memory is limited");
    is_int(cu.cuMemFree_v2(p + 4), CUDA_ERROR_INVALID_VALUE,
           "only an allocated address can be freed");
    cu.cuModuleGetGlobal_v2(&scale, &bytes, module, "scale");
    cu.cuMemcpyDtoHAsync_v2(&got, scale, 4, compute);
    cu.cuStreamSynchronize(compute);
    ok(got == 3 && bytes == 4, "a variable of the module has its initial value");
}

// One parameter of a call of cuTensorMapEncodeTiled for a matrix of 16-bit words is changed.
static CUresult encoded(int type, uint32_t rank, uint64_t address, uint64_t stride, int swizzle) {
    static _Alignas(64) uint8_t map[128];
    const uint64_t dims[] = {40, 7}, strides[] = {stride};
    const uint32_t box[] = {64, 128}, steps[] = {1, 1};
    return cu.cuTensorMapEncodeTiled(map, type, rank, (void *)(uintptr_t)address, dims, strides,
                                     box, steps, 0, swizzle, 3, 0);
}

static void tensor_maps(CUdeviceptr p) {
    enum { BFLOAT16 = 9, FLOAT32 = 7, TURN_64 = 2, TURN_128 = 3 };
    setenv("EMU_CC", "80", 1);
    is_int(encoded(BFLOAT16, 2, p, 96, TURN_128), CUDA_ERROR_INVALID_VALUE,
           "a device below 9.0 has no tensor maps");
    setenv("EMU_CC", "90", 1);
    is_int(encoded(BFLOAT16, 2, p, 96, TURN_128), CUDA_SUCCESS, "a tensor map is made");
    is_int(encoded(BFLOAT16, 2, p + 8, 96, TURN_128), CUDA_ERROR_INVALID_VALUE,
           "an address between chunks of 16 bytes has none");
    is_int(encoded(BFLOAT16, 2, p, 88, TURN_128), CUDA_ERROR_INVALID_VALUE,
           "rows between chunks of 16 bytes have none");
    is_int(encoded(BFLOAT16, 2, p, 96, TURN_64), CUDA_ERROR_INVALID_VALUE,
           "a box wider than its swizzle has none");
    is_int(encoded(FLOAT32, 2, p, 160, TURN_128), CUDA_ERROR_INVALID_VALUE,
           "words of four bytes make that box wider");
    is_int(encoded(BFLOAT16, 3, p, 96, TURN_128), CUDA_ERROR_INVALID_VALUE,
           "another rank is not known");
    is_int(encoded(99, 2, p, 96, TURN_128), CUDA_ERROR_INVALID_VALUE, "another type is not known");
    setenv("EMU_TENSOR_MAPS", "0", 1);
    is_int(encoded(BFLOAT16, 2, p, 96, TURN_128), CUDA_ERROR_NOT_SUPPORTED,
           "a driver may make no tensor maps");
}

// The last one: a fault stays.
static void broken(CUdeviceptr p) {
    CUdeviceptr fresh;
    uint32_t host;
    cu.cuMemAlloc_v2(&fresh, 16);
    cu.cuMemcpyDtoHAsync_v2(&host, fresh, 4, compute);
    is_int(cu.cuStreamSynchronize(compute), CUDA_ERROR_LAUNCH_FAILED,
           "a copy of unwritten memory fails");
    has_str(cu.emu_fault(), "nobody wrote", "the fault names the unwritten memory");
    is_int(apply(p, p, 1, 1, compute), CUDA_ERROR_LAUNCH_FAILED, "after a fault every call fails");
}

int main(void) {
    CUdeviceptr p, g;
    open_driver();
    cu.cuMemAlloc_v2(&p, BYTES);
    cu.cuMemAlloc_v2(&g, BYTES);
    late(p);
    edges(p, g);
    graphs(p, g);
    refused(p);
    tensor_maps(p);
    broken(p);
    return done_testing();
}
