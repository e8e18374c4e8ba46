// SPDX-License-Identifier: Apache-2.0
// async.c: asynchronous copies to shared memory: cp.async, cp.async.bulk, and the mbarriers that
// count them. Data arrives only when a thread waits for it.
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { MBARRIER_COUNT_MAX = (1 << 20) - 1, MBARRIER_BYTES = 8 };

static void append(struct copy **list, u32 *n, u32 *cap, struct copy c) {
    if (*n == *cap) {
        *cap = *cap ? 2 * *cap : 64;
        *list = realloc(*list, *cap * sizeof **list);
        if (!*list)
            abort();
    }
    (*list)[(*n)++] = c;
}

void async_complete(struct warp *w, struct copy *c) {
    struct block *b = w->b;
    if (c->bytes) {
        u32 whole = c->from_bytes & -c->from_bytes;
        for (u32 n = 0; n < c->from_bytes; n += whole)
            memcpy(b->shared + c->to + n, global_read(w, c->from + n, whole), whole);
        memset(b->shared + c->to + c->from_bytes, 0, c->bytes - c->from_bytes);
        shared_arrived(w, c->to, c->bytes, c->lane);
        return;
    }
    struct mbarrier *m = &b->mbarrier[c->mbarrier]; // the arrival behind the copies
    clock_join(m->clock, w->clock);
    clock_tick(w);
    m->pending--;
    mbarrier_turn(b, m);
}

static void cp_async(struct warp *w, const struct insn *i, u32 mask) {
    u32 bytes = (u32)i->op[2].imm;
    u64 source[LANES], place[LANES];
    u32 reads = 0; // lanes that read all of their bytes
    if (bytes != 4 && bytes != 8 && bytes != 16)
        fault("cp.async of %u bytes", bytes);
    EACH(u64 to = place[l] = shared_offset(i, lane_address(w, i, 0, l));
         u32 from_bytes = i->n_operands > 3 ? (u32)lane_value(w, &i->op[3], 0, l) : bytes;
         source[l] = lane_address(w, i, 1, l);
         if (from_bytes > bytes) fault("cp.async of %u bytes from %u bytes", bytes, from_bytes);
         if (source[l] & (bytes - 1))
             fault("cp.async of %u bytes from an address that is not aligned to it", bytes);
         if (from_bytes == bytes) {
             reads |= 1u << l;
             global_read(w, source[l], bytes);
         } shared_begin(w, to, bytes, (u32)l);
         append(&w->copies, &w->n_copies, &w->copies_cap,
                (struct copy){(u32)to, bytes, from_bytes, source[l], w->committed, -1, (u32)l}));
    count_global(source, reads, bytes);
    count_shared(place, mask, bytes);
}

static void commit_group(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    if (mask != w->live)
        fault("cp.async.commit_group in divergent code, which is not modelled");
    w->committed++;
}

// The first `n` copies arrive.
static void arrive_first(struct warp *w, u32 n) {
    for (u32 q = 0; q < n; q++)
        async_complete(w, &w->copies[q]);
    w->n_copies -= n;
    memmove(w->copies, w->copies + n, w->n_copies * sizeof *w->copies);
}

static void wait_group(struct warp *w, const struct insn *i, u32 mask) {
    u32 may_stay = (u32)i->op[0].imm, n = 0;
    (void)mask;
    while (n < w->n_copies && w->copies[n].group + may_stay < w->committed)
        n++;
    if (n)
        arrive_first(w, n);
}

static void wait_all(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    (void)mask;
    if (w->n_copies)
        arrive_first(w, w->n_copies);
}

void async_end(struct warp *w) {
    if (w->n_copies)
        fault("the warp ends with %u copies of cp.async that it did not wait for", w->n_copies);
    if (w->n_products)
        fault("the warp ends with %u wgmma.mma_async that it did not wait for", w->n_products);
}

// ---- mbarrier ----------------------------------------------------------------------------------
struct mbarrier *mbarrier_at(struct block *b, u64 offset) {
    for (u32 n = 0; n < b->n_mbarriers; n++)
        if (b->mbarrier[n].address == offset)
            return &b->mbarrier[n];
    fault("no mbarrier was initialised at shared offset %llu", (unsigned long long)offset);
}

