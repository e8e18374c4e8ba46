// SPDX-License-Identifier: Apache-2.0
// Fetches the results of nodes that are about to be preempted, while the run continues without
// them. results_collect uses them when such a node cannot be reached any more. The native trainer
// does not need this: the other nodes have the same files.
//
//     results_drain_open(&r, &follow);
//     … results_drain_node(&r, n) when the agent of a followed node has ended …
//     results_drain_close(&r); // drops transfers in progress
//
// follow_wait waits for the transfers. FLEET_MOVING_NODES_MAX nodes are served at a time, in the
// order of their ends. Failures are warnings: the run continues.
#ifndef RUN_RESULTS_DRAIN_H
#define RUN_RESULTS_DRAIN_H

#include "follow/follow.h"
#include "xfer/xfer.h"

struct results_drain {
    struct follow *follow;
    struct results_drain_node {
        struct results_drain *drain;
        const struct follow_node *node;
        struct xfer *xfer;               // NULL: no transfer
        bool waits;                      // its transfer begins when another one has ended
        struct results_drain_node *next; // in the queue
    } * nodes, *first, **end;            // of the follow; the queue
    size_t under_way;
};

void results_drain_open(struct results_drain *r, struct follow *f);
void results_drain_node(struct results_drain *r, const struct follow_node *n);
void results_drain_close(struct results_drain *r);

#endif
