// SPDX-License-Identifier: Apache-2.0
// Inner loops for AVX2 with FMA. Built with those flags; run only where usable() says so.
#if defined(__AVX2__)
#include <immintrin.h>
#include <math.h>

#include "kernels/cpu/isa.h"

#define VL       8
#define MR       6
#define NV       2
#define TILE_FNS TILE_FNS_6
#define TILE_ROW TILE_ROW_6
typedef __m256 vec;
typedef __m256i vmask;
#define V_SET1(x)         _mm256_set1_ps(x)
#define V_LOAD(p)         _mm256_loadu_ps(p)
#define V_LOADM(p, m)     _mm256_maskload_ps(p, m)
#define V_STORE(p, v)     _mm256_storeu_ps(p, v)
#define V_STOREM(p, m, v) _mm256_maskstore_ps(p, m, v)
#define V_MASK(n)         first_lanes(n)
#define V_FMA(a, b, c)    _mm256_fmadd_ps(a, b, c)
#define V_RELU(v)         _mm256_max_ps(_mm256_setzero_ps(), v)
#define V_SQRT(v)         _mm256_sqrt_ps(v)

static inline vmask first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#include "kernels/cpu/micro_body.h"
#include "kernels/cpu/span_body.h"
#include "kernels/cpu/token_body.h"
#include "kernels/cpu/winograd_body.h"

static int usable(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

ISA_TABLE(isa_avx2, "avx2", usable);
#endif
