// SPDX-License-Identifier: Apache-2.0
// mbarrier.c: mbarriers of a block. A phase is complete when all threads have arrived that it
// expects, and its tx-count, the bytes that are expected and have not come, is zero. The next one
// begins at once. Between phases the tx-count may be below zero: bytes may come before a thread
// says that it expects them.
#include "emu.h"

#include <string.h>

enum { COUNT_MAX = (1 << 20) - 1, MBARRIER_BYTES = 8 };

struct mbarrier *mbarrier_at(struct block *b, u64 offset) {
    for (u32 n = 0; n < b->n_mbarriers; n++)
        if (b->mbarrier[n].address == offset)
            return &b->mbarrier[n];
    fault("no mbarrier was initialised at shared offset %llu", (unsigned long long)offset);
}

static void turn(struct block *b, struct mbarrier *m) {
    if (m->pending || m->bytes)
        return;
    m->phase++;
    m->pending = m->expected;
    clock_join(m->published, m->clock);
    b->progress++;
}

void mbarrier_bytes(struct block *b, struct mbarrier *m, s64 n) {
    m->bytes += n;
    if (m->bytes > COUNT_MAX || m->bytes < -COUNT_MAX)
        fault("an mbarrier with a tx-count of %lld", (long long)m->bytes);
    turn(b, m);
}

void mbarrier_arrive(struct warp *w, struct mbarrier *m, u32 n, bool releases) {
    if (n == 0 || n > m->pending)
        fault("%u arrivals at an mbarrier that expects %u more", n, m->pending);
    if (releases) {
        clock_join(m->clock, w->clock);
        clock_tick(w);
    }
    m->pending -= n;
    turn(w->b, m);
}

// ---- lanes -------------------------------------------------------------------------------------
static int first(u32 mask) {
    return __builtin_ctz(mask);
}

// The lane that accesses an mbarrier, or all.
static u32 who(u32 mask) {
    return mask & (mask - 1) ? LANES : (u32)first(mask);
}

static u64 where(struct warp *w, const struct insn *i, int k, u32 mask) {
    u64 at = shared_offset(i, lane_address(w, i, k, first(mask)));
    EACH(if (shared_offset(i, lane_address(w, i, k, l)) != at)
             fault("lanes use several mbarriers at once"));
    return at;
}

// The initialisation must have been seen: a barrier is needed between it and the first use.
struct mbarrier *mbarrier_used(struct warp *w, const struct insn *i, int k, u32 mask) {
    u64 at = where(w, i, k, mask);
    struct mbarrier *m = mbarrier_at(w->b, at);
    shared_mbarrier_used(w, at, MBARRIER_BYTES, who(mask));
    return m;
}

void mbarrier_fence(struct warp *w, u32 mask) {
    for (u32 n = 0; n < w->b->n_mbarriers; n++) {
        struct mbarrier *m = &w->b->mbarrier[n];
        m->fenced |= m->warp == w->id && (m->lanes & ~mask) == 0;
    }
}

// ---- instructions ------------------------------------------------------------------------------
static void init(struct warp *w, const struct insn *i, u32 mask) {
    struct block *b = w->b;
    u64 at = where(w, i, 0, mask);
    u32 count = (u32)lane_value(w, &i->op[1], 0, first(mask));
    if (count == 0 || count > COUNT_MAX)
        fault("an mbarrier for %u arrivals", count);
    for (u32 n = 0; n < b->n_mbarriers; n++)
        if (b->mbarrier[n].address == at)
            fault("the mbarrier at shared offset %llu is initialised twice",
                  (unsigned long long)at);
    shared_mbarrier_begins(w, at, MBARRIER_BYTES, who(mask));
    b->mbarrier = grown(b->mbarrier, b->n_mbarriers, &b->mbarriers_cap, sizeof *b->mbarrier);
    b->mbarrier[b->n_mbarriers++] = (struct mbarrier){
        .address = at, .expected = count, .pending = count, .warp = w->id, .lanes = mask};
}

static void inval(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_used(w, i, 0, mask);
    shared_mbarrier_ends(w, m->address, MBARRIER_BYTES, who(mask));
    *m = w->b->mbarrier[--w->b->n_mbarriers];
}

