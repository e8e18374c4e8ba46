// SPDX-License-Identifier: Apache-2.0
// GELU, not its tanh form: x times its share, the normal distribution function of x. Abramowitz and
// Stegun's 7.1.26 has it to 1e-7 from one exponential, which the derivative needs as well.
#ifndef DTCTL_KERNELS_CUDA_GELU_CUH
#define DTCTL_KERNELS_CUDA_GELU_CUH

struct gelu_parts {
    float share, density;
    __device__ __forceinline__ gelu_parts(float x) {
        float e = __expf(-0.5f * x * x);
        float t = __fdividef(1.0f, fmaf(0.3275911f * 0.70710678f, fabsf(x), 1.0f));
        float sum = fmaf(
            t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f),
            0.254829592f);
        float tail = 0.5f * t * sum * e;
        share = x < 0.0f ? tail : 1.0f - tail, density = 0.39894228f * e;
    }
    // The derivative of GELU at x.
    __device__ __forceinline__ float slope(float x) const { return fmaf(x, density, share); }
};
#endif
