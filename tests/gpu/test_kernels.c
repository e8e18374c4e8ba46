// SPDX-License-Identifier: Apache-2.0
// test_kernels.c: kernels.cu against plain C, over odd shapes, by the driver's interface as a
// program finds it: libcuda.so.1 by dlopen. Argument: the file of PTX. The environment says which
// seed.
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PTX_BYTES_MAX = 1 << 22, BUFFERS_MAX = 16 };

#define CALLS(X)                                                                                   \
    X(cuInit, unsigned)                                                                            \
    X(cuDeviceGetName, char *, int, CUdevice)                                                      \
    X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                             \
    X(cuCtxSetCurrent, CUcontext)                                                                  \
    X(cuModuleLoadData, CUmodule *, const void *)                                                  \
    X(cuModuleGetFunction, CUfunction *, CUmodule, const char *)                                   \
    X(cuStreamCreate, CUstream *, unsigned)                                                        \
    X(cuStreamSynchronize, CUstream)                                                               \
    X(cuMemAlloc_v2, CUdeviceptr *, size_t)                                                        \
    X(cuMemFree_v2, CUdeviceptr)                                                                   \
    X(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)                           \
    X(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)                                 \
    X(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)                               \
    X(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
      unsigned, CUstream, void **, void **)
static struct {
#define X(name, ...) CUresult (*name)(__VA_ARGS__);
    CALLS(X)
#undef X
    const char *(*emu_fault)(void);
} cu;
static CUmodule module;
static CUstream stream;

// A launch fails once for all: the rest of the program could say nothing.
static void check(CUresult r) {
    if (r == CUDA_SUCCESS)
        return;
    fail("the driver: %s", cu.emu_fault());
    exit(done_testing());
}

// ---- buffers: on the device from the start to the end of one case
// ------------------------------------
static CUdeviceptr buffer[BUFFERS_MAX];
static int n_buffers;

static CUdeviceptr empty(size_t bytes) {
    check(cu.cuMemAlloc_v2(&buffer[n_buffers], bytes));
    return buffer[n_buffers++];
}
static CUdeviceptr filled(const void *from, size_t bytes) {
    CUdeviceptr p = empty(bytes);
    check(cu.cuMemcpyHtoDAsync_v2(p, from, bytes, stream));
    return p;
}
static void fetch(void *to, CUdeviceptr from, size_t bytes) {
    check(cu.cuMemcpyDtoHAsync_v2(to, from, bytes, stream));
    check(cu.cuStreamSynchronize(stream));
}
static void done(void) {
    check(cu.cuStreamSynchronize(stream));
    while (n_buffers)
        check(cu.cuMemFree_v2(buffer[--n_buffers]));
}

static void launch(const char *name, unsigned gx, unsigned gy, unsigned bx, unsigned by,
                   unsigned shared, void **params) {
    CUfunction f;
    check(cu.cuModuleGetFunction(&f, module, name));
    check(cu.cuLaunchKernel(f, gx, gy, 1, bx, by, 1, shared, stream, params, NULL));
}

// Numbers between -1 and 1 from an index.
static float value(int n) {
    return (float)((n * 7919 + 104729) % 2003) / 1001.5f - 1.0f;
}
static float *values(int n, int salt) {
    float *v = malloc((size_t)n * sizeof *v);
    for (int i = 0; i < n; i++)
        v[i] = value(i + salt);
    return v;
}

static void close_to(const float *got, const double *want, int n, double tolerance,
                     const char *what) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance)) {
            fail("%s: wrong result at %d: %g instead of %g", what, i, (double)got[i], want[i]);
            return;
        }
    pass("%s", what);
}

// ---- the kernels
// -------------------------------------------------------------------------------------
static void vector_add(int n) {
    float *a = values(n, 1), *b = values(n, 2), *got = values(n, 0);
    double *want = calloc((size_t)n, sizeof *want);
    for (int i = 0; i < n; i++)
        want[i] = (double)a[i] + (double)b[i];
    size_t bytes = (size_t)n * sizeof *a;
    CUdeviceptr da = filled(a, bytes), db = filled(b, bytes), ds = empty(bytes);
    launch("vector_add", (unsigned)(n + 63) / 64, 1, 64, 1, 0, (void *[]){&ds, &da, &db, &n});
    fetch(got, ds, bytes);
    close_to(got, want, n, 1e-6, "vector_add");
    done();
    free(a), free(b), free(got), free(want);
}

