// SPDX-License-Identifier: Apache-2.0
// Products: GEMM, and convolution as a product of operands that are gathered while they are loaded.
#include "kernels/cuda/product.cuh"

// ---- operands of a GEMM -------------------------------------------------------------------------

template <bool kept> struct matrix_by_terms { // p[row][term]
    static const bool by_terms = true;
    numbers<kept> p[LOADS];
    int k, k_end;
    __device__ __forceinline__ matrix_by_terms(const numbers<kept> &m, int ld, int row0, int rows,
                                               int k0, int end) {
        k = k0 + place_term<matrix_by_terms>(0), k_end = end;
        for (int i = 0; i < LOADS; i++) {
            int row = row0 + place_row<matrix_by_terms>(i);
            p[i] = row < rows ? m + (int64_t)row * ld : numbers<kept>(nullptr, m.bf16);
        }
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++)
            v[i] = p[i].at && k < k_end ? p[i][k] : 0.0f;
        k += STEP;
    }
};

template <bool kept> struct matrix_by_rows { // p[term][row]
    static const bool by_terms = false;
    numbers<kept> p;
    int64_t step; // bytes
    int k, k_end;
    __device__ __forceinline__ matrix_by_rows(const numbers<kept> &m, int ld, int row0, int rows,
                                              int k0, int end) {
        int row = row0 + place_row<matrix_by_rows>(0);
        k = k0 + place_term<matrix_by_rows>(0), k_end = row < rows ? end : 0;
        p = m + ((int64_t)k * ld + row), step = (int64_t)4 * ld * m.bytes();
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++, p.at += step)
            v[i] = k + 4 * i < k_end ? p[0] : 0.0f;
        k += STEP;
    }
};

// ---- operands of a convolution ------------------------------------------------------------------

// Counts through channels, columns of a filter, rows of a filter without a division.
struct odometer {
    int low, mid, high;
    __device__ __forceinline__ odometer(int at, int lows, int mids) {
        low = at % lows, mid = at / lows % mids, high = at / lows / mids;
    }
    __device__ __forceinline__ void add(int n, int lows, int mids) {
        for (low += n; low >= lows; low -= lows)
            if (++mid == mids)
                mid = 0, high++;
    }
};

template <bool kept>
struct patches_by_terms { // row: an output position; term: (ky, kx, channel) of x
    static const bool by_terms = true;
    const conv_params &s;
    numbers<kept> p[LOADS]; // the corner of the window
    int y[LOADS], x[LOADS], k, k_end;
    odometer at;
    __device__ __forceinline__ patches_by_terms(const conv_params &s, int row0, int k0, int end)
        : s(s), k(k0 + place_term<patches_by_terms>(0)), k_end(end), at(k, s.c, s.kw) {
        for (int i = 0; i < LOADS; i++) {
            int row = row0 + place_row<patches_by_terms>(i), image = row / (s.oh * s.ow);
            y[i] = row / s.ow % s.oh * s.stride - s.pad, x[i] = row % s.ow * s.stride - s.pad;
            p[i] =
                numbers<kept>(s.a, s.a_bf16) + (((int64_t)image * s.h + y[i]) * s.w + x[i]) * s.c;
            if (row >= s.out.m)
                y[i] = INT32_MIN / 2;
        }
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        int64_t tap = (int64_t)(at.high * s.w + at.mid) * s.c + at.low;
        for (int i = 0; i < LOADS; i++) {
            bool in = k < k_end && (u32)(y[i] + at.high) < s.h && (u32)(x[i] + at.mid) < s.w;
            v[i] = in ? p[i][tap] : 0.0f;
        }
        k += STEP, at.add(STEP, s.c, s.kw);
    }
};

template <bool kept>
struct gradients_by_terms { // row: an input position of the phase; term: (tap, filter) of dy
    static const bool by_terms = true;
    const conv_params &s;
    numbers<kept> p[LOADS]; // dy at the first tap
    int y[LOADS], x[LOADS], k, k_end, taps_x;
    odometer at;
    __device__ __forceinline__ gradients_by_terms(const conv_params &s, const phase &f, int row0,
                                                  int k0, int end)
        : s(s), k(k0 + place_term<gradients_by_terms>(0)), k_end(end), taps_x(f.taps_x),
          at(k, s.o, max(f.taps_x, 1)) {
        for (int i = 0; i < LOADS; i++) {
            int row = row0 + place_row<gradients_by_terms>(i), image = row / (f.rows_y * f.rows_x);
            y[i] = row / f.rows_x % f.rows_y + (f.y + s.pad - f.first_y) / s.stride;
            x[i] = row % f.rows_x + (f.x + s.pad - f.first_x) / s.stride;
            p[i] =
                numbers<kept>(s.a, s.a_bf16) + (((int64_t)image * s.oh + y[i]) * s.ow + x[i]) * s.o;
            if (row >= f.rows(s))
                y[i] = INT32_MIN / 2;
        }
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        int64_t tap = at.low - (int64_t)(at.high * s.ow + at.mid) * s.o;
        for (int i = 0; i < LOADS; i++) {
            bool in = k < k_end && (u32)(y[i] - at.high) < s.oh && (u32)(x[i] - at.mid) < s.ow;
            v[i] = in ? p[i][tap] : 0.0f;
        }
        k += STEP, at.add(STEP, s.o, taps_x);
    }
};

