// SPDX-License-Identifier: Apache-2.0
// The reachability matrix: every node connects to every other one on a free port.
//
// The agent on each node listens (probe_node.h), then each connects to all others at once. A node
// whose connections fail is marked as failed with the list of peers and reasons. Nodes that failed
// before take no part.
#ifndef JOB_REACH_H
#define JOB_REACH_H

#include "job/fleet.h"

int reach_check(struct fleet *f, struct err *e);

#endif
