// SPDX-License-Identifier: Apache-2.0
// The table of the kernels by name and source.
#include "kernels/cuda/cuda_launch.h"

const struct cuda_kernel_info cuda_kernel_info[CUDA_KERNEL_COUNT] = {
#define X(source, name) [CUDA_KERNEL_##name] = {#name, CUDA_SOURCE_##source},
    CUDA_KERNELS(X)
#undef X
};
