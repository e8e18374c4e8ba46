// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the members of a group that is split off, and their nodes. Pure.
#ifndef COMM_GROUP_H
#define COMM_GROUP_H

#include "comm/comm.h"

struct group_member {
    int32_t color, key;
    int32_t rank, node; // in the parent
};

// Sorts `all` (world of them) into groups, and sets in `config` the place of `rank` in the group of
// its color: rank, world, and the nodes that have a member, in their order. Returns the group's
// members in its order.
const struct group_member *group_place(struct comm_config *config, struct group_member *all,
                                       int world, int rank, int color);

#endif
