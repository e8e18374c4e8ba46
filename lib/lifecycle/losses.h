// SPDX-License-Identifier: Apache-2.0
// The losses caused by removing nodes: runs on them whose results are on no other machine. `down`,
// `up` with fewer nodes, and everything else that removes a node's files checks here first.
//
//     losses_find(&fleet, &rules, &l, e); // the fleet is connected; changes nothing
//     losses_tell(&l); // prints one line per loss
//     losses_settle(&l, e); // fetches results where possible, else refuses
//
// All memory is in the context's arena.
#ifndef LIFECYCLE_LOSSES_H
#define LIFECYCLE_LOSSES_H

#include "cluster/run_record.h"
#include "fleet/fleet_runs.h"

struct losses_rules {
    bool force;        // end runs and discard results
    bool machines_end; // the machines end with all files, of all owners
    const char *way;   // command that forces it, such as "dtctl down --force"
    const bool *gone;  // per node: its machine and files are gone; NULL: none
};

struct loss {
    const char *run, *node; // node: one of the run's nodes
    bool recorded;          // this side has its record, so it can be fetched
};

struct losses {
    struct fleet *fleet;
    const struct losses_rules *rules;
    const struct node_run *going; // an active run; NULL: none
    struct loss *items;           // runs that are over and not fetched
    size_t count;
    const char **fetched; // runs on the nodes whose results are here
    size_t fetched_count;
};

int losses_find(struct fleet *f, const struct losses_rules *rules, struct losses *out,
                struct err *e);
// " (1 run not fetched)", or "" when nothing would be lost.
const char *losses_words(const struct losses *l);
void losses_tell(const struct losses *l);
// 0: nothing remains to be lost, or the rules permit the loss.
int losses_settle(struct losses *l, struct err *e);
// Folded for a message: "a, b, c and 4 more".
const char *losses_names(const struct losses *l);

#endif
