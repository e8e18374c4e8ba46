// SPDX-License-Identifier: Apache-2.0
// warp.c: what the lanes of a warp do together: shuffles, votes, matches, reductions.
#include "emu.h"

void lanes_named(const struct warp *w, u32 member, u32 mask) {
    if (mask & ~member)
        fault("lanes %08x execute '%s', which names %08x", mask, w->at->name, member);
    if (member & ~mask)
        fault("'%s' names lanes %08x, of which only %08x are here: divergent code", w->at->name,
              member, mask);
}

static void same_member(const struct warp *w, const struct insn *i, const struct operand *o,
                        u32 mask) {
    (void)i;
    if (o->is_imm)
        lanes_named(w, (u32)o->imm, mask);
    else
        EACH(lanes_named(w, (u32)lane_value(w, o, 0, l), mask));
}

struct source {
    int lane;
    bool in_range;
};

enum way { UP, DOWN, BFLY, IDX };

static inline struct source shuffle_source(enum way way, int lane, u32 b, u32 c) {
    u32 self = (u32)lane, clamp = c & 31, segment = c >> 8 & 31;
    int by = (int)(b & 31), most = (int)((self & segment) | (clamp & ~segment));
    int least = (int)(self & segment);
    if (way == UP)
        return (struct source){lane - by, lane - by >= most};
    if (way == DOWN)
        return (struct source){lane + by, lane + by <= most};
    if (way == BFLY)
        return (struct source){lane ^ by, (lane ^ by) <= most};
    int from = least | (by & ~(int)segment);
    return (struct source){from, from <= most};
}

// Returns the lanes whose source is in range.
static inline u32 shuffle(const struct insn *i, u32 mask, enum way way, u32 *d, const u32 *a,
                          const u32 *b, const u32 *c) {
    u32 was[LANES], in_range = 0;
    memcpy(was, a, sizeof was);
    EACH(struct source s = shuffle_source(way, l, b[l], c[l]);
         if (s.in_range && !(mask >> s.lane & 1))
             fault("lane %d reads lane %d, which does not execute '%s'", l, s.lane, i->name);
         d[l] = was[s.in_range ? s.lane : l]; in_range |= (u32)s.in_range << l);
    return in_range;
}

static void shfl(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0), in_range;
    const u32 *a = REG(1), *b = REG(2), *c = REG(3);
    same_member(w, i, &i->op[4], mask);
    in_range = HAS(BFLY)   ? shuffle(i, mask, BFLY, d, a, b, c)
               : HAS(DOWN) ? shuffle(i, mask, DOWN, d, a, b, c)
               : HAS(UP)   ? shuffle(i, mask, UP, d, a, b, c)
                           : shuffle(i, mask, IDX, d, a, b, c);
    if (i->op[0].paired)
        set_predicate(w, &i->op[0], 1, mask, in_range);
}

static void vote(struct warp *w, const struct insn *i, u32 mask) {
    u32 v = predicate(w, &i->op[1]) & mask;
    same_member(w, i, &i->op[2], mask);
    if (HAS(BALLOT)) {
        u32 *d = REG(0);
        EACH(d[l] = v);
        return;
    }
    bool holds = HAS(ALL) ? v == mask : HAS(ANY) ? v != 0 : v == 0 || v == mask;
    set_predicate(w, &i->op[0], 0, mask, holds ? mask : 0);
}

// match.any: the lanes with an equal value; match.all: every lane, if all are equal.
static void match(struct warp *w, const struct insn *i, u32 mask) {
    u32 equal[LANES] = {0}, all = 0;
    same_member(w, i, &i->op[2], mask);
    EACH(for (int q = 0; q < LANES; q++) if ((mask >> q & 1) && lane_value(w, &i->op[1], 0, q) ==
                                                                    lane_value(w, &i->op[1], 0, l))
             equal[l] |= 1u << q);
    EACH(if (HAS(ALL) && equal[l] != mask) equal[l] = 0; all |= equal[l];
         set_lane(w, &i->op[0], 0, l, equal[l]));
    if (i->op[0].paired)
        set_predicate(w, &i->op[0], 1, mask, all ? mask : 0);
}

static void redux(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0), v = 0;
    const u32 *a = REG(1);
    bool first = true;
    same_member(w, i, &i->op[2], mask);
    EACH(bool less = i->type == T_S32 ? (s32)a[l] < (s32)v : a[l] < v;
         v = first      ? a[l]
             : HAS(ADD) ? v + a[l]
             : HAS(MIN) ? (less ? a[l] : v)
             : HAS(MAX) ? (less ? v : a[l])
             : HAS(AND) ? v & a[l]
             : HAS(OR)  ? v | a[l]
                        : v ^ a[l];
         first = false);
    EACH(d[l] = v);
}

static void activemask(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0);
    EACH(d[l] = mask);
}

// One of the lanes named; the same one whenever the same lanes are named. No rule says which.
static void elect(struct warp *w, const struct insn *i, u32 mask) {
    u32 *d = REG(0), named = mask, skip;
    if (!i->op[0].paired)
        fault("'%s' without a predicate", i->name);
    same_member(w, i, &i->op[1], mask);
    skip = (u32)(w->b->launch->seed % (u32)__builtin_popcount(mask));
    while (skip--)
        named &= named - 1;
    u32 leader = (u32)__builtin_ctz(named);
    EACH(d[l] = leader);
    set_predicate(w, &i->op[0], 1, mask, 1u << leader);
}

static void syncwarp(struct warp *w, const struct insn *i, u32 mask) {
    same_member(w, i, &i->op[0], mask);
    span_begin(w);
}

#define MODES (MOD(UP) | MOD(DOWN) | MOD(BFLY) | MOD(IDX))
const struct op ops_warp[] = {
    {"shfl", TYPE(B32), 0, MOD(SYNC), "dswww", shfl, 0, MODES},
    {"vote", TYPE(PRED), 0, MOD(SYNC), "ppw", vote, 0, MOD(ALL) | MOD(ANY) | MOD(UNI)},
    {"vote", TYPE(B32), 0, MOD(SYNC), "dpw", vote, 0, MOD(BALLOT)},
    {"match", TYPE(B32) | TYPE(B64), 0, MOD(SYNC), "wsw", match, 0, MOD(ANY) | MOD(ALL)},
    {"redux", TYPE(U32) | TYPE(S32), 0, MOD(SYNC), "dsw", redux, 0, MOD(ADD) | MOD(MIN) | MOD(MAX)},
    {"redux", TYPE(B32), 0, MOD(SYNC), "dsw", redux, 0, MOD(AND) | MOD(OR) | MOD(XOR)},
    {"elect", 0, 0, 0, "xw", elect, 0, MOD(SYNC)},
    {"activemask", TYPE(B32), 0, 0, "d", activemask, 0, 0},
    {"bar", 0, 0, MOD(SYNC), "w", syncwarp, 0, MOD(WARP)},
    {0},
};
