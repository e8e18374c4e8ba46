// SPDX-License-Identifier: Apache-2.0
// Pooling. Gradients gather: each input element looks for the windows that took it, so that no two
// threads add to one place.
#include "kernels/cuda/stored.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

template <class T> __device__ __forceinline__ void max_forward(const pool_params &p, int64_t i) {
    int c = i % p.c, ox = i / p.c % p.ow, oy = i / p.c / p.ow % p.oh;
    const T *image = (const T *)p.x + i / p.c / p.ow / p.oh * p.h * p.w * p.c + c;
    float best = 0.0f;
    int found = -1;
    for (int ky = 0; ky < p.k; ky++)
        for (int kx = 0; kx < p.k; kx++) {
            int y = oy * p.stride - p.pad + ky, x = ox * p.stride - p.pad + kx;
            if (y < 0 || y >= p.h || x < 0 || x >= p.w)
                continue;
            float v = read(image, ((int64_t)y * p.w + x) * p.c);
            if (found < 0 || v > best || v != v)
                best = v, found = ky * p.k + kx;
        }
    write((T *)p.y, i, best);
    p.index[i] = (uint8_t)found;
}
// x[n][h][w][c] -> y[n][oh][ow][c], index[n][oh][ow][c]
KERNEL maxpool_forward(const pool_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    p.bf16 ? max_forward<bf16_word>(p, i) : max_forward<float>(p, i);
}

template <class T> __device__ __forceinline__ void max_backward(const pool_params &p, int64_t i) {
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
                sum += read((const T *)p.x, at);
        }
    write((T *)p.y, i, sum);
}
// x = dy[n][oh][ow][c], index[n][oh][ow][c] -> y = dx[n][h][w][c]
KERNEL maxpool_backward(const pool_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    p.bf16 ? max_backward<bf16_word>(p, i) : max_backward<float>(p, i);
}

template <class T> __device__ __forceinline__ void mean(const average_params &p, int64_t i) {
    const T *x = (const T *)p.x + i / p.c * p.hw * p.c + i % p.c;
    double sum = 0.0;
    for (int at = 0; at < p.hw; at++)
        sum += read(x, (int64_t)at * p.c);
    write((T *)p.y, i, (float)(sum / p.hw));
}
// x[n][hw][c] -> y[n][c]
KERNEL avgpool_forward(const average_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    p.bf16 ? mean<bf16_word>(p, i) : mean<float>(p, i);
}

// x = dy[n][c] -> y = dx[n][hw][c]
KERNEL avgpool_backward(const average_params p) {
    int64_t i = element(), from = i / p.c / p.hw * p.c + i % p.c;
    if (i >= p.size)
        return;
    if (p.bf16)
        write((bf16_word *)p.y, i, read((const bf16_word *)p.x, from) / p.hw);
    else
        write((float *)p.y, i, read((const float *)p.x, from) / p.hw);
}
