// SPDX-License-Identifier: Apache-2.0
// Pooling. Gradients gather: each input element looks for the windows that took it, so that no two
// threads add to one place.
#include "kernels/cuda/stored.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

// A thread has PER neighbouring channels.
template <class T, int PER> __device__ __forceinline__ void max_forward(const pool_params &p) {
    int64_t i = element() * PER;
    if (i >= p.size)
        return;
    int c = i % p.c, ox = i / p.c % p.ow, oy = i / p.c / p.ow % p.oh;
    const T *image = (const T *)p.x + i / p.c / p.ow / p.oh * p.h * p.w * p.c + c;
    float best[PER] = {}, v[PER];
    neighbours<uint8_t, PER> found = {};
    bool first = true;
    for (int ky = 0; ky < p.k; ky++)
        for (int kx = 0; kx < p.k; kx++) {
            int y = oy * p.stride - p.pad + ky, x = ox * p.stride - p.pad + kx;
            if (y < 0 || y >= p.h || x < 0 || x >= p.w)
                continue;
            read(v, image, ((int64_t)y * p.w + x) * p.c);
            for (int k = 0; k < PER; k++)
                if (first || v[k] > best[k] || v[k] != v[k])
                    best[k] = v[k], found.v[k] = (uint8_t)(ky * p.k + kx);
            first = false;
        }
    write((T *)p.y, i, best);
    *(neighbours<uint8_t, PER> *)(p.index + i) = found;
}
// x[n][h][w][c] -> y[n][oh][ow][c], index[n][oh][ow][c]
KERNEL maxpool_forward(const pool_params p) {
    OF_STORED(p, max_forward, p);
}

template <class T, int PER> __device__ __forceinline__ void max_backward(const pool_params &p) {
    int64_t i = element() * PER;
    if (i >= p.size)
        return;
    int c = i % p.c, x = i / p.c % p.w, y = i / p.c / p.w % p.h;
    int64_t image = i / p.c / p.w / p.h * p.oh * p.ow * p.c + c;
    float sum[PER] = {}, v[PER];
    // Windows oy * stride - pad <= y < oy * stride - pad + k, in order.
    int from_y = max(y + p.pad - p.k + p.stride, 0) / p.stride,
        to_y = min((y + p.pad) / p.stride, p.oh - 1);
    int from_x = max(x + p.pad - p.k + p.stride, 0) / p.stride,
        to_x = min((x + p.pad) / p.stride, p.ow - 1);
    for (int oy = from_y; oy <= to_y; oy++)
#pragma unroll 1
        for (int ox = from_x; ox <= to_x; ox++) {
            int64_t at = image + ((int64_t)oy * p.ow + ox) * p.c;
            int mine = (y - oy * p.stride + p.pad) * p.k + x - ox * p.stride + p.pad;
            neighbours<uint8_t, PER> index = *(const neighbours<uint8_t, PER> *)(p.index + at);
            read(v, (const T *)p.x, at);
            for (int k = 0; k < PER; k++)
                sum[k] += index.v[k] == mine ? v[k] : 0.0f;
        }
    write((T *)p.y, i, sum);
}
// x = dy[n][oh][ow][c], index[n][oh][ow][c] -> y = dx[n][h][w][c]
KERNEL maxpool_backward(const pool_params p) {
    OF_STORED(p, max_backward, p);
}

template <class T, int PER> __device__ __forceinline__ void mean(const average_params &p) {
    int64_t i = element() * PER;
    if (i >= p.size)
        return;
    const T *x = (const T *)p.x + i / p.c * p.hw * p.c + i % p.c;
    double sum[PER] = {};
    float v[PER];
    for (int at = 0; at < p.hw; at++) {
        read(v, x, (int64_t)at * p.c);
        for (int k = 0; k < PER; k++)
            sum[k] += v[k];
    }
    for (int k = 0; k < PER; k++)
        v[k] = (float)(sum[k] / p.hw);
    write((T *)p.y, i, v);
}
// x[n][hw][c] -> y[n][c]
KERNEL avgpool_forward(const average_params p) {
    OF_STORED(p, mean, p);
}

template <class T, int PER> __device__ __forceinline__ void spread(const average_params &p) {
    int64_t i = element() * PER, from = i / p.c / p.hw * p.c + i % p.c;
    if (i >= p.size)
        return;
    float v[PER];
    read(v, (const T *)p.x, from);
    for (int k = 0; k < PER; k++)
        v[k] /= p.hw;
    write((T *)p.y, i, v);
}
// x = dy[n][c] -> y = dx[n][hw][c]
KERNEL avgpool_backward(const average_params p) {
    OF_STORED(p, spread, p);
}
