// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, two for each column, in an order that depends on the shape alone.
// A block has 32 columns and 8 rows of threads; blockIdx is (group of columns, chunk of rows).
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
__device__ __forceinline__ void add_rows(double &a, double &b) {
    __shared__ double place[ROWS][2][COLUMNS];
    int column = threadIdx.x % COLUMNS;
    place[row_of_thread()][0][column] = a, place[row_of_thread()][1][column] = b;
    __syncthreads(); // every row has left its sums
    if (row_of_thread() == 0)
        for (int r = 1; r < ROWS; r++)
            a += place[r][0][column], b += place[r][1][column];
}

// Adds f(row, column, a, b) over the rows of this chunk, and leaves the sums in partial.
template <class F>
__device__ __forceinline__ void sum_chunk(int64_t rows, int columns, int64_t chunk_rows,
                                          double *partial, F f) {
    int column = column_of_thread();
    int64_t from = blockIdx.y * chunk_rows, to = min(from + chunk_rows, rows);
    float a = 0.0f, b = 0.0f;
    if (column < columns)
        for (int64_t r = from + row_of_thread(); r < to; r += ROWS)
            f(r, column, a, b);
    double sum_a = a, sum_b = b;
    add_rows(sum_a, sum_b);
    if (row_of_thread() == 0 && column < columns) {
        partial[((int64_t)blockIdx.y * 2) * columns + column] = sum_a;
        partial[((int64_t)blockIdx.y * 2 + 1) * columns + column] = sum_b;
    }
}

// The sums of all chunks of a column, for the first row of threads; blockIdx.x alone counts.
__device__ __forceinline__ void sum_chunks(int columns, int chunks, const double *partial,
                                           double &a, double &b) {
    int column = column_of_thread();
    a = b = 0.0;
    if (column < columns)
        for (int c = row_of_thread(); c < chunks; c += ROWS) {
            a += partial[(int64_t)c * 2 * columns + column];
            b += partial[((int64_t)c * 2 + 1) * columns + column];
        }
    add_rows(a, b);
}
#endif
