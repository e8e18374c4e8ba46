// SPDX-License-Identifier: Apache-2.0
// Runs with results that are on no other machine than the nodes to be removed. `down`,
// `up` with fewer nodes, and everything else that removes a node's files checks here first.
//
//     unfetched_find(&fleet, &rules, &l, e); // the fleet is connected; changes nothing
//     unfetched_show(&l); // prints one line per loss
//     unfetched_settle(&l, e); // fetches results where possible, else refuses
//
// All memory is in the context's arena.
#ifndef LIFECYCLE_UNFETCHED_H
#define LIFECYCLE_UNFETCHED_H

#include "cluster/run_record.h"
#include "fleet/fleet_runs.h"

struct unfetched_rules {
    bool force;        // end runs and discard results
    bool machines_end; // the machines end with all files, of all owners
    const char *way;   // command that forces it, such as "dtctl down --force"
    const bool *gone;  // per node: its machine and files are gone; NULL: none
};

struct loss {
    const char *run, *node; // node: one of the run's nodes
    const char *what;       // "results", or their kinds that are there: "model and state"
    bool recorded;          // this side has its record, so it can be fetched
};

struct unfetched {
    struct fleet *fleet;
    const struct unfetched_rules *rules;
    const struct node_run *going; // an active run; NULL: none
    struct loss *items;           // runs that are over and not fetched
    size_t count;
    const char **fetched; // runs on the nodes whose results are here
    size_t fetched_count;
};

int unfetched_find(struct fleet *f, const struct unfetched_rules *rules, struct unfetched *out,
                   struct err *e);
void unfetched_show(const struct unfetched *l);
// 0: nothing remains to be lost, or the rules permit the loss.
int unfetched_settle(struct unfetched *l, struct err *e);
// Folded for a message: "a, b, c and 4 more".
const char *unfetched_names(const struct unfetched *l);

#endif