struct filters_by_rows { // row: a channel; term: (tap, filter) of w
    static const bool by_terms = false;
    const conv_params &s;
    const float *p;
    int k, k_end, taps_x;
    odometer at;
    __device__ __forceinline__ filters_by_rows(const conv_params &s, const phase &f, int row0,
                                               int k0, int end)
        : s(s), k(k0 + place_term<filters_by_rows>(0)), k_end(end), taps_x(f.taps_x),
          at(k, s.o, max(f.taps_x, 1)) {
        int row = row0 + place_row<filters_by_rows>(0);
        p = (const float *)s.b + (int64_t)(f.first_y * s.kw + f.first_x) * s.c + row;
        k_end = row < s.c ? end : 0;
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++, k += 4, at.add(4, s.o, taps_x)) {
            int64_t tap = ((int64_t)at.low * s.kh + at.high * s.stride) * s.kw + at.mid * s.stride;
            v[i] = k < k_end ? p[tap * s.c] : 0.0f;
        }
    }
};

template <bool kept>
struct patches_by_rows { // row: (ky, kx, channel) of x; term: an output position
    static const bool by_terms = false;
    const conv_params &s;
    numbers<kept> p;
    int ky, kx, k, k_end;
    odometer at;
    __device__ __forceinline__ patches_by_rows(const conv_params &s, int row0, int k0, int end)
        : s(s), k(k0 + place_term<patches_by_rows>(0)), k_end(end), at(k, s.ow, s.oh) {
        int row = row0 + place_row<patches_by_rows>(0);
        ky = row / s.c / s.kw - s.pad, kx = row / s.c % s.kw - s.pad;
        p = numbers<kept>(s.b, s.b_bf16) + row % s.c;
        k_end = row < s.out.n ? end : 0;
    }
    __device__ __forceinline__ void load(float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++, k += 4, at.add(4, s.ow, s.oh)) {
            int y = at.mid * s.stride + ky, x = at.low * s.stride + kx;
            bool in = k < k_end && (u32)y < s.h && (u32)x < s.w;
            v[i] = in ? p[(((int64_t)at.high * s.h + y) * s.w + x) * s.c] : 0.0f;
        }
    }
};

// ---- kernels: blockIdx is (tile of rows, tile of columns, split and phase) ----------------------

typedef tile_place<TILE> product_place;

// Where a number of a tile is in shared memory. The rows of a warp are two neighbours, or the next
// but one: their numbers meet no bank twice.
__device__ __forceinline__ int tile_place_of(int row, int column) {
    return row * TILE + (column ^ (row ^ row / 2) % 2 * 16);
}
static_assert(TILE * TILE * sizeof(float) <= CUDA_PRODUCT_SHARED, "what the host asks for");

__device__ __forceinline__ void sum_tile(const product_out &o, const product_place &at,
                                         const float *tile) {
    int column = threadIdx.x, rows = o.m - at.row;
    __syncthreads(); // the tile is there
    if (column >= TILE || at.column + column >= o.n)
        return;
    tile_sums sums;
#pragma unroll 8
    for (int r = 0; r < TILE; r++)
        if (r < rows)
            sums.add(r, tile[tile_place_of(r, column)]);
    sums.leave(o, at.column + column);
}

// SUMS: where o has room for them.
template <int ACTS, bool SUMS, class Product>
__device__ __forceinline__ void put_all(Product &t, const product_out &o, const product_place &at) {
    float *tile = (float *)dynamic_shared;
    t.end();
#pragma unroll
    for (int e = 0; e < 16; e++) {
        int row = at.row + t.row(e), column = at.column + t.column(e);
        if (row >= o.m || column >= o.n)
            continue;
        float v = put<Product::kept, ACTS>(o, at.split, row, column, t.sum[e / 4][e % 4]);
        if (SUMS && o.sums)
            tile[tile_place_of(t.row(e), t.column(e))] = v;
    }
    if (SUMS && o.sums)
        sum_tile(o, at, tile);
}

