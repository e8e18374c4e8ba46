// SPDX-License-Identifier: Apache-2.0
// float.c: arithmetic and functions of f32 and f64. A result that is not a number is the canonical
// one. The approximations of the hardware are exact functions here: tests allow for the difference.
#include "emu.h"

#include <fenv.h>
#ifdef __FMA__
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

#define NAN32 0x7fffffffu
#define NAN64 0x7fffffffffffffffull

static inline float canonical(float v) {
    u32 bits;
    memcpy(&bits, &v, sizeof bits);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? NAN32 : bits;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static double canonical_double(double v) {
    u64 bits = NAN64;
    if (isnan(v))
        memcpy(&v, &bits, sizeof v);
    return v;
}

static float flushed(float v) {
    return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v;
}

// Flushing of denormal numbers, saturation and directed rounding are rare: one loop for each.
struct mode {
    bool flush, saturate;
    int round;
};
static struct mode mode_begin(const struct insn *i) {
    struct mode m = {HAS(FTZ), HAS(SAT),
                     HAS(RZ)   ? FE_TOWARDZERO
                     : HAS(RM) ? FE_DOWNWARD
                     : HAS(RP) ? FE_UPWARD
                               : FE_TONEAREST};
    if (m.round != FE_TONEAREST)
        fesetround(m.round);
    return m;
}
static void mode_end(struct mode m) {
    if (m.round != FE_TONEAREST)
        fesetround(FE_TONEAREST);
}
static float finished(float v, struct mode m) {
    if (m.flush)
        v = flushed(v);
    if (m.saturate)
        v = v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; // also of NaN
    return canonical(v);
}
static float source(float v, struct mode m) {
    return m.flush ? flushed(v) : v;
}

// Registers are the same or apart, so that the lanes of a whole warp are computed at once.
#define F32_LOOP(operands, expr)                                                                   \
    struct mode m = mode_begin(i);                                                                 \
    float *d = REG(0);                                                                             \
    if (m.flush || m.saturate)                                                                     \
        EACH(operands; d[l] = finished(expr, m));                                                  \
    else                                                                                           \
        EACH_AT_ONCE(operands; float v = expr; d[l] = canonical(v));                               \
    mode_end(m);
#define UNARY32(name, expr)                                                                        \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        const float *x = REG(1);                                                                   \
        F32_LOOP(float a = source(x[l], m), expr)                                                  \
    }
#define BINARY32(name, expr)                                                                       \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        const float *x = REG(1), *y = REG(2);                                                      \
        F32_LOOP(float a = source(x[l], m); float b = source(y[l], m), expr)                       \
    }
#define TERNARY32(name, expr)                                                                      \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        const float *x = REG(1), *y = REG(2), *z = REG(3);                                         \
        F32_LOOP(float a = source(x[l], m); float b = source(y[l], m);                             \
                 float c = source(z[l], m), expr)                                                  \
    }
#define BINARY64(name, expr)                                                                       \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        double *d = REG(0);                                                                        \
        const double *x = REG(1), *y = REG(2);                                                     \
        struct mode m = mode_begin(i);                                                             \
        EACH(double a = x[l]; double b = y[l]; d[l] = canonical_double(expr));                     \
        mode_end(m);                                                                               \
    }
#define UNARY64(name, expr)                                                                        \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        double *d = REG(0);                                                                        \
        const double *x = REG(1);                                                                  \
        struct mode m = mode_begin(i);                                                             \
        EACH(double a = x[l]; d[l] = canonical_double(expr));                                      \
        mode_end(m);                                                                               \
    }

BINARY32(add32, a + b)
BINARY32(sub32, a - b)
BINARY32(mul32, a *b)
BINARY32(div32, a / b)
TERNARY32(fma32_each, fmaf(a, b, c))
BINARY64(add64, a + b)
BINARY64(sub64, a - b)
BINARY64(mul64, a *b)
BINARY64(div64, a / b)
UNARY32(sqrt32, sqrtf(a))
UNARY32(rcp32, 1.0f / a)
UNARY32(rsqrt32, (float)(1.0 / sqrt((double)a)))
UNARY32(ex2_32, (float)exp2((double)a))
UNARY32(lg2_32, (float)log2((double)a))
UNARY32(sin32, (float)sin((double)a))
UNARY32(cos32, (float)cos((double)a))
UNARY32(tanh32, (float)tanh((double)a))
UNARY64(sqrt64, sqrt(a))
UNARY64(rcp64, 1.0 / a)
// rcp.approx.ftz.f64 and rsqrt.approx.f64 keep the upper half of the result only.
static double upper_half(double v) {
    u64 bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= 0xffffffff00000000ull;
    memcpy(&v, &bits, sizeof v);
    return v;
}
UNARY64(rcp64_approx, upper_half(1.0 / a))
UNARY64(rsqrt64, 1.0 / sqrt(a))

static void fma64(struct warp *w, const struct insn *i, u32 mask) {
    double *d = REG(0);
    const double *x = REG(1), *y = REG(2), *z = REG(3);
    struct mode m = mode_begin(i);
    EACH(d[l] = canonical_double(fma(x[l], y[l], z[l])));
    mode_end(m);
}

