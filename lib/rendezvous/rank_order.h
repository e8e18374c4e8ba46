// SPDX-License-Identifier: Apache-2.0
// The order of nodes and ranks in a round. Pure; works on arrays of pointers owned by rendezvous.c.
#ifndef RENDEZVOUS_RANK_ORDER_H
#define RENDEZVOUS_RANK_ORDER_H

#include "rendezvous/rendezvous.h"

// Puts the nodes that take part in front, in rank order, and returns their number (at most places).
// When there are more nodes than places, the coordinator (its incarnation) comes first, then the
// nodes of the last round.
int rank_order_choose(struct rendezvous_member **all, int count, int places, int64_t coordinates);
// Gives group ranks, ranks and role ranks; returns the world size.
int rank_order_rank(struct rendezvous_member **chosen, int count);

#endif
