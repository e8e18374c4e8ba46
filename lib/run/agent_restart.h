// SPDX-License-Identifier: Apache-2.0
// An agent that has vanished while its host is there is started again, so that the run grows back:
// a bounded number of times per node, with pauses that grow. A node that does not know the run, as
// another machine has taken its place, first gets what the run sends. Only the dtctl that started
// the run can: it alone has the run's key. Needs --max-restarts; not once the run is over anywhere,
// nor when it was asked to stop, nor when no other node is left to join.
//
//     revive_init(&r, &launch, &follow);     // becomes follow's answer to a node that is lost
//     … follow_wait …
//     revive_close(&r);
#ifndef RUN_AGENT_RESTART_H
#define RUN_AGENT_RESTART_H

#include "fleet/agent_start.h"
#include "run/follow.h"
#include "run/run_start.h"
#include "xfer/xfer.h"

enum {
    REVIVE_TRIES_MAX = 3,           // for each node
    REVIVE_PAUSE_MS = 1000,         // before the first; doubles
    REVIVE_JOIN_MS_MAX = 30 * 1000, // for the agent to find the others
};

struct revive_node {
    struct agent_start agent;
    struct timer pause;
    struct revive *revive;
    struct follow_node *node;
    bool is_new;       // the node has nothing of the run:
    struct xfer *xfer; // NULL: nothing is being sent
    size_t sent;       // parts so far
    int tries;
};

struct revive {
    struct run_start *launch;
    struct follow *follow;
    struct revive_node *nodes;
};

void revive_init(struct revive *r, struct run_start *l, struct follow *f);
void revive_close(struct revive *r); // no-op without revive_init

#endif
