// SPDX-License-Identifier: Apache-2.0
// Restarts an agent that has vanished while its host still answers, so that the run grows back. The
// number of restarts per machine is bounded and the pauses between them grow. A node that does not
// know the run is a replacement machine: it first reads its objects of the inputs, receives the
// files of the run, and a command's state that state.every has fetched from the machine before it.
// Only the dtctl process that started the run can restart agents, since it alone holds the run's
// key. Requires --max-restarts.
// No agent is restarted once the run is over on any node, once the run was asked to stop, or when
// no other node is left to join.
//
//     agent_restart_init(&r, &launch, &follow); // installs follow's handler for lost nodes
//     … follow_wait …
//     agent_restart_close(&r);
#ifndef RUN_AGENT_RESTART_H
#define RUN_AGENT_RESTART_H

#include "fleet/agent_start.h"
#include "fleet/hashing.h"
#include "follow/follow.h"
#include "run/inputs/input_again.h"
#include "run/run_setup.h"
#include "run/run_start.h"
#include "xfer/xfer.h"

enum {
    RESTART_TRIES_MAX = 3,           // per machine of a node
    RESTART_PAUSE_MS = 1000,         // before the first restart; doubles
    RESTART_JOIN_MS_MAX = 30 * 1000, // time for the agent to find the others
};

struct agent_restart_node {
    struct agent_start agent;
    struct node_setup setup; // of a new node, between its files and its agent
    struct timer pause;
    struct agent_restart *restart;
    struct follow_node *node;
    bool is_new;            // the node has no files of the run
    struct manifest *state; // of state.every, for a new node; NULL: none
    struct hashing hashing; // of the state
    struct xfer *xfer;      // transfer in progress; NULL: none
    size_t sent;            // parts sent so far
    bool has_objects;       // of inputs from servers
    int tries;
};

struct agent_restart {
    struct run_start *launch;
    struct follow *follow;
    struct agent_restart_node *nodes;
    struct input_again inputs;
};

void agent_restart_init(struct agent_restart *r, struct run_start *l, struct follow *f);
void agent_restart_close(struct agent_restart *r); // no-op without agent_restart_init

#endif
