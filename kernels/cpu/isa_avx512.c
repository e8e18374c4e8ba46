// SPDX-License-Identifier: Apache-2.0
// Inner loops for AVX-512 (F, BW, DQ, VL). Built with those flags; run only where usable() says so.
#if defined(__AVX512F__)
#include <immintrin.h>
#include <math.h>

#include "kernels/cpu/isa.h"

#define VL       16
#define MR       12
#define NV       2
#define TILE_FNS TILE_FNS_12
#define TILE_ROW TILE_ROW_12
typedef __m512 vec;
typedef __mmask16 vmask;
#define V_SET1(x)         _mm512_set1_ps(x)
#define V_LOAD(p)         _mm512_loadu_ps(p)
#define V_LOADM(p, m)     _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, v)     _mm512_storeu_ps(p, v)
#define V_STOREM(p, m, v) _mm512_mask_storeu_ps(p, m, v)
#define V_MASK(n)         ((vmask)((1U << (n)) - 1))
#define V_FMA(a, b, c)    _mm512_fmadd_ps(a, b, c)
#define V_RELU(v)         _mm512_max_ps(_mm512_setzero_ps(), v)
#define V_SQRT(v)         _mm512_sqrt_ps(v)

#include "kernels/cpu/micro_body.h"
#include "kernels/cpu/span_body.h"
#include "kernels/cpu/token_body.h"
#include "kernels/cpu/winograd_body.h"

static int usable(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

ISA_TABLE(isa_avx512, "avx512", usable);
#endif
