// SPDX-License-Identifier: Apache-2.0
// segment.h: shared memory where the ranks of a communicator meet. A function that returns text
// returns NULL when all went well, emu_again while others have not come, and else why not. Whoever
// waits keeps the time limit: 0 at first.
#ifndef GPU_NCCL_SEGMENT_H
#define GPU_NCCL_SEGMENT_H
#include <stdbool.h>
#include <stddef.h>

enum {
    SEGMENT_RANKS_MAX = 8,
    SEGMENT_SLOT_BYTES = 64 << 20, // of each rank; unused pages cost nothing
    SEGMENT_MAIL_BYTES = 8 << 20,  // of each pair of ranks
    SEGMENT_CALL_MAX = 128,
};
struct segment;

struct segment *segment_open(const char *name, int ranks);
void segment_close(struct segment *s);
// When all have opened it: nothing is left behind, however they end.
void segment_forget(const char *name);
void *segment_slot(struct segment *s, int rank);
// A rank comes to a call, and then asks whether all are here. All must name the same call.
struct meeting {
    unsigned turn;
    double end;
};
struct meeting segment_come(struct segment *s, int rank, const char *call);
const char *segment_here(struct segment *s, int rank, const struct meeting *m);
const char *segment_meet(struct segment *s, int rank, const char *call); // both; waits
// Whether the next send of this rank ends when it has been received, by EMU_SEED.
bool segment_toss(int rank);
const char *segment_send(struct segment *s, int from, int to, const void *data, size_t n,
                         double *end);
// Waits until the receiver has taken the last message.
const char *segment_taken(struct segment *s, int from, int to, double *end);
const char *segment_receive(struct segment *s, int from, int to, void *data, size_t n, double *end);
void segment_abort(struct segment *s, int rank);
int segment_aborted(struct segment *s);
#endif
