// SPDX-License-Identifier: Apache-2.0
// Placement of the copies of a node's state on other nodes, and the new node that takes it over.
// Pure.
//
// The nodes of a round stand in a ring in the order of their ranks. The copies of a node's state
// are on the nodes that follow it. A node that is new in a round has the state of a node that the
// round lacks: the first new node that of the first one that is gone, and so on.
#ifndef COPIES_REPLICA_PLACEMENT_H
#define COPIES_REPLICA_PLACEMENT_H

enum {
    REPLICA_RING_MAX = 16,   // nodes that may have a copy of a state; the holders come first
    REPLICA_PEERS_MAX = 256, // nodes that a node knows, in a run that deals inputs anew
};

// Fills `ring` with the ranks that follow rank `self` of `count`, at most `most` of them, and
// returns their number.
int replica_placement_ring(int count, int self, int *ring, int most);
// Of each node of this round the name of the node whose state it takes over; NULL: none. Both lists
// are in the order of ranks, and `out` has room for `now_count`.
void replica_placement_heirs(const char *const *last, int last_count, const char *const *now,
                             int now_count, const char **out);

#endif