static void arrive(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_used(w, i, 1, mask);
    u32 lanes = (u32)__builtin_popcount(mask), n = 0, phase = m->phase;
    const struct operand *third = i->n_operands > 2 ? &i->op[2] : NULL;
    if (HAS(EXPECT_TX) && !third)
        fault("'%s' does not say how many bytes", i->name);
    EACH(n += third && !HAS(EXPECT_TX) ? (u32)lane_value(w, third, 0, l) : 1);
    if (HAS(EXPECT_TX))
        EACH(m->bytes += (s64)lane_value(w, third, 0, l));
    if (m->bytes > COUNT_MAX || n < lanes)
        fault("'%s' of %lld bytes and %u arrivals", i->name, (long long)m->bytes, n);
    mbarrier_arrive(w, m, n, !HAS(RELAXED));
    EACH(set_lane(w, &i->op[0], 0, l, phase));
}

static void expect_tx(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_used(w, i, 0, mask);
    EACH(mbarrier_bytes(w->b, m, (s64)lane_value(w, &i->op[1], 0, l)));
}

// Phases that were complete before the last one are not known any more.
static bool is_complete(const struct insn *i, const struct mbarrier *m, u32 phase) {
    if (HAS(PARITY)) {
        if (phase > 1)
            fault("'%s' with a parity of %u", i->name, phase);
        return (m->phase & 1) != phase;
    }
    if (m->phase - phase > 1)
        fault("'%s' for phase %u of an mbarrier in phase %u", i->name, phase, m->phase);
    return m->phase != phase;
}

// A wait for a phase that is not complete lets other warps run.
static void wait(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_used(w, i, 1, mask);
    u32 done = 0;
    EACH(done |= (u32)is_complete(i, m, (u32)lane_value(w, &i->op[2], 0, l)) << l);
    set_predicate(w, &i->op[0], 0, mask, done);
    if (done & mask)
        m->seen = m->phase;
    if ((done & mask) && !HAS(RELAXED))
        clock_learn(w, m->published);
    w->awaits = (done & mask) == mask ? -1 : (s64)m->address;
    if ((done & mask) != mask)
        w->stop = STOP_YIELD;
}

bool mbarrier_is_wait(const struct insn *i) {
    return strncmp(i->name, "mbarrier.t", 10) == 0;
}
void mbarrier_pass(struct warp *w, const struct insn *i, u32 mask) {
    set_predicate(w, &i->op[0], 0, mask, mask);
}

// Else the memory could be another block's when the bytes come.
void mbarrier_end(struct block *b) {
    for (u32 n = 0; n < b->n_mbarriers; n++)
        if (b->mbarrier[n].filled > b->mbarrier[n].seen)
            fault("block (%u, %u, %u) of '%s' ends with bulk copies that it did not wait for",
                  b->index[0], b->index[1], b->index[2], b->k->name);
}

bool mbarriers_awaited(const struct block *b) {
    for (u32 n = 0; n < b->n_warps; n++)
        if (b->warp[n].live && b->warp[n].stop != STOP_BARRIER && b->warp[n].awaits < 0)
            return false;
    return true;
}

void mbarrier_deadlock(struct block *b) {
    for (u32 n = 0; n < b->n_warps; n++) {
        const struct warp *w = &b->warp[n];
        if (!w->live || w->awaits < 0 || w->stop == STOP_BARRIER)
            continue;
        const struct mbarrier *m = mbarrier_at(b, (u64)w->awaits);
        fault("deadlock: warp %u waits for an mbarrier that nobody completes, at shared offset "
              "%llu: phase %u expects %u more arrivals and %lld more bytes",
              n, (unsigned long long)m->address, m->phase, m->pending, (long long)m->bytes);
    }
}

#define SPACE  (MOD(SHARED) | MOD(CTA) | MOD(CLUSTER))
#define ORDERS (MOD(RELEASE) | MOD(ACQUIRE) | MOD(RELAXED))
const struct op ops_mbarrier[] = {
    {"mbarrier", TYPE(B64), 0, SPACE, "mw", init, 0, MOD(INIT)},
    {"mbarrier", TYPE(B64), 0, SPACE, "m", inval, 0, MOD(INVAL)},
    {"mbarrier", TYPE(B64), 0, SPACE | ORDERS | MOD(EXPECT_TX), "dm?w", arrive, 0, MOD(ARRIVE)},
    {"mbarrier", TYPE(B64), 0, SPACE | ORDERS, "mw", expect_tx, 0, MOD(EXPECT_TX)},
    {"mbarrier", TYPE(B64), 0, SPACE | ORDERS | MOD(PARITY), "pmx?w", wait, F_MAY_STOP,
     MOD(TRY_WAIT) | MOD(TEST_WAIT)},
    {0},
};
