// SPDX-License-Identifier: Apache-2.0
// One look of `dtctl top`: a table for people and a JSON object.
#ifndef DTCTL_TOP_SHOW_H
#define DTCTL_TOP_SHOW_H

#include "fleet/fleet_samples.h"
#include "follow/newest_metrics.h"

struct top_look {
    const struct run *run;
    const struct fleet *fleet;     // nodes in the order of the run's node ranks
    const struct node_look *looks; // one for each of them
    const struct newest_metrics *metrics;
    const char *state, *reason;
    size_t going;  // nodes whose agents work, as far as known
    size_t silent; // of these: whose agents do not answer
    int ranks_running, round, restarts;
    int64_t elapsed_ms, cost_mils; // cost -1: not known, or machines cost nothing
};

void top_show(struct context *s, const struct top_look *l);

#endif
