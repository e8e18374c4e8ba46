// SPDX-License-Identifier: Apache-2.0
// shared.c: shared memory of a block. Each warp has a clock, and knows up to which time it has seen
// the accesses of every other warp; barriers hand that knowledge on. An access to a byte is a race
// unless the warp has seen the last write to it and, for a write, every read since (vector clocks,
// as in Flanagan and Freund, "FastTrack", 2009). Lanes of one warp may run apart, too: a byte that
// one of them wrote is a race for another one until a barrier of the block or the warp.
#include "emu.h"

#include <string.h>

// Blocks run one after another, so one shadow serves them all, and no launch begins with pages of
// zeros. A time of an earlier block is one that every warp has seen.
static struct {
    u32 wrote[SHARED_ROOM];           // time of the last write, by byte
    u8 writer[SHARED_ROOM];           // its warp, or AGENT
    u8 state[SHARED_ROOM];            // see below
    u8 atomic[SHARED_ROOM];           // the last write was an atomic
    u32 read[WARPS_MAX][SHARED_ROOM]; // time of each warp's last read, by byte
    u32 last_read[SHARED_ROOM];       // the latest of these
    u32 latest;                       // the latest time of any warp
    u32 wrote_in[SHARED_ROOM];        // span and lane of the last write, by byte
    u32 read_in[SHARED_ROOM];         // span and lane of the last read
    u32 spans;                        // that were begun
    u32 settled[SHARED_ROOM / 4];     // by word, a span: only its lanes have read it since
    u16 products[SHARED_ROOM];        // unfinished ones of wgmma that read it, by byte
} shadow;
enum { UNWRITTEN, WRITTEN, IN_FLIGHT, MBARRIER = 4 }; // IN_FLIGHT: a copy to there is under way
#define TIME_MAX ((u32)1 << 31)                       // that a block begins with
#define SPAN_MAX ((u32)1 << 25)                       // with which a block begins
#define LANE_MAX 64                                   // of the number of a lane, or LANES

// Clocks continue from block to block, and every warp begins with having seen all of the past.
void shadow_clear(struct block *b) {
    if (shadow.latest > TIME_MAX || shadow.spans > SPAN_MAX)
        memset(&shadow, 0, sizeof shadow);
    for (u32 n = 0; n < b->n_warps; n++) {
        struct warp *w = &b->warp[n];
        for (u32 q = 0; q < CLOCKS; q++)
            w->clock[q] = shadow.latest;
        w->clock[n]++;
        w->floor = shadow.latest;
        span_begin(w);
    }
    shadow.latest++;
    memset(shadow.state, UNWRITTEN, b->shared_bytes);
    memset(shadow.products, 0, b->shared_bytes * sizeof *shadow.products);
    memset(b->shared, 0xff, b->shared_bytes);
}

void clock_join(u32 *to, const u32 *from) {
    for (int n = 0; n < CLOCKS; n++)
        to[n] = to[n] > from[n] ? to[n] : from[n];
}
void span_begin(struct warp *w) {
    w->span = ++shadow.spans;
}
static void advance(struct warp *w) {
    u32 now = ++w->clock[w->id];
    shadow.latest = now > shadow.latest ? now : shadow.latest;
}
void clock_tick(struct warp *w) {
    span_begin(w);
    advance(w);
}
void clock_fence(struct warp *w) {
    memcpy(w->clock + ACTORS, w->clock, ACTORS * sizeof *w->clock);
    advance(w);
}
void clock_learn(struct warp *w, const u32 *from) {
    u32 floor = UINT32_MAX;
    span_begin(w);
    clock_join(w->clock, from);
    for (u32 q = 0; q < w->b->n_warps; q++)
        floor = w->clock[q] < floor ? w->clock[q] : floor;
    if (w->b->has_bulk && w->clock[AGENT] < floor)
        floor = w->clock[AGENT];
    w->floor = floor;
}

static void within(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    if (offset > w->b->shared_bytes || bytes > w->b->shared_bytes - offset)
        fault("%s of %u bytes at offset %llu of %u bytes of shared memory", what, bytes,
              (unsigned long long)offset, w->b->shared_bytes);
    if (offset & (bytes - 1))
        fault("%s of %u bytes at shared offset %llu, which is not aligned to it", what, bytes,
              (unsigned long long)offset);
}

