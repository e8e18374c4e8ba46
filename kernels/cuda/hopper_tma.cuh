// SPDX-License-Identifier: Apache-2.0
// Products whose operands come by tensor maps, for hopper.cu. One thread asks for boxes of 128 bytes
// of each row, which arrive as wgmma reads them, with zeros beyond the ends of the matrix. A stage
// has two mbarriers: one counts the bytes that come, the other one the warps that have read them.
#ifndef DTCTL_KERNELS_CUDA_HOPPER_TMA_CUH
#define DTCTL_KERNELS_CUDA_HOPPER_TMA_CUH

enum {
    TMA_OPERAND = SIDE * CUDA_TMA_BYTES,
    TMA_WARPS = THREADS / 32,
    TMA_BARS = 16,   // bytes of the mbarriers of a stage
    TMA_PRODUCTS = 4 // of 32 bytes of the terms, by stage
};
static_assert(2 * TMA_OPERAND == CUDA_TMA_STAGE && TMA_OPERAND % TURN_BYTES == 0,
              "every operand begins where places are not turned");
static_assert(CUDA_TMA_STAGES * (CUDA_TMA_STAGE + TMA_BARS) == CUDA_TMA_SHARED,
              "what the host asks for");
static_assert(CUDA_LARGE_SHARED <= CUDA_TMA_SHARED, "the results have as much room");

// ---- mbarriers ----------------------------------------------------------------------------------

