// SPDX-License-Identifier: Apache-2.0
// integer.c: whole numbers and bits.
#include "emu.h"

#define UH       TYPE(U16)
#define SH       TYPE(S16)
#define H16      (TYPE(U16) | TYPE(S16) | TYPE(B16))
#define W32      (TYPE(U32) | TYPE(S32) | TYPE(B32))
#define W64      (TYPE(U64) | TYPE(S64) | TYPE(B64))
#define BIN_MODS MOD(LO)

// d = f(a, b) and so on, for registers that are seen as T; V is how a result is stored.
#define UNARY(name, T, R, expr)                                                                    \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const R *x = REG(1);                                                                       \
        EACH_AT_ONCE(T a = (T)x[l]; d[l] = (R)(expr));                                             \
    }
#define BINARY(name, T, R, expr)                                                                   \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const R *x = REG(1), *y = REG(2);                                                          \
        EACH_AT_ONCE(T a = (T)x[l]; T b = (T)y[l]; d[l] = (R)(expr));                              \
    }
#define TERNARY(name, T, R, expr)                                                                  \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const R *x = REG(1), *y = REG(2), *z = REG(3);                                             \
        EACH_AT_ONCE(T a = (T)x[l]; T b = (T)y[l]; T c = (T)z[l]; d[l] = (R)(expr));               \
    }
