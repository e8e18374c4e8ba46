// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the backend ring, shared memory inside the node and the ring of first ranks
// between nodes. An operation goes in chunks through three stages (in, middle, out), which overlap:
// while one chunk is in the middle, the next is copied in and the last is copied out.
//
// Parts. Reduce-scatter and all-gather treat a buffer as one part per rank. A chunk holds the same
// piece of every part, `stride` elements apart, ordered by place: by node, then by local rank, so
// that the numbers of a node are one segment for the ring.
#ifndef COMM_HIER_H
#define COMM_HIER_H

#include "comm/ring_tcp.h"
#include "comm/shm.h"

enum {
    HIER_FIRST_CHUNK = 3, // 1 and 2 were used to meet
    HIER_UNIT_BYTES = 16  // pieces of parts are whole multiples of this
};

struct hier {
    struct shm shm;   // map NULL: one rank on this node
    struct ring ring; // nodes 0: not the first rank, or one node
    struct comm_watch *watch;
    int rank, world, node, nodes, place;
    bool chunked;  // some node has several ranks, so all use its chunks on the ring
    uint32_t next; // chunk number
    // By place.
    int *rank_at;
    // By node.
    int *first_place;             // nodes + 1 of them
    struct ring_segment *segment; // of a chunk, or of a buffer
    char *stage;                  // a chunk; only where a rank is alone on its node and chunked
};

struct hier_chunk {
    uint32_t q;
    size_t first, count; // elements of the buffer; with parts, of each part
    size_t stride;       // with parts: from one piece to the next
};

struct hier_stages {
    bool parts;
    int (*in)(struct hier *h, const struct comm_work *w, const struct hier_chunk *c, struct err *e);
    int (*middle)(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                  struct err *e);
    int (*out)(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
               struct err *e);
};

extern const struct hier_stages hier_all_reduce, hier_reduce_scatter, hier_all_gather,
    hier_broadcast;

// In hier_sum.c: an all-reduce of a few bytes inside one node, in one wait.
bool hier_is_direct(const struct hier *h, const struct comm_work *w);
int hier_direct(struct hier *h, const struct comm_work *w, struct err *e);
// In hier_alone.c: every kind on the only rank of its node.
int hier_alone(struct hier *h, const struct comm_work *w, struct err *e);

// ---- shared by the stages ----------------------------------------------------------------------

int hier_place_of(const struct hier *h, int rank);
int hier_node_of(const struct hier *h, int rank);

// The number of pieces of an operation, and piece i of them.
size_t hier_chunk_count(const struct hier *h, const struct comm_work *w, bool parts);
struct hier_chunk hier_chunk(struct hier *h, const struct comm_work *w, bool parts, size_t i);

// The piece of the part at a place that chunk c holds, as a range of the caller's buffer.
struct ring_segment hier_piece(const struct hier *h, const struct comm_work *w,
                               const struct hier_chunk *c, int place);
// Between the buffer's pieces and a chunk, for places [from, to) but one (-1: for all).
void hier_pack(const struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
               char *chunk, int from, int to, int but);
void hier_unpack(const struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                 const char *chunk, int from, int to, int but);
// The segments of a chunk of parts, one for each node.
const struct ring_segment *hier_segments(struct hier *h, const struct hier_chunk *c);

// Announces that this rank's part of the chunk is in place, and which chunk it takes it for.
void hier_arrive(struct hier *h, const struct comm_work *w, const struct hier_chunk *c);
// Whether a local rank that has arrived, or all, are in the same chunk of the same operation.
int hier_agree_with(struct hier *h, uint32_t q, int local_rank, struct err *e);
int hier_agree(struct hier *h, uint32_t q, struct err *e);

#endif
