// SPDX-License-Identifier: Apache-2.0
// half.c: arithmetic of f16 and bf16, alone and in pairs. Each result is computed in double and
// rounded once to the format.
#pragma GCC diagnostic ignored "-Wdouble-promotion" // each step is computed in a wider type
#include "emu.h"

#include <math.h>

typedef double formula(double a, double b, double c);
static double f_add(double a, double b, double c) {
    return (void)c, a + b;
}
static double f_sub(double a, double b, double c) {
    return (void)c, a - b;
}
static double f_mul(double a, double b, double c) {
    return (void)c, a * b;
}
static double f_fma(double a, double b, double c) {
    return fma(a, b, c);
}
static double f_ex2(double a, double b, double c) {
    return (void)b, (void)c, exp2(a);
}
static double f_tanh(double a, double b, double c) {
    return (void)b, (void)c, tanh(a);
}
static double f_min(double a, double b, double c) {
    (void)c;
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static double f_max(double a, double b, double c) {
    return -f_min(-a, -b, c);
}

static bool is_pair(const struct insn *i) {
    return i->type == T_F16X2 || i->type == T_BF16X2;
}
static bool is_half(const struct insn *i) {
    return i->type == T_F16 || i->type == T_F16X2;
}

static void apply(struct warp *w, const struct insn *i, u32 mask, formula *f) {
    u32 *d = REG(0), n = i->n_operands;
    const u32 *x = REG(1), *y = n > 2 ? REG(2) : x, *z = n > 3 ? REG(3) : x;
    bool half = is_half(i);
    int parts = is_pair(i) ? 2 : 1;
    EACH(u32 out = 0; for (int s = 0; s < 16 * parts; s += 16) {
        u32 a = x[l] >> s & 0xffff;
        u32 b = y[l] >> s & 0xffff;
        u32 c = z[l] >> s & 0xffff;
        double v = half ? f(half_to(a), half_to(b), half_to(c))
                        : f(bfloat_to(a), bfloat_to(b), bfloat_to(c));
        if (HAS(RELU))
            v = v < 0 ? 0 : v;
        if (HAS(NANS) && (half ? isnan(half_to(a)) || isnan(half_to(b))
                               : isnan(bfloat_to(a)) || isnan(bfloat_to(b))))
            v = NAN;
        out |= (half ? half_from(v, R_NEAREST) : bfloat_from(v, R_NEAREST)) << s;
    } d[l] = out);
}

#define HALF(name)                                                                                 \
    static void h_##name(struct warp *w, const struct insn *i, u32 mask) {                         \
        apply(w, i, mask, f_##name);                                                               \
    }
HALF(add)
HALF(sub)
HALF(mul)
HALF(fma)
HALF(min)
HALF(max)
HALF(ex2)
HALF(tanh)

static void sign(struct warp *w, const struct insn *i, u32 mask, bool flip) {
    u32 *d = REG(0), bits = is_pair(i) ? 0x80008000u : 0x8000u;
    const u32 *a = REG(1);
    EACH(d[l] = flip ? a[l] ^ bits : a[l] & ~bits);
}
static void h_neg(struct warp *w, const struct insn *i, u32 mask) {
    sign(w, i, mask, true);
}
static void h_abs(struct warp *w, const struct insn *i, u32 mask) {
    sign(w, i, mask, false);
}

#define ALL (TYPE(F16) | TYPE(BF16) | TYPE(F16X2) | TYPE(BF16X2))
#define H(name, mods, form, fn)                                                                    \
    { name, ALL, 0, mods, form, fn, 0, 0 }
const struct op ops_half[] = {
    H("add", MOD(RN), "dss", h_add),
    H("sub", MOD(RN), "dss", h_sub),
    H("mul", MOD(RN), "dss", h_mul),
    H("fma", MOD(RN) | MOD(RELU), "dsss", h_fma),
    H("min", MOD(NANS), "dss", h_min),
    H("max", MOD(NANS), "dss", h_max),
    H("neg", 0, "ds", h_neg),
    H("abs", 0, "ds", h_abs),
    H("ex2", MOD(APPROX) | MOD(FTZ), "ds", h_ex2),
    H("tanh", MOD(APPROX), "ds", h_tanh),
    {0},
};
