// SPDX-License-Identifier: Apache-2.0
// choice.c: comparisons, choice, predicates, moves.
#include "emu.h"

// ---- comparison and choice ---------------------------------------------------------------------
static bool compared(enum compare c, bool less, bool equal) {
    switch (c) {
    case C_EQ: return equal;
    case C_NE: return !equal;
    case C_LT: return less;
    case C_LE: return less || equal;
    case C_GT: return !less && !equal;
    default: return !less;
    }
}

// p = (a op b) and/or/xor c; the second destination holds the same of the opposite.
static void store_comparison(struct warp *w, const struct insn *i, u32 mask, u32 v) {
    u32 inverse = ~v;
    if (i->n_operands > 3) {
        u32 c = predicate(w, &i->op[3]);
        v = HAS(AND) ? v & c : HAS(OR) ? v | c : v ^ c;
        inverse = HAS(AND) ? inverse & c : HAS(OR) ? inverse | c : inverse ^ c;
    }
    if (i->op[0].kind == O_PREDICATE)
        set_predicate(w, &i->op[0], 0, mask, v);
    if (i->op[0].paired)
        set_predicate(w, &i->op[0], 1, mask, inverse);
}

// The lanes for which it holds, be they executing or not.
#define LANES_FOR(T, R, expr)                                                                      \
    for (int l = 0; l < LANES; l++) {                                                              \
        T a = (T)((const R *)x)[l], b = (T)((const R *)y)[l];                                      \
        v |= (u32)(expr) << l;                                                                     \
    }                                                                                              \
    break
// A comparison with what is no number does not hold.
#define COMPARED(name, T, R)                                                                       \
    static u32 name(enum compare c, const void *x, const void *y) {                                \
        u32 v = 0;                                                                                 \
        switch (c) {                                                                               \
        case C_EQ: LANES_FOR(T, R, a == b);                                                        \
        case C_NE: LANES_FOR(T, R, (a < b) | (a > b));                                             \
        case C_LT: LANES_FOR(T, R, a < b);                                                         \
        case C_LE: LANES_FOR(T, R, a <= b);                                                        \
        case C_GT: LANES_FOR(T, R, a > b);                                                         \
        default: LANES_FOR(T, R, a >= b);                                                          \
        }                                                                                          \
        return v;                                                                                  \
    }
COMPARED(compared_u16, u16, u32)
COMPARED(compared_s16, int16_t, u32)
COMPARED(compared_u32, u32, u32)
COMPARED(compared_s32, s32, u32)
COMPARED(compared_u64, u64, u64)
COMPARED(compared_s64, s64, u64)
COMPARED(compared_f32, float, float)

static void setp_integer(struct warp *w, const struct insn *i, u32 mask) {
    enum type t = (enum type)i->type;
    enum compare c = (enum compare)i->compare;
    const void *x = REG(1), *y = REG(2);
    bool is_signed = type_is_signed(t);
    int bytes = type_bytes(t);
    u32 v = bytes == 8   ? (is_signed ? compared_s64 : compared_u64)(c, x, y)
            : bytes == 4 ? (is_signed ? compared_s32 : compared_u32)(c, x, y)
                         : (is_signed ? compared_s16 : compared_u16)(c, x, y);
    store_comparison(w, i, mask, v);
}

static double number(const struct warp *w, const struct insn *i, int k, int l) {
    union {
        u64 bits;
        float f;
        double d;
    } v = {lane_value(w, &i->op[k], 0, l)};
    switch (i->type) {
    case T_F64: return v.d;
    case T_F16: return (double)half_to((u32)v.bits & 0xffff);
    case T_BF16: return (double)bfloat_to((u32)v.bits & 0xffff);
    default: return (double)v.f;
    }
}

static void setp_f32(struct warp *w, const struct insn *i, u32 mask) {
    const float *x = REG(1), *y = REG(2);
    enum compare c = (enum compare)i->compare;
    u32 unordered = 0;
    for (int l = 0; l < LANES; l++)
        unordered |= (u32)((x[l] != x[l]) | (y[l] != y[l])) << l;
    store_comparison(w, i, mask,
                     c == C_NUM   ? ~unordered
                     : c == C_NAN ? unordered
                                  : compared_f32(c, x, y) | (i->compare_more ? unordered : 0));
}

static void setp_float(struct warp *w, const struct insn *i, u32 mask) {
    u32 v = 0;
    enum compare c = (enum compare)i->compare;
    EACH(double a = number(w, i, 1, l); double b = number(w, i, 2, l);
         bool unordered = __builtin_isunordered(a, b);
         bool r = c == C_NUM   ? !unordered
                  : c == C_NAN ? unordered
                  : unordered  ? i->compare_more
                               : compared(c, a < b, a == b);
         v |= (u32)r << l);
    store_comparison(w, i, mask, v);
}

