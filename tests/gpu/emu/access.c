// SPDX-License-Identifier: Apache-2.0
// access.c: loads, stores, atomics, conversion of addresses.
#include "emu.h"

#include <string.h>

u64 lane_address(struct warp *w, const struct insn *i, int operand, int lane) {
    const struct operand *o = &i->op[operand];
    u64 a = lane_value(w, o, 0, lane) + (u64)o->imm;
    return o->wide ? a : (u32)a;
}

u64 shared_offset(const struct insn *i, u64 address) {
    (void)i;
    return (address & WINDOW_MASK) == SHARED_WINDOW ? address - SHARED_WINDOW : address;
}

static u8 *local_bytes(struct warp *w, u64 offset, u32 bytes, int lane) {
    u32 size = w->b->k->local_bytes;
    if (offset > size || bytes > size - offset)
        fault("access of %u bytes at offset %llu of %u bytes of local memory", bytes,
              (unsigned long long)offset, size);
    if (offset & (bytes - 1))
        fault("access of %u bytes at local offset %llu, which is not aligned to it", bytes,
              (unsigned long long)offset);
    return w->b->local + ((size_t)w->id * LANES + (u32)lane) * size + offset;
}

static inline void in_window(u64 *address, enum space *s) {
    u64 window = *address & WINDOW_MASK;
    if (*s == SP_GENERIC || window) {
        *s = window == SHARED_WINDOW  ? SP_SHARED
             : window == LOCAL_WINDOW ? SP_LOCAL
             : window == PARAM_WINDOW ? SP_PARAM
                                      : SP_GLOBAL;
        *address &= ~WINDOW_MASK;
    }
}

static u8 *param_bytes(struct warp *w, u64 offset, u32 bytes) {
    if (offset > w->b->k->param_bytes || bytes > w->b->k->param_bytes - offset)
        fault("read behind the parameters");
    return (u8 *)(uintptr_t)w->b->launch->params + offset;
}

u8 *space_read(struct warp *w, enum space s, u64 address, u32 bytes, int lane) {
    in_window(&address, &s);
    return s == SP_SHARED  ? shared_read(w, address, bytes, (u32)lane)
           : s == SP_LOCAL ? local_bytes(w, address, bytes, lane)
           : s == SP_PARAM ? param_bytes(w, address, bytes)
                           : global_read(w, address, bytes);
}

u8 *space_write(struct warp *w, enum space s, u64 address, u32 bytes, int lane) {
    in_window(&address, &s);
    if (s == SP_CONST || s == SP_PARAM)
        fault("write to constant memory");
    return s == SP_SHARED  ? shared_write(w, address, bytes, (u32)lane)
           : s == SP_LOCAL ? local_bytes(w, address, bytes, lane)
                           : global_write(w, address, bytes);
}

// ---- ld and st ---------------------------------------------------------------------------------
// Where the bytes of each lane are.
struct places {
    u64 address[LANES];
    u8 *at[LANES];
    bool row; // side by side, from the first lane on
};

static void addresses(const struct warp *w, const struct operand *o, u64 *address) {
    const u64 *wide = (const void *)(w->reg + o->r[0]);
    const u32 *narrow = (const void *)wide;
    if (o->wide)
        for (int l = 0; l < LANES; l++)
            address[l] = wide[l] + (u64)o->imm;
    else
        for (int l = 0; l < LANES; l++)
            address[l] = (u32)(narrow[l] + (u64)o->imm);
}

// Do lanes of mask differ from a row whose lanes are `step` apart?
static bool is_row(const u64 *address, u32 mask, u32 step) {
    u64 first = address[__builtin_ctz(mask)] - (u64)__builtin_ctz(mask) * step, other = 0;
    for (u32 l = 0; l < LANES; l++)
        other |= (address[l] ^ (first + l * step)) & (0 - (u64)(mask >> l & 1));
    return !other;
}
static bool is_contiguous(u32 mask) {
    u32 low = mask & -mask;
    return ((mask + low) & mask) == 0;
}

