// SPDX-License-Identifier: Apache-2.0
// Pooling, loss, and image input. Gradients gather: each input element looks for the windows that
// took it, so that no two threads add to one place.
#include "kernels/cuda/cuda_params.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

KERNEL maxpool_forward(const pool_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int c = i % p.c, ox = i / p.c % p.ow, oy = i / p.c / p.ow % p.oh;
    const float *image = p.x + i / p.c / p.ow / p.oh * p.h * p.w * p.c + c;
    float best = 0.0f;
    int found = -1;
    for (int ky = 0; ky < p.k; ky++)
        for (int kx = 0; kx < p.k; kx++) {
            int y = oy * p.stride - p.pad + ky, x = ox * p.stride - p.pad + kx;
            if (y < 0 || y >= p.h || x < 0 || x >= p.w)
                continue;
            float v = image[((int64_t)y * p.w + x) * p.c];
            if (found < 0 || v > best || v != v)
                best = v, found = ky * p.k + kx;
        }
    p.y[i] = best;
    p.index[i] = (uint8_t)found;
}

// x is dy, y is dx.
KERNEL maxpool_backward(const pool_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int c = i % p.c, x = i / p.c % p.w, y = i / p.c / p.w % p.h;
    int64_t image = i / p.c / p.w / p.h * p.oh * p.ow * p.c + c;
    float sum = 0.0f;
    // Windows oy * stride - pad <= y < oy * stride - pad + k, in order.
    int from_y = max(y + p.pad - p.k + p.stride, 0) / p.stride,
        to_y = min((y + p.pad) / p.stride, p.oh - 1);
    int from_x = max(x + p.pad - p.k + p.stride, 0) / p.stride,
        to_x = min((x + p.pad) / p.stride, p.ow - 1);
    for (int oy = from_y; oy <= to_y; oy++)
        for (int ox = from_x; ox <= to_x; ox++) {
            int64_t at = image + ((int64_t)oy * p.ow + ox) * p.c;
            int mine = (y - oy * p.stride + p.pad) * p.k + x - ox * p.stride + p.pad;
            if (p.index[at] == mine)
                sum += p.x[at];
        }
    p.y[i] = sum;
}

KERNEL avgpool_forward(const average_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    const float *x = p.x + i / p.c * p.hw * p.c + i % p.c;
    double sum = 0.0;
    for (int at = 0; at < p.hw; at++)
        sum += x[(int64_t)at * p.c];
    p.y[i] = (float)(sum / p.hw);
}

KERNEL avgpool_backward(const average_params p) {
    int64_t i = element();
    if (i < p.size)
        p.y[i] = p.x[i / p.c / p.hw * p.c + i % p.c] / p.hw;
}

// ---- loss: a row for each warp ------------------------------------------------------------------
template <class T> __device__ __forceinline__ T warp_sum(T v) {
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

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

// ---- images -------------------------------------------------------------------------------------
KERNEL image_normalize(const __grid_constant__ image_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int c = i % p.channels, x = i / p.channels % p.dst_w, y = i / p.channels / p.dst_w % p.dst_h;
    int n = i / p.channels / p.dst_w / p.dst_h;
    int sy = y + (p.offset_y ? p.offset_y[n] : 0);
    int sx = (p.flip && p.flip[n] ? p.dst_w - 1 - x : x) + (p.offset_x ? p.offset_x[n] : 0);
    bool in = sy >= 0 && sy < p.src_h && sx >= 0 && sx < p.src_w;
    float byte = in ? p.src[n][((int64_t)sy * p.src_w + sx) * p.channels + c] : 0;
    p.out[i] = fmaf(byte, p.scale[c], p.shift[c]);
}