// The most frequent instruction of products: the compiler makes no vector instructions of fmaf
// where rounding may change.
static void fma32(struct warp *w, const struct insn *i, u32 mask) {
#ifdef __FMA__
    enum { MANY = sizeof(__m256) / sizeof(float) };
    const float *x = REG(1), *y = REG(2), *z = REG(3);
    float *d = REG(0), v[LANES];
    if (mask == ALL_LANES && !(i->mods & ~MOD(RN))) {
        for (int l = 0; l < LANES; l += MANY)
            _mm256_storeu_ps(v + l, _mm256_fmadd_ps(_mm256_loadu_ps(x + l), _mm256_loadu_ps(y + l),
                                                    _mm256_loadu_ps(z + l)));
        for (int l = 0; l < LANES; l++)
            d[l] = canonical(v[l]);
        return;
    }
#endif
    fma32_each(w, i, mask);
}

// A number wins over NaN, unless .NaN; -0 is less than +0.
static double lesser(double a, double b, bool nan_wins) {
    if (isnan(a) || isnan(b))
        return nan_wins || (isnan(a) && isnan(b)) ? (double)NAN : isnan(a) ? b : a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}
static double greater(double a, double b, bool nan_wins) {
    return -lesser(-a, -b, nan_wins);
}
#define EXTREME(name, f)                                                                           \
    static void name##32(struct warp * w, const struct insn *i, u32 mask) {                        \
        float *d = REG(0);                                                                         \
        const float *x = REG(1), *y = REG(2);                                                      \
        struct mode m = mode_begin(i);                                                             \
        EACH(d[l] = finished((float)f((double)x[l], (double)y[l], HAS(NANS)), m));                 \
    }                                                                                              \
    static void name##64(struct warp * w, const struct insn *i, u32 mask) {                        \
        double *d = REG(0);                                                                        \
        const double *x = REG(1), *y = REG(2);                                                     \
        EACH(d[l] = canonical_double(f(x[l], y[l], false)));                                       \
    }
EXTREME(min, lesser)
EXTREME(max, greater)

// neg, abs and copysign change the sign alone, of NaN too.
#define BITS(name, R, expr)                                                                        \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const R *a = REG(1);                                                                       \
        EACH(d[l] = expr);                                                                         \
    }
#define SIGN32 0x80000000u
#define SIGN64 0x8000000000000000ull
BITS(neg32, u32, a[l] ^ SIGN32)
BITS(neg64, u64, a[l] ^ SIGN64)
BITS(abs32, u32, a[l] & ~SIGN32)
BITS(abs64, u64, a[l] & ~SIGN64)
static void copysign32(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1), *b = REG(2);
    EACH(d[l] = (b[l] & ~SIGN32) | (a[l] & SIGN32));
}
static void copysign64(struct warp *w, const struct insn *i, u32 mask) {
    u64 *d = REG(0);
    const u64 *a = REG(1), *b = REG(2);
    EACH(d[l] = (b[l] & ~SIGN64) | (a[l] & SIGN64));
}

#define ROUND   (MOD(RN) | MOD(RZ) | MOD(RM) | MOD(RP))
#define ROUND32 (ROUND | MOD(FTZ) | MOD(SAT))
#define F(name, type, mods, form, fn, needs)                                                       \
    { name, TYPE(type), 0, mods, form, fn, 0, needs }

const struct op ops_float[] = {
    F("add", F32, ROUND32, "dss", add32, 0),
    F("sub", F32, ROUND32, "dss", sub32, 0),
    F("mul", F32, ROUND32, "dss", mul32, 0),
    F("fma", F32, ROUND32, "dsss", fma32, ROUND),
    F("div", F32, MOD(FTZ), "dss", div32, ROUND | MOD(APPROX) | MOD(FULL)),
    F("add", F64, ROUND, "dss", add64, 0),
    F("sub", F64, ROUND, "dss", sub64, 0),
    F("mul", F64, ROUND, "dss", mul64, 0),
    F("fma", F64, 0, "dsss", fma64, ROUND),
    F("div", F64, 0, "dss", div64, ROUND),
    F("min", F32, MOD(FTZ) | MOD(NANS), "dss", min32, 0),
    F("max", F32, MOD(FTZ) | MOD(NANS), "dss", max32, 0),
    F("min", F64, 0, "dss", min64, 0),
    F("max", F64, 0, "dss", max64, 0),
    F("neg", F32, 0, "ds", neg32, 0),
    F("neg", F64, 0, "ds", neg64, 0),
    F("abs", F32, 0, "ds", abs32, 0),
    F("abs", F64, 0, "ds", abs64, 0),
    F("copysign", F32, 0, "dss", copysign32, 0),
    F("copysign", F64, 0, "dss", copysign64, 0),
    F("sqrt", F32, MOD(FTZ), "ds", sqrt32, ROUND | MOD(APPROX)),
    F("sqrt", F64, 0, "ds", sqrt64, ROUND),
    F("rcp", F32, MOD(FTZ), "ds", rcp32, ROUND | MOD(APPROX)),
    F("rcp", F64, 0, "ds", rcp64, ROUND),
    F("rcp", F64, MOD(FTZ), "ds", rcp64_approx, MOD(APPROX)),
    F("rsqrt", F32, MOD(FTZ), "ds", rsqrt32, MOD(APPROX)),
    F("rsqrt", F64, MOD(FTZ), "ds", rsqrt64, MOD(APPROX)),
    F("ex2", F32, MOD(FTZ), "ds", ex2_32, MOD(APPROX)),
    F("lg2", F32, MOD(FTZ), "ds", lg2_32, MOD(APPROX)),
    F("sin", F32, MOD(FTZ), "ds", sin32, MOD(APPROX)),
    F("cos", F32, MOD(FTZ), "ds", cos32, MOD(APPROX)),
    F("tanh", F32, 0, "ds", tanh32, MOD(APPROX)),
    {0},
};