template <class Product> __device__ __forceinline__ void gemm(const gemm_params &p) {
    typedef matrix_by_terms<Product::kept> by_terms;
    typedef matrix_by_rows<Product::kept> by_rows;
    const product_out &o = p.out;
    product_place at(o, o.k);
    Product t;
    int terms = at.k_end - at.k;
    numbers<Product::kept> a(p.a, p.a_bf16), b(p.b, p.b_bf16);
    if (p.trans_a && p.trans_b)
        product_run(t, by_rows(a, p.lda, at.row, o.m, at.k, at.k_end),
                    by_terms(b, p.ldb, at.column, o.n, at.k, at.k_end), terms);
    else if (p.trans_a)
        product_run(t, by_rows(a, p.lda, at.row, o.m, at.k, at.k_end),
                    by_rows(b, p.ldb, at.column, o.n, at.k, at.k_end), terms);
    else if (p.trans_b)
        product_run(t, by_terms(a, p.lda, at.row, o.m, at.k, at.k_end),
                    by_terms(b, p.ldb, at.column, o.n, at.k, at.k_end), terms);
    else
        product_run(t, by_terms(a, p.lda, at.row, o.m, at.k, at.k_end),
                    by_rows(b, p.ldb, at.column, o.n, at.k, at.k_end), terms);
    put_all<RELU_ACT, false>(t, o, at);
}

template <class Product> __device__ __forceinline__ void conv_forward(const conv_params &p) {
    product_place at(p.out, p.out.k);
    Product t;
    numbers<false> w(p.b, false);
    product_run(t, patches_by_terms<Product::kept>(p, at.row, at.k, at.k_end),
                matrix_by_terms<false>(w, p.out.k, at.column, p.out.n, at.k, at.k_end),
                at.k_end - at.k);
    put_all<NO_ACT, true>(t, p.out, at);
}

template <class Product> __device__ __forceinline__ void conv_data(const conv_params &p) {
    phase f(p, blockIdx.z / p.out.splits);
    product_place at(p.out, f.terms(p));
    if (at.row >= f.rows(p))
        return;
    Product t;
    product_run(t, gradients_by_terms<Product::kept>(p, f, at.row, at.k, at.k_end),
                filters_by_rows(p, f, at.column, at.k, at.k_end), at.k_end - at.k);
    t.end();
#pragma unroll
    for (int e = 0; e < 16; e++) {
        int row = at.row + t.row(e), column = at.column + t.column(e);
        if (row >= f.rows(p) || column >= p.out.n)
            continue;
        int y = row / f.rows_x % f.rows_y * p.stride + f.y, x = row % f.rows_x * p.stride + f.x;
        int64_t pixel = ((int64_t)(row / (f.rows_y * f.rows_x)) * p.h + y) * p.w + x;
        put<Product::kept, NO_ACT>(p.out, at.split, pixel, column, t.sum[e / 4][e % 4]);
    }
}

template <class Product> __device__ __forceinline__ void conv_weight(const conv_params &p) {
    product_place at(p.out, p.out.k);
    Product t;
    numbers<Product::kept> dy(p.a, p.a_bf16);
    product_run(t, matrix_by_rows<Product::kept>(dy, p.o, at.row, p.out.m, at.k, at.k_end),
                patches_by_rows<Product::kept>(p, at.column, at.k, at.k_end), at.k_end - at.k);
    put_all<NO_ACT, false>(t, p.out, at);
}

#if __CUDA_ARCH__ >= 800
#define TF32(call) call
#else
#define TF32(call) // never launched
#endif
#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS, 2)
KERNEL gemm_float(const gemm_params p) {
    gemm<float_product<false>>(p);
}
KERNEL gemm_bf16(const gemm_params p) {
    gemm<bfloat_product>(p);
}
KERNEL gemm_half(const gemm_params p) {
    gemm<half_product>(p);
}
KERNEL gemm_tf32(const gemm_params p) {
    TF32(gemm<tf32_product>(p));
}
KERNEL conv_forward_float(const conv_params p) {
    conv_forward<float_product<false>>(p);
}
KERNEL conv_forward_bf16(const conv_params p) {
    conv_forward<bfloat_product>(p);
}
KERNEL conv_forward_half(const conv_params p) {
    conv_forward<half_product>(p);
}
KERNEL conv_forward_tf32(const conv_params p) {
    TF32(conv_forward<tf32_product>(p));
}
KERNEL conv_data_float(const conv_params p) {
    conv_data<float_product<false>>(p);
}
KERNEL conv_data_bf16(const conv_params p) {
    conv_data<bfloat_product>(p);
}
KERNEL conv_data_half(const conv_params p) {
    conv_data<half_product>(p);
}
KERNEL conv_data_tf32(const conv_params p) {
    TF32(conv_data<tf32_product>(p));
}
KERNEL conv_weight_float(const conv_params p) {
    conv_weight<float_product<false>>(p);
}
KERNEL conv_weight_bf16(const conv_params p) {
    conv_weight<bfloat_product>(p);
}
KERNEL conv_weight_half(const conv_params p) {
    conv_weight<half_product>(p);
}
KERNEL conv_weight_tf32(const conv_params p) {
    TF32(conv_weight<tf32_product>(p));
}

// The splits of one element, in their order.
KERNEL product_sum(const product_out o) {
    int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
    if (i >= o.size)
        return;
    float sum = 0.0f;
    for (int s = 0; s < o.splits; s++)
        sum += o.partial[s * o.size + i];
    finish_sum<true, ALL_ACTS>(o, i / o.n * o.ldc + i % o.n, (int)(i % o.n), sum);
}
