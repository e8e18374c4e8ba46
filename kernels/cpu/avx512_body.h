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

#ifdef __AVX512BF16__
// Words of two rows: each lane's first number is of the low row.
static inline __attribute__((always_inline)) __m512 avx512_pairs(__m512 low, __m512 high) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (__m512)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
#endif

#endif
