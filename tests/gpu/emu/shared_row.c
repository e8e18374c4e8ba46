// SPDX-License-Identifier: Apache-2.0
// shared_row.c: accesses of shared memory by lanes whose bytes lie side by side, in one check.
// Where it could find anything, nothing is noted, and each lane has the checks of shared.c.
#include "shadow.h"

#include <string.h>

// The cells of lanes that access so many words each; none: a check of each lane will show why not.
INLINED struct cells row_of(const struct warp *w, u64 offset, u32 each, u32 lanes) {
    u32 bytes = each * lanes;
    if (each % WORD || offset & (each - 1) || offset > w->b->shared_bytes ||
        bytes > w->b->shared_bytes - offset)
        return (struct cells){0, 0};
    if (shadow.n_split && any_split((u32)offset / WORD, bytes / WORD))
        return (struct cells){0, 0};
    return (struct cells){(u32)offset / WORD, bytes / WORD};
}

// A byte that lanes of this warp have accessed in this span is for the checks of one lane.
INLINED bool in_span(const struct warp *w, const u32 *in, struct cells c) {
    u32 found = 0;
    for (u32 n = 0; n < c.n; n++)
        found |= in[c.at + n] / LANE_MAX == w->span;
    return found;
}

INLINED void note_row(u32 *in, struct cells c, u32 words, u32 me) {
    for (u32 n = 0; n < c.n; n++)
        in[c.at + n] = me + n / words;
}

// As note_read() in shared.c for each lane.
INLINED void note_readers(const struct warp *w, struct cells c, u32 words, u32 first) {
    u32 *in = shadow.read_in + c.at, *settled = shadow.settled + c.at, span = w->span;
    u32 several = span * LANE_MAX + LANES;
    for (u32 n = 0; n < c.n; n++) {
        u32 me = span * LANE_MAX + first + n / words;
        in[n] = ((in[n] / LANE_MAX == span) & (in[n] != me)) ? several : me;
    }
    for (u32 n = 0; n < c.n; n++)
        settled[n] = in[n] == several ? span : 0;
}

INLINED bool read_row(const struct warp *w, u32 words, u32 first, struct cells c) {
    const u8 *state = shadow.state + c.at;
    u32 other = 0;
    for (u32 n = 0; n < c.n; n++)
        other |= state[n] != WRITTEN;
    if (other || any_later(shadow.wrote, c, w->floor) || in_span(w, shadow.wrote_in, c))
        return false;
    read_at(w, w->clock[w->id], c);
    note_readers(w, c, words, first);
    return true;
}

INLINED bool write_row(const struct warp *w, u32 words, u32 first, struct cells c) {
    const u16 *products = shadow.products + c.at;
    const u8 *state = shadow.state + c.at;
    u32 other = 0;
    for (u32 n = 0; n < c.n; n++)
        other |= state[n] & (MBARRIER | IN_FLIGHT);
    for (u32 n = 0; n < c.n; n++)
        other |= products[n];
    if (other || any_later(shadow.wrote, c, w->floor) || any_later(shadow.last_read, c, w->floor) ||
        in_span(w, shadow.read_in, c))
        return false;
    wrote_now(w, false, c);
    note_row(shadow.wrote_in, c, words, w->span * LANE_MAX + first);
    memset(shadow.settled + c.at, 0, c.n * sizeof *shadow.settled);
    return true;
}

#define BY_WORDS(f)                                                                                \
    (each == 4    ? f(w, 1, first, c)                                                              \
     : each == 8  ? f(w, 2, first, c)                                                              \
     : each == 16 ? f(w, 4, first, c)                                                              \
                  : false)
u8 *shared_read_row(struct warp *w, u64 offset, u32 each, u32 first, u32 lanes) {
    struct cells c = row_of(w, offset, each, lanes);
    return c.n && BY_WORDS(read_row) ? w->b->shared + offset : NULL;
}
u8 *shared_write_row(struct warp *w, u64 offset, u32 each, u32 first, u32 lanes) {
    struct cells c = row_of(w, offset, each, lanes);
    return c.n && BY_WORDS(write_row) ? w->b->shared + offset : NULL;
}
