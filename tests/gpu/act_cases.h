// SPDX-License-Identifier: Apache-2.0
// Products of kernels/cuda that make an activation, too (gemm_args): cases against the reference.
// GELU is that of the result as it is in memory.
#ifndef TESTS_GPU_ACT_CASES_H
#define TESTS_GPU_ACT_CASES_H
#include "tests/gpu/product_cases.h"

enum act { ACT_GELU, ACT_RELU_OF, ACT_GELU_OF, ACTS };
static const char *const act_names[ACTS] = {"GELU of", "the gradient of ReLU of",
                                            "the gradient of GELU of"};

// Numbers as a tensor of the device has them now.
static float *device_numbers(enum kernel_type store, const void *at, size_t n) {
    const void *got = device_bytes(at, tensor_bytes(store, n));
    float *p = host_bytes(n * sizeof *p);
    for (size_t i = 0; got && i < n; i++)
        p[i] =
            store == KERNEL_BF16 ? bf16_widen(((const uint16_t *)got)[i]) : ((const float *)got)[i];
    return p;
}

// The device's arguments, of buffers that have the host's numbers.
static struct gemm_args act_device(struct gemm_args a, enum act act, const float *from,
                                   const float *x) {
    size_t n = (size_t)a.m * (size_t)a.n;
    void *beside = act == ACT_GELU ? device_room(a.c_store, n) : device_tensor(a.c_store, x, n);
    a.a = device_tensor(a.a_store, a.a, (size_t)a.m * (size_t)a.k);
    a.b = device_tensor(a.b_store, a.b, (size_t)a.n * (size_t)a.k);
    a.c = device_room(a.c_store, n);
    a.from = a.beta != 0 ? device_tensor(a.c_store, from, n) : NULL;
    a.bias = a.bias ? device_floats(a.bias, (size_t)a.n) : NULL;
    a.gelu = act == ACT_GELU ? beside : NULL;
    a.relu_of = act == ACT_RELU_OF ? beside : NULL;
    a.gelu_of = act == ACT_GELU_OF ? beside : NULL;
    return a;
}

// The c that is right, in place of the one it begins with, and the size of its sums.
static void act_want(struct gemm_args a, enum act act, const float *x, float *want, float *size) {
    size_t n = (size_t)a.m * (size_t)a.n;
    a.a_store = a.b_store = a.c_store = KERNEL_FLOAT;
    a.c = want;
    kernels_reference.gemm(test.reference, &a);
    a.a = host_absolute(a.a, (size_t)a.m * (size_t)a.k);
    a.b = host_absolute(a.b, (size_t)a.n * (size_t)a.k);
    a.bias = a.bias ? host_absolute(a.bias, (size_t)a.n) : NULL;
    a.c = size, a.alpha = fabs(a.alpha), a.beta = fabs(a.beta);
    kernels_reference.gemm(test.reference, &a);
    if (act == ACT_RELU_OF)
        REFERENCE(relu_backward, n, x, want, want);
    if (act == ACT_GELU_OF)
        REFERENCE(gelu_backward, n, x, want, want);
    for (size_t i = 0; act == ACT_GELU_OF && i < n; i++)
        size[i] *= 1.2f; // the steepest that GELU is
}

// apart: GELU has a kernel of its own, and the product is rounded to c's type first.
static void act_case(struct gemm_args a, enum act act, bool apart, const char *what) {
    double once = apart && a.c_store == KERNEL_BF16 ? CASE_BF16_UNIT : 0;
    size_t n = (size_t)a.m * (size_t)a.n;
    case_begin(cuda_gemm_workspace(a.type, a.m, a.n, a.k));
    a.a = host_tensor(a.a_store, (size_t)a.m * (size_t)a.k);
    a.b = host_tensor(a.b_store, (size_t)a.n * (size_t)a.k);
    a.bias = a.bias ? host_random((size_t)a.n) : NULL;
    float *x = host_random(n), *from = host_tensor(a.c_store, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= 4;
    host_rounded(a.c_store, x, n);
    struct gemm_args device = act_device(a, act, from, x);
    float *want = host_copy(from, n), *size = host_absolute(from, n);
    act_want(a, act, x, want, size);
    cuda_gemm(&test.queue, &device);
    case_tensor(a.c_store, device.c, want, size, n, roundings(a.k + 3 + 12) + once, what);
    if (act != ACT_GELU) {
        const void *beside = act == ACT_RELU_OF ? device.relu_of : device.gelu_of;
        case_tensor(a.c_store, beside, x, NULL, n, 0, what);
    } else {
        float *c = device_numbers(a.c_store, device.c, n), *y = host_bytes(n * sizeof *y);
        REFERENCE(gelu_forward, n, c, y);
        case_tensor(a.c_store, device.gelu, y, host_absolute(c, n), n, roundings(8), what);
    }
    case_end();
}

// Small and large tiles, each with all terms in a block and with splits, which a further kernel
// adds. Small tiles alone have GELU apart.
static void acts_of_all(void) {
    static const int shapes[][3] = {{65, 70, 33}, {3, 66, 130}, {130, 136, 96}, {129, 131, 131}};
    char name[WHAT_BYTES], what[2 * WHAT_BYTES];
    for (int i = 0; i < 4 * ACTS * (types() + 1); i++) {
        int shape = i % 4, act = i / 4 % ACTS, type = i / 4 / ACTS, kept = type == types();
        int way = (act + type) % 3;
        struct gemm_args a =
            gemm_of(shapes[shape], way, 0, kept ? KERNEL_BF16 : (enum kernel_type)type);
        if (kept)
            gemm_keeps(&a, 7 - (shape + act) % 4);
        a.alpha = shape % 2 ? -0.5 : 1.25;
        a.beta = (shape + act + type) % 2 ? 0.75 : 0;
        a.bias = (act + type) % 2 ? &a : NULL;
        gemm_name(name, "gemm", &a);
        snprintf(what, sizeof what, "%s %s", act_names[act], name);
        bool large = shape > 1 && a.type != KERNEL_FLOAT && device_capability() >= 80;
        bool apart = act != ACT_RELU_OF && !large && shape % 2 == 0;
        act_case(a, (enum act)act, apart, what);
        is_int(test.flat, apart, "%s: kernels beside the product", what);
    }
}

static void acts(void) {
    acts_of_all();
    test.no_maps = 1; // the same products without tensor maps
    if (device_capability() == CUDA_HOPPER_CAPABILITY)
        acts_of_all();
    test.no_maps = 0;
    // Both operands, c and what is beside it are moved once. A thread reads the bias of its column.
    enum { M = 128, N = 256, K = 64, TILE = 128 };
    for (int act = 0; act < ACTS && device_capability() >= 80; act++) {
        struct gemm_args a = gemm_of((const int[]){M, N, K}, 2, 0, KERNEL_BF16);
        gemm_keeps(&a, 7);
        a.bias = &a, a.beta = act == ACT_RELU_OF ? 0.75 : 0;
        act_case(a, (enum act)act, false, act_names[act]);
        case_counts(act_names[act]);
        case_moved(2 * (M * K * (N / TILE) + N * K * (M / TILE)) + 4 * N * (M / TILE) +
                       (a.beta != 0 ? 3 : 2) * 2 * M * N,
                   "a product with an activation moves each number once");
    }
}

#endif
