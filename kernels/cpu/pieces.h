// SPDX-License-Identifier: Apache-2.0
// Tensors in bfloat16 on their way through loops of floats: a piece becomes floats in a buffer that
// stays in the first-level cache. Tensors of floats are used where they lie.
#ifndef DTCTL_KERNELS_CPU_PIECES_H
#define DTCTL_KERNELS_CPU_PIECES_H

#include "kernels/cpu/ctx.h"

enum { stored_piece = 1024 }; // numbers of a buffer on the stack

static inline size_t stored_bytes(enum kernel_type store) {
    return store == KERNEL_BF16 ? sizeof(uint16_t) : sizeof(float);
}

// Element `from` of x, wherever it is.
static inline const void *stored_at(enum kernel_type store, const void *x, int64_t from) {
    return (const char *)x + from * (int64_t)stored_bytes(store);
}

// n numbers of x from element `from` on, as floats: in `buffer`, if they are not floats.
static inline const float *stored_read(const struct kernel_ctx *ctx, enum kernel_type store,
                                       size_t n, const void *x, int64_t from, float *buffer) {
    if (store == KERNEL_FLOAT)
        return (const float *)x + from;
    ctx->isa->widen(n, (const uint16_t *)x + from, buffer);
    return buffer;
}

// Where a loop writes what becomes y from element `from` on …
static inline float *stored_begin(enum kernel_type store, void *y, int64_t from, float *buffer) {
    return store == KERNEL_FLOAT ? (float *)y + from : buffer;
}

// … and its end.
static inline void stored_end(const struct kernel_ctx *ctx, enum kernel_type store, size_t n,
                              const float *buffer, void *y, int64_t from) {
    if (store == KERNEL_BF16)
        ctx->type[KERNEL_BF16].narrow(n, buffer, (uint16_t *)y + from);
}

#endif
