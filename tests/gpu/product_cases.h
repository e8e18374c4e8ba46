// SPDX-License-Identifier: Apache-2.0
// GEMM and convolution of kernels/cuda against the reference: one case, and its name. The bound of
// each element: a sum of k products in float is off by at most k + 3 roundings of the sum of their
// magnitudes, which the reference makes of absolute operands. It computes before the launch: see
// case_changes.h.
#ifndef TESTS_GPU_PRODUCT_CASES_H
#define TESTS_GPU_PRODUCT_CASES_H
#include "tests/gpu/cuda_case.h"

static const char *const type_names[KERNEL_TYPES] = {"float", "bf16", "half", "tf32"};

// The device multiplies the first so many types.
static int types(void) {
    return device_capability() >= CUDA_TF32_CAPABILITY_MIN ? KERNEL_TYPES : KERNEL_TF32;
}

// With `no_number` that row of a, counted from 1, has no numbers: all bits of their fractions are
// set, which must not be rounded.
static void gemm_with(struct gemm_args a, int no_number, const char *what) {
    size_t na = (size_t)(a.trans_a ? a.k : a.m) * (size_t)a.lda, nc = (size_t)a.m * (size_t)a.ldc;
    size_t nb = (size_t)(a.trans_b ? a.n : a.k) * (size_t)a.ldb;
    case_begin(cuda_gemm_workspace(a.type, a.m, a.n, a.k));
    float *ha = host_tensor(a.a_store, na), *hb = host_tensor(a.b_store, nb);
    float *hc = host_tensor(a.c_store, nc), *from = a.from ? host_tensor(a.c_store, nc) : hc;
    float *bias = a.bias ? host_random((size_t)a.n) : NULL;
    for (int i = 0; no_number && i < a.k; i++)
        memcpy(&ha[(no_number - 1) * a.lda + i], &(uint32_t){0x7fffffff}, sizeof *ha);
    struct gemm_args device = a, size;
    int kept = a.ldc != a.n || (a.beta != 0 && !a.from); // something of what c has
    device.a = device_tensor(a.a_store, ha, na), device.b = device_tensor(a.b_store, hb, nb);
    device.c = kept ? device_tensor(a.c_store, hc, nc) : device_room(a.c_store, nc);
    device.from = a.from ? device_tensor(a.c_store, from, nc) : NULL;
    for (int i = 0; a.from && i < a.m * a.n; i++) // the reference adds to c
        hc[i / a.n * a.ldc + i % a.n] = from[i / a.n * a.ldc + i % a.n];
    a.a_store = a.b_store = a.c_store = KERNEL_FLOAT, a.from = NULL;
    size = a;
    device.bias = bias ? device_floats(bias, (size_t)a.n) : NULL;
    size.a = host_absolute(ha, na), size.b = host_absolute(hb, nb), size.c = host_absolute(hc, nc);
    size.bias = bias ? host_absolute(bias, (size_t)a.n) : NULL;
    size.alpha = fabs(a.alpha), size.beta = fabs(a.beta);
    kernels_reference.gemm(test.reference, &size);
    a.a = ha, a.b = hb, a.c = hc, a.bias = bias;
    kernels_reference.gemm(test.reference, &a);
    cuda_gemm(&test.queue, &device);
    case_tensor(device.c_store, device.c, a.c, size.c, nc, (a.k + 3) * CASE_UNIT, what);
    case_end();
}

static void gemm_case(struct gemm_args a, const char *what) {
    gemm_with(a, 0, what);
}

enum { WHAT_BYTES = 160 };

// shape: m, n, k. Rows are `gap` elements longer than they need to be.
static struct gemm_args gemm_of(const int shape[3], int way, int gap, enum kernel_type type) {
    int m = shape[0], n = shape[1], k = shape[2];
    struct gemm_args a = {.type = type,
                          .m = m,
                          .n = n,
                          .k = k,
                          .trans_a = way & 1,
                          .trans_b = way >> 1 & 1,
                          .alpha = way == 1 ? -0.5 : 1};
    a.lda = (a.trans_a ? m : k) + gap, a.ldb = (a.trans_b ? k : n) + gap, a.ldc = n + gap;
    return a;
}

static void gemm_name(char what[WHAT_BYTES], const char *kind, const struct gemm_args *a) {
    char kept[4] = {"-a"[a->a_store != 0], "-b"[a->b_store != 0], "-c"[a->c_store != 0]};
    snprintf(what, WHAT_BYTES, "%s %s %d x %d x %d %c%c, kept %s%s", kind, type_names[a->type],
             a->m, a->n, a->k, "nt"[a->trans_a], "nt"[a->trans_b], kept,
             a -> from ? " from another" : "");
}

// A bit for each of a, b and c that is in bfloat16.
static void gemm_keeps(struct gemm_args *a, int kept) {
    a->a_store = kept & 1 ? KERNEL_BF16 : KERNEL_FLOAT;
    a->b_store = kept & 2 ? KERNEL_BF16 : KERNEL_FLOAT;
    a->c_store = kept & 4 ? KERNEL_BF16 : KERNEL_FLOAT;
}

