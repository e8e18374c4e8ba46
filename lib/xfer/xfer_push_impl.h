// SPDX-License-Identifier: Apache-2.0
// A push, shared by its connections (xfer_push.c) and the chain of nodes that it may be part of
// (fanout.c). Private to lib/xfer.
#ifndef XFER_XFER_PUSH_IMPL_H
#define XFER_XFER_PUSH_IMPL_H

#include "xfer/fanout.h"
#include "xfer/xfer_impl.h"
#include "xfer/xfer_sender.h"

enum conn_state {
    CONN_CLOSED,
    CONN_CONNECTING, // additional connection: login
    CONN_GREETING,   // additional connection: our HELLO is sent, theirs is awaited
    CONN_LIST,       // main: HELLO and entries are sent at once, since the agent is ours
    CONN_ANSWER,     // main: receives the list of needed files
    CONN_CONTENT,
    CONN_RELAY, // the node takes content from another node, then reports the missing content
    CONN_DONE,  // DONE is sent, RESULT is awaited
    CONN_FINISHED,
};

struct push;

struct push_conn {
    struct push *push;
    struct transport_link *link; // its own link; NULL for main
    struct xfer_channel channel;
    struct send_stream stream;
    bool has_stream, greeted;
    int64_t greet_ns; // when our HELLO was sent to a waiting agent; else 0
    enum conn_state state;
};

struct push {
    struct xfer x; // first
    const struct manifest *m;
    const char *program, *root, *dest;
    const char *owner, *const *results; // results: the caller's, until xfer_push returns
    bool replace, no_compress, planned, counted;
    int connections, opened;
    bool near; // negligible round trip: compression only costs time
    bool fast; // the connection is faster than compression
    size_t next_entry;
    uint64_t closed_bytes; // acknowledged on closed connections
    struct send_plan plan;
    uint64_t had_bytes;       // received before the present plan
    struct xfer_peers *peers; // NULL: content is read here
    struct fanout_member relay;
    struct push_conn conns[XFER_CONNECTIONS_MAX]; // 0 is the main connection
};

// The node gets its content from here: all that it lacks.
void xfer_push_direct(struct push *p);
// The node waits for the one before it in a chain; total: the bytes that pass through.
void xfer_push_relayed(struct push *p, uint64_t total);
// The first node of a chain: the plan, already made, replaces that of the node.
void xfer_push_relay_head(struct push *p, struct send_plan *chain);
// The first node of a chain whose content is on nodes: it gives what the plan has.
void xfer_push_relay_give(struct push *p, const struct send_plan *plan);
void xfer_push_relay_peer(struct push *p, enum xfer_type type, const struct xfer_relay_peer *peer);
void xfer_push_relay_end(struct push *p);

#endif
