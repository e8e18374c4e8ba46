// SPDX-License-Identifier: Apache-2.0
// The launchers' own ground: grids and blocks.
#ifndef DTCTL_KERNELS_CUDA_IMPL_H
#define DTCTL_KERNELS_CUDA_IMPL_H

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_params.h"

#include <assert.h>
#include <stdbool.h>

enum { CUDA_GRID_MAX = 65535 }; // blocks along y and z
enum cuda_product { CUDA_GEMM, CUDA_FORWARD, CUDA_DATA, CUDA_WEIGHT, CUDA_PRODUCTS };

// Whether tensors of this type of storage are in bfloat16.
static inline int cuda_is_bf16(enum kernel_type store) {
    assert(store == KERNEL_FLOAT || store == KERNEL_BF16);
    return store == KERNEL_BF16;
}

// Whether all rows of these tensors are whole pairs of numbers, kept in bfloat16. Vectors of floats
// are among them.
static inline int cuda_pairs(enum kernel_type store, int columns, const void *const *tensors,
                             size_t n) {
    uintptr_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= (uintptr_t)tensors[i];
    return cuda_is_bf16(store) && columns % 2 == 0 && all % (2 * sizeof(float)) == 0;
}
#define CUDA_PAIRS(store, columns, ...)                                                            \
    cuda_pairs(store, columns, (const void *const[]){__VA_ARGS__},                                 \
               sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))

// How many blocks of `each` cover n.
static inline unsigned cuda_blocks(int64_t n, int64_t each) {
    return (unsigned)((n + each - 1) / each);
}

// Enqueues x * y blocks of CUDA_THREADS threads; nothing where there are none.
static inline void cuda_enqueue(struct cuda_queue *q, enum cuda_kernel kernel, unsigned x,
                                unsigned y, void *params) {
    if (x && y)
        q->launch(q, kernel, (const unsigned[3]){x, y, 1}, CUDA_THREADS, 0, params);
}

struct product_tiles {
    int side, depth; // side x side results for a block, `depth` terms at a time
    unsigned threads, shared;
};
// Enqueues a product of o->m x o->n x o->k, `times` of which make the result, with the sum of its
// splits. params hold *o. All tiles of all splits fit the first CUDA_WORKSPACE_BYTES_MIN of the
// workspace.
void cuda_product_run(struct cuda_queue *q, enum cuda_kernel kernel, const struct product_tiles *by,
                      int times, void *params, struct product_out *o);
// Where a convolution leaves its sums: behind what the batch norm needs itself.
static inline float *cuda_sums(const struct cuda_queue *q, int channels) {
    return (float *)((char *)q->workspace + cuda_batchnorm_workspace(0, channels));
}
// Bytes of the workspace in front of a convolution's packed operands: its splits, or its sums.
size_t cuda_conv2d_front(const struct conv2d_shape *s);

// Large tiles (cuda_large.c). false: they are not for this shape, type or device.
bool cuda_large_gemm(struct cuda_queue *q, enum kernel_type type, struct gemm_params *p);
bool cuda_large_conv(struct cuda_queue *q, enum cuda_product product, const struct conv2d_shape *s,
                     struct conv_params *p, int times);
bool cuda_large_conv_is(const struct cuda_queue *q, enum cuda_product product,
                        const struct conv2d_shape *s);
// Bytes of packed operands, behind the first CUDA_WORKSPACE_BYTES_MIN of the workspace, or behind
// cuda_conv2d_front.
size_t cuda_large_gemm_bytes(enum kernel_type type, int m, int n, int k);
size_t cuda_large_conv_bytes(const struct conv2d_shape *s);

#endif
