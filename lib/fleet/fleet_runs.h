// SPDX-License-Identifier: Apache-2.0
// What the nodes say about runs: `dtrun --node status` of a whole fleet, as a list.
#ifndef FLEET_FLEET_RUNS_H
#define FLEET_FLEET_RUNS_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { NODE_RUNS_MAX = 100000 };

struct node_run {
    const char *run, *name, *node, *state, *reason;
    const char *owner; // id of its cluster (claim.h); "" when it bears no mark
    size_t node_index; // in the fleet
    int node_rank, pid, round, restarts, max_restarts, agent_starts;
    int exit_status; // -1: not over
    int ranks_running, ranks;
    int *running; // those that run, ranks_running of them; -1: not known
    int64_t created_ms, updated_ms;
    bool coordinator, over;
    bool fetched; // the node knows that its results are elsewhere
};

struct node_runs {
    struct node_run *items;
    size_t count, room;
};

// Asks every node that has not failed; run NULL: about all runs. Failures are kept in the fleet;
// a node that does not know the run is no failure.
int node_runs_ask(struct fleet *f, const char *run, struct node_runs *out, struct err *e);
// Lets the nodes know that a run's results are on this side: they need not be kept for it any
// longer. A node that cannot be reached now learns it from `down`, `gc` or the next fetch.
void node_runs_mark_fetched(struct fleet *f, const char *run);
// Pure: adds the lines of one node's answer.
void node_runs_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                     struct node_runs *out);

// The fleet of one run: its record, and connections to the nodes it runs on, in rank order.

struct run_fleet {
    struct inventory inventory;
    struct run run;
    struct fleet fleet;
};

// run: name, unique beginning, or NULL for the newest. Opens the fleet; nothing connects yet.
int run_fleet_open(struct run_fleet *r, struct context *s, const char *run, struct err *e);

#endif
