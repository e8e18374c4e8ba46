// SPDX-License-Identifier: Apache-2.0
// Image input: bytes of images to normalised numbers, shifted and mirrored.
#include "kernels/cuda/cuda_params.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

__device__ __forceinline__ int reflected(int at, int size) {
    return at < 0 ? -at : at < size ? at : 2 * (size - 1) - at;
}

// src[n][src_h][src_w][channels] of bytes -> out[n][dst_h][dst_w][channels]
KERNEL image_normalize(const __grid_constant__ image_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int c = i % p.channels, x = i / p.channels % p.dst_w, y = i / p.channels / p.dst_w % p.dst_h;
    int n = i / p.channels / p.dst_w / p.dst_h;
    int sy = y + (p.offset_y ? p.offset_y[n] : 0);
    int sx = (p.flip && p.flip[n] ? p.dst_w - 1 - x : x) + (p.offset_x ? p.offset_x[n] : 0);
    if (p.reflect) {
        sy = reflected(sy, p.src_h);
        sx = reflected(sx, p.src_w);
    }
    bool in = sy >= 0 && sy < p.src_h && sx >= 0 && sx < p.src_w;
    float byte = in ? p.src[n][((int64_t)sy * p.src_w + sx) * p.channels + c] : 0;
    p.out[i] = fmaf(byte, p.scale[c], p.shift[c]);
}
