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

// x, residual[rows][cols] -> sum, y[rows][cols], save_mean[rows], save_invstd[rows]
KERNEL layernorm_forward(const layernorm_params p) {
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= p.rows)
        return;
    const float *x = p.x + row * p.cols;
    float total = 0.0f, square = 0.0f;
    if (p.residual) {
        float *sum = p.sum + row * p.cols;
        for (int c = lane; c < p.cols; c += 32) {
            float v = x[c] + p.residual[row * p.cols + c];
            sum[c] = v, total += v;
        }
        x = sum; // each lane reads what it wrote
    } else {
        for (int c = lane; c < p.cols; c += 32)
            total += x[c];
    }
    float mean = warp_sum(total) / p.cols;
    for (int c = lane; c < p.cols; c += 32)
        square = fmaf(x[c] - mean, x[c] - mean, square);
    float invstd = (float)(1.0 / sqrt((double)warp_sum(square) / p.cols + p.eps));
    for (int c = lane; c < p.cols; c += 32)
        p.y[row * p.cols + c] = fmaf((x[c] - mean) * invstd, p.gamma[c], p.beta[c]);
    if (lane == 0 && p.save_mean)
        p.save_mean[row] = mean, p.save_invstd[row] = invstd;
}

// Sums of dy * normalised x, and of dy, over rows: the gradients of gamma and beta.
// x, dy[rows][cols] -> partial[chunks][2][cols]
KERNEL layernorm_grad_sums(const layernorm_grad_params p) {
    sum_chunk(p.rows, p.cols, p.chunk_rows, p.partial, [&](int64_t row, int c, float &a, float &b) {
        float dy = p.dy[row * p.cols + c];
        a = fmaf(dy, (p.x[row * p.cols + c] - p.save_mean[row]) * p.save_invstd[row], a), b += dy;
    });
}

// x, dy, dsum[rows][cols] -> dx[rows][cols]
KERNEL layernorm_grad_rows(const layernorm_grad_params p) {
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= p.rows)
        return;
    int64_t at = row * p.cols;
    float mean = p.save_mean[row], invstd = p.save_invstd[row], sum = 0.0f, dot = 0.0f;
    for (int c = lane; c < p.cols; c += 32) {
        float g = p.dy[at + c] * p.gamma[c];
        sum += g, dot = fmaf(g, (p.x[at + c] - mean) * invstd, dot);
    }
    sum = warp_sum(sum) / p.cols, dot = warp_sum(dot) / p.cols;
    for (int c = lane; c < p.cols; c += 32) {
        float normal = (p.x[at + c] - mean) * invstd;
        float v = invstd * (p.dy[at + c] * p.gamma[c] - sum - normal * dot);
        p.dx[at + c] = p.dsum ? v + p.dsum[at + c] : v;
    }
}
