// SPDX-License-Identifier: Apache-2.0
// Selects the nodes of a round and their ranks. The sort keys do not change between rounds: a node
// that returns gets its old place.
#include "rendezvous/rank_order.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static int order_of_ranks(const void *pa, const void *pb) {
    const struct rendezvous_member *a = *(struct rendezvous_member *const *)pa;
    const struct rendezvous_member *b = *(struct rendezvous_member *const *)pb;
    bool given_a = a->node_rank >= 0, given_b = b->node_rank >= 0;
    if (given_a != given_b)
        return given_a ? -1 : 1;
    if (given_a && a->node_rank != b->node_rank)
        return a->node_rank < b->node_rank ? -1 : 1;
    int c = str_natural_cmp(a->name, b->name);
    return c ? c : (a->seq > b->seq) - (a->seq < b->seq);
}

// When there are more nodes than places: the coordinator, the nodes of the last round, others.
static int order_of_places(const void *pa, const void *pb) {
    const struct rendezvous_member *a = *(struct rendezvous_member *const *)pa;
    const struct rendezvous_member *b = *(struct rendezvous_member *const *)pb;
    if (a->coordinates != b->coordinates)
        return a->coordinates ? -1 : 1;
    if (a->in_round != b->in_round)
        return a->in_round ? -1 : 1;
    return order_of_ranks(pa, pb);
}

struct role_count {
    const char *role;
    int count;
};

static int *role_slot(struct role_count *roles, int *count, const char *role) {
    for (int i = 0; i < *count; i++)
        if (strcmp(roles[i].role, role) == 0)
            return &roles[i].count;
    if (*count == RENDEZVOUS_ROLES_MAX)
        return &roles[RENDEZVOUS_ROLES_MAX - 1].count;
    roles[*count] = (struct role_count){role, 0};
    return &roles[(*count)++].count;
}

int rank_order_rank(struct rendezvous_member **chosen, int count) {
    struct role_count roles[RENDEZVOUS_ROLES_MAX];
    int role_kinds = 0, world = 0;
    for (int i = 0; i < count; i++) {
        struct rendezvous_member *m = chosen[i];
        int *seen = role_slot(roles, &role_kinds, m->role);
        m->in_round = true;
        m->group_rank = i;
        m->rank = world;
        m->role_rank = *seen;
        world += m->nproc;
        *seen += m->nproc;
    }
    for (int i = 0; i < count; i++)
        chosen[i]->role_world = *role_slot(roles, &role_kinds, chosen[i]->role);
    return world;
}

int rank_order_choose(struct rendezvous_member **all, int count, int places, int64_t coordinates) {
    for (int i = 0; i < count; i++)
        all[i]->coordinates = coordinates != 0 && all[i]->incarnation == coordinates;
    qsort(all, (size_t)count, sizeof(void *), order_of_places);
    for (int i = 0; i < count; i++) {
        all[i]->in_round = false;
        all[i]->group_rank = -1;
    }
    if (count > places)
        count = places;
    qsort(all, (size_t)count, sizeof(void *), order_of_ranks);
    return count;
}