#define SELECT(R)                                                                                  \
    do {                                                                                           \
        R *d = REG(0);                                                                             \
        const R *x = REG(1), *y = REG(2);                                                          \
        EACH_AT_ONCE(d[l] = p >> l & 1 ? x[l] : y[l]);                                             \
    } while (0)
static void selp(struct warp *w, const struct insn *i, u32 mask) {
    u32 p = predicate(w, &i->op[3]);
    if (i->op[0].wide)
        SELECT(u64);
    else
        SELECT(u32);
}

#define LOGIC(name, expr)                                                                          \
    static void name(struct warp *w, const struct insn *i, u32 mask) {                             \
        u32 a = predicate(w, &i->op[1]), b = i->n_operands > 2 ? predicate(w, &i->op[2]) : 0;      \
        (void)b;                                                                                   \
        set_predicate(w, &i->op[0], 0, mask, expr);                                                \
    }
LOGIC(and_p, a &b)
LOGIC(or_p, a | b)
LOGIC(xor_p, a ^ b)
LOGIC(not_p, ~a)

static void mov_p(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *s = &i->op[1];
    set_predicate(w, &i->op[0], 0, mask, !s->is_imm ? predicate(w, s) : s->imm ? ALL_LANES : 0);
}

// ---- moves, packing and unpacking --------------------------------------------------------------
// A wide operand is cut, a narrow one extended by zeros.
#define MOVE(D, S)                                                                                 \
    do {                                                                                           \
        D *to = REG(0);                                                                            \
        const S *from = REG(1);                                                                    \
        EACH_AT_ONCE(to[l] = (D)from[l]);                                                          \
    } while (0)
static void move_one(struct warp *w, const struct insn *i, u32 mask) {
    if (i->op[0].wide && i->op[1].wide)
        MOVE(u64, u64);
    else if (i->op[0].wide)
        MOVE(u64, u32);
    else if (i->op[1].wide)
        MOVE(u32, u64);
    else
        MOVE(u32, u32);
}

// Two halves of 32 bits, or of a pair of 16.
static void move_pair(struct warp *w, const struct insn *i, u32 mask) {
    if (i->op[0].n == 1) {
        u32 *d = REG(0);
        const u32 *low = REGN(1, 0), *high = REGN(1, 1);
        EACH_AT_ONCE(d[l] = (low[l] & 0xffff) | high[l] << 16);
    } else {
        u32 *low = REGN(0, 0), *high = REGN(0, 1);
        const u32 *s = REG(1);
        EACH(u32 v = s[l]; low[l] = v & 0xffff; high[l] = v >> 16);
    }
}

static void mov(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *d = &i->op[0], *s = &i->op[1];
    u32 bits = 8 * (u32)type_bytes((enum type)i->type);
    if (d->n == 1 && s->n == 1) {
        move_one(w, i, mask);
        return;
    }
    if (bits == 32 && d->n + s->n == 3 && !d->wide && !s->wide) {
        move_pair(w, i, mask);
        return;
    }
    u32 part = bits / (d->n > 1 ? d->n : s->n);
    u64 low = ((u64)1 << part) - 1;
    EACH(u64 v = 0; if (s->n > 1) for (u32 n = 0; n < s->n; n++) v |= (lane_value(w, s, n, l) & low)
                                                                      << n * part;
         else v = lane_value(w, s, 0, l);
         if (d->n > 1) for (u32 n = 0; n < d->n; n++) set_lane(w, d, n, l, v >> n * part & low);
         else set_lane(w, d, 0, l, v));
}

#define INTS                                                                                       \
    (TYPE(U16) | TYPE(S16) | TYPE(B16) | TYPE(U32) | TYPE(S32) | TYPE(B32) | TYPE(U64) |           \
     TYPE(S64) | TYPE(B64))
#define ONE(name, type, form, fn)                                                                  \
    { name, TYPE(type), 0, 0, form, fn, 0, 0 }

const struct op ops_choice[] = {
    {"setp", INTS, 0, MOD(AND) | MOD(OR) | MOD(XOR), "pss?p", setp_integer, 0, 0},
    {"setp", TYPE(F32), 0, MOD(AND) | MOD(OR) | MOD(XOR) | MOD(FTZ), "pss?p", setp_f32, 0, 0},
    {"setp", TYPE(F16) | TYPE(BF16) | TYPE(F64), 0, MOD(AND) | MOD(OR) | MOD(XOR) | MOD(FTZ),
     "pss?p", setp_float, 0, 0},
    {"selp", INTS | TYPE(F32) | TYPE(F64), 0, 0, "dssp", selp, 0, 0},
    ONE("and", PRED, "ppp", and_p),
    ONE("or", PRED, "ppp", or_p),
    ONE("xor", PRED, "ppp", xor_p),
    ONE("not", PRED, "pp", not_p),
    ONE("mov", PRED, "pP", mov_p),
    {"mov", INTS | TYPE(F32) | TYPE(F64), 0, 0, "xx", mov, 0, 0},
    {0},
};
