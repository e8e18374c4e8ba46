// SPDX-License-Identifier: Apache-2.0
// Fan-out: pushes of one list of files to several nodes, in which content leaves this computer
// once. Nodes that lack the same content form a chain: the first gets from here what any of them
// lacks, keeps what it lacks itself, and passes all on to the next while it arrives.
//
//     struct fanout *g = fanout_new(loop); // for one step
//     xfer_push(link, &(struct xfer_push_spec){…, .fanout = g, .address = "10.0.0.7"}, …) // each
//     fanout_free(g); // after the last push has ended
//
// A chain is never needed for a push to succeed. It breaks when a node is lost, takes nothing for
// RELAY_STALL_MS, or receives nothing for FANOUT_STALL_MS. Then, or at its end, each node says what
// it still lacks; those nodes form another chain, or get the rest from here. A node that compares
// its files for long does not hold up the others. Where pushes begin as others end, those that wait
// form one chain: while content passes a chain and further pushes are to come, they are awaited.
//
// Peers: the content is on the nodes alone, each of which has a part (xfer_push_spec.peers). The
// node that has most of what others lack is the first of a chain, and gives it from its own store.
// Chains follow until no node can give anything more. All nodes are awaited before a push ends. A
// node that only gives is never behind another one.
#ifndef XFER_FANOUT_H
#define XFER_FANOUT_H

#include "sys/loop.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FANOUT_WAIT_MS = 1000,            // for further nodes, once the first one has compared
    FANOUT_CONNECT_MS = 5000,         // until all links of a chain stand
    FANOUT_STALL_MS = 10000,          // without content, for a node and those that wait behind it
    FANOUT_WATCH_MS = 1000,           // from one look for such a node to the next
    FANOUT_SAVED_BYTES_MIN = 4 << 20, // less is sent from here
    FANOUT_PEERS_WAIT_MS = 10000,     // the same, for a node that may have what others lack
    FANOUT_TO_COME_WAIT_MS = 10000,   // the same, for pushes that are to come
    FANOUT_CHAINS_MAX = 3,            // that one push takes part in; of peers: that a node begins
    FANOUT_NODES_MAX = 64,            // in one chain
};

struct fanout;
struct push;

struct fanout *fanout_new(struct loop *loop);
void fanout_free(struct fanout *g); // NULL: no effect
// So many pushes are to join, now or as others end. NULL: no effect.
void fanout_expect(struct fanout *g, size_t pushes);

// ---- for a push ---------------------------------------------------------------------------------

enum fanout_state {
    FANOUT_ALONE,     // no fan-out, or no longer
    FANOUT_COMPARING, // the node compares
    FANOUT_WAITING,   // its needs are known
    FANOUT_RELAYED,   // in a chain; its needs are awaited
};

struct fanout_member { // embedded in the push
    struct fanout *group;
    struct push *push;
    const char *address;
    enum fanout_state state;
    int chains;                            // it took part in; of peers: it began
    struct fanout_chain *chain;            // RELAYED: until the chain's end or its own
    struct fanout_member *before, *behind; // in the chain
    struct fanout_member *prev, *next;     // in the group
    uint32_t port;                         // where it waits for the one before
    bool linked;                           // the link from the one before stands
    uint64_t received;                     // bytes of the push, as the watch last saw them
    int64_t received_ms;                   // when they last grew
};

// g may be NULL. The address's bytes stay the caller's.
void fanout_join(struct fanout *g, struct fanout_member *m, struct push *p, const char *address);
// The push knows what its node lacks. Sooner or later xfer_push_direct or xfer_push_relayed
// follows.
void fanout_ready(struct fanout_member *m);
void fanout_leave(struct fanout_member *m);              // the push has ended; safe to call twice
int fanout_port(struct fanout_member *m, uint32_t port); // an answer to RELAY_FROM; always 0
void fanout_link(struct fanout_member *m, bool stands);  // to the node behind

#endif