// One operation for the widths that it has.
#define BINARY3(name, expr)                                                                        \
    BINARY(name##16, u16, u32, expr)                                                               \
    BINARY(name##32, u32, u32, expr) BINARY(name##64, u64, u64, expr)
#define SIGNS(name, expr)                                                                          \
    BINARY(name##_u16, u16, u32, expr)                                                             \
    BINARY(name##_s16, int16_t, u32, expr)                                                         \
    BINARY(name##_u32, u32, u32, expr)                                                             \
    BINARY(name##_s32, s32, u32, expr)                                                             \
    BINARY(name##_u64, u64, u64, expr) BINARY(name##_s64, s64, u64, expr)

BINARY3(add, a + b)
BINARY3(sub, a - b)
BINARY3(and, a &b)
BINARY3(or, a | b)
BINARY3(xor, a ^ b)
BINARY(mul16, u32, u32, (u16)(a *b))
BINARY(mul32, u32, u32, a *b)
BINARY(mul64, u64, u64, a *b)
SIGNS(min, a < b ? a : b)
SIGNS(max, a > b ? a : b)
TERNARY(mad16, u32, u32, (u16)(a *b + c))
TERNARY(mad32, u32, u32, a *b + c)
TERNARY(mad64, u64, u64, a *b + c)
BINARY(mulhi_u32, u32, u32, (u64)a *b >> 32)
BINARY(mulhi_s32, s32, u32, (s64)a *b >> 32)
BINARY(mulhi_u64, u64, u64, (unsigned __int128)a *b >> 64)
BINARY(mulhi_s64, s64, u64, (__int128)a *b >> 64)
TERNARY(madhi_u32, u32, u32, ((u64)a * b >> 32) + c)
TERNARY(madhi_s32, s32, u32, (u32)((s64)a *b >> 32) + (u32)c)
// The manual leaves open what a division by zero gives.
static u64 divisor(u64 b) {
    if (!b)
        fault("division by zero");
    return b;
}
BINARY(div_u32, u32, u32, a / (u32)divisor(b))
BINARY(div_s32, s32, u32, (s64)a / (s32)divisor((u32)b))
BINARY(div_u64, u64, u64, a / divisor(b))
BINARY(div_s64, s64, u64, b == -1 ? (s64)(0 - (u64)a) : a / (s64)divisor((u64)b))
BINARY(rem_u32, u32, u32, a % (u32)divisor(b))
BINARY(rem_s32, s32, u32, (s64)a % (s32)divisor((u32)b))
BINARY(rem_u64, u64, u64, a % divisor(b))
BINARY(rem_s64, s64, u64, b == -1 ? 0 : a % (s64)divisor((u64)b))
BINARY(div_u16, u16, u32, a / (u16)divisor(b))
BINARY(rem_u16, u16, u32, a % (u16)divisor(b))
UNARY(not16, u32, u32, (u16)~a)
UNARY(not32, u32, u32, ~a)
UNARY(not64, u64, u64, ~a)
UNARY(neg16, u32, u32, (u16)-a)
UNARY(neg32, u32, u32, -a)
UNARY(neg64, u64, u64, -a)
UNARY(abs_s16, int16_t, u32, (u16)(a < 0 ? -a : a))
UNARY(abs_s32, s32, u32, a < 0 ? 0 - (u32)a : (u32)a)
UNARY(abs_s64, s64, u64, a < 0 ? 0 - (u64)a : (u64)a)
UNARY(popc32, u32, u32, __builtin_popcount(a))
UNARY(clz32, u32, u32, a ? __builtin_clz(a) : 32)

static u32 reversed(u32 a) {
    u32 r = 0;
    for (int n = 0; n < 32; n++)
        r |= (a >> n & 1) << (31 - n);
    return r;
}
UNARY(brev32, u32, u32, reversed(a))

// Results of 32 bits from operands of 64.
#define UNARY64(name, expr)                                                                        \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        u32 *d = REG(0);                                                                           \
        const u64 *x = REG(1);                                                                     \
        EACH(u64 a = x[l]; d[l] = (u32)(expr));                                                    \
    }
UNARY64(popc64, __builtin_popcountll(a))
UNARY64(clz64, a ? __builtin_clzll(a) : 64)

// The place of the highest bit that differs from the sign; all ones where there is none.
static u32 highest(u64 a, const struct insn *i) {
    return a == 0          ? UINT32_MAX
           : HAS(SHIFTAMT) ? (u32)__builtin_clz((u32)a)
                           : 31u - (u32)__builtin_clz((u32)a);
}
UNARY(bfind_u32, u32, u32, highest(a, i))
UNARY(bfind_s32, u32, u32, highest((s32)a < 0 ? ~a : a, i))

// Amounts of the width and more give zeros, or copies of the sign.
#define SHIFT(name, T, R, bits, over, expr)                                                        \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const R *x = REG(1);                                                                       \
        const u32 *y = REG(2);                                                                     \
        EACH(T a = (T)x[l]; u32 n = y[l]; d[l] = (R)(n >= (bits) ? (over) : (expr)));              \
    }
SHIFT(shl16, u16, u32, 16, 0, (u16)(a << n))
SHIFT(shl32, u32, u32, 32, 0, a << n)
SHIFT(shl64, u64, u64, 64, 0, a << n)
SHIFT(shr_u16, u16, u32, 16, 0, a >> n)
SHIFT(shr_u32, u32, u32, 32, 0, a >> n)
SHIFT(shr_u64, u64, u64, 64, 0, a >> n)
SHIFT(shr_s16, int16_t, u32, 16, (u16)(a < 0 ? -1 : 0), (u16)(a >> n))
SHIFT(shr_s32, s32, u32, 32, a < 0 ? -1 : 0, a >> n)
SHIFT(shr_s64, s64, u64, 64, a < 0 ? -1 : 0, a >> n)

static void funnel(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *low = REG(1), *high = REG(2), *by = REG(3);
    bool left = HAS(L), clamp = HAS(CLAMP);
    EACH(u64 v = (u64)high[l] << 32 | low[l];
         u32 n = clamp ? (by[l] < 32 ? by[l] : 32) : by[l] & 31;
         d[l] = (u32)(left ? v << n >> 32 : v >> n));
}

// mul.wide and mad.wide.
#define WIDE(name, T, S, R, expr)                                                                  \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        R *d = REG(0);                                                                             \
        const u32 *x = REG(1), *y = REG(2);                                                        \
        const R *c = i->n_operands > 3 ? REG(3) : NULL;                                            \
        EACH(S a = (S)(T)x[l]; S b = (S)(T)y[l]; d[l] = (R)(expr) + (c ? c[l] : 0));               \
    }
WIDE(wide_u16, u16, u32, u32, a *b)
WIDE(wide_s16, int16_t, s32, u32, a *b)
WIDE(wide_u32, u32, u64, u64, a *b)
WIDE(wide_s32, s32, s64, u64, a *b)

// ---- carry: add.cc sets it, addc uses it -------------------------------------------------------
static void carry(struct warp *w, const struct insn *i, u32 mask, bool subtract, bool uses) {
    u32 out = 0;
    int bits = type_bytes((enum type)i->type) * 8;
    EACH(u64 a = lane_value(w, &i->op[1], 0, l); u64 b = lane_value(w, &i->op[2], 0, l);
         u64 in = uses ? w->carry >> l & 1 : subtract;
         u64 all = bits == 64 ? UINT64_MAX : UINT32_MAX;
         unsigned __int128 v = (unsigned __int128)a + (subtract ? ~b & all : b) + in;
         out |= (u32)(v >> bits & 1) << l; set_lane(w, &i->op[0], 0, l, (u64)v));
    if (HAS(CC))
        w->carry = (w->carry & ~mask) | out;
}
static void add_cc(struct warp *w, const struct insn *i, u32 mask) {
    carry(w, i, mask, false, false);
}
static void addc(struct warp *w, const struct insn *i, u32 mask) {
    carry(w, i, mask, false, true);
}
static void sub_cc(struct warp *w, const struct insn *i, u32 mask) {
    carry(w, i, mask, true, false);
}
static void subc(struct warp *w, const struct insn *i, u32 mask) {
    carry(w, i, mask, true, true);
}

// ---- bits --------------------------------------------------------------------------------------
static void lop3(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0), table = (u32)i->op[4].imm;
    const u32 *a = REG(1), *b = REG(2), *c = REG(3);
    EACH(u32 v = 0; for (u32 n = 0; n < 8; n++) if (table >> n & 1) v |=
                    (n & 4 ? a[l] : ~a[l]) & (n & 2 ? b[l] : ~b[l]) & (n & 1 ? c[l] : ~c[l]);
         d[l] = v);
}

static void prmt(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1), *b = REG(2), *c = REG(3);
    EACH(u64 bytes = (u64)b[l] << 32 | a[l]; u32 v = 0; for (int n = 0; n < 4; n++) {
        u32 select = c[l] >> 4 * n & 15;
        u32 byte = (u32)(bytes >> 8 * (select & 7)) & 255;
        if (select & 8)
            byte = byte & 128 ? 255 : 0;
        v |= byte << 8 * n;
    } d[l] = v);
}

// Position and length are the low bytes of their registers; bits beyond the end are the sign.
static u64 extracted(u64 a, u32 at, u32 len, int bits, bool is_signed) {
    u64 v = at < (u32)bits ? a >> at : 0;
    u32 left = at < (u32)bits ? (u32)bits - at : 0;
    bool sign =
        is_signed && len && (a >> (at + len - 1 < (u32)bits ? at + len - 1 : (u32)bits - 1) & 1);
    u32 keep = len < left ? len : left;
    u64 low = keep >= 64 ? UINT64_MAX : ((u64)1 << keep) - 1;
    return (v & low) | (sign ? ~low : 0);
}
static void bfe(struct warp *w, const struct insn *i, u32 mask) {
    const u32 *at = REG(2), *len = REG(3);
    enum type t = (enum type)i->type;
    EACH(set_lane(w, &i->op[0], 0, l,
                  extracted(lane_value(w, &i->op[1], 0, l), at[l] & 255, len[l] & 255,
                            8 * type_bytes(t), type_is_signed(t))));
}
static void bfi(struct warp *w, const struct insn *i, u32 mask) {
    const u32 *at = REG(3), *len = REG(4);
    u32 bits = 8 * (u32)type_bytes((enum type)i->type);
    EACH(u32 from = at[l] & 255; u32 n = len[l] & 255; u64 a = lane_value(w, &i->op[1], 0, l);
         u64 b = lane_value(w, &i->op[2], 0, l); u64 low = n >= 64 ? UINT64_MAX : ((u64)1 << n) - 1;
         if (from < bits) b = (b & ~(low << from)) | (a & low) << from;
         set_lane(w, &i->op[0], 0, l, b));
}

static void dp4a(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    const u32 *a = REG(1), *b = REG(2), *c = REG(3);
    bool as = i->type == T_S32, bs = i->type2 == T_S32;
    EACH(u32 v = c[l]; for (int n = 0; n < 32; n += 8) {
        u32 x = a[l] >> n & 255;
        u32 y = b[l] >> n & 255;
        v += (u32)((as ? (s32)(int8_t)x : (s32)x) * (bs ? (s32)(int8_t)y : (s32)y));
    } d[l] = v);
}

#define ROWS3(name, fn, mods)                                                                      \
    {name, H16, 0, mods, "dss", fn##16, 0, 0}, {name, W32, 0, mods, "dss", fn##32, 0, 0}, {        \
        name, W64, 0, mods, "dss", fn##64, 0, 0                                                    \
    }
#define ROWS_SIGN(name, fn)                                                                        \
    {name, UH, 0, 0, "dss", fn##_u16, 0, 0}, {name, SH, 0, 0, "dss", fn##_s16, 0, 0},              \
        {name, TYPE(U32), 0, 0, "dss", fn##_u32, 0, 0},                                            \
        {name, TYPE(S32), 0, 0, "dss", fn##_s32, 0, 0},                                            \
        {name, TYPE(U64), 0, 0, "dss", fn##_u64, 0, 0}, {                                          \
        name, TYPE(S64), 0, 0, "dss", fn##_s64, 0, 0                                               \
    }
#define ONE(name, type, form, fn)                                                                  \
    { name, TYPE(type), 0, 0, form, fn, 0, 0 }
#define NEED(name, types, mods, form, fn, needs)                                                   \
    { name, types, 0, mods, form, fn, 0, needs }
#define HIGH (TYPE(U32) | TYPE(S32) | TYPE(U64) | TYPE(S64))

const struct op ops_integer[] = {
    ROWS3("add", add, 0),
    ROWS3("sub", sub, 0),
    ROWS3("and", and, 0),
    ROWS3("or", or, 0),
    ROWS3("xor", xor, 0),
    ROWS_SIGN("min", min),
    ROWS_SIGN("max", max),
    NEED("mul", H16, 0, "dss", mul16, MOD(LO)),
    NEED("mul", W32, 0, "dss", mul32, MOD(LO)),
    NEED("mul", W64, 0, "dss", mul64, MOD(LO)),
    NEED("mul", TYPE(U32), 0, "dss", mulhi_u32, MOD(HI)),
    NEED("mul", TYPE(S32), 0, "dss", mulhi_s32, MOD(HI)),
    NEED("mul", TYPE(U64), 0, "dss", mulhi_u64, MOD(HI)),
    NEED("mul", TYPE(S64), 0, "dss", mulhi_s64, MOD(HI)),
    NEED("mul", UH, 0, "dss", wide_u16, MOD(WIDE)),
    NEED("mul", SH, 0, "dss", wide_s16, MOD(WIDE)),
    NEED("mul", TYPE(U32), 0, "Dss", wide_u32, MOD(WIDE)),
    NEED("mul", TYPE(S32), 0, "Dss", wide_s32, MOD(WIDE)),
    NEED("mad", H16, 0, "dsss", mad16, MOD(LO)),
    NEED("mad", W32, 0, "dsss", mad32, MOD(LO)),
    NEED("mad", W64, 0, "dsss", mad64, MOD(LO)),
    NEED("mad", TYPE(U32), 0, "dsss", madhi_u32, MOD(HI)),
    NEED("mad", TYPE(S32), 0, "dsss", madhi_s32, MOD(HI)),
    NEED("mad", UH, 0, "dsss", wide_u16, MOD(WIDE)),
    NEED("mad", SH, 0, "dsss", wide_s16, MOD(WIDE)),
    NEED("mad", TYPE(U32), 0, "DssD", wide_u32, MOD(WIDE)),
    NEED("mad", TYPE(S32), 0, "DssD", wide_s32, MOD(WIDE)),
    NEED("add", W32 | W64, 0, "dss", add_cc, MOD(CC)),
    {"addc", W32 | W64, 0, MOD(CC), "dss", addc, 0, 0},
    NEED("sub", W32 | W64, 0, "dss", sub_cc, MOD(CC)),
    {"subc", W32 | W64, 0, MOD(CC), "dss", subc, 0, 0},
    ONE("div", U16, "dss", div_u16),
    ONE("rem", U16, "dss", rem_u16),
    ONE("div", U32, "dss", div_u32),
    ONE("div", S32, "dss", div_s32),
    ONE("div", U64, "dss", div_u64),
    ONE("div", S64, "dss", div_s64),
    ONE("rem", U32, "dss", rem_u32),
    ONE("rem", S32, "dss", rem_s32),
    ONE("rem", U64, "dss", rem_u64),
    ONE("rem", S64, "dss", rem_s64),
    {"not", H16, 0, 0, "ds", not16, 0, 0},
    {"not", W32, 0, 0, "ds", not32, 0, 0},
    {"not", W64, 0, 0, "ds", not64, 0, 0},
    {"neg", SH, 0, 0, "ds", neg16, 0, 0},
    ONE("neg", S32, "ds", neg32),
    ONE("neg", S64, "ds", neg64),
    {"abs", SH, 0, 0, "ds", abs_s16, 0, 0},
    ONE("abs", S32, "ds", abs_s32),
    ONE("abs", S64, "ds", abs_s64),
    ONE("popc", B32, "ws", popc32),
    ONE("popc", B64, "ws", popc64),
    ONE("clz", B32, "ws", clz32),
    ONE("clz", B64, "ws", clz64),
    ONE("brev", B32, "ds", brev32),
    {"bfind", TYPE(U32), 0, MOD(SHIFTAMT), "ds", bfind_u32, 0, 0},
    {"bfind", TYPE(S32), 0, MOD(SHIFTAMT), "ds", bfind_s32, 0, 0},
    {"shl", TYPE(B16), 0, 0, "dsw", shl16, 0, 0},
    ONE("shl", B32, "dsw", shl32),
    ONE("shl", B64, "dsw", shl64),
    {"shr", TYPE(U16) | TYPE(B16), 0, 0, "dsw", shr_u16, 0, 0},
    {"shr", TYPE(U32) | TYPE(B32), 0, 0, "dsw", shr_u32, 0, 0},
    {"shr", TYPE(U64) | TYPE(B64), 0, 0, "dsw", shr_u64, 0, 0},
    ONE("shr", S16, "dsw", shr_s16),
    ONE("shr", S32, "dsw", shr_s32),
    ONE("shr", S64, "dsw", shr_s64),
    NEED("shf", TYPE(B32), MOD(L) | MOD(R), "dssw", funnel, MOD(WRAP) | MOD(CLAMP)),
    ONE("lop3", B32, "dsssi", lop3),
    ONE("prmt", B32, "dsss", prmt),
    {"bfe", HIGH, 0, 0, "dsww", bfe, 0, 0},
    {"bfi", TYPE(B32) | TYPE(B64), 0, 0, "dssww", bfi, 0, 0},
    {"dp4a", TYPE(U32) | TYPE(S32), TYPE(U32) | TYPE(S32), 0, "dsss", dp4a, 0, 0},
    {0},
};