static void reduce(int n, unsigned blocks) {
    float *x = values(n, 3), got;
    double want = 0;
    for (int i = 0; i < n; i++)
        want += (double)x[i];
    CUdeviceptr dx = filled(x, (size_t)n * sizeof *x), partial = empty(blocks * sizeof *x);
    CUdeviceptr total = empty(sizeof got), ticket = empty(4);
    check(cu.cuMemsetD8Async(ticket, 0, 4, stream));
    launch("reduce", blocks, 1, 128, 1, 128, (void *[]){&partial, &total, &ticket, &dx, &n});
    fetch(&got, total, sizeof got);
    close_to(&got, &want, 1, 1e-4, "reduce");
    done();
    free(x);
}

static void gemm_reference(double *c, const float *a, const float *b, int m, int n, int k,
                           bool b_by_column) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int q = 0; q < k; q++)
                c[i * n + j] +=
                    (double)a[i * k + q] * (double)(b_by_column ? b[j * k + q] : b[q * n + j]);
        }
}

static void gemm_tiled(int m, int n, int k) {
    float *a = values(m * k, 4), *b = values(k * n, 5), *got = values(m * n, 0);
    double *want = calloc((size_t)m * (size_t)n, sizeof *want);
    gemm_reference(want, a, b, m, n, k, false);
    CUdeviceptr da = filled(a, (size_t)(m * k) * 4), db = filled(b, (size_t)(k * n) * 4);
    CUdeviceptr dc = empty((size_t)(m * n) * 4);
    launch("gemm_tiled", (unsigned)(n + 15) / 16, (unsigned)(m + 15) / 16, 16, 16, 2048,
           (void *[]){&dc, &da, &db, &m, &n, &k});
    fetch(got, dc, (size_t)(m * n) * 4);
    close_to(got, want, m * n, 1e-4, "gemm_tiled");
    done();
    free(a), free(b), free(got), free(want);
}

// Cut to bf16; what is left is what the reference multiplies.
static uint16_t *to_bfloat(float *v, int n) {
    uint16_t *h = malloc((size_t)n * sizeof *h);
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], 4);
        h[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000;
        memcpy(&v[i], &bits, 4);
    }
    return h;
}

static void gemm_mma(int m, int n, int k) {
    float *a = values(m * k, 6), *b = values(n * k, 7), *got = values(m * n, 0);
    uint16_t *ha = to_bfloat(a, m * k), *hb = to_bfloat(b, n * k);
    double *want = calloc((size_t)m * (size_t)n, sizeof *want);
    gemm_reference(want, a, b, m, n, k, true);
    CUdeviceptr da = filled(ha, (size_t)(m * k) * 2), db = filled(hb, (size_t)(n * k) * 2);
    CUdeviceptr dc = empty((size_t)(m * n) * 4);
    launch("gemm_mma", (unsigned)(n + 15) / 16, (unsigned)(m + 31) / 32, 128, 1, 2 * 48 * 48,
           (void *[]){&dc, &da, &db, &m, &n, &k});
    fetch(got, dc, (size_t)(m * n) * 4);
    close_to(got, want, m * n, 1e-4, "gemm_mma");
    done();
    free(a), free(b), free(got), free(want), free(ha), free(hb);
}

static void layer_norm(int rows, int width) {
    int n = rows * width;
    float *x = values(n, 8), *gamma = values(width, 9), *beta = values(width, 10),
          *got = values(n, 0);
    float epsilon = 1e-5f, mean;
    double *want = calloc((size_t)n, sizeof *want);
    for (int r = 0; r < rows; r++) {
        double mu = 0, square = 0;
        for (int i = 0; i < width; i++)
            mu += (double)x[r * width + i] / width;
        for (int i = 0; i < width; i++)
            square += ((double)x[r * width + i] - mu) * ((double)x[r * width + i] - mu) / width;
        for (int i = 0; i < width; i++)
            want[r * width + i] =
                ((double)x[r * width + i] - mu) / sqrt(square + 1e-5) * (double)gamma[i] +
                (double)beta[i];
    }
    size_t wide = (size_t)width * 4, all = (size_t)n * 4;
    CUdeviceptr dx = filled(x, all), dg = filled(gamma, wide), db = filled(beta, wide);
    CUdeviceptr dy = empty(all), dm = empty((size_t)rows * 4);
    launch("layer_norm", (unsigned)rows, 1, 96, 1, 128,
           (void *[]){&dy, &dm, &dx, &dg, &db, &width, &epsilon});
    fetch(&mean, dm, sizeof mean);
    fetch(got, dy, all);
    close_to(got, want, n, 1e-4, "layer_norm");
    done();
    free(x), free(gamma), free(beta), free(got), free(want);
}

