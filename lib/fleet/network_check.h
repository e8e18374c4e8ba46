// SPDX-License-Identifier: Apache-2.0
// The reachability check: every node connects to others on a free port.
//
// The agent on each node listens (node_probe.c). Then each node connects to its peers at once: all
// others, or with many nodes a subset. A node with failed connections is marked as failed, with the
// list of peers and reasons. Nodes that failed before are left out. The check is skipped when the
// nodes are those of the last successful check.
#ifndef FLEET_NETWORK_CHECK_H
#define FLEET_NETWORK_CHECK_H

#include "fleet/fleet.h"

int network_check(struct fleet *f, struct err *e);
// True when node `from` connects to node `to`, among `count` nodes. Pure.
bool network_check_asks(size_t from, size_t to, size_t count);
// The remedy for nodes that do not reach each other. Pure.
const char *network_check_remedy(const struct fleet *f);

#endif
