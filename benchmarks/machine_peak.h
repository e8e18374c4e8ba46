// SPDX-License-Identifier: Apache-2.0
// Loops of nothing but fused multiply-adds: the most that a core can do with each instruction set.
// Each makes 2 * chains * lanes * rounds floating-point operations.
#ifndef BENCHMARKS_MACHINE_PEAK_H
#define BENCHMARKS_MACHINE_PEAK_H

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// More independent chains than any core's latency times its units.
enum { chains = 12 };

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float spin_avx512(int rounds) {
    __m512 acc[chains], x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(0.001F);
#pragma GCC unroll 16
    for (int i = 0; i < chains; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < chains; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], x, y);
    }
#pragma GCC unroll 16
    for (int i = 1; i < chains; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    return _mm512_reduce_add_ps(acc[0]);
}

__attribute__((target("avx2,fma"))) static float spin_avx2(int rounds) {
    __m256 acc[chains], x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(0.001F);
#pragma GCC unroll 16
    for (int i = 0; i < chains; i++)
        acc[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < chains; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], x, y);
    }
#pragma GCC unroll 16
    for (int i = 1; i < chains; i++)
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    float out[8];
    _mm256_storeu_ps(out, acc[0]);
    return out[0];
}
#endif

static float spin_base(int rounds) {
    typedef float vec __attribute__((vector_size(16)));
    vec acc[chains], x = {0.999F, 0.999F, 0.999F, 0.999F}, y = {0.001F, 0.001F, 0.001F, 0.001F};
#pragma GCC unroll 16
    for (int i = 0; i < chains; i++)
        acc[i] = x * (float)i;
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < chains; i++)
            acc[i] = acc[i] * x + y;
    }
#pragma GCC unroll 16
    for (int i = 1; i < chains; i++)
        acc[0] += acc[i];
    return acc[0][0];
}

#endif
