// SPDX-License-Identifier: Apache-2.0
// Connections that do not belong to a member yet, and perhaps never will. There is room for so
// many, and for half as many from one address; one more takes the place of the one that has waited
// longest. A member needs its place for a few round trips only, so it gets through a flood of
// others.
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
    struct guests *in; // NULL: has no place
    struct guest *prev, *next;
    struct net_address from;
    void (*on_evict)(struct guest *g); // closes it, which leaves
};

void guests_add(struct guests *all, struct guest *g, const struct net_address *from,
                void (*on_evict)(struct guest *g));
void guest_leave(struct guest *g); // no-op when it has no place

#endif
