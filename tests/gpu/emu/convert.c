// SPDX-License-Identifier: Apache-2.0
// convert.c: cvt between all types, with every rounding. Numbers pass through long double, whose 64
// bits of significand hold any of them exactly, so that each result is rounded once.
#pragma GCC diagnostic ignored "-Wdouble-promotion" // each step is computed in a wider type
#include "emu.h"

#include <math.h>
#include <string.h>

// A binary format: bits of the significand with the hidden one, least and greatest exponent.
struct format {
    int bits, emin, emax;
};
static const struct format f16 = {11, -14, 15}, bf16 = {8, -126, 127}, f32 = {24, -126, 127},
                           f64 = {53, -1022, 1023}, tf32 = {11, -126, 127};

// The exponent of a long double, and 2^e, from their bits: x87's extended format, where frexpl and
// ldexpl take most of a kernel's time. A subnormal v has the exponent of the least normal one.
static int exponent_of(long double v) {
    u16 high;
    memcpy(&high, (const u8 *)&v + 8, sizeof high);
    return (high & 0x7fff) - 16383;
}
static long double power_of_two(int e) {
    long double v = 0;
    u64 significand = 1ull << 63;
    u16 high = (u16)(e + 16383);
    memcpy(&v, &significand, sizeof significand);
    memcpy((u8 *)&v + 8, &high, sizeof high);
    return v;
}

// |v| < 2^62
static long double whole(long double v, enum rounding r) {
    static const long double all_bits = 0x1.8p63L; // its sum with v has no place for a fraction
    switch (r) {
    case R_ZERO: return truncl(v);
    case R_DOWN: return floorl(v);
    case R_UP: return ceill(v);
    case R_AWAY: return roundl(v);
    default: return v + all_bits - all_bits; // ties to even
    }
}

// v rounded to a number of the format; infinite beyond its range, unless rounded towards zero.
static long double rounded(long double v, const struct format *f, enum rounding r) {
    if (v == 0 || !isfinite(v))
        return v;
    int e = exponent_of(v);
    e = e < f->emin ? f->emin : e;
    long double out = whole(v * power_of_two(f->bits - 1 - e), r) * power_of_two(e - f->bits + 1);
    long double most = (2 - power_of_two(1 - f->bits)) * power_of_two(f->emax);
    if (fabsl(out) > most) {
        bool inward = r == R_ZERO || (r == R_DOWN && v > 0) || (r == R_UP && v < 0);
        out = copysignl(inward ? most : INFINITY, v);
    }
    return copysignl(out, v); // a result of zero keeps the sign
}

u32 bfloat_from(long double v, enum rounding r) {
    if (isnan(v))
        return 0x7fff;
    return float_bits((float)rounded(v, &bf16, r)) >> 16;
}

u32 half_from(long double v, enum rounding r) {
    if (isnan(v))
        return 0x7fff;
    v = rounded(v, &f16, r);
    u32 sign = signbit(v) ? 0x8000 : 0;
    v = fabsl(v);
    if (isinf(v))
        return sign | 0x7c00;
    if (v == 0)
        return sign;
    if (v < 0x1p-14L)
        return sign | (u32)(v * 0x1p24L);
    return sign | ((float_bits((float)v) >> 13) - (112 << 10)); // float's exponent is 112 more
}

u32 tf32_from(float v) {
    return float_bits((float)rounded((long double)v, &tf32, R_AWAY));
}

// ---- cvt ---------------------------------------------------------------------------------------
static enum rounding rounding_of(const struct insn *i) {
    return HAS(RZ) || HAS(RZI)   ? R_ZERO
           : HAS(RM) || HAS(RMI) ? R_DOWN
           : HAS(RP) || HAS(RPI) ? R_UP
           : HAS(RNA)            ? R_AWAY
                                 : R_NEAREST;
}

