// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients in memory as bfloat16, half the bytes of a float.
//
// A tensor has a type of storage, an `enum kernel_type` of which two exist: KERNEL_FLOAT, reals,
// and KERNEL_BF16, two bytes each without gaps. Fields of arguments that end with `store` name it;
// the zero of an initialiser is KERNEL_FLOAT. A number is widened when it is read, all arithmetic
// is that of reals, and a result is rounded once when it is written (to nearest, ties to even). An
// `accumulate` or beta adds to the widened old number before that. Leading dimensions count
// elements. Parameters, their gradients and statistics are always reals.
#ifndef DTCTL_KERNELS_STORED_H
#define DTCTL_KERNELS_STORED_H

#include <stddef.h>
#include <stdint.h>

struct kernel_ctx;

// The ops whose arguments have no field for the type of storage, with activations in bfloat16:
// otherwise as those of the same name in struct kernel_backend, with their workspace. db is reals.
struct kernel_stored {
    void (*bias_backward)(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy, void *db,
                          int accumulate);
    void (*first_token_forward)(struct kernel_ctx *ctx, int n, int t, int d, const void *x,
                                void *y);
    void (*first_token_backward)(struct kernel_ctx *ctx, int n, int t, int d, const void *dy,
                                 void *dx);
    void (*avgpool_forward)(struct kernel_ctx *ctx, int n, int hw, int c, const void *x, void *y);
    void (*avgpool_backward)(struct kernel_ctx *ctx, int n, int hw, int c, const void *dy,
                             void *dx);
    void (*relu_forward)(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
    void (*relu_backward)(struct kernel_ctx *ctx, size_t n, const void *y, const void *dy,
                          void *dx);
    void (*gelu_forward)(struct kernel_ctx *ctx, size_t n, const void *x, void *y);
    void (*gelu_backward)(struct kernel_ctx *ctx, size_t n, const void *x, const void *dy,
                          void *dx);
    void (*add)(struct kernel_ctx *ctx, size_t n, const void *a, const void *b, void *y);
    void (*zero)(struct kernel_ctx *ctx, size_t n, void *x);
};

#endif
