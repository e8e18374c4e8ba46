// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, two for each column, in an order that depends on the shape alone.
// A block has 32 columns and 8 rows of threads; blockIdx is (group of columns, chunk of rows). A
// thread has PER neighbouring columns: of bfloat16 two, where all rows begin with whole pairs, so
// that as many bytes are under way as of floats.
#ifndef DTCTL_KERNELS_CUDA_ROWS_CUH
#define DTCTL_KERNELS_CUDA_ROWS_CUH
#include "kernels/cuda/stored.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
enum { COLUMNS = 32, ROWS = CUDA_THREADS / COLUMNS };

__device__ __forceinline__ int column_of_thread() {
    return blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
}
__device__ __forceinline__ int row_of_thread() {
    return threadIdx.x / COLUMNS;
}

// The sums of a block's rows of threads, for the first of them.
template <int PER> __device__ __forceinline__ void add_rows(double (&a)[PER], double (&b)[PER]) {
    __shared__ double place[PER][ROWS][2][COLUMNS];
    int column = threadIdx.x % COLUMNS, row = row_of_thread();
    for (int k = 0; k < PER; k++)
        place[k][row][0][column] = a[k], place[k][row][1][column] = b[k];
    __syncthreads(); // every row has left its sums
    for (int k = 0; k < PER && row == 0; k++)
        for (int r = 1; r < ROWS; r++)
            a[k] += place[k][r][0][column], b[k] += place[k][r][1][column];
}

// Adds f(row, column, a, b) over the rows of this chunk, and leaves the sums in partial.
template <int PER, class F>
__device__ __forceinline__ void sum_chunk(int64_t rows, int columns, int64_t chunk_rows,
                                          double *partial, F f) {
    int column = column_of_thread() * PER;
    int64_t from = blockIdx.y * chunk_rows, to = min(from + chunk_rows, rows);
    float a[PER] = {}, b[PER] = {};
    to = column < columns ? to : from;
#pragma unroll 4
    for (int64_t r = from + row_of_thread(); r < to; r += ROWS)
        f(r, column, a, b);
    neighbours<double, PER> sum_a, sum_b;
    for (int k = 0; k < PER; k++)
        sum_a.v[k] = a[k], sum_b.v[k] = b[k];
    add_rows(sum_a.v, sum_b.v);
    if (row_of_thread() != 0 || column >= columns)
        return;
    partial += (int64_t)blockIdx.y * 2 * columns + column;
    *(neighbours<double, PER> *)partial = sum_a;
    *(neighbours<double, PER> *)(partial + columns) = sum_b;
}

// The sums of all chunks of a column, for the first row of threads; blockIdx.x alone counts.
__device__ __forceinline__ void sum_chunks(int columns, int chunks, const double *partial,
                                           double &a, double &b) {
    int column = column_of_thread();
    double sum_a[1] = {}, sum_b[1] = {};
    if (column < columns)
        for (int c = row_of_thread(); c < chunks; c += ROWS) {
            sum_a[0] += partial[(int64_t)c * 2 * columns + column];
            sum_b[0] += partial[((int64_t)c * 2 + 1) * columns + column];
        }
    add_rows(sum_a, sum_b);
    a = sum_a[0], b = sum_b[0];
}
#endif