// Starts the next phase when all have arrived and all bytes are there.
void mbarrier_turn(struct block *b, struct mbarrier *m) {
    if (m->pending || m->bytes)
        return;
    m->phase++;
    m->pending = m->expected;
    clock_join(m->published, m->clock);
    b->progress++;
}

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

static void init(struct warp *w, const struct insn *i, u32 mask) {
    struct block *b = w->b;
    u64 at = where(w, i, 0, mask);
    u32 count = (u32)lane_value(w, &i->op[1], 0, first(mask));
    if (count == 0 || count > MBARRIER_COUNT_MAX)
        fault("an mbarrier for %u arrivals", count);
    shared_write(w, at, MBARRIER_BYTES, who(mask));
    for (u32 n = 0; n < b->n_mbarriers; n++)
        if (b->mbarrier[n].address == at)
            fault("the mbarrier at shared offset %llu is initialised twice",
                  (unsigned long long)at);
    if (b->n_mbarriers == b->mbarriers_cap) {
        b->mbarriers_cap = b->mbarriers_cap ? 2 * b->mbarriers_cap : 8;
        b->mbarrier = realloc(b->mbarrier, b->mbarriers_cap * sizeof *b->mbarrier);
        if (!b->mbarrier)
            abort();
    }
    b->mbarrier[b->n_mbarriers++] =
        (struct mbarrier){.address = at, .expected = count, .pending = count};
}

static void inval(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_at(w->b, where(w, i, 0, mask));
    *m = w->b->mbarrier[--w->b->n_mbarriers];
}

// The initialisation must have been seen: a barrier is needed between it and the first use.
static struct mbarrier *used(struct warp *w, const struct insn *i, int k, u32 mask) {
    u64 at = where(w, i, k, mask);
    struct mbarrier *m = mbarrier_at(w->b, at);
    shared_read(w, at, MBARRIER_BYTES, who(mask));
    return m;
}

static void arrive(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = used(w, i, 1, mask);
    u32 lanes = (u32)__builtin_popcount(mask), phase = m->phase;
    u64 third = i->n_operands > 2 ? lane_value(w, &i->op[2], 0, first(mask)) : 1;
    u32 n = lanes * (HAS(EXPECT_TX) ? 1 : (u32)third);
    if (HAS(EXPECT_TX))
        m->bytes += (s64)third * lanes;
    if (n > m->pending)
        fault("%u arrivals at an mbarrier that expects %u more", n, m->pending);
    clock_join(m->clock, w->clock);
    clock_tick(w);
    m->pending -= n;
    EACH(set_lane(w, &i->op[0], 0, l, phase));
    mbarrier_turn(w->b, m);
}

static void expect_tx(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = used(w, i, 0, mask);
    EACH(m->bytes += (s64)lane_value(w, &i->op[1], 0, l));
}

// A wait for a phase that is not complete lets other warps run.
static void wait(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = used(w, i, 1, mask);
    u32 done = 0;
    EACH(u32 phase = (u32)lane_value(w, &i->op[2], 0, l);
         done |= (u32)(HAS(PARITY) ? (m->phase & 1) != (phase & 1) : m->phase != phase) << l);
    set_predicate(w, &i->op[0], 0, mask, done);
    if (done & mask)
        clock_learn(w, m->published);
    if ((done & mask) != mask)
        w->stop = STOP_YIELD;
}

// An arrival behind all copies that this thread has started.
static void arrive_behind(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = used(w, i, 0, mask);
    s32 index = (s32)(m - w->b->mbarrier);
    EACH((void)l; append(&w->copies, &w->n_copies, &w->copies_cap,
                         (struct copy){.group = w->committed, .mbarrier = index}));
}

