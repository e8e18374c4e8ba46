// SPDX-License-Identifier: Apache-2.0
// Loops of nothing but multiply-adds: the most that a core can do with each instruction set.
#ifndef BENCHMARKS_MACHINE_PEAK_H
#define BENCHMARKS_MACHINE_PEAK_H

#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/amx_config.h"
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

__attribute__((target("avx512f,avx512bf16"))) static float spin_avx512_bf16(int rounds) {
    __m512 acc[chains];
    __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f7f), y = (__m512bh)_mm512_set1_epi16(0x3a83);
#pragma GCC unroll 16
    for (int i = 0; i < chains; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < chains; i++)
            acc[i] = _mm512_dpbf16_ps(acc[i], x, y);
    }
#pragma GCC unroll 16
    for (int i = 1; i < chains; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    return _mm512_reduce_add_ps(acc[0]);
}

// Four registers of sums, all of zeros. The process may use tiles: the kernels have asked for them.
__attribute__((target("amx-tile,amx-bf16"))) static float spin_amx(int rounds) {
    _tile_loadconfig(&amx_config);
    _tile_zero(4);
    _tile_zero(6);
    for (int r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_release();
    return 0;
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

// By the names that kernels give to instruction sets; operations of a round, in float and bfloat16.
struct peak_loop {
    float (*spin)(int rounds);
    double operations;
};
static const struct peak {
    const char *isa;
    struct peak_loop of_float, of_bf16;
} peaks[] = {
#if defined(__x86_64__)
    {"avx512-amx", {spin_avx512, 2 * chains * 16}, {spin_amx, 4 * 2 * 16 * 16 * 32}},
    {"avx512-bf16", {spin_avx512, 2 * chains * 16}, {spin_avx512_bf16, 4 * chains * 16}},
    {"avx512", {spin_avx512, 2 * chains * 16}, {spin_avx512, 2 * chains * 16}},
    {"avx2", {spin_avx2, 2 * chains * 8}, {spin_avx2, 2 * chains * 8}},
#endif
    {"base", {spin_base, 2 * chains * 4}, {spin_base, 2 * chains * 4}},
};

static const struct peak *peak_of(const char *isa) {
    size_t i = 0;
    while (i + 1 < sizeof peaks / sizeof *peaks && strcmp(peaks[i].isa, isa) != 0)
        i++;
    return &peaks[i];
}

#endif
