// SPDX-License-Identifier: Apache-2.0
// Layer normalisation: a row for each warp; sums over rows as in batchnorm.cu.
#include "kernels/cuda/rows.cuh"

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__device__ __forceinline__ int64_t row_of_warp() {
    return (int64_t)blockIdx.x * (CUDA_THREADS / 32) + threadIdx.x / 32;
}

// A sum is stored in the end, since its elements are rounded there, and may lie over x.
template <class T> __device__ __forceinline__ void forward(const layernorm_params &p, int64_t row) {
    const T *x = (const T *)p.x + row * p.cols, *more = (const T *)p.residual + row * p.cols;
    auto sum = [&](int c) { return p.residual ? read(x, c) + read(more, c) : read(x, c); };
    int lane = threadIdx.x % 32;
    float total = 0.0f, square = 0.0f;
#pragma unroll 2
    for (int c = lane; c < p.cols; c += 32)
        total += sum(c);
    float mean = warp_sum(total) / p.cols;
#pragma unroll 2
    for (int c = lane; c < p.cols; c += 32)
        square = fmaf(sum(c) - mean, sum(c) - mean, square);
    float invstd = (float)(1.0 / sqrt((double)warp_sum(square) / p.cols + p.eps));
#pragma unroll 2
    for (int c = lane; c < p.cols; c += 32) {
        float v = sum(c);
        if (p.residual)
            write((T *)p.sum, row * p.cols + c, v);
        write((T *)p.y, row * p.cols + c, fmaf((v - mean) * invstd, p.gamma[c], p.beta[c]));
    }
    if (lane == 0 && p.save_mean)
        p.save_mean[row] = mean, p.save_invstd[row] = invstd;
}
// x, residual[rows][cols] -> sum, y[rows][cols], save_mean[rows], save_invstd[rows]
KERNEL layernorm_forward(const layernorm_params p) {
    int64_t row = row_of_warp();
    if (row >= p.rows)
        return;
    p.bf16 ? forward<bf16_word>(p, row) : forward<float>(p, row);
}

template <class T> __device__ __forceinline__ void grad_sums(const layernorm_grad_params &p) {
    const T *x = (const T *)p.x, *dy = (const T *)p.dy;
    sum_chunk(p.rows, p.cols, p.chunk_rows, p.partial, [&](int64_t row, int c, float &a, float &b) {
        float g = read(dy, row * p.cols + c);
        a = fmaf(g, (read(x, row * p.cols + c) - p.save_mean[row]) * p.save_invstd[row], a), b += g;
    });
}
// Sums of dy * normalised x, and of dy, over rows: the gradients of gamma and beta.
// x, dy[rows][cols] -> partial[chunks][2][cols]
KERNEL layernorm_grad_sums(const layernorm_grad_params p) {
    p.bf16 ? grad_sums<bf16_word>(p) : grad_sums<float>(p);
}

template <class T>
__device__ __forceinline__ void grad_row(const layernorm_grad_params &p, int64_t row) {
    const T *x = (const T *)p.x, *dy = (const T *)p.dy, *dsum = (const T *)p.dsum;
    int lane = threadIdx.x % 32;
    int64_t at = row * p.cols;
    float mean = p.save_mean[row], invstd = p.save_invstd[row], sum = 0.0f, dot = 0.0f;
#pragma unroll 2
    for (int c = lane; c < p.cols; c += 32) {
        float g = read(dy, at + c) * p.gamma[c];
        sum += g, dot = fmaf(g, (read(x, at + c) - mean) * invstd, dot);
    }
    sum = warp_sum(sum) / p.cols, dot = warp_sum(dot) / p.cols;
#pragma unroll 2
    for (int c = lane; c < p.cols; c += 32) {
        float normal = (read(x, at + c) - mean) * invstd;
        float v = invstd * (read(dy, at + c) * p.gamma[c] - sum - normal * dot);
        write((T *)p.dx, at + c, dsum ? v + read(dsum, at + c) : v);
    }
}
// x, dy, dsum[rows][cols] -> dx[rows][cols]
KERNEL layernorm_grad_rows(const layernorm_grad_params p) {
    int64_t row = row_of_warp();
    if (row >= p.rows)
        return;
    p.bf16 ? grad_row<bf16_word>(p, row) : grad_row<float>(p, row);
}
