// SPDX-License-Identifier: Apache-2.0
// async.c: asynchronous copies of a thread to shared memory: cp.async. Data arrives only when a
// thread waits for it.
#include "emu.h"

#include <string.h>

static void append(struct warp *w, struct copy c) {
    w->copies = grown(w->copies, w->n_copies, &w->copies_cap, sizeof *w->copies);
    w->copies[w->n_copies++] = c;
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
    mbarrier_arrive(w, mbarrier_at(b, c->mbarrier), 1, true); // behind the copies
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
         append(w, (struct copy){(u32)to, bytes, from_bytes, source[l], w->committed, 0, (u32)l}));
    if (counting) {
        count_global(source, reads, bytes);
        count_shared(place, mask, bytes);
    }
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

// An arrival at an mbarrier behind all copies that this thread has started.
static void arrive_behind(struct warp *w, const struct insn *i, u32 mask) {
    struct mbarrier *m = mbarrier_used(w, i, 0, mask);
    EACH((void)l; append(w, (struct copy){.group = w->committed, .mbarrier = (u32)m->address}));
}

bool async_complete_arrival(struct block *b) {
    for (u32 n = 0; n < b->n_warps; n++) {
        struct warp *w = &b->warp[n];
        for (u32 q = w->n_copies; q-- > 0;)
            if (w->copies[q].bytes == 0) {
                arrive_first(w, q + 1);
                return true;
            }
    }
    return false;
}

const struct op ops_async[] = {
    {"cp", 0, 0, MOD(ASYNC) | MOD(SHARED) | MOD(GLOBAL) | MOD(HINT), "mmi?w", cp_async, 0,
     MOD(CA) | MOD(CG)},
    {"cp", 0, 0, MOD(ASYNC), "", commit_group, 0, MOD(COMMIT_GROUP)},
    {"cp", 0, 0, MOD(ASYNC), "i", wait_group, 0, MOD(WAIT_GROUP)},
    {"cp", 0, 0, MOD(ASYNC), "", wait_all, 0, MOD(WAIT_ALL)},
    {"cp", TYPE(B64), 0, MOD(ASYNC) | MOD(MBARRIER) | MOD(ARRIVE) | MOD(SHARED), "m", arrive_behind,
     0, MOD(NOINC)},
    {0},
};
