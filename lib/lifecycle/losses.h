// SPDX-License-Identifier: Apache-2.0
// What would be lost with nodes: runs on them whose results are on no other machine. `down`, `up`
// that drops nodes and everything else that removes a node's files asks here first.
//
//     losses_find(&fleet, &rules, &l, e);    // the fleet is connected; nothing is changed
//     losses_tell(&l);                       // lines for a person
//     losses_settle(&l, e);                  // brings what can be brought, or refuses
//
// All memory is in the context's arena.
#ifndef LIFECYCLE_LOSSES_H
#define LIFECYCLE_LOSSES_H

#include "cluster/run_record.h"
#include "fleet/fleet_runs.h"

struct losses_rules {
    bool force;        // runs end, results are lost: the owner says so
    bool machines_end; // with all that is on them, whoever it is of
    const char *way;   // what does it all the same, such as "dtctl down --force"
    const bool *gone;  // per node: its machine is gone, with all that was on it; NULL: none
};

struct loss {
    const char *run, *node; // one of the nodes it is on
    bool recorded;          // this side has its record: it can be fetched
};

struct losses {
    struct fleet *fleet;
    const struct losses_rules *rules;
    const struct node_run *going; // a run that still works; NULL: none
    struct loss *items;           // over, and not fetched
    size_t count;
    const char **fetched; // runs on the nodes whose results are here
    size_t fetched_count;
};

int losses_find(struct fleet *f, const struct losses_rules *rules, struct losses *out,
                struct err *e);
// " (1 run not fetched)", or "" when nothing would be lost.
const char *losses_words(const struct losses *l);
void losses_tell(const struct losses *l);
// 0: nothing is lost any more, or the rules say that it may be.
int losses_settle(struct losses *l, struct err *e);
// Folded for a message: "a, b, c and 4 more".
const char *losses_names(const struct losses *l);

#endif
