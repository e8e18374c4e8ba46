// SPDX-License-Identifier: Apache-2.0
// The loss: softmax and cross entropy, a row for each warp; then their sums.
#include "kernels/cuda/cuda_params.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)

template <class T> __device__ __forceinline__ T warp_sum(T v) {
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

// logits[rows][classes], labels[rows] -> row[rows], dlogits[rows][classes]
KERNEL softmax_xent_rows(const xent_params p) {
    int row = blockIdx.x * (CUDA_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= p.rows)
        return;
    const float *z = p.logits + (int64_t)row * p.classes;
    int label = p.labels[row], rank = 0;
    float of_label = z[label], most = -INFINITY, sum = 0.0f, sum_z = 0.0f;
    for (int j = lane; j < p.classes; j += 32) {
        float v = z[j];
        most = fmaxf(most, v);
        rank += v != v ? p.classes : v > of_label || (v == of_label && j < label);
    }
    for (int o = 16; o; o >>= 1)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, o));
    for (int j = lane; j < p.classes; j += 32)
        sum += expf(z[j] - most), sum_z += z[j] - most;
    sum = warp_sum(sum), sum_z = warp_sum(sum_z), rank = warp_sum(rank);
    double each = p.smoothing / p.classes;
    if (lane == 0) {
        double log_sum = log((double)sum);
        p.row[row].loss = (1 - p.smoothing) * (log_sum - ((double)of_label - most)) +
                          each * (p.classes * log_sum - sum_z);
        p.row[row].rank = rank;
    }
    double grad_scale = p.step ? p.grad_scale * p.step->loss_scale : p.grad_scale;
    float scale = (float)grad_scale, other = (float)each, mine = (float)(each + 1 - p.smoothing);
    for (int j = lane; p.dlogits && j < p.classes; j += 32)
        p.dlogits[(int64_t)row * p.classes + j] =
            scale * (expf(z[j] - most) / sum - (j == label ? mine : other));
}

// One block: each thread adds every 256th row, then all threads' sums in their order.
// row[rows] -> totals[1]
KERNEL softmax_xent_total(const xent_params p) {
    __shared__ double loss[CUDA_THREADS];
    __shared__ int top1[CUDA_THREADS], top5[CUDA_THREADS];
    int t = threadIdx.x;
    double sum = 0.0;
    int first = 0, fifth = 0;
    for (int row = t; row < p.rows; row += CUDA_THREADS) {
        int rank = p.row[row].rank;
        sum += p.row[row].loss, first += rank < 1, fifth += rank < 5 && rank < p.classes;
    }
    loss[t] = sum, top1[t] = first, top5[t] = fifth;
    for (int half = CUDA_THREADS / 2; half; half /= 2) {
        __syncthreads(); // the sums of twice as many threads are there
        if (t < half)
            loss[t] += loss[t + half], top1[t] += top1[t + half], top5[t] += top5[t + half];
    }
    if (t == 0)
        *p.totals = {loss[0], top1[0], top5[0], p.rows};
}
