// SPDX-License-Identifier: Apache-2.0
// shadow.h: what is known of shared memory, for its checks in shared.c and shared_row.c.
#ifndef GPU_EMU_SHADOW_H
#define GPU_EMU_SHADOW_H
#include "emu.h"

// Blocks run one after another, so one shadow serves them all, and no launch begins with pages of
// zeros. A time of an earlier block is one that every warp has seen. A cell is a word, or a byte of
// a word that has been accessed in parts (it is split): first come the cells of all words, then
// those of all bytes.
enum { WORD = 4, WORDS = SHARED_ROOM / WORD, CELLS = WORDS + SHARED_ROOM };
// Whole pages, for not_for_copies.
extern struct __attribute__((aligned(4096))) shadow {
    u32 wrote[CELLS];           // time of the last write, by cell
    u8 writer[CELLS];           // its warp, or AGENT
    u8 state[CELLS];            // see below
    u8 atomic[CELLS];           // the last write was an atomic
    u32 read[WARPS_MAX][CELLS]; // time of each warp's last read, by cell
    u32 last_read[CELLS];       // the latest of these
    u32 latest;                 // the latest time of any warp
    u32 wrote_in[CELLS];        // span and lane of the last write, by cell
    u32 read_in[CELLS];         // span and lane of the last read
    u32 spans;                  // that were begun
    u32 settled[WORDS];         // by word, a span: only its lanes have read it since
    u16 products[CELLS];        // unfinished ones of wgmma that read it, by cell
    u8 split[WORDS];            // by word
    u32 n_split;
} shadow;
enum { UNWRITTEN, WRITTEN, IN_FLIGHT, MBARRIER = 4 }; // IN_FLIGHT: a copy to there is under way
#define LANE_MAX 64                                   // of the number of a lane, or LANES

struct cells {
    u32 at, n;
};
// Words become cells for each of their bytes.
void shadow_split(const struct warp *w, u32 word);
static inline bool any_split(u32 word, u32 n) {
    u8 some = 0;
    for (u32 q = word; q < word + n; q++)
        some |= shadow.split[q];
    return some;
}

// The cells of bytes that are words or parts of one.
static inline struct cells cells_of(const struct warp *w, u64 offset, u32 bytes) {
    u32 word = (u32)offset / WORD;
    if (bytes % WORD == 0 && (!shadow.n_split || !any_split(word, bytes / WORD)))
        return (struct cells){word, bytes / WORD};
    for (u32 n = word; n < (offset + bytes + WORD - 1) / WORD; n++)
        shadow_split(w, n);
    return (struct cells){WORDS + (u32)offset, bytes};
}
static inline u64 offset_of(u32 cell) {
    return cell < WORDS ? cell * WORD : cell - WORDS;
}

// The checks of an access are inlined for each number of cells, so that they take a few vector
// instructions.
#define INLINED static inline __attribute__((always_inline))
#define BY_NUMBER(c, f, ...)                                                                       \
    do {                                                                                           \
        switch ((c).n) {                                                                           \
        case 1: f(__VA_ARGS__, (struct cells){(c).at, 1}); break;                                  \
        case 2: f(__VA_ARGS__, (struct cells){(c).at, 2}); break;                                  \
        case 4: f(__VA_ARGS__, (struct cells){(c).at, 4}); break;                                  \
        case 16: f(__VA_ARGS__, (struct cells){(c).at, 16}); break;                                \
        default: f(__VA_ARGS__, c);                                                                \
        }                                                                                          \
    } while (0)

// A warp has read cells at this time; it has written them now. Callers note which lane.
INLINED void read_at(const struct warp *w, u32 now, struct cells c) {
    u32 *read = shadow.read[w->id] + c.at, *last = shadow.last_read + c.at;
    for (u32 n = 0; n < c.n; n++) // a loop for each array: vector instructions
        read[n] = now;
    for (u32 n = 0; n < c.n; n++)
        last[n] = last[n] > now ? last[n] : now;
}
INLINED void wrote_now(const struct warp *w, bool atomic, struct cells c) {
    u8 *writer = shadow.writer + c.at, *state = shadow.state + c.at,
       *is_atomic = shadow.atomic + c.at;
    u32 *wrote = shadow.wrote + c.at, now = w->clock[w->id];
    for (u32 n = 0; n < c.n; n++)
        wrote[n] = now;
    for (u32 n = 0; n < c.n; n++)
        writer[n] = (u8)w->id;
    for (u32 n = 0; n < c.n; n++)
        state[n] = WRITTEN;
    for (u32 n = 0; n < c.n; n++)
        is_atomic[n] = atomic;
}

// Is one of these times later than this?
INLINED bool any_later(const u32 *times, struct cells c, u32 than) {
    u32 later = 0;
    for (u32 n = 0; n < c.n; n++)
        later |= times[c.at + n] > than;
    return later;
}

#endif