// The bytes of lanes that lie side by side; NULL: a check of each lane will show why not.
static u8 *row_bytes(struct warp *w, enum space s, u64 at, u32 each, u32 first, u32 lanes,
                     bool write) {
    if (s == SP_SHARED)
        return write ? shared_write_row(w, at, each, first, lanes)
                     : shared_read_row(w, at, each, first, lanes);
    if (s != SP_GLOBAL && (s != SP_CONST || write))
        return NULL;
    return write ? global_write_row(w, at, each, lanes) : global_read_row(w, at, each, lanes);
}

// One check for all lanes of mask: of bytes side by side, or of the same bytes. False: lane by
// lane.
static bool at_once(struct warp *w, const struct insn *i, struct places *p, u32 mask, u32 bytes,
                    bool write) {
    u32 first = (u32)__builtin_ctz(mask), lanes = (u32)__builtin_popcount(mask);
    enum space s = (enum space)i->space;
    u64 at = p->address[first];
    u8 *to = NULL;
    bool row = is_contiguous(mask) && is_row(p->address, mask, bytes);
    if (!row && (write || lanes == 1 || !is_row(p->address, mask, 0)))
        return false;
    in_window(&at, &s);
    if (row)
        to = row_bytes(w, s, at, bytes, first, lanes, write);
    else if (s == SP_SHARED)
        to = shared_read(w, at, bytes, LANES);
    else if (s == SP_GLOBAL || s == SP_CONST)
        to = global_read(w, at, bytes);
    if (!to)
        return false;
    for (u32 l = 0; l < LANES; l++)
        p->at[l] = row ? to + ((s64)l - first) * bytes : to;
    p->row = row;
    if (counting)
        count_row(i, p->address[first], lanes, bytes, row);
    return true;
}

// How many lanes from l on, all of mask, have addresses that are `step` apart.
static int run_of(const u64 *address, u32 mask, int l, u32 step) {
    int n = 1;
    while (l + n < LANES && (mask >> (l + n) & 1) && address[l + n] == address[l] + (u64)n * step)
        n++;
    return n;
}

// The lanes from l on that have one check of the block's or the device's memory: returns how many.
static int some(struct warp *w, const struct insn *i, struct places *p, u32 mask, u32 bytes,
                bool write, int l) {
    u64 at = p->address[l];
    bool alone = (i->space != SP_SHARED && i->space != SP_GLOBAL) || (at & WINDOW_MASK);
    int same = alone || write ? 1 : run_of(p->address, mask, l, 0);
    int row = alone || same > 1 ? 1 : run_of(p->address, mask, l, bytes);
    u8 *to =
        row == 1 ? NULL : row_bytes(w, (enum space)i->space, at, bytes, (u32)l, (u32)row, write);
    int n = to ? row : same;
    u32 step = to ? bytes : 0;
    if (!to)
        to = write ? space_write(w, (enum space)i->space, at, bytes, l)
                   : space_read(w, (enum space)i->space, at, bytes, same > 1 ? LANES : l);
    for (int q = 0; q < n; q++)
        p->at[l + q] = to + (u32)q * step;
    return n;
}

static void places(struct warp *w, const struct insn *i, int operand, u32 mask, u32 bytes,
                   bool write, struct places *p) {
    addresses(w, &i->op[operand], p->address);
    if (at_once(w, i, p, mask, bytes, write))
        return;
    p->row = false;
    for (int l = 0; l < LANES;)
        l += mask >> l & 1 ? some(w, i, p, mask, bytes, write, l) : 1;
    if (counting)
        count_lanes(i, p->address, mask, bytes);
}

// A loaded value fills its register: with the sign, or with zeros. The copies are of constant
// sizes: a wide read of what was just written in parts waits for it.
#define LOAD(type, R)                                                                              \
    do {                                                                                           \
        R *to = (R *)(void *)(w->reg + d->r[n]);                                                   \
        EACH(type v; memcpy(&v, at[l] + skip, sizeof v); to[l] = (R)v);                            \
    } while (0)
