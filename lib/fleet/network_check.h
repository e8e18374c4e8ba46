// SPDX-License-Identifier: Apache-2.0
// The reachability check: every node connects to others on a free port.
//
// The agent on each node listens (node_probe.c), then each connects to its peers at once: all
// others, or with many nodes some of them. A node whose connections fail is marked as failed with
// the list of peers and reasons. Nodes that failed before take no part. Nothing is done when the
// nodes are those of the last check that all passed.
#ifndef FLEET_NETWORK_CHECK_H
#define FLEET_NETWORK_CHECK_H

#include "fleet/fleet.h"

int reach_check(struct fleet *f, struct err *e);
// Whether the node with one index connects to that with another, among so many. Pure.
bool reach_asks(size_t from, size_t to, size_t count);

#endif
