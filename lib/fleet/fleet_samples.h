// SPDX-License-Identifier: Apache-2.0
// Looks at one run on all its nodes: its state, the newest sample of each node, and the ends of
// what rank 0 has printed (`dtrun --node status --sample`).
#ifndef FLEET_FLEET_SAMPLES_H
#define FLEET_FLEET_SAMPLES_H

#include "fleet/fleet_runs.h"
#include "protocol/node_sample.h"

struct tail_text {
    const char *text; // as the node sent it; may hold any bytes
    size_t len;
};

struct node_look {
    const struct node_run *run; // NULL: the node has not answered, or does not know the run
    bool silent;                // its agent has not answered
    bool knows_samples;         // else the agent is of an older dtctl
    int64_t every_ms;           // 0: the node is not sampled
    bool has_sample;
    struct node_sample sample;
    struct tail_text out, err, metrics; // of rank 0; empty elsewhere
};

// looks: one for each node of the fleet. Failures are kept in the fleet.
int fleet_samples_ask(struct fleet *f, const char *run, struct node_look *looks, struct err *e);
// Reads one node's answer. Pure; all memory is in the arena.
void fleet_samples_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                         struct node_look *out);

#endif
