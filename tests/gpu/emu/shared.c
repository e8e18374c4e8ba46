// SPDX-License-Identifier: Apache-2.0
// shared.c: shared memory of a block. Each warp has a clock, and knows up to which time it has seen
// the accesses of every other warp; barriers hand that knowledge on. An access to a byte is a race
// unless the warp has seen the last write to it and, for a write, every read since (vector clocks,
// as in Flanagan and Freund, "FastTrack", 2009). Lanes of one warp may run apart, too: a byte that
// one of them wrote is a race for another one until a barrier of the block or the warp.
#include "shadow.h"

#include <string.h>

struct shadow shadow;
#define TIME_MAX ((u32)1 << 31) // that a block begins with
#define SPAN_MAX ((u32)1 << 25) // with which a block begins

// Clocks continue from block to block, and every warp begins with having seen all of the past.
void shadow_clear(struct block *b) {
    u32 words = (b->shared_bytes + WORD - 1) / WORD;
    static bool known;
    if (!known)
        not_for_copies(&shadow, sizeof shadow);
    known = true;
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
    memset(shadow.state, UNWRITTEN, words);
    memset(shadow.products, 0, words * sizeof *shadow.products);
    if (shadow.n_split)
        memset(shadow.split, 0, sizeof shadow.split);
    shadow.n_split = 0;
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

// ---- cells -------------------------------------------------------------------------------------
void shadow_split(const struct warp *w, u32 word) {
    u32 byte = WORDS + word * WORD;
    if (shadow.split[word])
        return;
    shadow.split[word] = 1;
    shadow.n_split++;
    memset(shadow.writer + byte, shadow.writer[word], WORD);
    memset(shadow.state + byte, shadow.state[word], WORD);
    memset(shadow.atomic + byte, shadow.atomic[word], WORD);
    for (u32 n = byte; n < byte + WORD; n++) {
        shadow.wrote[n] = shadow.wrote[word];
        shadow.last_read[n] = shadow.last_read[word];
        shadow.wrote_in[n] = shadow.wrote_in[word];
        shadow.read_in[n] = shadow.read_in[word];
        shadow.products[n] = shadow.products[word];
        for (u32 q = 0; q < w->b->n_warps; q++)
            shadow.read[q][n] = shadow.read[q][word];
    }
}

// ---- checks ------------------------------------------------------------------------------------
INLINED void arrived(const char *what, struct cells c) {
    const u8 *state = shadow.state + c.at;
    u32 worst = 0;
    for (u32 n = 0; n < c.n; n++)
        worst |= state[n];
    if (worst & MBARRIER)
        fault("%s at shared offset %llu, where an mbarrier is", what,
              (unsigned long long)offset_of(c.at));
    if (worst & IN_FLIGHT)
        fault("%s at shared offset %llu of bytes in flight: their asynchronous copy was not waited "
              "for",
              what, (unsigned long long)offset_of(c.at));
}

INLINED bool all_written(struct cells c) {
    const u8 *state = shadow.state + c.at;
    u32 unwritten = 0;
    for (u32 n = 0; n < c.n; n++)
        unwritten |= state[n] == UNWRITTEN;
    return !unwritten;
}

INLINED void not_in_product(const char *what, struct cells c) {
    const u16 *products = shadow.products + c.at;
    u32 some = 0;
    for (u32 n = 0; n < c.n; n++)
        some |= products[n];
    if (some)
        fault("%s at shared offset %llu of bytes that an unfinished wgmma.mma_async or bulk copy "
              "reads",
              what, (unsigned long long)offset_of(c.at));
}

static void find_write_unseen(struct warp *w, const char *what, struct cells c, bool atomic) {
    for (u32 n = c.at; n < c.at + c.n; n++)
        if (shadow.writer[n] == AGENT && shadow.wrote[n] > w->clock[AGENT])
            fault("race: %s at shared offset %llu, where a bulk copy has arrived, and its mbarrier "
                  "was not waited for",
                  what, (unsigned long long)offset_of(n));
        else if (shadow.wrote[n] > w->clock[shadow.writer[n]] && shadow.writer[n] != w->id &&
                 !(atomic && shadow.atomic[n]) &&
                 !store_keeps(w, offset_of(n), offset_of(n) + (n < WORDS ? WORD : 1)))
            fault("race: %s at shared offset %llu, which warp %u wrote without a barrier between",
                  what, (unsigned long long)offset_of(n), shadow.writer[n]);
}
INLINED void no_write_unseen(struct warp *w, const char *what, struct cells c, bool atomic) {
    if (any_later(shadow.wrote, c, w->floor)) // else all has been seen, whose it is or not
        find_write_unseen(w, what, c, atomic);
}

static void find_read_unseen(const struct warp *w, const char *what, struct cells c) {
    for (u32 q = 0; q < w->b->n_warps; q++)
        if (q != w->id && any_later(shadow.read[q], c, w->clock[q]))
            fault("race: %s at shared offset %llu, which warp %u read without a barrier between",
                  what, (unsigned long long)offset_of(c.at), q);
}
INLINED void no_read_unseen(const struct warp *w, const char *what, struct cells c) {
    if (any_later(shadow.last_read, c, w->floor))
        find_read_unseen(w, what, c);
}

// Has another lane of this warp accessed one of these cells in this span?
INLINED bool apart(const struct warp *w, const u32 *in, struct cells c, u32 lane) {
    u32 me = w->span * LANE_MAX + lane, all = lane == LANES, found = 0;
    for (u32 n = 0; n < c.n; n++) {
        u32 other = in[c.at + n] ^ me;
        found |= (other < LANE_MAX) & ((other | all) != 0);
    }
    return found;
}
INLINED void no_lane_apart(const struct warp *w, const char *what, const char *did, const u32 *in,
                           struct cells c, u32 lane) {
    if (apart(w, in, c, lane))
        fault("race: %s at shared offset %llu, which another lane of the warp %s without a barrier "
              "between",
              what, (unsigned long long)offset_of(c.at), did);
}

// ---- reads -------------------------------------------------------------------------------------
// Once lanes of a span have shared a word, a further read in that span changes nothing: no lane of
// the warp has written it in the span, and no warp since.
static inline bool read_again(const struct warp *w, u64 offset, u32 bytes) {
    u32 other = bytes < WORD, span = w->span;
    for (u32 n = 0; n < bytes / WORD; n++)
        other |= shadow.settled[offset / WORD + n] ^ span;
    return !other;
}

INLINED void note_read(const struct warp *w, u32 lane, struct cells c) {
    u32 *in = shadow.read_in + c.at, span = w->span;
    u32 me = span * LANE_MAX + lane, several = span * LANE_MAX + LANES;
    read_at(w, w->clock[w->id], c);
    for (u32 n = 0; n < c.n; n++)
        in[n] = ((in[n] / LANE_MAX == span) & (in[n] != me)) ? several : me;
    for (u32 n = 0; n < c.n && c.at < WORDS; n++)
        shadow.settled[c.at + n] = in[n] == several ? span : 0;
    for (u32 n = 0; n + WORD <= c.n && c.at >= WORDS; n += WORD)
        shadow.settled[(c.at - WORDS + n) / WORD] = ((in[n] ^ several) | (in[n + 1] ^ several) |
                                                     (in[n + 2] ^ several) | (in[n + 3] ^ several))
                                                        ? 0
                                                        : span;
}

INLINED void may_read(struct warp *w, u32 lane, struct cells c) {
    arrived("read", c);
    note_read(w, lane, c);
    if (!all_written(c))
        fault("read of %u bytes of shared memory that nobody wrote, at offset %llu",
              c.at < WORDS ? c.n * WORD : c.n, (unsigned long long)offset_of(c.at));
    no_write_unseen(w, "read", c, false);
    no_lane_apart(w, "read", "wrote", shadow.wrote_in, c, lane);
}

u8 *shared_read(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    within(w, "read", offset, bytes);
    if (!read_again(w, offset, bytes)) {
        struct cells c = cells_of(w, offset, bytes);
        BY_NUMBER(c, may_read, w, lane);
    }
    return w->b->shared + offset;
}

// ---- writes ------------------------------------------------------------------------------------
INLINED void unsettle(struct cells c) {
    u32 first = (u32)offset_of(c.at) / WORD, n = c.at < WORDS ? c.n : (c.n + WORD - 1) / WORD;
    for (u32 word = 0; word < n; word++)
        shadow.settled[first + word] = 0;
}

INLINED void written(const struct warp *w, u32 lane, bool atomic, struct cells c) {
    u32 me = w->span * LANE_MAX + lane;
    wrote_now(w, atomic, c);
    for (u32 n = c.at; n < c.at + c.n; n++)
        shadow.wrote_in[n] = me;
    unsettle(c);
}

INLINED void may_write(struct warp *w, const char *what, u32 lane, bool atomic, struct cells c) {
    arrived(what, c);
    not_in_product(what, c);
    no_write_unseen(w, what, c, atomic);
    no_read_unseen(w, what, c);
    no_lane_apart(w, what, "read", shadow.read_in, c, lane);
}

INLINED void written_by(struct warp *w, u32 lane, struct cells c) {
    may_write(w, "write", lane, false, c);
    written(w, lane, false, c);
}
u8 *shared_write(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    within(w, "write", offset, bytes);
    struct cells c = cells_of(w, offset, bytes);
    BY_NUMBER(c, written_by, w, lane);
    return w->b->shared + offset;
}

u8 *shared_atomic(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    within(w, "atomic", offset, bytes);
    struct cells c = cells_of(w, offset, bytes);
    may_write(w, "atomic", lane, true, c);
    if (!all_written(c))
        fault("atomic on shared memory that nobody wrote, at offset %llu",
              (unsigned long long)offset);
    written(w, lane, true, c);
    return w->b->shared + offset;
}

INLINED void begin(struct warp *w, u32 lane, struct cells c) {
    may_write(w, "asynchronous copy", lane, false, c);
    unsettle(c);
    memset(shadow.state + c.at, IN_FLIGHT, c.n);
}
void shared_begin(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    within(w, "asynchronous copy", offset, bytes & -bytes);
    within(w, "asynchronous copy", offset + bytes - 1, 1);
    struct cells c = cells_of(w, offset, bytes);
    BY_NUMBER(c, begin, w, lane);
}

void shared_arrived(struct warp *w, u32 offset, u32 bytes, u32 lane) {
    struct cells c = cells_of(w, offset, bytes);
    BY_NUMBER(c, written, w, lane, false);
}

// ---- products ----------------------------------------------------------------------------------
static void find_unfenced(const struct warp *w, const char *what, struct cells c) {
    for (u32 n = c.at; n < c.at + c.n; n++)
        if (shadow.state[n] == WRITTEN && shadow.writer[n] != AGENT &&
            shadow.wrote[n] > w->clock[ACTORS + shadow.writer[n]])
            fault("%s at shared offset %u, which warp %u wrote, and no fence.proxy.async followed",
                  what, (u32)offset_of(n), shadow.writer[n]);
}

u32 shared_fenced(const struct warp *w) {
    u32 floor = UINT32_MAX;
    for (u32 q = 0; q < w->b->n_warps; q++)
        floor = w->clock[ACTORS + q] < floor ? w->clock[ACTORS + q] : floor;
    return floor;
}

INLINED void may_multiply(struct warp *w, const char *what, u32 fenced, struct cells c) {
    const u32 *wrote = shadow.wrote + c.at;
    const u8 *writer = shadow.writer + c.at;
    u32 later = 0;
    arrived(what, c);
    if (!all_written(c))
        fault("%s of shared memory that nobody wrote, at offset %u", what, (u32)offset_of(c.at));
    no_write_unseen(w, what, c, false);
    no_lane_apart(w, what, "wrote", shadow.wrote_in, c, LANES);
    for (u32 n = 0; n < c.n; n++)
        later |= (wrote[n] > fenced) & (writer[n] != AGENT);
    if (later)
        find_unfenced(w, what, c);
    for (u32 n = 0; n < c.n; n++)
        shadow.products[c.at + n]++;
}
void shared_product_begins(struct warp *w, const char *what, u32 fenced, u32 offset, u32 bytes) {
    within(w, what, offset, bytes);
    struct cells c = cells_of(w, offset, bytes);
    BY_NUMBER(c, may_multiply, w, what, fenced);
}

INLINED void multiplied(const struct warp *w, u32 now, struct cells c) {
    for (u32 n = 0; n < c.n; n++)
        shadow.products[c.at + n]--;
    read_at(w, now, c);
}
void shared_product_ends(struct warp *w, u32 offset, u32 bytes) {
    struct cells c = cells_of(w, offset, bytes);
    BY_NUMBER(c, multiplied, w, w->clock[w->id]);
}

// ---- bulk copies and mbarriers -----------------------------------------------------------------
void shared_bulk_begins(struct warp *w, u32 offset, u32 bytes, u32 lane) {
    within(w, "bulk copy", offset, bytes & -bytes);
    within(w, "bulk copy", offset + bytes - 1, 1);
    find_unfenced(w, "bulk copy", cells_of(w, offset, bytes));
    shared_begin(w, offset, bytes, lane);
}

u32 shadow_time(void) {
    return ++shadow.latest;
}

void shared_bulk_arrived(struct warp *w, u32 offset, u32 bytes, u32 time) {
    struct cells c = cells_of(w, offset, bytes);
    for (u32 n = c.at; n < c.at + c.n; n++) {
        shadow.wrote[n] = time;
        shadow.wrote_in[n] = 0; // of no span
    }
    memset(shadow.writer + c.at, AGENT, c.n);
    memset(shadow.state + c.at, WRITTEN, c.n);
    memset(shadow.atomic + c.at, 0, c.n);
}

static void set_state(struct cells c, u8 state) {
    memset(shadow.state + c.at, state, c.n);
}

void shared_mbarrier_begins(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    shared_write(w, offset, bytes, lane);
    set_state(cells_of(w, offset, bytes), MBARRIER);
}

void shared_mbarrier_used(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    struct cells c = cells_of(w, offset, bytes);
    no_write_unseen(w, "use of an mbarrier", c, false);
    no_lane_apart(w, "use of an mbarrier", "initialised", shadow.wrote_in, c, lane);
}

void shared_mbarrier_ends(struct warp *w, u64 offset, u32 bytes, u32 lane) {
    shared_mbarrier_used(w, offset, bytes, lane);
    set_state(cells_of(w, offset, bytes), UNWRITTEN);
}
