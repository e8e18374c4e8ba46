// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the ring between nodes, run by the first rank of each. Node i sends to node
// i+1 and receives from node i-1, over several parallel TCP connections and one control connection
// per neighbour. The control connection carries only reports of faults; its keep-alive probes show
// that a host has vanished.
//
// All-reduce is the bandwidth-optimal ring (Patarasuk and Yuan, 2009): nodes-1 steps of
// reduce-scatter, nodes-1 steps of all-gather. Segment s is summed starting at node s and in ring
// order, so the order depends on nothing but the counts. Reduce-scatter and all-gather are the
// halves, over segments that the caller cuts: segment s is node s's own, and is summed starting at
// node s+1. Broadcast is a chain from the root to the right, in pieces.
//
// On the wire, little-endian, before every part: u32 step number, u32 stripe, u64 bytes. Steps
// count what one connection carried. Fault: u32 magic, u32 code, 240 bytes of text.
#ifndef COMM_RING_TCP_H
#define COMM_RING_TCP_H

#include "comm/backend.h"

#include <stdint.h>

enum {
    RING_PART_BYTES = 16,
    RING_STRIPE_BYTES_MIN = 64 << 10,   // below that a step uses fewer connections
    RING_STAGE_BYTES = 128 << 10,       // received bytes wait here to be added
    RING_EXCHANGE_BYTES_MAX = 32 << 10, // two nodes: up to here both send all at once
    RING_PIECE_BYTES = 256 << 10,       // a broadcast sends one piece on while it receives the next
    RING_FAULT_TEXT_BYTES = 240,
    RING_NAME_BYTES_MAX = 128,
    RING_GRACE_MS = 300 // for the reason to arrive after a connection closed
};

struct ring_lane { // one data connection, one direction
    int fd;
    unsigned char part[RING_PART_BYTES];
    size_t part_done, done, len; // of the part's head, of its data
    char *data;                  // source or destination of its data
    char *stage;                 // receiving lanes only
    size_t staged;
};

struct ring_peer {
    int node, rank; // rank: of its first rank, in the world
    char address[64];
    int port;
};

struct ring_segment { // elements
    size_t first, count;
};

struct ring {
    int node, nodes, sockets, rank;
    struct ring_segment *segment; // one per node: how all-reduce cuts
    struct ring_lane send[COMM_SOCKETS_MAX], recv[COMM_SOCKETS_MAX];
    int control_right, control_left;
    struct ring_peer right, left;
    uint32_t sent, received; // steps to the right, from the left
    struct comm_watch *watch;
    // Looks at the local ranks while the ring waits; -1 with e ends it.
    int (*check)(void *ctx, struct err *e);
    void *check_ctx;
    bool faulted;
};

// In ring_open.c. Collective among the first ranks of all nodes. shown: the number of this rank in
// errors.
int ring_open(struct ring *r, const struct comm_config *config, int shown, struct comm_watch *watch,
              struct err *e);
void ring_close(struct ring *r); // safe on a zeroed one

// All in place, with one segment per node. After reduce-scatter a node has the sum of its own
// segment, times factor; the others hold anything. all-gather and broadcast move bytes as they are.
int ring_reduce_scatter(struct ring *r, const struct element *type, void *buf,
                        const struct ring_segment *segment, double factor, struct err *e);
int ring_all_gather(struct ring *r, const struct element *type, void *buf,
                    const struct ring_segment *segment, struct err *e);
int ring_broadcast(struct ring *r, void *buf, size_t bytes, int root_node, struct err *e);
// The result is the same bits on every node.
int ring_all_reduce(struct ring *r, const struct element *type, void *buf, size_t count,
                    double factor, struct err *e);
// Between two operations, none of which a neighbour may miss: -1 when one has gone, or has sent
// the reason for its end. Does not wait.
int ring_check(struct ring *r, struct err *e);
// Tells both neighbours why this node stops. Best effort, does not wait.
void ring_fault(struct ring *r, const struct err *e);

#endif
