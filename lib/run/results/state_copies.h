// SPDX-License-Identifier: Apache-2.0
// Fetches the state of nodes that are out of reach from the copies that other nodes have
// (state.replicas). A copy becomes a generation of state_published.h, which is used when the node
// is lost.
#ifndef RUN_STATE_COPIES_H
#define RUN_STATE_COPIES_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

// For every failed node of the fleet without a newer generation here. Nodes without a copy are no
// error.
int state_copies_fetch(struct fleet *f, const struct run *run, struct err *e);

#endif
