// SPDX-License-Identifier: Apache-2.0
// Limits the number of connections that have not joined.
#include "channel/admission.h"

#include "base/arena.h"

void admission_leave(struct newcomer *g) {
    struct admission *all = g->in;
    if (!all)
        return;
    *(g->prev ? &g->prev->next : &all->first) = g->next;
    *(g->next ? &g->next->prev : &all->last) = g->prev;
    all->count--;
    *g = (struct newcomer){0};
}

static void make_room(struct admission *all, const struct net_address *from) {
    struct newcomer *oldest = NULL;
    char text[NET_ADDRESS_BYTES_MAX];
    int same = 0, same_max = (all->max + 1) / 2;
    if (all->count < same_max)
        return;
    for (struct newcomer *g = all->first; g; g = g->next)
        if (net_same_host(&g->from, from) && same++ == 0)
            oldest = g;
    if (same < same_max)
        oldest = all->count < all->max ? NULL : all->first;
    if (!oldest)
        return;
    if (log_admits(&all->full))
        log_warn("closing the oldest unauthenticated connection", "peer=%s open=%d limit=%d",
                 net_format(&oldest->from, text), all->count, all->max);
    oldest->on_evict(oldest);
    must(all->count < all->max);
}

void admission_add(struct admission *all, struct newcomer *g, const struct net_address *from,
                   void (*on_evict)(struct newcomer *g)) {
    make_room(all, from);
    *g = (struct newcomer){.in = all, .prev = all->last, .from = *from, .on_evict = on_evict};
    *(g->prev ? &g->prev->next : &all->first) = g;
    all->last = g;
    all->count++;
}