#define LOAD_AS(type)                                                                              \
    do {                                                                                           \
        if (d->wide)                                                                               \
            LOAD(type, u64);                                                                       \
        else                                                                                       \
            LOAD(type, u32);                                                                       \
    } while (0)
static void load(struct warp *w, const struct operand *d, u32 n, enum type t, u8 *const *at,
                 u32 skip, u32 mask) {
    bool is_signed = type_is_signed(t);
    switch (type_bytes(t)) {
    case 1:
        if (is_signed)
            LOAD_AS(int8_t);
        else
            LOAD_AS(u8);
        break;
    case 2:
        if (is_signed)
            LOAD_AS(int16_t);
        else
            LOAD_AS(u16);
        break;
    case 4:
        if (is_signed)
            LOAD_AS(s32);
        else
            LOAD_AS(u32);
        break;
    default: LOAD_AS(u64);
    }
}

#define STORE(type) EACH(type v = (type)lane_value(w, s, n, l); memcpy(at[l] + skip, &v, sizeof v))
static void store(const struct warp *w, const struct operand *s, u32 n, u32 bytes, u8 *const *at,
                  u32 skip, u32 mask) {
    switch (bytes) {
    case 1: STORE(u8); break;
    case 2: STORE(u16); break;
    case 4: STORE(u32); break;
    default: STORE(u64);
    }
}

// The bytes of all lanes are those of a register, as they lie there.
static bool is_register(const struct places *p, const struct operand *o, u32 mask, u32 bytes) {
    return p->row && mask == ALL_LANES && o->n == 1 && bytes == (o->wide ? 8 : 4);
}

static void vector_size(const struct insn *i, const struct operand *o) {
    u32 n = HAS(V2) ? 2 : HAS(V4) ? 4 : 1;
    if (o->n != n)
        fault("'%s' has %u registers", i->name, o->n);
}

static void ld(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *d = &i->op[0];
    u32 one = (u32)type_bytes((enum type)i->type), bytes = one * d->n;
    struct places p;
    vector_size(i, d);
    if (i->mods & (MOD(ACQUIRE) | MOD(VOLATILE) | MOD(RELAXED)))
        w->b->synchronised = true;
    places(w, i, 1, mask, bytes, false, &p);
    if (is_register(&p, d, mask, bytes))
        memcpy(REG(0), p.at[0], (size_t)bytes * LANES);
    else
        for (u32 n = 0; n < d->n; n++)
            load(w, d, n, (enum type)i->type, p.at, n * one, mask);
}

// Parameters are the same for all lanes.
static void ld_param(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *d = &i->op[0];
    u32 one = (u32)type_bytes((enum type)i->type), bytes = one * d->n;
    u64 address[LANES];
    u8 *at[LANES];
    vector_size(i, d);
    addresses(w, &i->op[1], address);
    for (u32 todo = is_row(address, mask, 0) ? mask & -mask : mask; todo; todo &= todo - 1)
        if (address[__builtin_ctz(todo)] + bytes > w->b->k->param_bytes)
            fault("read behind the parameters");
    for (int l = 0; l < LANES; l++)
        at[l] = (u8 *)(uintptr_t)w->b->launch->params + address[l];
    for (u32 n = 0; n < d->n; n++)
        load(w, d, n, (enum type)i->type, at, n * one, mask);
}

static bool same_values(const struct warp *w, const struct operand *s, u32 one, int a, int b) {
    u64 differ = 0;
    for (u32 n = 0; n < s->n; n++)
        differ |= lane_value(w, s, n, a) ^ lane_value(w, s, n, b);
    return !(one < 8 ? differ << (64 - 8 * one) : differ);
}

