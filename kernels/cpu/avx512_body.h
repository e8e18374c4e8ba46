// SPDX-License-Identifier: Apache-2.0
// Vectors of AVX-512 for the bodies of inner loops. Not a header to include anywhere else.

#ifdef __AVX512F__
#include <immintrin.h>

#define VL 16
#define NV 2
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

#endif
