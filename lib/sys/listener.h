// SPDX-License-Identifier: Apache-2.0
// A listening socket on the loop. When descriptors run out, a pending connection would wake the
// loop again and again, so it is accepted with a spare descriptor and closed. All connections are
// accepted in this module.
#ifndef SYS_LISTENER_H
#define SYS_LISTENER_H

#include "base/log.h"
#include "sys/loop.h"
#include "sys/net.h"

// Connections accepted per turn of the loop. The number is small, so that a new connection is read
// before later ones can replace it (HEALTH_CLIENTS_MAX).
enum { LISTENER_BATCH_MAX = 8 };

struct listener;
typedef void listener_cb(struct listener *l, int fd, const struct net_address *peer); // takes fd
struct listener {
    struct watch watch;
    listener_cb *on_accept;
    const char *name; // for messages
    int spare_fd;
    struct log_limit full;
};

// Takes ownership of fd, also on failure.
int listener_open(struct listener *l, struct loop *loop, int fd, const char *name,
                  listener_cb *on_accept, struct err *e);
void listener_close(struct listener *l); // also inside on_accept; no-op when closed

// Without a loop: one connection to a non-blocking listening socket before the deadline
// (monotonic). ERR_TIMEOUT when none came; ERR_SYS when none can be accepted.
int listener_wait(int listen_fd, int64_t deadline_ms, struct net_address *peer, struct err *e);

#endif
