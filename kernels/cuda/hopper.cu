// SPDX-License-Identifier: Apache-2.0
// Products with tiles of 128 x 128 for GPUs of 9.0 alone: the stages of large.cuh are multiplied by
// wgmma, straight from shared memory. The four warps of a block are one warpgroup.
#define CUDA_WARPGROUP 1
#include "kernels/cuda/large.cuh"

// The same memory as dynamic_shared. Places turn with bits 7 to 9 of an address.
enum { TURN_BYTES = 1024 };
extern __shared__ __align__(1024) char aligned_shared[];
static_assert(OPERAND % TURN_BYTES == 0, "every operand begins where places are not turned");

// ---- operands -----------------------------------------------------------------------------------

// How wgmma reads an operand: where it begins and what lies how far apart, in units of 16 bytes. By
// terms, rows of 64 bytes lie in eights; by rows, terms of 128 bytes do, and 64 rows side by side.
enum { UNIT = 16, WIDE_128 = 1, WIDE_64 = 2, HALF_TERMS = ROW_BYTES / 2 };
template <bool by_terms> struct operand_of {
    typedef rows_stage words;
    static const uint64_t form =
        by_terms ? (uint64_t)WIDE_64 << 62 | (uint64_t)(8 * ROW_BYTES / UNIT) << 32 | 1 << 16
                 : (uint64_t)WIDE_128 << 62 | (uint64_t)(8 * words::TERM_BYTES / UNIT) << 32 |
                       (uint64_t)(words::SIDE_BYTES / UNIT) << 16;
    // 32 bytes of the terms times j, from row 64 h on.
    static __device__ __forceinline__ uint64_t part(u32 at, int h, int j) {
        at += by_terms ? h * WARP * ROW_BYTES + j * HALF_TERMS
                       : h * words::SIDE_BYTES + j * words::DEPTH / 2 * words::TERM_BYTES;
        return form | at / UNIT;
    }
};

// ---- wgmma --------------------------------------------------------------------------------------

// 64 rows, 128 columns and 32 bytes of terms.
struct half_sum {
    float v[64]; // columns 8 i and on: two of row lane / 4, and two of the row eight further on
};
#define EIGHT(f, i)                                                                                \
    f(i), f(i + 1), f(i + 2), f(i + 3), f(i + 4), f(i + 5), f(i + 6), f(i + 7)
#define SUMS(f)                                                                                    \
    EIGHT(f, 0), EIGHT(f, 8), EIGHT(f, 16), EIGHT(f, 24), EIGHT(f, 32), EIGHT(f, 40),              \
        EIGHT(f, 48), EIGHT(f, 56)
#define SUM(i) "+f"(sum.v[i])
#define WGMMA(kind, rest)                                                                          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128" kind                                       \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "   \
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "     \
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "     \
                 "%62, %63}, %64, %65, 1, 1, 1" rest ";"                                           \
                 : SUMS(SUM)                                                                       \
                 : "l"(a), "l"(b), "n"(!a_by_terms), "n"(!b_by_terms)                              \
                 : "memory")

template <class Type, bool a_by_terms, bool b_by_terms> struct warpgroup;
template <bool a_by_terms, bool b_by_terms> struct warpgroup<bfloat, a_by_terms, b_by_terms> {
    static __device__ __forceinline__ void multiply(half_sum &sum, uint64_t a, uint64_t b) {
        WGMMA("k16.f32.bf16.bf16", ", %66, %67");
    }
};
template <bool a_by_terms, bool b_by_terms> struct warpgroup<half, a_by_terms, b_by_terms> {
    static __device__ __forceinline__ void multiply(half_sum &sum, uint64_t a, uint64_t b) {
        WGMMA("k16.f32.f16.f16", ", %66, %67");
    }
};
template <bool a_by_terms, bool b_by_terms> struct warpgroup<tf32, a_by_terms, b_by_terms> {
    static __device__ __forceinline__ void multiply(half_sum &sum, uint64_t a, uint64_t b) {
        static_assert(a_by_terms && b_by_terms, "there is no other wgmma of tf32");
        WGMMA("k8.f32.tf32.tf32", "");
    }
};

