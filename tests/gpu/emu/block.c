// SPDX-License-Identifier: Apache-2.0
// block.c: branches, ends, fences, and the barriers of a block.
#include "emu.h"

static void nothing(struct warp *w, const struct insn *i, u32 mask) {
    (void)w, (void)i, (void)mask;
}

static void trap(struct warp *w, const struct insn *i, u32 mask) {
    (void)w;
    (void)i;
    fault("trap, executed by lanes %08x", mask);
}

// A warp that waits has arrived; the last one to arrive lets all continue (see run.c).
static void arrive(struct warp *w, const struct insn *i, u32 mask, bool waits) {
    const u32 *which = REG(0), *count = i->n_operands > 1 ? REG(1) : NULL;
    int lane = __builtin_ctz(mask);
    u32 n = which[lane], live = (u32)__builtin_popcount(w->live);
    (void)live;
    if (mask != w->live)
        fault("barrier in divergent code: lanes %08x of %08x execute '%s'", mask, w->live, i->name);
    if (n >= BARRIERS)
        fault("barrier %u: there are %d", n, BARRIERS);
    struct barrier *b = &w->b->barrier[n];
    u32 expected = count ? count[lane] : 0;
    if (expected % LANES)
        fault("barrier %u for %u threads, which is not a multiple of %d", n, expected, LANES);
    if (b->arrived && b->expected != expected)
        fault("barrier %u for %u threads and for %u at once", n, b->expected, expected);
    b->expected = expected;
    b->arrived |= 1u << w->id;
    b->threads += LANES;
    clock_join(b->clock, w->clock);
    clock_tick(w);
    counts.barriers++;
    if (waits) {
        w->barrier = n;
        w->stop = STOP_BARRIER;
    }
}
static void barrier_sync(struct warp *w, const struct insn *i, u32 mask) {
    arrive(w, i, mask, true);
}
static void barrier_arrive(struct warp *w, const struct insn *i, u32 mask) {
    arrive(w, i, mask, false);
}

// A fence of the whole device, then an atomic: the block has published and may read others' data.
static void fence(struct warp *w, const struct insn *i, u32 mask) {
    (void)w, (void)i, (void)mask;
}

// In divergent code the fence orders what only some lanes wrote, which is modelled of mbarriers
// alone.
static void proxy_fence(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    mbarrier_fence(w, mask);
    if (mask == w->live)
        clock_fence(w);
}
static void init_fence(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    mbarrier_fence(w, mask);
}

static void nanosleep(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    (void)mask;
    w->stop = STOP_YIELD;
}

#define BAR_MODS   (MOD(CTA) | MOD(ALIGNED))
#define SCOPES     (MOD(CTA) | MOD(GPU) | MOD(SYS))
#define FENCE_MODS (SCOPES | MOD(SC) | MOD(ACQ_REL) | MOD(ACQUIRE) | MOD(RELEASE))
const struct op ops_block[] = {
    {"bra", 0, 0, MOD(UNI), "l", nothing, F_BRANCH, 0},
    {"ret", 0, 0, MOD(UNI), "", nothing, F_EXIT, 0},
    {"exit", 0, 0, 0, "", nothing, F_EXIT, 0},
    {"trap", 0, 0, 0, "", trap, 0, 0},
    {"bar", 0, 0, BAR_MODS, "w?w", barrier_sync, F_MAY_STOP, MOD(SYNC)},
    {"bar", 0, 0, BAR_MODS, "ww", barrier_arrive, 0, MOD(ARRIVE)},
    {"barrier", 0, 0, BAR_MODS, "w?w", barrier_sync, F_MAY_STOP, MOD(SYNC)},
    {"barrier", 0, 0, BAR_MODS, "ww", barrier_arrive, 0, MOD(ARRIVE)},
    {"membar", 0, 0, 0, "", fence, 0, SCOPES | MOD(GL)},
    {"fence", 0, 0, FENCE_MODS, "", fence, 0, SCOPES},
    {"fence", 0, 0, SCOPES | MOD(GLOBAL) | MOD(SHARED), "", fence, 0, MOD(ASYNC)},
    {"fence", 0, 0, MOD(SHARED) | MOD(PROXY), "", proxy_fence, 0, MOD(ASYNC)},
    {"fence", 0, 0, MOD(RELEASE) | MOD(CLUSTER), "", init_fence, 0, MOD(MBARRIER_INIT)},
    {"nanosleep", TYPE(U32), 0, 0, "s", nanosleep, F_MAY_STOP, 0},
    {0},
};
