// SPDX-License-Identifier: Apache-2.0
// The launchers' own ground: grids and blocks.
#ifndef DTCTL_KERNELS_CUDA_IMPL_H
#define DTCTL_KERNELS_CUDA_IMPL_H

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_params.h"

enum { CUDA_GRID_MAX = 65535 }; // blocks along y and z

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

#endif
