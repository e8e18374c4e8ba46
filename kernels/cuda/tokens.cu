// SPDX-License-Identifier: Apache-2.0
// Class token, positions, and the first token of each image: a thread for each element of a result.
#include "kernels/cuda/cuda_params.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
__device__ __forceinline__ int64_t element() {
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

KERNEL tokens_forward(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int64_t c = i % p.d, token = i / p.d % p.t, image = i / p.d / p.t;
    float v =
        p.first && token == 0 ? p.first[c] : p.x[(image * p.p + token - (p.t - p.p)) * p.d + c];
    p.y[i] = p.pos ? v + p.pos[token * p.d + c] : v;
}

// x is dy; y is dx[n][p][d].
KERNEL tokens_grad_input(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int64_t c = i % p.d, patch = i / p.d % p.p, image = i / p.d / p.p;
    p.y[i] = p.x[(image * p.t + patch + (p.t - p.p)) * p.d + c];
}

// The sums over images of each of t x d elements, or of the first token's alone.
KERNEL tokens_grad_sums(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    double sum = 0.0;
    for (int n = 0; n < p.n; n++)
        sum += p.x[(int64_t)n * p.t * p.d + i];
    if (p.dfirst && i < p.d)
        p.dfirst[i] = (float)(p.accumulate ? p.dfirst[i] + sum : sum);
    if (p.dpos)
        p.dpos[i] = (float)(p.accumulate ? p.dpos[i] + sum : sum);
}

KERNEL first_token_forward(const tokens_params p) {
    int64_t i = element();
    if (i < p.size)
        p.y[i] = p.x[i / p.d * p.t * p.d + i % p.d];
}

KERNEL first_token_backward(const tokens_params p) {
    int64_t i = element();
    if (i >= p.size)
        return;
    int64_t c = i % p.d, token = i / p.d % p.t, image = i / p.d / p.t;
    p.y[i] = token == 0 ? p.x[image * p.d + c] : 0.0f;
}