// The checks of an access are inlined for each size, so that they take a few vector instructions.
#define INLINED static inline __attribute__((always_inline))

INLINED void arrived(const char *what, u64 offset, u32 bytes) {
    const u8 *state = shadow.state + offset;
    u32 worst = 0;
    for (u32 n = 0; n < bytes; n++)
        worst |= state[n];
    if (worst & MBARRIER)
        fault("%s at shared offset %llu, where an mbarrier is", what, (unsigned long long)offset);
    if (worst & IN_FLIGHT)
        fault("%s at shared offset %llu of bytes in flight: their asynchronous copy was not waited "
              "for",
              what, (unsigned long long)offset);
}

INLINED void not_in_product(const char *what, u64 offset, u32 bytes) {
    const u16 *products = shadow.products + offset;
    u32 some = 0;
    for (u32 n = 0; n < bytes; n++)
        some |= products[n];
    if (some)
        fault("%s at shared offset %llu of bytes that an unfinished wgmma.mma_async reads", what,
              (unsigned long long)offset);
}

static void find_write_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes,
                              bool atomic) {
    for (u64 n = offset; n < offset + bytes; n++)
        if (shadow.writer[n] == AGENT && shadow.wrote[n] > w->clock[AGENT])
            fault("race: %s at shared offset %llu, where a bulk copy has arrived, and its mbarrier "
                  "was not waited for",
                  what, (unsigned long long)n);
        else if (shadow.wrote[n] > w->clock[shadow.writer[n]] && shadow.writer[n] != w->id &&
                 !(atomic && shadow.atomic[n]))
            fault("race: %s at shared offset %llu, which warp %u wrote without a barrier between",
                  what, (unsigned long long)n, shadow.writer[n]);
}
INLINED void no_write_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes,
                             bool atomic) {
    const u32 *wrote = shadow.wrote + offset;
    u32 later = 0, floor = w->floor;
    for (u32 n = 0; n < bytes; n++)
        later |= wrote[n] > floor;
    if (later) // else every warp's accesses up to then have been seen, whose they are or not
        find_write_unseen(w, what, offset, bytes, atomic);
}

static void find_read_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    for (u32 q = 0; q < w->b->n_warps; q++) {
        u32 unseen = 0;
        for (u64 n = offset; n < offset + bytes; n++)
            unseen |= shadow.read[q][n] > w->clock[q];
        if (unseen && q != w->id)
            fault("race: %s at shared offset %llu, which warp %u read without a barrier between",
                  what, (unsigned long long)offset, q);
    }
}
INLINED void no_read_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    const u32 *last = shadow.last_read + offset;
    u32 later = 0, floor = w->floor;
    for (u32 n = 0; n < bytes; n++)
        later |= last[n] > floor;
    if (later)
        find_read_unseen(w, what, offset, bytes);
}

// Has another lane of this warp accessed one of these bytes in this span?
INLINED bool apart(const struct warp *w, const u32 *in, u32 bytes, u32 lane) {
    u32 me = w->span * LANE_MAX + lane, all = lane == LANES, found = 0;
    for (u32 n = 0; n < bytes; n++) {
        u32 other = in[n] ^ me;
        found |= (other < LANE_MAX) & ((other | all) != 0);
    }
    return found;
}
INLINED void no_lane_apart(const struct warp *w, const char *what, const char *did, const u32 *in,
                           u64 offset, u32 bytes, u32 lane) {
    if (apart(w, in + offset, bytes, lane))
        fault("race: %s at shared offset %llu, which another lane of the warp %s without a barrier "
              "between",
              what, (unsigned long long)offset, did);
}

INLINED void unsettle(u64 offset, u32 bytes) {
    for (u64 word = offset / 4; word < (offset + bytes + 3) / 4; word++)
        shadow.settled[word] = 0;
}

