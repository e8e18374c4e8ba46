// SPDX-License-Identifier: Apache-2.0
// Resolves a name while the loop runs. getaddrinfo blocks, so that threads call it.
//
// A name may become resolvable after the first attempt (a new record, a slow resolver), so a lookup
// makes attempts until it succeeds or its owner stops it. The owner keeps the deadline.
//
//     lookup_start(loop, &c->lookup, "gpu01", 22, on_attempt, e);
//     static void on_attempt(struct lookup *l) {
//         if (l->count > 0) … connect to l->found[0], then to the next …
//         else if (l->attempts == 1) … report l->err; the next attempt follows …
//     }
//
// The owner embeds the lookup, zero-initialised, and stops it before its memory goes.
#ifndef SYS_LOOKUP_H
#define SYS_LOOKUP_H

#include "base/err.h"
#include "sys/loop.h"
#include "sys/net.h"

enum {
    LOOKUP_ADDRESSES_MAX = 8, // of one name
    LOOKUP_THREADS_MAX = 8,   // of this process
    LOOKUP_AGAIN_MS = 500,    // from a failed attempt to the next one
};

struct lookup;
struct lookup_job;
typedef void lookup_cb(struct lookup *l); // after each attempt

struct lookup {
    struct net_address found[LOOKUP_ADDRESSES_MAX]; // in the resolver's order
    int count;                                      // 0: not resolved yet
    int attempts;                                   // finished ones
    struct err err;                                 // why the last attempt failed
    lookup_cb *cb;
    struct loop *loop;
    struct watch end;
    struct timer again;
    struct lookup_job *job; // NULL: no attempt is under way
    int port;
    char host[NET_HOST_BYTES_MAX];
};

// cb is never called from within this function.
int lookup_start(struct loop *loop, struct lookup *l, const char *host, int port, lookup_cb *cb,
                 struct err *e);
void lookup_stop(struct lookup *l); // no-op when stopped; a resolver that hangs does not delay it

#endif
