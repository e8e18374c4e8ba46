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

// The PER columns of a lane from c on, every 32 * PER.
#define COLUMNS_OF_LANE(c, cols)                                                                   \
    _Pragma("unroll 2") for (int c = threadIdx.x % 32 * PER; c < (cols); c += 32 * PER)

// A sum is stored in the end, since its elements are rounded there, and may lie over x.
template <class T, int PER>
__device__ __forceinline__ void forward(const layernorm_params &p, int64_t row) {
    const T *x = (const T *)p.x + row * p.cols, *more = (const T *)p.residual + row * p.cols;
    auto sum = [&](float(&v)[PER], int c) {
        float w[PER] = {};
        read(v, x, c);
        if (p.residual)
            read(w, more, c);
        for (int k = 0; k < PER; k++)
            v[k] += w[k];
    };
    float total = 0.0f, square = 0.0f, v[PER];
    COLUMNS_OF_LANE(c, p.cols) {
        sum(v, c);
        for (int k = 0; k < PER; k++)
            total += v[k];
    }
    float mean = warp_sum(total) / p.cols;
    COLUMNS_OF_LANE(c, p.cols) {
        sum(v, c);
        for (int k = 0; k < PER; k++)
            square = fmaf(v[k] - mean, v[k] - mean, square);
    }
    float invstd = (float)(1.0 / sqrt((double)warp_sum(square) / p.cols + p.eps));
    COLUMNS_OF_LANE(c, p.cols) {
        float y[PER], gamma[PER], beta[PER];
        read(gamma, p.gamma, c), read(beta, p.beta, c);
        sum(v, c);
        for (int k = 0; k < PER; k++)
            y[k] = fmaf((v[k] - mean) * invstd, gamma[k], beta[k]);
        if (p.residual)
            write((T *)p.sum, row * p.cols + c, v);
        write((T *)p.y, row * p.cols + c, y);
    }
    if (threadIdx.x % 32 == 0 && p.save_mean)
        p.save_mean[row] = mean, p.save_invstd[row] = invstd;
}
// x, residual[rows][cols] -> sum, y[rows][cols], save_mean[rows], save_invstd[rows]
KERNEL layernorm_forward(const layernorm_params p) {
    int64_t row = row_of_warp();
    if (row < p.rows)
        OF_STORED(p, forward, p, row);
}

template <class T, int PER>
__device__ __forceinline__ void grad_sums(const layernorm_grad_params &p) {
    sum_chunk<PER>(p.rows, p.cols, p.chunk_rows, p.partial,
                   [&](int64_t row, int c, float(&a)[PER], float(&b)[PER]) {
                       float g[PER], x[PER], mean = p.save_mean[row], invstd = p.save_invstd[row];
                       read(g, (const T *)p.dy, row * p.cols + c);
                       read(x, (const T *)p.x, row * p.cols + c);
                       for (int k = 0; k < PER; k++)
                           a[k] = fmaf(g[k], (x[k] - mean) * invstd, a[k]), b[k] += g[k];
                   });
}
// Sums of dy * normalised x, and of dy, over rows: the gradients of gamma and beta.
// x, dy[rows][cols] -> partial[chunks][2][cols]
KERNEL layernorm_grad_sums(const layernorm_grad_params p) {
    OF_STORED(p, grad_sums, p);
}

template <class T, int PER>
__device__ __forceinline__ void grad_row(const layernorm_grad_params &p, int64_t row) {
    const T *x = (const T *)p.x, *dy = (const T *)p.dy, *dsum = (const T *)p.dsum;
    int64_t at = row * p.cols;
    float mean = p.save_mean[row], invstd = p.save_invstd[row], sum = 0.0f, dot = 0.0f;
    float g[PER], v[PER], gamma[PER];
    COLUMNS_OF_LANE(c, p.cols) {
        read(gamma, p.gamma, c), read(g, dy, at + c);
        read(v, x, at + c);
        for (int k = 0; k < PER; k++) {
            g[k] *= gamma[k];
            sum += g[k], dot = fmaf(g[k], (v[k] - mean) * invstd, dot);
        }
    }
    sum = warp_sum(sum) / p.cols, dot = warp_sum(dot) / p.cols;
    COLUMNS_OF_LANE(c, p.cols) {
        float more[PER] = {};
        read(gamma, p.gamma, c), read(g, dy, at + c);
        read(v, x, at + c);
        if (dsum)
            read(more, dsum, at + c);
        for (int k = 0; k < PER; k++)
            v[k] = invstd * (g[k] * gamma[k] - sum - (v[k] - mean) * invstd * dot) + more[k];
        write((T *)p.dx, at + c, v);
    }
}
// x, dy, dsum[rows][cols] -> dx[rows][cols]
KERNEL layernorm_grad_rows(const layernorm_grad_params p) {
    int64_t row = row_of_warp();
    if (row < p.rows)
        OF_STORED(p, grad_row, p, row);
}
