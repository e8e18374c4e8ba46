// SPDX-License-Identifier: Apache-2.0
// Bounds the number of connections that have not joined.
#include "channel/guests.h"

#include "base/arena.h"

void guests_leave(struct guest *g) {
    struct guests *all = g->in;
    if (!all)
        return;
    *(g->prev ? &g->prev->next : &all->first) = g->next;
    *(g->next ? &g->next->prev : &all->last) = g->prev;
    all->count--;
    *g = (struct guest){0};
}

static void make_room(struct guests *all, const struct net_address *from) {
    struct guest *oldest = NULL;
    char text[NET_ADDRESS_BYTES_MAX];
    int same = 0, same_max = (all->max + 1) / 2;
    if (all->count < same_max)
        return;
    for (struct guest *g = all->first; g; g = g->next)
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

void guests_add(struct guests *all, struct guest *g, const struct net_address *from,
                void (*on_evict)(struct guest *g)) {
    make_room(all, from);
    *g = (struct guest){.in = all, .prev = all->last, .from = *from, .on_evict = on_evict};
    *(g->prev ? &g->prev->next : &all->first) = g;
    all->last = g;
    all->count++;
}