static u64 low_bits(u64 v, int bytes) {
    return bytes == 8 ? v : v & (((u64)1 << 8 * bytes) - 1);
}

static long double value(u64 raw, enum type t) {
    int spare = 64 - 8 * type_bytes(t);
    double d;
    switch (t) {
    case T_F16: return half_to((u32)raw & 0xffff);
    case T_BF16: return bfloat_to((u32)raw & 0xffff);
    case T_F32: return bits_float((u32)raw);
    case T_F64: memcpy(&d, &raw, sizeof d); return d;
    case T_S8:
    case T_S16:
    case T_S32:
    case T_S64: return (long double)((s64)(raw << spare) >> spare);
    default: return (long double)(raw << spare >> spare);
    }
}

// Clamped; NaN gives 0, or the sign bit alone where one side has 64 bits.
static u64 to_integer(long double v, const struct insn *i) {
    enum type t = (enum type)i->type;
    int bits = 8 * type_bytes(t);
    if (isnan(v))
        return i->type2 == T_F64 || bits == 64 ? (u64)1 << (bits - 1) : 0;
    v = whole(v, rounding_of(i));
    long double most = ldexpl(1, type_is_signed(t) ? bits - 1 : bits) - 1;
    long double least = type_is_signed(t) ? -ldexpl(1, bits - 1) : 0;
    v = v > most ? most : v < least ? least : v;
    return v < 0 ? (u64)(s64)v : (u64)v;
}

static u64 to_float(long double v, const struct insn *i) {
    enum rounding r = rounding_of(i);
    bool integral = HAS(RNI) || HAS(RZI) || HAS(RMI) || HAS(RPI);
    double d;
    u64 bits;
    if (integral && isfinite(v))
        v = copysignl(whole(v, r), v);
    if (HAS(SAT))
        v = v > 0 ? (v < 1 ? v : 1) : 0;
    if (HAS(RELU) && !isnan(v))
        v = v > 0 ? v : 0;
    switch (i->type) {
    case T_F16: return half_from(v, r);
    case T_BF16: return bfloat_from(v, r);
    case T_TF32: return isnan(v) ? 0x7fffffff : float_bits((float)rounded(v, &tf32, r));
    case T_F32:
        if (isnan(v))
            return 0x7fffffff;
        return float_bits((float)(r == R_NEAREST ? v : rounded(v, &f32, r))); // C's own rounding
    default:
        d = (double)(r == R_NEAREST ? v : rounded(v, &f64, r));
        memcpy(&bits, &d, sizeof bits);
        return isnan(v) ? 0x7fffffffffffffff : bits;
    }
}

static long double flushed(long double v, const struct insn *i, enum type t) {
    return HAS(FTZ) && t == T_F32 && fabsl(v) < 0x1p-126L ? copysignl(0, v) : v;
}

// To a whole number from a whole number: cut or extended by the sign; with .sat clamped.
static inline u64 integer_to_integer(u64 raw, const struct insn *i) {
    enum type from = (enum type)i->type2;
    int spare = 64 - 8 * type_bytes(from);
    if (HAS(SAT))
        return to_integer(value(raw, from), i);
    return type_is_signed(from) ? (u64)((s64)(raw << spare) >> spare) : raw << spare >> spare;
}

static void cvt(struct warp *w, const struct insn *i, u32 mask) {
    enum type to = (enum type)i->type, from = (enum type)i->type2;
    bool to_real = type_is_float(to), from_real = type_is_float(from);
    EACH(
        u64 raw = lane_value(w, &i->op[1], 0, l); u64 v = 0;
        if (!to_real && !from_real) { v = integer_to_integer(raw, i); } else {
            long double x = flushed(value(raw, from), i, from);
            v = to_real ? to_float(x, i) : to_integer(x, i);
        }
        // A result narrower than its register fills it: with the sign, or with zeros.
        v = low_bits(v, type_bytes(to));
        if (type_is_signed(to)) v =
            (u64)((s64)(v << (64 - 8 * type_bytes(to))) >> (64 - 8 * type_bytes(to)));
        set_lane(w, &i->op[0], 0, l, v));
}

