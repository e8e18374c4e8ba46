// SPDX-License-Identifier: Apache-2.0
// shared.c: shared memory of a block. Each warp has a clock, and knows up to which time it has seen
// the accesses of every other warp; barriers hand that knowledge on. An access to a byte is a race
// unless the warp has seen the last write to it and, for a write, every read since (vector clocks,
// as in Flanagan and Freund, "FastTrack", 2009).
#include "emu.h"

#include <stdlib.h>
#include <string.h>

struct shared_shadow {
    u32 *wrote;           // time of the last write, by byte
    u8 *writer, *state;   // its warp; 0 unwritten, 1 written, 2 or more: copies in flight
    u32 *read[WARPS_MAX]; // time of each warp's last read, by byte
    u8 *atomic;           // the last write was an atomic
};
enum { UNWRITTEN, WRITTEN, IN_FLIGHT };

static void *zeros(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

void shadow_new(struct block *b) {
    struct shared_shadow *s = b->shadow = zeros(1, sizeof *s);
    s->wrote = zeros(b->shared_bytes, sizeof *s->wrote);
    s->writer = zeros(b->shared_bytes, 1);
    s->state = zeros(b->shared_bytes, 1);
    s->atomic = zeros(b->shared_bytes, 1);
    for (u32 n = 0; n < b->n_warps; n++)
        s->read[n] = zeros(b->shared_bytes, sizeof **s->read);
}

void shadow_free(struct block *b) {
    struct shared_shadow *s = b->shadow;
    for (u32 n = 0; s && n < b->n_warps; n++)
        free(s->read[n]);
    if (s) {
        free(s->wrote);
        free(s->writer);
        free(s->state);
        free(s->atomic);
    }
    free(s);
}

// Clocks continue from block to block, and every warp begins with having seen all of the past.
void shadow_clear(struct block *b) {
    u32 latest = 0;
    for (u32 n = 0; n < b->n_warps; n++)
        latest = b->warp[n].clock[n] > latest ? b->warp[n].clock[n] : latest;
    for (u32 n = 0; n < b->n_warps; n++) {
        for (u32 q = 0; q < WARPS_MAX; q++)
            b->warp[n].clock[q] = latest;
        b->warp[n].clock[n]++;
    }
    memset(b->shadow->state, UNWRITTEN, b->shared_bytes);
    memset(b->shared, 0xff, b->shared_bytes);
}

void clock_join(u32 *to, const u32 *from) {
    for (int n = 0; n < WARPS_MAX; n++)
        to[n] = to[n] > from[n] ? to[n] : from[n];
}
void clock_tick(struct warp *w) {
    w->clock[w->id]++;
}

static void within(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    if (offset > w->b->shared_bytes || bytes > w->b->shared_bytes - offset)
        fault("%s of %u bytes at offset %llu of %u bytes of shared memory", what, bytes,
              (unsigned long long)offset, w->b->shared_bytes);
    if (offset & (bytes - 1))
        fault("%s of %u bytes at shared offset %llu, which is not aligned to it", what, bytes,
              (unsigned long long)offset);
}

static void settled(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    const u8 *state = w->b->shadow->state + offset;
    u32 worst = 0;
    for (u32 n = 0; n < bytes; n++)
        worst |= state[n];
    if (worst & IN_FLIGHT)
        fault("%s at shared offset %llu of bytes in flight: their asynchronous copy was not waited "
              "for",
              what, (unsigned long long)offset);
}

static void no_write_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes,
                            bool atomic) {
    const struct shared_shadow *s = w->b->shadow;
    u32 floor = UINT32_MAX, later = 0;
    for (u32 q = 0; q < w->b->n_warps; q++)
        floor = w->clock[q] < floor ? w->clock[q] : floor;
    for (u64 n = offset; n < offset + bytes; n++)
        later |= s->wrote[n] > floor;
    if (!later) // every warp's accesses up to then have been seen: no need to know whose they are
        return;
    for (u64 n = offset; n < offset + bytes; n++)
        if (s->wrote[n] > w->clock[s->writer[n]] && s->writer[n] != w->id &&
            !(atomic && s->atomic[n]))
            fault("race: %s at shared offset %llu, which warp %u wrote without a barrier between",
                  what, (unsigned long long)n, s->writer[n]);
}

static void no_read_unseen(const struct warp *w, const char *what, u64 offset, u32 bytes) {
    const struct shared_shadow *s = w->b->shadow;
    for (u32 q = 0; q < w->b->n_warps; q++) {
        u32 unseen = 0;
        for (u64 n = offset; n < offset + bytes; n++)
            unseen |= s->read[q][n] > w->clock[q];
        if (unseen && q != w->id)
            fault("race: %s at shared offset %llu, which warp %u read without a barrier between",
                  what, (unsigned long long)offset, q);
    }
}

static void written(struct warp *w, u64 offset, u32 bytes, bool atomic) {
    struct shared_shadow *s = w->b->shadow;
    for (u64 n = offset; n < offset + bytes; n++) {
        s->wrote[n] = w->clock[w->id];
        s->writer[n] = (u8)w->id;
        s->state[n] = WRITTEN;
        s->atomic[n] = atomic;
    }
}

u8 *shared_read(struct warp *w, u64 offset, u32 bytes) {
    struct shared_shadow *s = w->b->shadow;
    within(w, "read", offset, bytes);
    settled(w, "read", offset, bytes);
    u32 unwritten = 0, now = w->clock[w->id];
    for (u64 n = offset; n < offset + bytes; n++) {
        unwritten |= s->state[n] == UNWRITTEN;
        s->read[w->id][n] = now;
    }
    if (unwritten)
        fault("read of %u bytes of shared memory that nobody wrote, at offset %llu", bytes,
              (unsigned long long)offset);
    no_write_unseen(w, "read", offset, bytes, false);
    return w->b->shared + offset;
}

static void may_write(struct warp *w, const char *what, u64 offset, u32 bytes, bool atomic) {
    within(w, what, offset, bytes);
    settled(w, what, offset, bytes);
    no_write_unseen(w, what, offset, bytes, atomic);
    no_read_unseen(w, what, offset, bytes);
}

u8 *shared_write(struct warp *w, u64 offset, u32 bytes) {
    may_write(w, "write", offset, bytes, false);
    written(w, offset, bytes, false);
    return w->b->shared + offset;
}

u8 *shared_atomic(struct warp *w, u64 offset, u32 bytes) {
    may_write(w, "atomic", offset, bytes, true);
    for (u32 n = 0; n < bytes; n++)
        if (w->b->shadow->state[offset + n] == UNWRITTEN)
            fault("atomic on shared memory that nobody wrote, at offset %llu",
                  (unsigned long long)offset);
    written(w, offset, bytes, true);
    return w->b->shared + offset;
}

void shared_begin(struct warp *w, u64 offset, u32 bytes) {
    may_write(w, "asynchronous copy", offset, bytes & -bytes, false);
    within(w, "asynchronous copy", offset + bytes - 1, 1);
    settled(w, "asynchronous copy", offset, bytes);
    no_write_unseen(w, "asynchronous copy", offset, bytes, false);
    no_read_unseen(w, "asynchronous copy", offset, bytes);
    memset(w->b->shadow->state + offset, IN_FLIGHT, bytes);
}

void shared_arrived(struct warp *w, u32 offset, u32 bytes) {
    written(w, offset, bytes, false);
}
