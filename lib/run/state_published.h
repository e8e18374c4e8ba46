// SPDX-License-Identifier: Apache-2.0
// state.every: while a run is followed, whole generations of the state of its nodes come to this
// side, where they stand in for nodes that are lost. Of the native trainer, whose nodes have equal
// states, the first node in reach gives its own.
//
//     state_published_open(&p, &follow); // nothing without state.every
//     … follow_wait …
//     state_published_close(&p); // drops transfers in progress
//
// runs/<run>/published/<node>/<number>/state/ is a generation, complete since its rename; the two
// newest are kept. Failures are warnings: the run continues.
#ifndef RUN_STATE_PUBLISHED_H
#define RUN_STATE_PUBLISHED_H

#include "follow/follow.h"
#include "xfer/xfer.h"

enum {
    PUBLISHED_BUSY_MS = 1000, // until a node is asked again whose state is being written
    PUBLISHED_LATE = 10,      // intervals without a generation until the user is warned
};

struct published {
    struct follow *follow; // NULL: closed
    int64_t every_ms;
    struct published_node {
        struct published *all;
        struct follow_node *node;
        struct timer next;
        struct xfer *xfer; // NULL: no transfer
        bool asks;         // an answer of the node is due
        bool warned;
        char digest[HASH_HEX_BYTES]; // of the snapshot that is being fetched
        char known[HASH_HEX_BYTES];  // of the newest generation; "": none
        int64_t number;              // of the newest generation
        int64_t newest_ms;           // monotonic; at first, when the run was followed
        int64_t files, bytes;
    } * nodes;
};

void state_published_open(struct published *p, struct follow *f);
void state_published_close(struct published *p);

// The folder of the newest generation, whose content is `state`; NULL: there is none.
const char *state_published_newest(struct context *s, const struct run *run, const char *node);
// Removes the generations of a node; NULL: of all nodes.
int state_published_remove(struct context *s, const struct run *run, const char *node,
                           struct err *e);

#endif
