// SPDX-License-Identifier: Apache-2.0
// Resolves a name while the loop runs. getaddrinfo blocks, so that threads call it.
//
// A name may become resolvable after the first attempt (a new record, a slow resolver), so a
// resolver makes attempts until it succeeds or its owner stops it. The owner keeps the deadline.
//
//     resolver_start(loop, &c->resolver, "gpu01", 22, on_attempt, e);
//     static void on_attempt(struct resolver *l) {
//         if (l->count > 0) … connect to l->found[0], then to the next …
//         else if (l->attempts == 1) … report l->err; the next attempt follows …
//     }
//
// The owner embeds the resolver, zero-initialised, and stops it before its memory goes.
#ifndef SYS_RESOLVER_H
#define SYS_RESOLVER_H

#include "base/err.h"
#include "sys/loop.h"
#include "sys/net.h"

enum {
    RESOLVER_ADDRESSES_MAX = 8, // of one name
    RESOLVER_THREADS_MAX = 8,   // of this process
    RESOLVER_AGAIN_MS = 500,    // from a failed attempt to the next one
};

struct resolver;
struct resolver_job;
typedef void resolver_cb(struct resolver *l); // after each attempt

struct resolver {
    struct net_address found[RESOLVER_ADDRESSES_MAX]; // in the resolver's order
    int count;                                        // 0: not resolved yet
    int attempts;                                     // finished ones
    struct err err;                                   // why the last attempt failed
    resolver_cb *cb;
    struct loop *loop;
    struct watch end;
    struct timer again;
    struct resolver_job *job; // NULL: no attempt is under way
    int port;
    char host[NET_HOST_BYTES_MAX];
};

// cb is never called from within this function.
int resolver_start(struct loop *loop, struct resolver *l, const char *host, int port,
                   resolver_cb *cb, struct err *e);
void resolver_stop(
    struct resolver *l); // no-op when stopped; a resolver that hangs does not delay it

#endif