// ---- cp.async.bulk: bytes that one lane asks for, counted by an mbarrier
// -------------------------
static void bulk(struct warp *w, const struct insn *i, u32 mask) {
    struct block *b = w->b;
    EACH(
        u64 to = shared_offset(i, lane_address(w, i, 0, l)); u64 from = lane_address(w, i, 1, l);
        u32 bytes = (u32)lane_value(w, &i->op[2], 0, l);
        struct mbarrier *m = mbarrier_at(b, shared_offset(i, lane_address(w, i, 3, l)));
        if (bytes == 0 || bytes % 16 || to % 16 || from % 16)
            fault("cp.async.bulk of %u bytes: size and addresses must be multiples of 16", bytes);
        for (u32 n = 0; n < bytes; n += 16) {
            global_read(w, from + n, 16);
            shared_begin(w, to + n, 16, (u32)l);
        } append(&b->bulk, &b->n_bulk, &b->bulk_cap,
                 (struct copy){(u32)to, bytes, bytes, from, w->id, (s32)(m - b->mbarrier), LANES}));
}

bool bulk_complete_one(struct block *b) {
    for (u32 n = 0; n < b->n_warps; n++) { // arrivals behind cp.async
        struct warp *w = &b->warp[n];
        for (u32 q = w->n_copies; q-- > 0;)
            if (w->copies[q].bytes == 0) {
                arrive_first(w, q + 1);
                return true;
            }
    }
    if (b->n_bulk == 0)
        return false;
    u32 n = random_below(&b->rng, b->n_bulk);
    struct copy c = b->bulk[n];
    struct warp *w = &b->warp[c.group]; // that started it
    b->bulk[n] = b->bulk[--b->n_bulk];
    struct mbarrier *m = &b->mbarrier[c.mbarrier];
    for (u32 q = 0; q < c.bytes; q += 16)
        memcpy(b->shared + c.to + q, global_read(w, c.from + q, 16), 16);
    shared_arrived(w, c.to, c.bytes, c.lane);
    clock_join(m->clock, w->clock);
    clock_tick(w);
    m->bytes -= c.bytes;
    mbarrier_turn(b, m);
    return true;
}

#define SHARED_B64 (MOD(SHARED) | MOD(CTA))
#define ORDERS     (MOD(RELEASE) | MOD(ACQUIRE) | MOD(RELAXED))
const struct op ops_async[] = {
    {"cp", 0, 0, MOD(ASYNC) | MOD(SHARED) | MOD(GLOBAL) | MOD(HINT), "mmi?w", cp_async, 0,
     MOD(CA) | MOD(CG)},
    {"cp", 0, 0, MOD(ASYNC), "", commit_group, 0, MOD(COMMIT_GROUP)},
    {"cp", 0, 0, MOD(ASYNC), "i", wait_group, 0, MOD(WAIT_GROUP)},
    {"cp", 0, 0, MOD(ASYNC), "", wait_all, 0, MOD(WAIT_ALL)},
    {"cp", TYPE(B64), 0, MOD(ASYNC) | MOD(MBARRIER) | MOD(ARRIVE) | SHARED_B64, "m", arrive_behind,
     0, MOD(NOINC)},
    {"cp", 0, 0, MOD(ASYNC) | MOD(SHARED) | MOD(GLOBAL) | MOD(COMPLETE_TX), "mmwm", bulk, 0,
     MOD(BULK)},
    {"mbarrier", TYPE(B64), 0, SHARED_B64, "mw", init, 0, MOD(INIT)},
    {"mbarrier", TYPE(B64), 0, SHARED_B64, "m", inval, 0, MOD(INVAL)},
    {"mbarrier", TYPE(B64), 0, SHARED_B64 | ORDERS | MOD(EXPECT_TX), "dm?w", arrive, 0,
     MOD(ARRIVE)},
    {"mbarrier", TYPE(B64), 0, SHARED_B64 | ORDERS, "mw", expect_tx, 0, MOD(EXPECT_TX)},
    {"mbarrier", TYPE(B64), 0, SHARED_B64 | ORDERS | MOD(PARITY), "pmx?w", wait, F_MAY_STOP,
     MOD(TRY_WAIT) | MOD(TEST_WAIT)},
    {0},
};
