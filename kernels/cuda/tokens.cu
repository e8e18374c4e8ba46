// SPDX-License-Identifier: Apache-2.0
// Class token, positions, and the first token of each image: a thread for each element of a result.
#include "kernels/cuda/stored.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

template <class T> __device__ __forceinline__ void forward(const tokens_params &p, int64_t i) {
    int64_t c = i % p.d, token = i / p.d % p.t, image = i / p.d / p.t;
    float v = p.first && token == 0
                  ? p.first[c]
                  : read((const T *)p.x, (image * p.p + token - (p.t - p.p)) * p.d + c);
    write((T *)p.y, i, p.pos ? v + p.pos[token * p.d + c] : v);
}
KERNEL tokens_forward(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    p.bf16 ? forward<bf16_word>(p, i) : forward<float>(p, i);
}

// x is dy; y is dx[n][p][d].
KERNEL tokens_grad_input(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int64_t c = i % p.d, patch = i / p.d % p.p, image = i / p.d / p.p;
    int64_t from = (image * p.t + patch + (p.t - p.p)) * p.d + c;
    if (p.bf16) // a copy
        ((bf16_word *)p.y)[i] = ((const bf16_word *)p.x)[from];
    else
        ((float *)p.y)[i] = ((const float *)p.x)[from];
}

template <class T> __device__ __forceinline__ double sum_images(const tokens_params &p, int64_t i) {
    double sum = 0.0;
    for (int n = 0; n < p.n; n++)
        sum += read((const T *)p.x, (int64_t)n * p.t * p.d + i);
    return sum;
}
// The sums over images of each of t x d elements, or of the first token's alone.
KERNEL tokens_grad_sums(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    double sum = p.bf16 ? sum_images<bf16_word>(p, i) : sum_images<float>(p, i);
    if (p.dfirst && i < p.d)
        p.dfirst[i] = (float)(p.accumulate ? p.dfirst[i] + sum : sum);
    if (p.dpos)
        p.dpos[i] = (float)(p.accumulate ? p.dpos[i] + sum : sum);
}

KERNEL first_token_forward(const tokens_params p) {
    int64_t i = element(), from = i / p.d * p.t * p.d + i % p.d;
    if (i >= p.size)
        return;
    if (p.bf16)
        ((bf16_word *)p.y)[i] = ((const bf16_word *)p.x)[from];
    else
        ((float *)p.y)[i] = ((const float *)p.x)[from];
}

KERNEL first_token_backward(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int64_t c = i % p.d, token = i / p.d % p.t, from = i / p.d / p.t * p.d + c;
    if (p.bf16)
        ((bf16_word *)p.y)[i] = token == 0 ? ((const bf16_word *)p.x)[from] : (bf16_word)0;
    else
        ((float *)p.y)[i] = token == 0 ? ((const float *)p.x)[from] : 0.0f;
}