// The frequent ones, without long double.
static void cvt_f32_bf16(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1);
    EACH(d[l] = a[l] << 16);
}
static u32 bfloat_nearest(u32 bits) {
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static void cvt_bf16_f32(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1);
    EACH(d[l] = bfloat_nearest(a[l]));
}
// The source may be in a wide register: its low half counts.
static void cvt_u64_u32(struct warp *w, const struct insn *i, u32 mask) {
    u64 *d = REG(0);
    const u32 *a = REG(1);
    if (i->op[1].wide)
        EACH(d[l] = (u32)lane_value(w, &i->op[1], 0, l));
    else
        EACH(d[l] = a[l]);
}
static void cvt_s64_s32(struct warp *w, const struct insn *i, u32 mask) {
    s64 *d = REG(0);
    const s32 *a = REG(1);
    if (i->op[1].wide)
        EACH(d[l] = (s32)lane_value(w, &i->op[1], 0, l));
    else
        EACH(d[l] = a[l]);
}

// A source or result in a wide register is rare.
#define NARROW_ONLY                                                                                \
    if (i->op[0].wide || i->op[1].wide) {                                                          \
        cvt(w, i, mask);                                                                           \
        return;                                                                                    \
    }
static void cvt_f32_f16(struct warp *w, const struct insn *i, u32 mask) {
    NARROW_ONLY
    float *d = REG(0);
    const u32 *a = REG(1);
    EACH_AT_ONCE(u32 h = a[l] & 0xffff; d[l] = half_to(h));
}
// By the bits of a float: a half has 13 bits of fraction less, and is subnormal below 2^-14, where
// the sum with 0.5 has its last place at that of halves.
static u32 half_nearest(u32 bits) {
    u32 sign = bits >> 16 & 0x8000, low = bits & 0x7fffffff;
    u32 subnormal = float_bits(bits_float(low) + 0.5f) - 0x3f000000;
    u32 normal = (low + 0xfff + (low >> 13 & 1) - (112u << 23)) >> 13;
    u32 finite = low < 0x38800000 ? subnormal : normal;
    return low > 0x7f800000 ? 0x7fff : low >= 0x477ff000 ? sign | 0x7c00 : sign | finite;
}
static void cvt_f16_f32(struct warp *w, const struct insn *i, u32 mask) {
    NARROW_ONLY
    u32 *d = REG(0);
    const u32 *a = REG(1);
    EACH_AT_ONCE(u32 bits = a[l]; d[l] = half_nearest(bits));
}
// Ties away from zero, as whole numbers: the fraction carries into the exponent.
static void cvt_tf32_away(struct warp *w, const struct insn *i, u32 mask) {
    NARROW_ONLY
    u32 *d = REG(0);
    const u32 *a = REG(1);
    EACH_AT_ONCE(u32 bits = a[l];
                 d[l] = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (bits + 0x1000) & ~0x1fffu);
}
static void cvt_f32_s32(struct warp *w, const struct insn *i, u32 mask) {
    NARROW_ONLY
    float *d = REG(0);
    const s32 *a = REG(1);
    EACH_AT_ONCE(d[l] = (float)a[l]);
}
static void cvt_f32_u32(struct warp *w, const struct insn *i, u32 mask) {
    NARROW_ONLY
    float *d = REG(0);
    const u32 *a = REG(1);
    EACH_AT_ONCE(d[l] = (float)a[l]);
}

