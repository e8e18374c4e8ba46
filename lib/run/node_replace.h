// SPDX-License-Identifier: Apache-2.0
// Machines that are gone for good are made anew while the run goes on: `dtctl up` is started, which
// makes what the cluster lacks, and the nodes join the run by agent_restart.h. For providers whose
// machines cost money and end by themselves (provider.costs); `up` finds out what is gone, so one
// that is only out of reach costs nothing but the question.
//
//     replace_init(&r, &follow);
//     … follow_wait …
//     replace_close(&r);              // what is being made for a run that is over is called off
#ifndef RUN_NODE_REPLACE_H
#define RUN_NODE_REPLACE_H

#include "run/follow.h"

enum {
    REPLACE_TRIES_MAX = 5,           // in a row that did not help
    REPLACE_SETTLE_MS = 3 * 1000,    // several nodes lost at once are made at once
    REPLACE_WAIT_MS = 1200 * 1000,   // that a run waits for nodes it cannot go on without
    REPLACE_PAUSE_MS = 15 * 1000,    // after a try that did not help; doubles
    REPLACE_STOP_MS_MAX = 120 * 1000 // for `up` to undo what it had begun
};

struct replace {
    struct follow *follow;
    struct child up;
    struct timer tick;
    int64_t next_ms; // monotonic; not before
    int64_t seen_ms; // since when a node is gone; 0: none is
    int tries;
    const char *log_path;
};

void replace_init(struct replace *r, struct follow *f);
void replace_close(struct replace *r); // no-op without replace_init

#endif