INLINED void written(struct warp *w, u64 offset, u32 bytes, u32 lane, bool atomic) {
    u32 now = w->clock[w->id], me = w->span * LANE_MAX + lane;
    for (u64 n = offset; n < offset + bytes; n++) {
        shadow.wrote[n] = now;
        shadow.wrote_in[n] = me;
    }
    unsettle(offset, bytes);
    memset(shadow.writer + offset, (u8)w->id, bytes);
    memset(shadow.state + offset, WRITTEN, bytes);
    memset(shadow.atomic + offset, atomic, bytes);
}

// Once lanes of a span have shared a word, a further read in that span changes nothing: no lane of
// the warp has written it in the span, and no warp since.
INLINED bool read_again(const struct warp *w, u64 offset, u32 bytes) {
    u32 other = bytes < 4, span = w->span;
    for (u32 n = 0; n < bytes / 4; n++)
        other |= shadow.settled[offset / 4 + n] ^ span;
    return !other;
}

INLINED void may_read(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    within(w, "read", offset, bytes);
    if (read_again(w, offset, bytes))
        return;
    arrived("read", offset, bytes);
    u32 *read = shadow.read[w->id] + offset, *last = shadow.last_read + offset;
    u32 *in = shadow.read_in + offset, *settled = shadow.settled + offset / 4;
    const u8 *state = shadow.state + offset;
    u32 now = w->clock[w->id], span = w->span, unwritten = 0, alone = 0;
    u32 me = span * LANE_MAX + lane, several = span * LANE_MAX + LANES;
    for (u32 n = 0; n < bytes; n++) // a loop for each array: vector instructions
        unwritten |= state[n] == UNWRITTEN;
    for (u32 n = 0; n < bytes; n++)
        read[n] = now;
    for (u32 n = 0; n < bytes; n++)
        last[n] = last[n] > now ? last[n] : now;
    for (u32 n = 0; n < bytes; n++) {
        u32 by = ((in[n] / LANE_MAX == span) & (in[n] != me)) ? several : me;
        alone |= by ^ several;
        in[n] = by;
    }
    for (u32 n = 0; n < bytes / 4; n++)
        settled[n] = alone ? 0 : span;
    if (unwritten)
        fault("read of %u bytes of shared memory that nobody wrote, at offset %llu", bytes,
              (unsigned long long)offset);
    no_write_unseen(w, "read", offset, bytes, false);
    no_lane_apart(w, "read", "wrote", shadow.wrote_in, offset, bytes, lane);
}

u8 *shared_read(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    switch (bytes) {
    case 2: may_read(w, offset, 2, lane); break;
    case 4: may_read(w, offset, 4, lane); break;
    case 8: may_read(w, offset, 8, lane); break;
    case 16: may_read(w, offset, 16, lane); break;
    default: may_read(w, offset, bytes, lane);
    }
    return w->b->shared + offset;
}

INLINED void may_write(struct warp *w, const char *what, u64 offset, u32 bytes, u32 lane,
                       bool atomic) {
    within(w, what, offset, bytes);
    arrived(what, offset, bytes);
    not_in_product(what, offset, bytes);
    no_write_unseen(w, what, offset, bytes, atomic);
    no_read_unseen(w, what, offset, bytes);
    no_lane_apart(w, what, "read", shadow.read_in, offset, bytes, lane);
}

INLINED void written_by(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    may_write(w, "write", offset, bytes, lane, false);
    written(w, offset, bytes, lane, false);
}
u8 *shared_write(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    switch (bytes) {
    case 2: written_by(w, offset, 2, lane); break;
    case 4: written_by(w, offset, 4, lane); break;
    case 8: written_by(w, offset, 8, lane); break;
    case 16: written_by(w, offset, 16, lane); break;
    default: written_by(w, offset, bytes, lane);
    }
    return w->b->shared + offset;
}

u8 *shared_atomic(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    may_write(w, "atomic", offset, bytes, lane, true);
    for (u32 n = 0; n < bytes; n++)
        if (shadow.state[offset + n] == UNWRITTEN)
            fault("atomic on shared memory that nobody wrote, at offset %llu",
                  (unsigned long long)offset);
    written(w, offset, bytes, lane, true);
    return w->b->shared + offset;
}

