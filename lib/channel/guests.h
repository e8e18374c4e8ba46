// SPDX-License-Identifier: Apache-2.0
// Limits connections that are not members yet. There is a limit for all, and half of it for one
// address. A further connection replaces the oldest one. A member needs its slot only for a few
// round trips, so it gets through a flood of other connections.
#ifndef CHANNEL_GUESTS_H
#define CHANNEL_GUESTS_H

#include "base/log.h"
#include "sys/net.h"

struct guests {
    struct guest *first, *last; // by age
    int count, max;
    struct log_limit full;
};

struct guest {
    struct guests *in; // NULL: has no slot
    struct guest *prev, *next;
    struct net_address from;
    void (*on_evict)(struct guest *g); // must close the connection, which leaves
};

void guests_add(struct guests *all, struct guest *g, const struct net_address *from,
                void (*on_evict)(struct guest *g));
void guests_leave(struct guest *g); // no-op without a slot

#endif
