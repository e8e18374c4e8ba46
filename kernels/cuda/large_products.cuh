// SPDX-License-Identifier: Apache-2.0
// GEMM and the three directions of convolution in tiles of 128 x 128. A source has large_sum, the
// sums of a thread, with half_to(half, h), and large_run, which makes them, before it includes
// this.
#ifndef DTCTL_KERNELS_CUDA_LARGE_PRODUCTS_CUH
#define DTCTL_KERNELS_CUDA_LARGE_PRODUCTS_CUH
#include "kernels/cuda/large.cuh"

// ---- results ------------------------------------------------------------------------------------

typedef tile_place<SIDE> large_place;

// Through shared memory, half of the rows at a time, so that stores fill whole sectors. f gives the
// row of the result for a row of the product; below 0: there is none. SUMS: where o has room for
// them.
template <class Type, bool SUMS, class F>
__device__ __forceinline__ void put_large(const large_sum &sum, const product_out &o,
                                          const large_place &at, F f) {
    float(*half)[SUM_PITCH] = (float(*)[SUM_PITCH])dynamic_shared;
    int column = at.column + threadIdx.x;
    tile_sums sums;
    for (int h = 0; h < 2; h++) {
        __syncthreads(); // nothing in shared memory is needed any more
        sum.half_to(half, h);
        __syncthreads(); // the half is there
        if (column >= o.n)
            continue;
#pragma unroll 2
        for (int r = 0; r < WARP; r++) {
            int64_t to = f(at.row + h * WARP + r);
            if (to < 0)
                continue;
            float v = put<Type::kept, NO_ACT>(o, at.split, to, column, half[r][threadIdx.x]);
            if (SUMS && o.sums)
                sums.add(h * WARP + r, v);
        }
    }
    if (SUMS && o.sums && column < o.n)
        sums.leave(o, column);
}

// Rows of the product are those of the result.
template <class Type, bool SUMS>
__device__ __forceinline__ void put_rows(const large_sum &sum, const product_out &o,
                                         const large_place &at) {
    put_large<Type, SUMS>(sum, o, at, [&](int row) -> int64_t { return row < o.m ? row : -1; });
}

// The numbers that a matrix needs beside its sums are read for so many rows at once.
enum { AHEAD = 8 };
static_assert((WARP + 2 * AHEAD) * SUM_PITCH * sizeof(float) <= CUDA_LARGE_SHARED,
              "what the host asks for");

// Brings the numbers that the sums of a thread's column are added to, and behind them those beside.
// T: as they lie in memory.
template <class T>
__device__ __forceinline__ void read_ahead(float (*to)[SUM_PITCH], const product_out &o, int row,
                                           int column) {
#pragma unroll 1
    for (int n = o.beta != 0.0f ? 0 : 1; n < (is_grad<ALL_ACTS>(o) ? 2 : 1); n++) {
        const T *x = (const T *)(n ? o.beside : o.from) + (int64_t)row * o.ldc + column;
        T v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            v[i] = 0;
            if (row + i < o.m)
                v[i] = x[(int64_t)i * o.ldc];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            to[n * AHEAD + i][threadIdx.x] = read(v, i);
    }
}

// A row of the results: from half[0], and what has been read for it.
template <bool kept>
__device__ __forceinline__ void put_ahead(const product_out &o, const float (*half)[SUM_PITCH],
                                          const float (*ahead)[SUM_PITCH], int64_t at, float bias) {
    float v = o.alpha * half[0][threadIdx.x], x = 0.0f;
    if (o.beta != 0.0f)
        v += o.beta * ahead[0][threadIdx.x];
    if (is_grad<ALL_ACTS>(o))
        x = ahead[AHEAD][threadIdx.x];
    finish<kept, ALL_ACTS>(o, at, v + bias, x);
}