// cvt.rn.bf16x2.f32 d, a, b: a becomes the upper half.
static void cvt_pair(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const float *a = REG(1), *b = REG(2);
    enum rounding r = rounding_of(i);
    bool half = i->type == T_F16X2;
    bool relu = HAS(RELU);
    EACH(float x = relu && a[l] < 0 ? 0 : a[l]; float y = relu && b[l] < 0 ? 0 : b[l];
         u32 high = half ? half_from(x, r) : bfloat_from(x, r);
         d[l] = high << 16 | (half ? half_from(y, r) : bfloat_from(y, r)));
}
static void cvt_pair_nearest(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1), *b = REG(2);
    if (i->type == T_F16X2)
        EACH_AT_ONCE(u32 x = a[l]; u32 y = b[l]; d[l] = half_nearest(x) << 16 | half_nearest(y));
    else
        EACH_AT_ONCE(u32 x = a[l]; u32 y = b[l];
                     d[l] = bfloat_nearest(x) << 16 | bfloat_nearest(y));
}

#define INTS                                                                                       \
    (TYPE(U8) | TYPE(S8) | TYPE(U16) | TYPE(S16) | TYPE(U32) | TYPE(S32) | TYPE(U64) | TYPE(S64))
#define FLOATS (TYPE(F32) | TYPE(F64))
#define HALVES (TYPE(F16) | TYPE(BF16))
#define NEAR   (MOD(RN) | MOD(RZ) | MOD(RM) | MOD(RP))
#define WHOLE  (MOD(RNI) | MOD(RZI) | MOD(RMI) | MOD(RPI))

const struct op ops_convert[] = {
    {"cvt", TYPE(F32), TYPE(BF16), 0, "xx", cvt_f32_bf16, 0, 0},
    {"cvt", TYPE(BF16), TYPE(F32), 0, "xx", cvt_bf16_f32, 0, MOD(RN)},
    {"cvt", TYPE(F32), TYPE(F16), 0, "xx", cvt_f32_f16, 0, 0},
    {"cvt", TYPE(F16), TYPE(F32), 0, "xx", cvt_f16_f32, 0, MOD(RN)},
    {"cvt", TYPE(TF32), TYPE(F32), 0, "xx", cvt_tf32_away, 0, MOD(RNA)},
    {"cvt", TYPE(F32), TYPE(S32), 0, "xx", cvt_f32_s32, 0, MOD(RN)},
    {"cvt", TYPE(F32), TYPE(U32), 0, "xx", cvt_f32_u32, 0, MOD(RN)},
    {"cvt", TYPE(F16X2) | TYPE(BF16X2), TYPE(F32), 0, "xxx", cvt_pair_nearest, 0, MOD(RN)},
    {"cvt", TYPE(U64), TYPE(U32), 0, "xx", cvt_u64_u32, 0, 0},
    {"cvt", TYPE(S64), TYPE(S32), 0, "xx", cvt_s64_s32, 0, 0},
    {"cvt", INTS, INTS, MOD(SAT), "xx", cvt, 0, 0},
    {"cvt", INTS, FLOATS | HALVES, MOD(SAT) | MOD(FTZ), "xx", cvt, 0, WHOLE},
    {"cvt", FLOATS | HALVES, INTS, MOD(SAT), "xx", cvt, 0, NEAR},
    {"cvt", FLOATS | HALVES, FLOATS | HALVES, MOD(SAT) | MOD(FTZ) | MOD(RELU), "xx", cvt, 0, NEAR},
    {"cvt", FLOATS | HALVES, FLOATS | HALVES, MOD(SAT) | MOD(FTZ), "xx", cvt, 0, WHOLE},
    {"cvt", FLOATS, FLOATS | HALVES, MOD(SAT) | MOD(FTZ), "xx", cvt, 0, 0},
    {"cvt", TYPE(TF32), TYPE(F32), MOD(RELU), "xx", cvt, 0, MOD(RNA) | MOD(RN) | MOD(RZ)},
    {"cvt", TYPE(F16X2) | TYPE(BF16X2), TYPE(F32), MOD(RELU), "xxx", cvt_pair, 0,
     MOD(RN) | MOD(RZ)},
    {0},
};