static void softmax(int rows, int width) {
    int n = rows * width;
    float *x = values(n, 11), *got = values(n, 0);
    double *want = calloc((size_t)n, sizeof *want);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < width; i++)
            sum += exp((double)x[r * width + i]);
        for (int i = 0; i < width; i++)
            want[r * width + i] = exp((double)x[r * width + i]) / sum;
    }
    CUdeviceptr dx = filled(x, (size_t)n * 4), dy = empty((size_t)n * 4);
    launch("softmax", (unsigned)(rows + 3) / 4, 1, 128, 1, 0, (void *[]){&dy, &dx, &rows, &width});
    fetch(got, dy, (size_t)n * 4);
    close_to(got, want, n, 1e-6, "softmax");
    done();
    free(x), free(got), free(want);
}

static void adamw(int n) {
    float *p = values(n, 12), *g = values(n, 13), *zero = calloc((size_t)n, 4), *got = values(n, 0);
    float lr = 0.01f, decay = 0.1f, c1 = 0.1f, c2 = 0.001f;
    double *want = calloc((size_t)n, sizeof *want);
    for (int i = 0; i < n; i++) {
        double m = 0.1 * (double)g[i], v = 0.001 * (double)g[i] * (double)g[i];
        want[i] = (double)p[i] - 0.01 * (m / 0.1 / (sqrt(v / 0.001) + 1e-8) + 0.1 * (double)p[i]);
    }
    size_t bytes = (size_t)n * 4;
    CUdeviceptr dp = filled(p, bytes), dg = filled(g, bytes), dm = filled(zero, bytes);
    CUdeviceptr dv = filled(zero, bytes), dc = empty(bytes / 2);
    launch("adamw", (unsigned)(n + 127) / 128, 1, 128, 1, 0,
           (void *[]){&dp, &dc, &dm, &dv, &dg, &n, &lr, &decay, &c1, &c2});
    fetch(got, dp, bytes);
    close_to(got, want, n, 1e-5, "adamw");
    done();
    free(p), free(g), free(zero), free(got), free(want);
}

// ---- the driver
// ----------------------------------------------------------------------------------------
static void open_driver(const char *ptx_path) {
    static char source[PTX_BYTES_MAX];
    char name[64];
    CUcontext context;
    void *so = dlopen("libcuda.so.1", RTLD_NOW);
    FILE *file = fopen(ptx_path, "r");
    if (!so || !file || fread(source, 1, sizeof source - 1, file) == 0)
        bail_out("%s", so ? "no PTX" : dlerror());
    fclose(file);
#define X(name, ...) *(void **)&cu.name = dlsym(so, #name);
    CALLS(X)
#undef X
    *(void **)&cu.emu_fault = dlsym(so, "emu_fault");
    check(cu.cuInit(0));
    check(cu.cuDeviceGetName(name, sizeof name, 0));
    is_str(name, "emulated (tests only)", "the device says what it is");
    check(cu.cuDevicePrimaryCtxRetain(&context, 0));
    check(cu.cuCtxSetCurrent(context));
    check(cu.cuStreamCreate(&stream, 1));
    check(cu.cuModuleLoadData(&module, source));
}

int main(int argc, char **argv) {
    if (argc != 2)
        bail_out("usage: test_kernels FILE.ptx");
    open_driver(argv[1]);
    vector_add(1), vector_add(64), vector_add(1000);
    reduce(1, 1), reduce(5000, 7);
    gemm_tiled(16, 16, 16), gemm_tiled(17, 33, 5), gemm_tiled(1, 40, 50);
    gemm_mma(32, 16, 16), gemm_mma(33, 17, 24), gemm_mma(70, 50, 72), gemm_mma(5, 3, 8);
    layer_norm(3, 96), layer_norm(2, 100), layer_norm(4, 7);
    softmax(4, 32), softmax(7, 50), softmax(9, 5);
    adamw(1), adamw(300);
    return done_testing();
}
