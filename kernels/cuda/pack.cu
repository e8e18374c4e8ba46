// SPDX-License-Identifier: Apache-2.0
// Packs operands of products with large tiles: in the type of the product, with rows of whole
// chunks of 16 bytes. For GPUs of 8.0 and newer.
#include "kernels/cuda/product.cuh"

template <class Word> struct four_words; // that are stored at once
template <> struct four_words<unsigned short> { typedef ushort4 type; };
template <> struct four_words<u32> { typedef uint4 type; };

// Four numbers in a row, or as many as are `left`.
__device__ __forceinline__ float4 all_four(const float *x) {
    return *(const float4 *)x;
}
__device__ __forceinline__ float4 all_four(const bf16_word *x) {
    ushort4 v = *(const ushort4 *)x;
    return {widened(v.x), widened(v.y), widened(v.z), widened(v.w)};
}
template <class T> __device__ __forceinline__ float4 four(const T *x, int left) {
    if (left >= 4 && (size_t)x % (4 * sizeof *x) == 0)
        return all_four(x);
    return {left > 0 ? read(x, 0) : 0.0f, left > 1 ? read(x, 1) : 0.0f,
            left > 2 ? read(x, 2) : 0.0f, left > 3 ? read(x, 3) : 0.0f};
}

template <class Type> __device__ __forceinline__ void pack(const pack_params &p) {
    typedef typename Type::word word;
    int quarters = p.pitch / 4;
    int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x, row = i / quarters;
    int column = (int)(i % quarters) * 4, cols = row < p.rows ? p.cols : 0;
    if (row >= p.all_rows)
        return;
    int64_t at = row * p.ld + column;
    float4 v;
    if (Type::kept && p.bf16)
        v = four((const bf16_word *)p.x + at, cols - column);
    else
        v = four((const float *)p.x + at, cols - column);
    *(typename four_words<word>::type *)((word *)p.y + row * p.pitch + column) = {
        Type::bits(v.x), Type::bits(v.y), Type::bits(v.z), Type::bits(v.w)};
}

// A tile comes in whole sectors along the columns, and goes in whole sectors along the terms. Its
// rows have one word more than they need, so that neither way meets a bank twice.
template <class Type> __device__ __forceinline__ void pack_turned(const pack_turned_params &p) {
    typedef typename Type::word word;
    enum { TURN = CUDA_TURN_TILE, WARPS = CUDA_THREADS / TURN };
    __shared__ word tile[TURN][TURN + 1];
    int lane = threadIdx.x % TURN, warp = threadIdx.x / TURN;
    int term0 = blockIdx.x * TURN, column0 = blockIdx.y * TURN;
#pragma unroll
    for (int i = 0; i < TURN; i += WARPS) {
        int term = term0 + i + warp, image = term % p.all_images, pixel = term / p.all_images;
        bool there = image < p.images && pixel < p.pixels && column0 + lane < p.cols;
        const float *x = p.x + ((int64_t)image * p.pixels + pixel) * p.ld + column0 + lane;
        tile[lane][i + warp] = Type::bits(there ? *x : 0.0f);
    }
    __syncthreads(); // the tile is there
    if (term0 + lane >= p.pitch)
        return;
#pragma unroll
    for (int i = 0; i < TURN; i += WARPS) {
        int column = column0 + i + warp;
        if (column < p.cols)
            ((word *)p.y)[(int64_t)column * p.pitch + term0 + lane] = tile[i + warp][lane];
    }
}

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
KERNEL pack_bf16(const pack_params p) {
    pack<bfloat>(p);
}
KERNEL pack_half(const pack_params p) {
    pack<half>(p);
}
KERNEL pack_tf32(const pack_params p) {
    pack<tf32>(p);
}
KERNEL pack_turned_tf32(const pack_turned_params p) {
    pack_turned<tf32>(p);
}
