// SPDX-License-Identifier: Apache-2.0
// Replaces lost machines while the run continues. `dtctl up` is started, which creates the machines
// that the cluster lacks; the new nodes join the run by agent_restart.h. Used for providers whose
// machines cost money and end by themselves (provider.costs). `up` finds out which machines are
// gone, so a node that is only unreachable costs one query.
//
//     node_replace_init(&r, &follow);
//     … follow_wait …
//     node_replace_close(&r); // stops an `up` that is in progress
#ifndef RUN_NODE_REPLACE_H
#define RUN_NODE_REPLACE_H

#include "follow/follow.h"

enum {
    REPLACE_TRIES_MAX = 5,           // consecutive tries without success
    REPLACE_SETTLE_MS = 3 * 1000,    // nodes lost within this time are replaced at once
    REPLACE_WAIT_MS = 1200 * 1000,   // a run waits this long for nodes that it needs
    REPLACE_PAUSE_MS = 15 * 1000,    // after a try without success; doubles
    REPLACE_STOP_MS_MAX = 120 * 1000 // for `up` to undo an unfinished change
};

struct replace {
    struct follow *follow;
    struct child up;
    struct timer tick;
    int64_t next_ms; // monotonic; no try before
    int64_t seen_ms; // when a loss was first seen; 0: no node is gone
    int tries;
    const char *log_path;
};

void node_replace_init(struct replace *r, struct follow *f);
void node_replace_close(struct replace *r); // no-op without node_replace_init

#endif
