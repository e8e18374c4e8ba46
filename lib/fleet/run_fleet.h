// SPDX-License-Identifier: Apache-2.0
// The fleet of one run: its record, and connections to the nodes it runs on, in rank order.
#ifndef FLEET_RUN_FLEET_H
#define FLEET_RUN_FLEET_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

struct run_fleet {
    struct inventory inventory;
    struct run run;
    struct fleet fleet;
};

// run: name, unique beginning, or NULL for the newest. Opens the fleet; nothing connects yet.
int run_fleet_open(struct run_fleet *r, struct context *s, const char *run, struct err *e);

#endif
