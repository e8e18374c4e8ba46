// SPDX-License-Identifier: Apache-2.0
// Sums and converts elements of each type.
#include "comm/element.h"

#include <stdint.h>
#include <string.h>

// Vectors that the compiler splits into what the machine has; loads and stores need no alignment.
typedef float wide_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double wide_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint8_t wide_byte __attribute__((vector_size(64), aligned(1), may_alias));

enum { BLOCK_BYTES = 4096 }; // stays in the first-level cache between the passes over it

#define DEFINE_ADD(name, T, W, op)                                                                 \
    static void name(void *into, const void *from, size_t n) {                                     \
        enum { LANES = sizeof(W) / sizeof(T) };                                                    \
        T *o = into;                                                                               \
        const T *a = from;                                                                         \
        size_t i = 0;                                                                              \
        for (; i + LANES <= n; i += LANES)                                                         \
            *(W *)(void *)(o + i) = *(W *)(void *)(o + i) op * (const W *)(const void *)(a + i);   \
        for (; i < n; i++)                                                                         \
            o[i] = (T)(o[i] op a[i]);                                                              \
    }

#define DEFINE_SUM2(name, T, W)                                                                    \
    static void name(void *out, void *second, const void *a, const void *b, size_t n,              \
                     double factor) {                                                              \
        enum { LANES = sizeof(W) / sizeof(T) };                                                    \
        T *o = out, *s = second ? second : out, f = (T)factor;                                     \
        const T *x = a, *y = b;                                                                    \
        size_t i = 0;                                                                              \
        for (; i + LANES <= n; i += LANES) {                                                       \
            W v = (*(const W *)(const void *)(x + i) + *(const W *)(const void *)(y + i)) * f;     \
            *(W *)(void *)(o + i) = v;                                                             \
            *(W *)(void *)(s + i) = v;                                                             \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            o[i] = s[i] = (x[i] + y[i]) * f;                                                       \
    }

#define DEFINE_SCALE(name, T)                                                                      \
    static void name(void *p, size_t n, double factor) {                                           \
        T *o = p, f = (T)factor;                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            o[i] *= f;                                                                             \
    }

DEFINE_ADD(add_f32, float, wide_f32, +)
DEFINE_ADD(add_f64, double, wide_f64, +)
DEFINE_ADD(or_byte, uint8_t, wide_byte, |)
DEFINE_SUM2(sum2_f32, float, wide_f32)
DEFINE_SUM2(sum2_f64, double, wide_f64)
DEFINE_SCALE(scale_f32, float)
DEFINE_SCALE(scale_f64, double)

static void or2_byte(void *out, void *second, const void *a, const void *b, size_t n,
                     double factor) {
    uint8_t *o = out, *s = second ? second : out;
    const uint8_t *x = a, *y = b;
    (void)factor;
    for (size_t i = 0; i < n; i++)
        o[i] = s[i] = x[i] | y[i];
}

static void scale_byte(void *p, size_t n, double factor) {
    (void)p, (void)n, (void)factor; // carried data is not scaled
}

// ---- bfloat16: the upper half of a float -------------------------------------------------------

static float bf16_float(uint16_t v) {
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// To the nearest, ties to even. A NaN stays one: rounding up could make it infinite.
static uint16_t bf16_round(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static void widen_bf16(float *to, const void *from, size_t n) {
    const uint16_t *a = from;
    for (size_t i = 0; i < n; i++)
        to[i] = bf16_float(a[i]);
}

static void narrow_bf16(void *to, const float *from, size_t n) {
    uint16_t *o = to;
    for (size_t i = 0; i < n; i++)
        o[i] = bf16_round(from[i]);
}

static void sum2_bf16(void *out, void *second, const void *a, const void *b, size_t n,
                      double factor) {
    uint16_t *o = out, *s = second ? second : out;
    const uint16_t *x = a, *y = b;
    float f = (float)factor;
    for (size_t i = 0; i < n; i++)
        o[i] = s[i] = bf16_round((bf16_float(x[i]) + bf16_float(y[i])) * f);
}

static void add_bf16(void *into, const void *from, size_t n) {
    sum2_bf16(into, NULL, into, from, n, 1);
}

static void scale_bf16(void *p, size_t n, double factor) {
    uint16_t *o = p;
    float f = (float)factor;
    for (size_t i = 0; i < n; i++)
        o[i] = bf16_round(bf16_float(o[i]) * f);
}

const struct element element_byte = {"byte", 1, or_byte, or2_byte, scale_byte, NULL, NULL};
const struct element element_f32 = {"float",   sizeof(float), add_f32, sum2_f32,
                                    scale_f32, NULL,          NULL};
const struct element element_f64 = {"double",  sizeof(double), add_f64, sum2_f64,
                                    scale_f64, NULL,           NULL};
const struct element element_bf16 = {"bfloat16", 2,          add_bf16,   sum2_bf16,
                                     scale_bf16, widen_bf16, narrow_bf16};

// One block of sums of a narrow type, formed in float.
static void reduce_narrow(const struct element *t, void *out, const void *const *src, int sources,
                          size_t at, size_t n, double factor) {
    float sum[BLOCK_BYTES / sizeof(float)], next[BLOCK_BYTES / sizeof(float)];
    t->widen(sum, (const char *)src[0] + at * t->bytes, n);
    for (int i = 1; i < sources; i++) {
        t->widen(next, (const char *)src[i] + at * t->bytes, n);
        add_f32(sum, next, n);
    }
    scale_f32(sum, n, factor);
    t->narrow(out, sum, n);
}

static void reduce_same(const struct element *t, void *out, const void *const *src, int sources,
                        size_t at, size_t n, double factor) {
    memcpy(out, (const char *)src[0] + at * t->bytes, n * t->bytes);
    for (int i = 1; i < sources; i++)
        t->add(out, (const char *)src[i] + at * t->bytes, n);
    if (factor < 1 || factor > 1)
        t->scale(out, n, factor);
}

void element_reduce(const struct element *t, void *out, void *second, const void *const *src,
                    int sources, size_t n, double factor) {
    if (sources == 2) {
        t->sum2(out, second, src[0], src[1], n, factor);
        return;
    }
    _Alignas(64) unsigned char block[BLOCK_BYTES]; // as second may be a source, sums grow here
    size_t step = BLOCK_BYTES / (t->narrow ? sizeof(float) : t->bytes);
    for (size_t at = 0; at < n; at += step) {
        size_t some = n - at < step ? n - at : step, bytes = some * t->bytes;
        (t->narrow ? reduce_narrow : reduce_same)(t, block, src, sources, at, some, factor);
        memcpy((char *)out + at * t->bytes, block, bytes);
        if (second)
            memcpy((char *)second + at * t->bytes, block, bytes);
    }
}
