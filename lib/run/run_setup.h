// SPDX-License-Identifier: Apache-2.0
// Preparing nodes for a run, by unpacking env.bundle and by the script of [setup]: in parallel,
// before any rank starts. The output of each node goes to setup/NODE.log in the folder of the run.
#ifndef RUN_RUN_SETUP_H
#define RUN_RUN_SETUP_H

#include "run/run_start.h"

enum { SETUP_TAIL_BYTES_MAX = 2048 }; // of a failed setup's output, which are shown

struct node_setup {
    struct fleet_node *node;
    struct run_start *start;
    // Called once: e->code is ERR_NONE when the node is ready. Never inside node_setup_begin.
    void (*on_over)(struct node_setup *s, const struct err *e);

    struct transport_run *run; // NULL: not running
    struct timer limit;
    struct strbuf answer, tail; // tail: the last bytes of the output
    int log_fd;
    bool ran; // false: an earlier run had prepared the node
};

int node_setup_begin(struct node_setup *s, struct err *e);
void node_setup_close(struct node_setup *s); // stops the script; no callback

// All nodes of the fleet, as one step of `train`. No-op without a setup. Failures are kept per
// node.
int node_setup_each(struct run_start *l, struct fleet *f, struct err *e);

#endif
