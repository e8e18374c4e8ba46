// SPDX-License-Identifier: Apache-2.0
// Objects of a server that every node gets, in about one copy from the server. Each node reads a
// part of them into its content store. The nodes then give their parts to each other
// (fleet_share_manifest), and verify what comes. Objects that a node could not read are split among
// the others. A node reads from the server what no other node could give it.
//
// Without fan-out each node reads all: cluster.fanout = "off", one node, nodes on this computer or
// without a numeric address, and more than FLEET_SHARE_NODES_MAX nodes.
#ifndef RUN_INPUT_FANOUT_H
#define RUN_INPUT_FANOUT_H

#include "run/inputs/input_remote.h"

enum { INPUT_FANOUT_READS_MAX = 3 }; // times that what is unread is split

// Adds an entry of the list to what every node gets; path: where it goes.
int input_fanout_add(struct run_start *l, const struct input_remote *from,
                     const struct manifest_entry *entry, const char *path, struct err *e);
// The files for every node; NULL: none. After input_fanout_send with the hashes of the content.
struct manifest *input_fanout_files(const struct run_start *l);
// Reads, shares and places. Failures are kept per node.
int input_fanout_send(struct run_start *l, struct fleet *f, struct err *e);
void input_fanout_close(struct run_start *l);

#endif
