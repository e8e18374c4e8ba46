// SPDX-License-Identifier: Apache-2.0
// nccl_element.c: an element as a double, and back.
#include "tests/gpu/nccl/nccl_element.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t element_bytes(int type) {
    static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[type];
}

static double half_get(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        v = mantissa ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -v : v;
}

// To the nearest, ties to even.
static uint16_t half_put(double v) {
    enum { ULP_MIN = -24, INF = 0x7c00 };
    int exponent, sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v))
        return 0x7e00;
    (void)frexp(v, &exponent);
    int ulp = exponent - 11 > ULP_MIN ? exponent - 11 : ULP_MIN; // of the last bit, a power of two
    double rounded = isinf(v) ? v : ldexp(rint(ldexp(fabs(v), -ulp)), ulp);
    if (fabs(rounded) >= 65536)
        return (uint16_t)(sign | INF);
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (int)ldexp(rounded, -ULP_MIN));
    (void)frexp(rounded, &exponent);
    return (uint16_t)(sign | (((exponent + 14) << 10) + (int)ldexp(rounded, 11 - exponent) - 1024));
}

double element_get(const void *p, size_t i, int type) {
    uint32_t bits;
    float f;
    switch (type) {
    case FLOAT32: memcpy(&f, (const char *)p + 4 * i, 4); return (double)f;
    case FLOAT64: return ((const double *)p)[i];
    case FLOAT16: return half_get(((const uint16_t *)p)[i]);
    case BFLOAT16:
        bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    case INT32: return ((const int32_t *)p)[i];
    case UINT32: return ((const uint32_t *)p)[i];
    case INT8: return ((const int8_t *)p)[i];
    case UINT8: return ((const uint8_t *)p)[i];
    default: return (double)((const int64_t *)p)[i];
    }
}

void element_put(void *p, size_t i, int type, double v) {
    float f = (float)v;
    uint32_t bits;
    switch (type) {
    case FLOAT32: ((float *)p)[i] = f; break;
    case FLOAT64: ((double *)p)[i] = v; break;
    case FLOAT16: ((uint16_t *)p)[i] = half_put(v); break;
    case BFLOAT16:
        memcpy(&bits, &f, 4);
        ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        break;
    case INT32: ((int32_t *)p)[i] = (int32_t)v; break;
    case UINT32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case INT8: ((int8_t *)p)[i] = (int8_t)v; break;
    case UINT8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    default: ((int64_t *)p)[i] = (int64_t)v;
    }
}