// Buffers of one shape: x, w, dy, bias. plain: for the reference, to which all numbers are reals.
struct conv_buffers {
    size_t nx, nw, ny;
    float *x, *w, *dy, *bias;
    struct conv2d_shape plain;
};

static struct conv_buffers conv_begin(const struct conv2d_shape *s) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    case_begin(cuda_conv2d_workspace(s));
    struct conv_buffers b = {.nx = (size_t)s->n * s->h * s->w * s->c,
                             .nw = (size_t)s->o * s->kh * s->kw * s->c,
                             .ny = ((size_t)s->n * oh * ow * s->o),
                             .plain = *s};
    b.plain.x_store = b.plain.y_store = KERNEL_FLOAT;
    b.x = host_tensor(s->x_store, b.nx), b.w = host_random(b.nw);
    b.dy = host_tensor(s->y_store, b.ny);
    b.bias = host_random((size_t)s->o);
    return b;
}

static void conv_forward(const struct conv2d_shape *s, int relu, const char *what) {
    struct conv_buffers b = conv_begin(s);
    float *want = host_bytes(b.ny * sizeof *want), *size = host_bytes(b.ny * sizeof *size);
    void *y = device_room(s->y_store, b.ny);
    const float *bias = relu ? b.bias : NULL;
    kernels_reference.conv2d_forward(test.reference, &b.plain, b.x, b.w, bias, relu, want);
    kernels_reference.conv2d_forward(test.reference, &b.plain, host_absolute(b.x, b.nx),
                                     host_absolute(b.w, b.nw), host_absolute(b.bias, (size_t)s->o),
                                     0, size);
    cuda_conv2d_forward(&test.queue, s, device_tensor(s->x_store, b.x, b.nx),
                        device_floats(b.w, b.nw), bias ? device_floats(bias, (size_t)s->o) : NULL,
                        relu, y);
    case_tensor(s->y_store, y, want, size, b.ny, (s->kh * s->kw * s->c + 3) * CASE_UNIT, what);
    case_end();
}

static void conv_data(const struct conv2d_shape *s, int accumulate, const char *what) {
    struct conv_buffers b = conv_begin(s);
    float *want = host_tensor(s->x_store, b.nx), *size = host_absolute(want, b.nx);
    void *dx = accumulate ? device_tensor(s->x_store, want, b.nx) : device_room(s->x_store, b.nx);
    kernels_reference.conv2d_backward_data(test.reference, &b.plain, b.dy, b.w, want, accumulate);
    kernels_reference.conv2d_backward_data(test.reference, &b.plain, host_absolute(b.dy, b.ny),
                                           host_absolute(b.w, b.nw), size, accumulate);
    cuda_conv2d_backward_data(&test.queue, s, device_tensor(s->y_store, b.dy, b.ny),
                              device_floats(b.w, b.nw), dx, accumulate);
    case_tensor(s->x_store, dx, want, size, b.nx, (s->kh * s->kw * s->o + 3) * CASE_UNIT, what);
    case_end();
}

// x has no number at `no_number`, unless that is 0.
static void conv_weight_with(const struct conv2d_shape *s, size_t no_number, int accumulate,
                             const char *what) {
    struct conv_buffers b = conv_begin(s);
    if (no_number)
        b.x[no_number] = NAN;
    float *want = host_random(b.nw), *size = host_absolute(want, b.nw);
    void *dw = accumulate ? device_floats(want, b.nw) : device_empty(b.nw * sizeof *want);
    kernels_reference.conv2d_backward_weight(test.reference, &b.plain, b.x, b.dy, want, accumulate);
    kernels_reference.conv2d_backward_weight(test.reference, &b.plain, host_absolute(b.x, b.nx),
                                             host_absolute(b.dy, b.ny), size, accumulate);
    cuda_conv2d_backward_weight(&test.queue, s, device_tensor(s->x_store, b.x, b.nx),
                                device_tensor(s->y_store, b.dy, b.ny), dw, accumulate);
    size_t pixels = b.ny / (size_t)s->o;
    case_close(dw, want, size, b.nw, (double)(pixels + 3) * CASE_UNIT, what);
    case_end();
}

static void conv_weight(const struct conv2d_shape *s, int accumulate, const char *what) {
    conv_weight_with(s, 0, accumulate, what);
}

// A bit for each of x and y that is in bfloat16.
static void conv_keeps(struct conv2d_shape *s, int kept) {
    s->type = KERNEL_BF16;
    s->x_store = kept & 1 ? KERNEL_BF16 : KERNEL_FLOAT;
    s->y_store = kept & 2 ? KERNEL_BF16 : KERNEL_FLOAT;
}

static int conv_name(char what[WHAT_BYTES], const char *kind, const struct conv2d_shape *s) {
    return snprintf(what, WHAT_BYTES, "%s %s %dx%dx%dx%d-%d k%dx%d s%d p%d, kept %c%c: ", kind,
                    type_names[s->type], s->n, s->h, s->w, s->c, s->o, s->kh, s->kw, s->stride,
                    s->pad, "-x"[s->x_store != 0], "-y"[s->y_store != 0]);
}

#endif