__device__ __forceinline__ void bar_init(u32 bar, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
// Copies will see the mbarriers that this thread has made.
__device__ __forceinline__ void bar_publish() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void bar_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void bar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ bool bar_is_past(u32 bar, u32 parity) {
    u32 past;
    asm volatile("{\n"
                 ".reg .pred past;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 past, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, past;\n"
                 "}"
                 : "=r"(past)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return past;
}
__device__ __forceinline__ void bar_wait(u32 bar, u32 parity) {
    while (!bar_is_past(bar, parity))
        ;
}

// ---- operands -----------------------------------------------------------------------------------

__device__ __forceinline__ void map_fetch(const cuda_tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void box_copy(u32 to, const cuda_tensor_map *map, int column, int row,
                                         u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(bar)
                 : "memory");
}

// By terms, a box has all rows; by rows, a half of them, and the other half follows.
template <bool terms, int BYTES> struct tma_operand {
    static const bool by_terms = terms;
    enum { DEPTH = CUDA_TMA_BYTES / BYTES, HALF_BYTES = DEPTH * CUDA_TMA_BYTES };
    static const uint64_t form = (uint64_t)WIDE_128 << 62 |
                                 (uint64_t)(8 * CUDA_TMA_BYTES / UNIT) << 32 |
                                 (uint64_t)(terms ? 1 : HALF_BYTES / UNIT) << 16;
    const cuda_tensor_map *map;
    int row, term;
    __device__ __forceinline__ tma_operand(const cuda_tensor_map &map, int row, int term)
        : map(&map), row(row), term(term) {}
    __device__ __forceinline__ void copy(u32 to, u32 bar) {
        if (terms) {
            box_copy(to, map, term, row, bar);
        } else {
            box_copy(to, map, row, term, bar);
            box_copy(to + HALF_BYTES, map, row + WARP, term, bar);
        }
        term += DEPTH;
    }
    // 32 bytes of the terms times j, from row 64 h on.
    static __device__ __forceinline__ uint64_t part(u32 at, int h, int j) {
        at += terms ? h * WARP * CUDA_TMA_BYTES + j * HALF_TERMS
                    : h * HALF_BYTES + j * DEPTH / TMA_PRODUCTS * CUDA_TMA_BYTES;
        return form | at / UNIT;
    }
};

// ---- the pipeline -------------------------------------------------------------------------------

// The stages in turn. parity is that of the phase which a stage is in.
struct tma_ring {
    u32 stage, full, parity;
    int left; // stages before the first one comes again
    __device__ __forceinline__ tma_ring(u32 first)
        : stage(first), full(first + CUDA_TMA_STAGES * CUDA_TMA_STAGE), parity(0),
          left(CUDA_TMA_STAGES) {}
    __device__ __forceinline__ u32 read() const { return full + TMA_BARS / 2; }
    __device__ __forceinline__ void next() {
        stage += CUDA_TMA_STAGE, full += TMA_BARS;
        if (--left)
            return;
        stage -= CUDA_TMA_STAGES * CUDA_TMA_STAGE, full -= CUDA_TMA_STAGES * TMA_BARS;
        parity ^= 1, left = CUDA_TMA_STAGES;
    }
};

template <class A, class B>
__device__ __forceinline__ void tma_fill(u32 stage, u32 full, A &a, B &b) {
    bar_expect(full, CUDA_TMA_STAGE);
    a.copy(stage, full), b.copy(stage + TMA_OPERAND, full);
}

template <class Type, class A, class B>
__device__ __forceinline__ void tma_run(large_sum &sum, A a, B b, int terms) {
    const int DEPTH = A::DEPTH;
    tma_ring now((u32)__cvta_generic_to_shared(aligned_shared)), before = now;
    int steps = (terms + DEPTH - 1) / DEPTH;
    bool copies = threadIdx.x == 0;
    if (copies) {
        map_fetch(a.map), map_fetch(b.map);
        for (int s = 0; s < CUDA_TMA_STAGES; s++)
            bar_init(now.full + s * TMA_BARS, 1), bar_init(now.read() + s * TMA_BARS, TMA_WARPS);
        bar_publish();
        for (int s = 0; s < CUDA_TMA_STAGES && s < steps; s++)
            tma_fill(now.stage + s * CUDA_TMA_STAGE, now.full + s * TMA_BARS, a, b);
    }
    __syncthreads(); // the mbarriers are there for all warps
#pragma unroll 1
    for (int left = steps; left > 0; left--) {
        bar_wait(now.full, now.parity); // the stage has come
        begin_products();
#pragma unroll
        for (int j = 0; j < TMA_PRODUCTS; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                warpgroup<Type, A::by_terms, B::by_terms>::multiply(
                    sum.half[h], A::part(now.stage, h, j), B::part(now.stage + TMA_OPERAND, 0, j));
        commit_products();
        wait_products<1>(); // the stage before has been read
        if (left < steps && threadIdx.x % 32 == 0)
            bar_arrive(before.read()); // by this warp
        if (copies && left < steps && left >= CUDA_TMA_STAGES) {
            bar_wait(before.read(), before.parity); // by all warps
            tma_fill(before.stage, before.full, a, b);
        }
        before = now, now.next();
    }
    wait_products<0>();
}

// ---- products -----------------------------------------------------------------------------------

template <class Type, bool a_by_terms, bool b_by_terms>
__device__ __forceinline__ void gemm_tma_run(large_sum &sum, const gemm_tma_params &p,
                                             const large_place &at) {
    const int BYTES = sizeof(typename Type::word);
    tma_run<Type>(sum, tma_operand<a_by_terms, BYTES>(p.a, at.row, at.k),
                  tma_operand<b_by_terms, BYTES>(p.b, at.column, at.k), at.k_end - at.k);
}

template <class Type> __device__ __forceinline__ void gemm_tma(const gemm_tma_params &p) {
    large_place at(p.gemm.out, p.gemm.out.k);
    large_sum t = {};
    if constexpr (sizeof(typename Type::word) == 2) {
        if (p.gemm.trans_a)
            gemm_tma_run<Type, false, false>(t, p, at);
        else if (p.gemm.trans_b)
            gemm_tma_run<Type, true, true>(t, p, at);
        else
            gemm_tma_run<Type, true, false>(t, p, at);
    } else {
        gemm_tma_run<Type, true, true>(t, p, at);
    }
    put_matrix<Type>(t, p.gemm.out, at);
}
#endif