// wgmma will see all that this thread wrote, or copied.
__device__ __forceinline__ void publish() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// ---- the pipeline -------------------------------------------------------------------------------

struct large_sum {
    half_sum half[2]; // of the rows
    // A warp has 16 rows of each half.
    __device__ __forceinline__ void half_to(float (*to)[SUM_PITCH], int h) const {
        int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < 32; i++)
            *(float2 *)&to[row + i % 2 * 8][column + i / 2 * 8] =
                h ? make_float2(half[1].v[2 * i], half[1].v[2 * i + 1])
                  : make_float2(half[0].v[2 * i], half[0].v[2 * i + 1]);
    }
};

template <class Type, class A, class B, class Taps>
__device__ __forceinline__ void large_run(large_sum &sum, A a, B b, Taps taps, int terms) {
    u32 first = (u32)__cvta_generic_to_shared(aligned_shared), now = first;
    u32 then = first + STAGE, next = first + 2 * STAGE;
    const int BYTES = sizeof(typename Type::word), DEPTH = large_words<BYTES>::DEPTH;
    typedef operand_of<A::by_terms> of_a;
    typedef operand_of<B::by_terms> of_b;
    int steps = (terms + DEPTH - 1) / DEPTH;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            a.copy(first + s * STAGE, taps), b.copy(first + s * STAGE + OPERAND, taps), taps.next();
        commit();
    }
#pragma unroll 1
    for (int left = steps; left > 0; left--) {
        wait<STAGES - 2>(); // the oldest stage has come
        publish();
        __syncthreads(); // for all threads
        begin_products();
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                warpgroup<Type, A::by_terms, B::by_terms>::multiply(
                    sum.half[h], of_a::part(now, h, j), of_b::part(now + OPERAND, 0, j));
        commit_products();
        wait_products<1>(); // the stage before has been read
        __syncthreads();    // by all warps
        if (left >= STAGES)
            a.copy(next, taps), b.copy(next + OPERAND, taps), taps.next();
        commit();
        u32 free = now;
        now = then, then = next, next = free;
    }
    wait_products<0>();
}

#include "kernels/cuda/large_products.cuh"

#include "kernels/cuda/hopper_tma.cuh"

// ---- kernels: blockIdx is (tile of rows, tile of columns, split and phase) ----------------------

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_LARGE_THREADS, 3)
KERNEL gemm_hopper_bf16(const gemm_params p) {
    gemm_large<bfloat>(p);
}
KERNEL gemm_hopper_half(const gemm_params p) {
    gemm_large<half>(p);
}
KERNEL gemm_hopper_tf32(const gemm_params p) {
    gemm_large<tf32>(p);
}
KERNEL conv_forward_hopper_bf16(const conv_params p) {
    conv_forward_large<bfloat>(p);
}
KERNEL conv_forward_hopper_half(const conv_params p) {
    conv_forward_large<half>(p);
}
KERNEL conv_forward_hopper_tf32(const conv_params p) {
    conv_forward_large<tf32>(p);
}
KERNEL conv_data_hopper_bf16(const conv_params p) {
    conv_data_large<bfloat>(p);
}
KERNEL conv_data_hopper_half(const conv_params p) {
    conv_data_large<half>(p);
}
KERNEL conv_data_hopper_tf32(const conv_params p) {
    conv_data_large<tf32>(p);
}
KERNEL conv_weight_hopper_bf16(const conv_params p) {
    conv_weight_large<bfloat>(p);
}
KERNEL conv_weight_hopper_half(const conv_params p) {
    conv_weight_large<half>(p);
}
KERNEL conv_weight_hopper_tf32(const conv_params p) {
    conv_weight_large<tf32>(p);
}

#undef KERNEL
#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_LARGE_THREADS, 2)
KERNEL gemm_tma_bf16(const __grid_constant__ gemm_tma_params p) {
    gemm_tma<bfloat>(p);
}
KERNEL gemm_tma_half(const __grid_constant__ gemm_tma_params p) {
    gemm_tma<half>(p);
}
KERNEL gemm_tma_tf32(const __grid_constant__ gemm_tma_params p) {
    gemm_tma<tf32>(p);
}
