// SPDX-License-Identifier: Apache-2.0
// The node's place in a chain of nodes that pass content on (fanout.h): a connection from the
// node before it and one to the node behind it, both optional. Blocking, with limits.
//
// A node is never worse off with a relay than without: each failure here ends the relay only, and
// dtctl then sends what is still lacking.
#ifndef XFER_XFER_RELAY_H
#define XFER_XFER_RELAY_H

#include "base/err.h"
#include "base/str.h"
#include "xfer/xfer_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RELAY_GREETING_MS = 2000, // to connect, and to prove the key
    RELAY_STALL_MS = 2000,    // for RELAY_STALL_BYTES to the next node
    RELAY_STALL_BYTES = 64 << 10,
    RELAY_STRANGERS_MAX = 8, // connections without the key before the relay is given up
    RELAY_NONCE_BYTES = 16,
};

struct relay {
    bool active;        // between RELAY_FROM or RELAY_TO and RELAY_END
    int listen_fd;      // -1: none; waits for the node before
    int from_fd, to_fd; // -1: none
    int strangers;
    unsigned char key[XFER_RELAY_KEY_BYTES];
    struct strbuf in; // from the node before
    size_t in_used;
    struct xfer_unpacker unpacker;
};
#define RELAY_CLOSED ((struct relay){.listen_fd = -1, .from_fd = -1, .to_fd = -1})

// Listens for the node before this one; *port is where.
int xfer_relay_listen(struct relay *r, const struct xfer_relay_peer *at, int *port, struct err *e);
// Connects to the node behind this one.
int xfer_relay_connect(struct relay *r, const struct xfer_relay_peer *to, struct err *e);
// The descriptor to wait for while the node before may still send; -1: none.
int xfer_relay_fd(const struct relay *r);
// Call when it is readable: accepts the node before, or reads from it. -1: the node before is gone.
int xfer_relay_read(struct relay *r, struct err *e);
// Takes the next frame of the node before: 1 (valid until the next call of either function), 0:
// more bytes are needed, -1: malformed. *wire: its bytes as they came.
int xfer_relay_take(struct relay *r, struct xfer_frame *f, const void **wire, struct err *e);
// Passes bytes of frames on. -1: the node behind is gone or does not keep up; it is dropped.
int xfer_relay_send(struct relay *r, const void *wire, size_t len, struct err *e);
void xfer_relay_drop_from(struct relay *r);
void xfer_relay_close(struct relay *r); // both; safe on a closed one

#endif
