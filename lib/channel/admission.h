// SPDX-License-Identifier: Apache-2.0
// Limits connections that are not members yet. There is a limit for all, and half of it for one
// address. A further connection replaces the oldest one. A member needs its slot only for a few
// round trips, so it gets through a flood of other connections.
#ifndef CHANNEL_ADMISSION_H
#define CHANNEL_ADMISSION_H

#include "base/log.h"
#include "sys/net.h"

struct admission {
    struct newcomer *first, *last; // by age
    int count, max;
    struct log_limit full;
};

struct newcomer {
    struct admission *in; // NULL: has no slot
    struct newcomer *prev, *next;
    struct net_address from;
    void (*on_evict)(struct newcomer *g); // must close the connection, which leaves
};

void admission_add(struct admission *all, struct newcomer *g, const struct net_address *from,
                   void (*on_evict)(struct newcomer *g));
void admission_leave(struct newcomer *g); // no-op without a slot

#endif