// As put_rows, with activations.
template <class Type>
__device__ __forceinline__ void put_matrix(const large_sum &sum, const product_out &o,
                                           const large_place &at) {
    float(*half)[SUM_PITCH] = (float(*)[SUM_PITCH])dynamic_shared;
    float(*ahead)[SUM_PITCH] = half + WARP;
    int column = at.column + threadIdx.x;
    float bias = o.bias && column < o.n ? o.bias[column] : 0.0f;
    for (int h = 0; h < 2; h++) {
        __syncthreads(); // nothing in shared memory is needed any more
        sum.half_to(half, h);
        __syncthreads(); // the half is there
        if (column >= o.n)
            continue;
        int row = at.row + h * WARP, rows = min(WARP, o.m - row);
        if (o.partial) {
            float *to = o.partial + at.split * o.size + (int64_t)row * o.n + column;
#pragma unroll 2
            for (int r = 0; r < rows; r++, to += o.n)
                *to = half[r][threadIdx.x];
            continue;
        }
        int64_t to = (int64_t)row * o.ldc + column;
#pragma unroll 1
        for (int r = 0; r < rows; r++, to += o.ldc) {
            if (r % AHEAD == 0 && Type::kept && o.bf16)
                read_ahead<bf16_word>(ahead, o, row + r, column);
            else if (r % AHEAD == 0)
                read_ahead<float>(ahead, o, row + r, column);
            put_ahead<Type::kept>(o, half + r, ahead + r % AHEAD, to, bias);
        }
    }
}

// ---- products -----------------------------------------------------------------------------------

template <class Type, class A, class B>
__device__ __forceinline__ void gemm_run(large_sum &sum, const gemm_params &p,
                                         const large_place &at) {
    large_run<Type>(sum, A(p.a, p.lda, at.row, p.out.m, at.k),
                    B(p.b, p.ldb, at.column, p.out.n, at.k), no_taps(), at.k_end - at.k);
}

template <class Type> __device__ __forceinline__ void gemm_large(const gemm_params &p) {
    const int BYTES = sizeof(typename Type::word);
    typedef packed_by_terms<BYTES> by_terms;
    typedef packed_by_rows by_rows;
    large_place at(p.out, p.out.k);
    large_sum t = {};
    if constexpr (BYTES == 2) {
        if (p.trans_a) // no product of the trainer has both transposed
            gemm_run<Type, by_rows, by_rows>(t, p, at);
        else if (p.trans_b)
            gemm_run<Type, by_terms, by_terms>(t, p, at);
        else
            gemm_run<Type, by_terms, by_rows>(t, p, at);
    } else {
        gemm_run<Type, by_terms, by_terms>(t, p, at);
    }
    put_matrix<Type>(t, p.out, at);
}

template <class Type> __device__ __forceinline__ void conv_forward_large(const conv_params &p) {
    const int BYTES = sizeof(typename Type::word);
    large_place at(p.out, p.out.k);
    large_sum t = {};
    large_run<Type>(t, large_patches<BYTES>(p, at.row),
                    packed_by_terms<BYTES>(p.b, p.out.k, at.column, p.out.n, at.k),
                    tap_counter<BYTES>(at.k, p.c, p.kw), at.k_end - at.k);
    put_rows<Type, true>(t, p.out, at);
}

template <class Type> __device__ __forceinline__ void conv_data_large(const conv_params &p) {
    const int BYTES = sizeof(typename Type::word);
    phase f(p, blockIdx.z / p.out.splits);
    large_place at(p.out, f.terms(p));
    if (at.row >= f.rows(p))
        return;
    large_sum t = {};
    large_run<Type>(t, large_gradients<BYTES>(p, f, at.row), large_filters<BYTES>(p, f, at.column),
                    tap_counter<BYTES>(at.k, p.o, f.taps_x), at.k_end - at.k);
    put_large<Type, false>(t, p.out, at, [&](int row) -> int64_t {
        if (row >= f.rows(p))
            return -1;
        int y = row / f.rows_x % f.rows_y * p.stride + f.y, x = row % f.rows_x * p.stride + f.x;
        return ((int64_t)(row / (f.rows_y * f.rows_x)) * p.h + y) * p.w + x;
    });
}

template <class Type> __device__ __forceinline__ void conv_weight_large(const conv_params &p) {
    const int BYTES = sizeof(typename Type::word);
    large_place at(p.out, p.out.k);
    large_sum t = {};
    if constexpr (BYTES == 2)
        large_run<Type>(t, packed_by_rows(p.a, p.o, at.row, p.out.m, at.k),
                        large_patches_by_rows(p, at.column, at.k, at.k_end), no_taps(),
                        at.k_end - at.k);
    else
        large_run<Type>(t, packed_by_terms<4>(p.a, whole_stages<4>(p.out.k), at.row, p.out.m, at.k),
                        large_patches_by_terms(p, at.column, at.k, at.k_end), no_taps(),
                        at.k_end - at.k);
    put_rows<Type, false>(t, p.out, at);
}
#endif