// Several lanes that write one address leave what one of them wrote, and no rule says whose. Where
// all write the same, that is what they leave, which a launch may allow.
static void one_lane_each(const struct warp *w, const struct insn *i, const u64 *address,
                          u32 mask) {
    u32 one = (u32)type_bytes((enum type)i->type);
    u64 last = 0;
    bool ascending = true;
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1) {
            ascending &= address[l] > last;
            last = address[l];
        }
    for (int l = 0; l < LANES && !ascending; l++)
        for (int other = 0; other < l; other++)
            if ((mask >> l & 1) && (mask >> other & 1) && address[l] == address[other] &&
                !(w->b->launch->same_values && same_values(w, &i->op[1], one, l, other)))
                fault("race: lanes %d and %d of the warp write one address", other, l);
}

static void st(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *s = &i->op[1];
    u32 one = (u32)type_bytes((enum type)i->type), bytes = one * s->n;
    struct places p;
    vector_size(i, s);
    w->storing = mask;
    places(w, i, 0, mask, bytes, true, &p);
    w->storing = 0;
    if (is_register(&p, s, mask, bytes))
        memcpy(p.at[0], REG(1), (size_t)bytes * LANES);
    else
        for (u32 n = 0; n < s->n; n++)
            store(w, s, n, one, p.at, n * one, mask);
    if (!p.row && (i->space == SP_GLOBAL || i->space == SP_SHARED))
        one_lane_each(w, i, p.address, mask);
}

bool store_keeps(struct warp *w, u64 from, u64 end) {
    const struct insn *i = w->at;
    const struct operand *s = &i->op[1];
    u32 one = (u32)type_bytes((enum type)i->type), mask = w->storing, other = 0;
    EACH(u64 first = shared_offset(i, lane_address(w, i, 0, l));
         for (u32 k = 0; k < one * s->n; k++) {
             u64 at = first + k;
             if (at >= from && at < end)
                 other |= w->b->shared[at] ^ (u8)(lane_value(w, s, k / one, l) >> k % one * 8);
         });
    return w->b->launch->same_values && mask && !other;
}

// ---- atomics -----------------------------------------------------------------------------------
static u64 sum(u64 a, u64 b, enum type t) {
    float f[2];
    double d[2];
    if (t == T_F32) {
        u32 x[2] = {(u32)a, (u32)b};
        memcpy(f, x, sizeof f);
        f[0] += f[1];
        memcpy(x, f, sizeof *x);
        return x[0];
    }
    if (t == T_F64) {
        u64 x[2] = {a, b};
        memcpy(d, x, sizeof d);
        d[0] += d[1];
        memcpy(x, d, sizeof *x);
        return x[0];
    }
    return a + b;
}

static bool less(u64 a, u64 b, enum type t) {
    return t == T_S32 ? (s32)a < (s32)b : t == T_S64 ? (s64)a < (s64)b : a < b;
}

static u64 combined(const struct insn *i, u64 old, u64 b, u64 c) {
    enum type t = (enum type)i->type;
    if (HAS(ADD))
        return sum(old, b, t);
    if (HAS(MIN))
        return less(b, old, t) ? b : old;
    if (HAS(MAX))
        return less(old, b, t) ? b : old;
    if (HAS(CAS))
        return old == b ? c : old;
    if (HAS(INC))
        return (u32)old >= (u32)b ? 0 : old + 1;
    if (HAS(DEC))
        return (u32)old == 0 || (u32)old > (u32)b ? b : old - 1;
    return HAS(AND) ? old & b : HAS(OR) ? old | b : HAS(XOR) ? old ^ b : b;
}

static void atomic(struct warp *w, const struct insn *i, u32 mask, int at) {
    u32 bytes = (u32)type_bytes((enum type)i->type);
    EACH(u64 a = lane_address(w, i, at, l); enum space s = (enum space)i->space; in_window(&a, &s);
         u8 *p = s == SP_SHARED ? shared_atomic(w, a, bytes, (u32)l) : global_atomic(w, a, bytes);
         u64 old = 0; memcpy(&old, p, bytes); u64 b = lane_value(w, &i->op[at + 1], 0, l);
         u64 c = i->n_operands > at + 2 ? lane_value(w, &i->op[at + 2], 0, l) : 0;
         u64 v = combined(i, old, b, c); memcpy(p, &v, bytes);
         if (at) set_lane(w, &i->op[0], 0, l, old));
}
static void atom(struct warp *w, const struct insn *i, u32 mask) {
    w->b->synchronised = true;
    atomic(w, i, mask, 1);
}
static void red(struct warp *w, const struct insn *i, u32 mask) {
    atomic(w, i, mask, 0);
}

