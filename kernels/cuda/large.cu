// SPDX-License-Identifier: Apache-2.0
// Products with tiles of 128 x 128, for GPUs of 8.0 and newer but 9.0. pack.cu packs the operands
// first. Stages of 64 bytes of each row come by cp.async, while the ones before are multiplied by
// mma.sync. A block has four warps, each with 64 x 64 of the tile.
#include "kernels/cuda/large.cuh"

// ---- the pipeline -------------------------------------------------------------------------------

struct large_sum {
    float v[4][8][4]; // [16 rows][8 columns][element of an mma]
    // The threads that have a part of the half of the rows write it.
    __device__ __forceinline__ void half_to(float (*half)[SUM_PITCH], int h) const {
        int row = threadIdx.x % 32 / 4, column = threadIdx.x / 32 % 2 * WARP + threadIdx.x % 4 * 2;
        if (threadIdx.x / 64 != h)
            return;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int n = 0; n < 8; n++)
                *(float2 *)&half[row + 8 * i][column + 8 * n] =
                    make_float2(v[i / 2][n][i % 2 * 2], v[i / 2][n][i % 2 * 2 + 1]);
    }
};

template <class Type, class A, class B, class Taps>
__device__ __forceinline__ void large_run(large_sum &sum, A a, B b, Taps taps, int terms) {
    u32 first = (u32)__cvta_generic_to_shared(dynamic_shared), now = first;
    u32 then = first + STAGE, next = first + 2 * STAGE;
    const int BYTES = sizeof(typename Type::word), DEPTH = large_words<BYTES>::DEPTH;
    fragments<A::by_terms, false> of_a(threadIdx.x / 64 * WARP);
    fragments<B::by_terms, true> of_b(threadIdx.x / 32 % 2 * WARP);
    int steps = (terms + DEPTH - 1) / DEPTH;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            a.copy(first + s * STAGE, taps), b.copy(first + s * STAGE + OPERAND, taps), taps.next();
        commit();
    }
#pragma unroll 1
    for (int left = steps; left > 0; left--) {
        wait<STAGES - 2>(); // the oldest stage has come
        __syncthreads();    // for all threads, and the one before is free
        if (left >= STAGES)
            a.copy(next, taps), b.copy(next + OPERAND, taps), taps.next();
        commit();
#pragma unroll
        for (int j = 0; j < 2; j++) {
            u32 ra[4][4], rb[4][4];
            of_a.get(ra, now, j), of_b.get(rb, now + OPERAND, j);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int n = 0; n < 8; n++)
                    Type::multiply(sum.v[i][n], ra[i], rb[n / 2][n % 2 * 2], rb[n / 2][n % 2 * 2 + 1]);
        }
        u32 free = now;
        now = then, then = next, next = free;
    }
}

#include "kernels/cuda/large_products.cuh"

// ---- kernels: blockIdx is (tile of rows, tile of columns, split and phase) ----------------------

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_LARGE_THREADS, 2)
KERNEL gemm_large_bf16(const gemm_params p) {
    gemm_large<bfloat>(p);
}
KERNEL gemm_large_half(const gemm_params p) {
    gemm_large<half>(p);
}
KERNEL gemm_large_tf32(const gemm_params p) {
    gemm_large<tf32>(p);
}
KERNEL conv_forward_large_bf16(const conv_params p) {
    conv_forward_large<bfloat>(p);
}
KERNEL conv_forward_large_half(const conv_params p) {
    conv_forward_large<half>(p);
}
KERNEL conv_forward_large_tf32(const conv_params p) {
    conv_forward_large<tf32>(p);
}
KERNEL conv_data_large_bf16(const conv_params p) {
    conv_data_large<bfloat>(p);
}
KERNEL conv_data_large_half(const conv_params p) {
    conv_data_large<half>(p);
}
KERNEL conv_data_large_tf32(const conv_params p) {
    conv_data_large<tf32>(p);
}
KERNEL conv_weight_large_bf16(const conv_params p) {
    conv_weight_large<bfloat>(p);
}
KERNEL conv_weight_large_half(const conv_params p) {
    conv_weight_large<half>(p);
}
KERNEL conv_weight_large_tf32(const conv_params p) {
    conv_weight_large<tf32>(p);
}