void shared_begin(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    may_write(w, "asynchronous copy", offset, bytes & -bytes, lane, false);
    within(w, "asynchronous copy", offset + bytes - 1, 1);
    arrived("asynchronous copy", offset, bytes);
    not_in_product("asynchronous copy", offset, bytes);
    no_write_unseen(w, "asynchronous copy", offset, bytes, false);
    no_read_unseen(w, "asynchronous copy", offset, bytes);
    no_lane_apart(w, "asynchronous copy", "read", shadow.read_in, offset, bytes, lane);
    unsettle(offset, bytes);
    memset(shadow.state + offset, IN_FLIGHT, bytes);
}

void shared_arrived(struct warp *w, u32 offset, u32 bytes, u32 lane) {
    written(w, offset, bytes, lane, false);
}

static void find_unfenced(const struct warp *w, const char *what, u32 offset, u32 bytes) {
    for (u32 n = offset; n < offset + bytes; n++)
        if (shadow.state[n] == WRITTEN && shadow.writer[n] != AGENT &&
            shadow.wrote[n] > w->clock[ACTORS + shadow.writer[n]])
            fault("%s shared offset %u, which warp %u wrote, and no fence.proxy.async followed",
                  what, n, shadow.writer[n]);
}

void shared_product_begins(struct warp *w, u32 offset, u32 bytes) {
    const char *what = "read by wgmma.mma_async";
    u32 floor = UINT32_MAX, later = 0, unwritten = 0;
    const u32 *wrote = shadow.wrote + offset;
    const u8 *writer = shadow.writer + offset;
    within(w, what, offset, bytes);
    arrived(what, offset, bytes);
    for (u32 n = 0; n < bytes; n++)
        unwritten |= shadow.state[offset + n] == UNWRITTEN;
    if (unwritten)
        fault("%s of shared memory that nobody wrote, at offset %u", what, offset);
    no_write_unseen(w, what, offset, bytes, false);
    no_lane_apart(w, what, "wrote", shadow.wrote_in, offset, bytes, LANES);
    for (u32 q = 0; q < w->b->n_warps; q++)
        floor = w->clock[ACTORS + q] < floor ? w->clock[ACTORS + q] : floor;
    for (u32 n = 0; n < bytes; n++)
        later |= (wrote[n] > floor) & (writer[n] != AGENT);
    if (later)
        find_unfenced(w, "wgmma.mma_async reads", offset, bytes);
    for (u32 n = 0; n < bytes; n++)
        shadow.products[offset + n]++;
}

void shared_product_ends(struct warp *w, u32 offset, u32 bytes) {
    u32 now = w->clock[w->id];
    for (u32 n = offset; n < offset + bytes; n++) {
        shadow.products[n]--;
        shadow.read[w->id][n] = now;
        shadow.last_read[n] = shadow.last_read[n] > now ? shadow.last_read[n] : now;
    }
}

// ---- bulk copies and mbarriers -----------------------------------------------------------------
void shared_bulk_begins(struct warp *w, u32 offset, u32 bytes, u32 lane) {
    within(w, "bulk copy", offset, bytes & -bytes);
    within(w, "bulk copy", offset + bytes - 1, 1);
    find_unfenced(w, "a bulk copy overwrites", offset, bytes);
    shared_begin(w, offset, bytes, lane);
}

u32 shadow_time(void) {
    return ++shadow.latest;
}

void shared_bulk_arrived(u32 offset, u32 bytes, u32 time) {
    for (u32 n = offset; n < offset + bytes; n++) {
        shadow.wrote[n] = time;
        shadow.wrote_in[n] = 0; // of no span
    }
    memset(shadow.writer + offset, AGENT, bytes);
    memset(shadow.state + offset, WRITTEN, bytes);
    memset(shadow.atomic + offset, 0, bytes);
}

void shared_mbarrier_begins(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    shared_write(w, offset, bytes, lane);
    memset(shadow.state + offset, MBARRIER, bytes);
}

void shared_mbarrier_used(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    no_write_unseen(w, "use of an mbarrier", offset, bytes, false);
    no_lane_apart(w, "use of an mbarrier", "initialised", shadow.wrote_in, offset, bytes, lane);
}

void shared_mbarrier_ends(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    shared_mbarrier_used(w, offset, bytes, lane);
    memset(shadow.state + offset, UNWRITTEN, bytes);
}
