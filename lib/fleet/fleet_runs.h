// SPDX-License-Identifier: Apache-2.0
// Lists the runs of a fleet from `dtrun --node status` on all nodes.
#ifndef FLEET_FLEET_RUNS_H
#define FLEET_FLEET_RUNS_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { NODE_RUNS_MAX = 100000 };

struct node_run {
    const char *run, *name, *node, *state, *reason;
    const char *owner; // id of its cluster (owner.h); "" without an owner file
    size_t node_index; // index in the fleet
    int node_rank, pid, round, restarts, max_restarts, agent_starts;
    int exit_status; // -1: not over
    int ranks_running, ranks;
    int *running; // the ranks_running running ranks; -1: unknown
    int64_t created_ms, updated_ms;
    bool coordinator, over;
    bool fetched; // marked on the node as fetched
};

struct node_runs {
    struct node_run *items;
    size_t count, room;
};

// Asks every node that has not failed; run NULL: all runs. Failures are kept in the fleet; a node
// without the run has not failed.
int fleet_runs_ask(struct fleet *f, const char *run, struct node_runs *out, struct err *e);
// Marks a run as fetched on its nodes, which then need not keep its results. `down`, `gc` or the
// next fetch inform nodes that cannot be reached now.
void fleet_runs_mark_fetched(struct fleet *f, const char *run);
// Adds the lines of one node's answer. Pure.
void fleet_runs_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                      struct node_runs *out);

// The fleet of one run: its record, and connections to its nodes in rank order.

struct run_fleet {
    struct inventory inventory;
    struct run run;
    struct fleet fleet;
};

// run: as in cluster_find_run. A note names the run if its task has several. Does not connect.
int fleet_runs_open(struct run_fleet *r, struct context *s, const char *run, struct err *e);
// The same; without a cluster a run of which nothing is left on nodes has absent nodes only.
int fleet_runs_open_or_here(struct run_fleet *r, struct context *s, const char *run, struct err *e);

#endif