// ---- addresses ---------------------------------------------------------------------------------
static void cvta(struct warp *w, const struct insn *i, u32 mask) {
    u64 window = i->space == SP_SHARED  ? SHARED_WINDOW
                 : i->space == SP_LOCAL ? LOCAL_WINDOW
                 : i->space == SP_PARAM ? PARAM_WINDOW
                                        : 0;
    bool to = HAS(TO);
    EACH(u64 a = lane_value(w, &i->op[1], 0, l);
         set_lane(w, &i->op[0], 0, l, to ? a - window : a + window));
}

#define SPACES (MOD(GLOBAL) | MOD(SHARED) | MOD(LOCAL))
#define ORDER                                                                                      \
    (MOD(WEAK) | MOD(RELAXED) | MOD(VOLATILE) | MOD(CTA) | MOD(GPU) | MOD(SYS) | MOD(HINT))
#define ANY_TYPE                                                                                   \
    (TYPE(B8) | TYPE(U8) | TYPE(S8) | TYPE(B16) | TYPE(U16) | TYPE(S16) | TYPE(B32) | TYPE(U32) |  \
     TYPE(S32) | TYPE(F32) | TYPE(B64) | TYPE(U64) | TYPE(S64) | TYPE(F64))
#define ATOMIC_MODS                                                                                \
    (MOD(GLOBAL) | MOD(SHARED) | MOD(RELAXED) | MOD(ACQUIRE) | MOD(RELEASE) | MOD(ACQ_REL) |       \
     MOD(CTA) | MOD(GPU) | MOD(SYS))
#define BITWISE (MOD(AND) | MOD(OR) | MOD(XOR))
#define WORDS   (TYPE(U32) | TYPE(S32) | TYPE(U64) | TYPE(S64))
#define ATOM(types, needs)                                                                         \
    {"atom", types, 0, ATOMIC_MODS, "dms", atom, 0, needs}, {                                      \
        "red", types, 0, ATOMIC_MODS, "ms", red, 0, needs                                          \
    }

const struct op ops_access[] = {
    {"ld", ANY_TYPE, 0,
     SPACES | MOD(CONST) | ORDER | MOD(ACQUIRE) | MOD(CA) | MOD(CG) | MOD(CS) | MOD(LU) | MOD(CV) |
         MOD(NC) | MOD(V2) | MOD(V4),
     "xm", ld, 0, 0},
    {"ld", ANY_TYPE, 0, MOD(V2) | MOD(V4), "xm", ld_param, 0, MOD(PARAM)},
    {"ldu", ANY_TYPE, 0, MOD(GLOBAL) | MOD(V2) | MOD(V4), "xm", ld, 0, 0},
    {"st", ANY_TYPE, 0,
     SPACES | ORDER | MOD(RELEASE) | MOD(WB) | MOD(CG) | MOD(CS) | MOD(WT) | MOD(V2) | MOD(V4),
     "mx", st, 0, 0},
    ATOM(WORDS | TYPE(F32) | TYPE(F64), MOD(ADD)),
    ATOM(WORDS, MOD(MIN) | MOD(MAX)),
    ATOM(TYPE(U32), MOD(INC) | MOD(DEC)),
    ATOM(TYPE(B32) | TYPE(B64), BITWISE),
    {"atom", TYPE(B32) | TYPE(B64), 0, ATOMIC_MODS, "dms", atom, 0, MOD(EXCH)},
    {"atom", TYPE(B32) | TYPE(B64), 0, ATOMIC_MODS, "dmss", atom, 0, MOD(CAS)},
    {"cvta", TYPE(U64) | TYPE(U32), 0, MOD(TO), "ds", cvta, 0, SPACES | MOD(CONST) | MOD(PARAM)},
    {0},
};
