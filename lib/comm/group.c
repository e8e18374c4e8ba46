// SPDX-License-Identifier: Apache-2.0
// Finds the members of a group and their places.
#include "comm/group.h"

#include <stdlib.h>

static int by_key(const void *a, const void *b) {
    const struct group_member *x = a, *y = b;
    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

const struct group_member *group_place(struct comm_config *config, struct group_member *all,
                                       int world, int rank, int color) {
    qsort(all, (size_t)world, sizeof *all, by_key);
    const struct group_member *m = all, *end = all + world;
    while (m < end && m->color != color)
        m++;
    int members = 0, own = 0;
    for (; m + members < end && m[members].color == color; members++)
        if (m[members].rank == rank)
            own = members;
    config->rank = own;
    config->world = members;
    config->node = config->nodes = config->local_rank = config->local_world = 0;
    for (int i = 0; i < members; i++) {
        bool first = true; // of its node
        for (int k = 0; k < i && first; k++)
            first = m[k].node != m[i].node;
        config->nodes += first;
        config->node += first && m[i].node < m[own].node;
        config->local_world += m[i].node == m[own].node;
        config->local_rank += m[i].node == m[own].node && i < own;
    }
    return m;
}
