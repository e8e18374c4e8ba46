// SPDX-License-Identifier: Apache-2.0
// Flat buffers: elementwise functions, the sum of squares, optimizers.
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/stored.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
// The elements of a thread of a grid that may be smaller than n.
#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x; i < (n);                    \
         i += (int64_t)gridDim.x * CUDA_THREADS)

// Every buffer of these kernels has n elements, without gaps.
// y[i] = f(a[i], b[i]). Where there are no b, f gets zero.
template <class T, bool two, class F>
__device__ __forceinline__ void map_singly(const flat_params &p, int64_t from, F f) {
    const T *a = (const T *)p.a, *b = (const T *)p.b;
    EACH(i, p.n - from) {
        write((T *)p.y, from + i, f(read(a, from + i), two ? read(b, from + i) : 0.0f));
    }
}

// Of bfloat16 a thread takes two at once, so that as many bytes are under way as of floats.
template <bool two, class F> __device__ __forceinline__ void map(const flat_params &p, F f) {
    if (!p.bf16)
        return map_singly<float, two>(p, 0, f);
    bool aligned = ((size_t)p.a | (size_t)p.b | (size_t)p.y) % sizeof(ushort2) == 0;
    int64_t pairs = aligned ? p.n / 2 : 0;
#pragma unroll 1
    EACH(i, pairs) {
        ushort2 a = ((const ushort2 *)p.a)[i], b = {}, y;
        if (two)
            b = ((const ushort2 *)p.b)[i];
        y.x = narrowed(f(widened(a.x), widened(b.x)));
        y.y = narrowed(f(widened(a.y), widened(b.y)));
        ((ushort2 *)p.y)[i] = y;
    }
    map_singly<bf16_word, two>(p, pairs * 2, f);
}

// a = x -> y
KERNEL relu_forward(const flat_params p) {
    map<false>(p, [](float x, float) { return x < 0.0f ? 0.0f : x; });
}
// a = y, b = dy -> y = dx
KERNEL relu_backward(const flat_params p) {
    map<true>(p, [](float y, float dy) { return y > 0.0f ? dy : 0.0f; });
}
// a = x -> y
KERNEL gelu_forward(const flat_params p) {
    map<false>(p, [](float x, float) { return x * gelu_parts(x).share; });
}
// a = x, b = dy -> y = dx
KERNEL gelu_backward(const flat_params p) {
    map<true>(p, [](float x, float dy) { return dy * gelu_parts(x).slope(x); });
}
KERNEL add(const flat_params p) {
    map<true>(p, [](float a, float b) { return a + b; });
}
KERNEL axpy(const flat_params p) {
    const float *x = (const float *)p.a;
    float *y = (float *)p.y;
    EACH(i, p.n) y[i] = fmaf(p.alpha, x[i], y[i]);
}
KERNEL scale(const flat_params p) {
    float *x = (float *)p.y;
    EACH(i, p.n) x[i] *= p.alpha;
}
KERNEL zero(const flat_params p) {
    if (p.bf16)
        EACH(i, p.n)((bf16_word *)p.y)[i] = 0;
    else
        EACH(i, p.n)((float *)p.y)[i] = 0.0f;
}

// a, float[n] -> y, bfloat16[n]
KERNEL narrow(const flat_params p) {
    EACH(i, p.n)((bf16_word *)p.y)[i] = narrowed(((const float *)p.a)[i]);
}
// a, bfloat16[n] -> y, float[n]
KERNEL widen(const flat_params p) {
    EACH(i, p.n)((float *)p.y)[i] = widened(((const bf16_word *)p.a)[i]);
}

// ---- sum of squares, in double and in an order that depends on the grid alone -------------------

__device__ __forceinline__ double block_sum(double v, double *of_thread) {
    of_thread[threadIdx.x] = v;
    for (int half = CUDA_THREADS / 2; half; half /= 2) {
        __syncthreads(); // the sums of twice as many threads are there
        if (threadIdx.x < half)
            of_thread[threadIdx.x] += of_thread[threadIdx.x + half];
    }
    return of_thread[0]; // right for the first thread
}

// a[n] -> partial[gridDim.x]
KERNEL sum_squares_partial(const flat_params p) {
    __shared__ double of_thread[CUDA_THREADS];
    const float *x = (const float *)p.a;
    double sum = 0.0;
    EACH(i, p.n) sum += (double)x[i] * x[i];
    sum = block_sum(sum, of_thread);
    if (threadIdx.x == 0)
        p.partial[blockIdx.x] = sum;
}

// partial[n] -> total[1]
KERNEL sum_squares_total(const flat_params p) {
    __shared__ double of_thread[CUDA_THREADS];
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < p.n; i += CUDA_THREADS)
        sum += p.partial[i];
    sum = block_sum(sum, of_thread);
    if (threadIdx.x == 0)
        *p.total = sum;
}

// ---- optimizers: blockIdx.y is the range --------------------------------------------------------

struct scalars {
    float lr, grad_scale, decay;
    double lr_exact, correct1, correct2;
    __device__ __forceinline__ scalars(const optimizer_params &p, const range_params &r) {
        lr_exact = (p.step ? p.step->lr : p.now.lr) * r.lr_scale;
        lr = (float)lr_exact, grad_scale = (float)(p.step ? p.step->grad_scale : p.now.grad_scale);
        correct1 = p.step ? p.step->correct1 : p.now.correct1;
        correct2 = p.step ? p.step->correct2 : p.now.correct2;
        decay = (float)r.weight_decay;
    }
};

// Whether this step's gradients are applied.
__device__ __forceinline__ bool applies(const optimizer_params &p) {
    return !p.step || p.step->apply != 0.0;
}

// g[begin..end), p, m -> p, m of each range
KERNEL sgd(const __grid_constant__ optimizer_params p) {
    if (!applies(p))
        return;
    const range_params &r = p.range[blockIdx.y];
    scalars s(p, r);
    float momentum = (float)p.beta1;
    EACH(n, r.end - r.begin) {
        int64_t i = r.begin + n;
        float g = fmaf(s.decay, p.p[i], s.grad_scale * p.g[i]), step = g;
        if (p.m) {
            step = fmaf(momentum, p.m[i], g);
            p.m[i] = step;
            step = p.nesterov ? fmaf(momentum, step, g) : step;
        }
        p.p[i] = fmaf(-s.lr, step, p.p[i]);
    }
}

// g[begin..end), p, m, v -> p, m, v of each range
KERNEL adam(const __grid_constant__ optimizer_params p) {
    if (!applies(p))
        return;
    const range_params &r = p.range[blockIdx.y];
    scalars s(p, r);
    float beta1 = (float)p.beta1, beta2 = (float)p.beta2, rest1 = (float)(1 - p.beta1);
    float rest2 = (float)(1 - p.beta2), eps = (float)p.eps, rate = (float)(s.lr_exact / s.correct1);
    float keep = (float)(1 - s.lr_exact * r.weight_decay), spread = (float)(1 / sqrt(s.correct2));
    EACH(n, r.end - r.begin) {
        int64_t i = r.begin + n;
        float x = p.p[i], g = s.grad_scale * p.g[i];
        if (p.decoupled)
            x *= keep;
        else
            g = fmaf(s.decay, x, g);
        float first = fmaf(beta1, p.m[i], rest1 * g), second = fmaf(beta2, p.v[i], rest2 * g * g);
        p.m[i] = first, p.v[i] = second;
        p.p[i] = x - rate * first / (sqrtf(second) * spread + eps);
    }
}
