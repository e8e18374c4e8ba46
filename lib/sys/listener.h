// SPDX-License-Identifier: Apache-2.0
// A listening socket on the loop. When descriptors run out, a connection that waits would wake the
// loop again and again: it is taken with a spare descriptor, and closed. This is the only place
// that accepts connections.
#ifndef SYS_LISTENER_H
#define SYS_LISTENER_H

#include "base/log.h"
#include "sys/loop.h"
#include "sys/net.h"

// Connections that are accepted before those that are there get their turn: few, so that a new one
// is heard before it has to give its place to others (HEALTH_CLIENTS_MAX).
enum { LISTENER_BATCH_MAX = 8 };

struct listener;
typedef void listener_cb(struct listener *l, int fd, const struct net_address *peer); // takes fd
struct listener {
    struct watch watch;
    listener_cb *on_accept;
    const char *name; // in messages
    int spare_fd;
    struct log_limit full;
};

// Owns fd from then on, also when it fails.
int listener_open(struct listener *l, struct loop *loop, int fd, const char *name,
                  listener_cb *on_accept, struct err *e);
void listener_close(struct listener *l); // also inside on_accept; no-op when closed

// Without a loop: one connection to a non-blocking listening socket before the deadline
// (monotonic). ERR_TIMEOUT when none came; ERR_SYS when none can be accepted.
int listener_wait(int listen_fd, int64_t deadline_ms, struct net_address *peer, struct err *e);

#endif
