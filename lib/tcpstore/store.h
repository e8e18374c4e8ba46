// SPDX-License-Identifier: Apache-2.0
// The key-value store that workers use: PyTorch's TCPStore protocol without sockets.
//
// Received bytes of a client go into store_feed; replies appear in its session's `out`. Feeding one
// client may produce replies for others (a SET ends their WAIT); those sessions are on the ready
// list, returned by store_ready. store_server.c adds sockets; tests and the fuzzer use the store
// directly.
//
//     struct store *s = store_open(&limits);
//     struct store_session *c = store_session_open(s, ctx, e);
//     if (store_feed(c, bytes, len, e) < 0) store_session_close(c);      // only this client
//     while ((c = store_ready(s))) { write c->out; strbuf_consume(…); }
//
// Waits are kept per key, so a waiting client costs only memory. Dialects (PyTorch >= 2.2, 2.1, <=
// 2.0) are detected from the first bytes of a session.
#ifndef TCPSTORE_STORE_H
#define TCPSTORE_STORE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_limits {                      // zero members take the defaults below
    size_t key_bytes_max, value_bytes_max; // of one request: APPEND may grow a value beyond it
    size_t request_bytes_max;              // of one request, for any number of keys
    size_t request_keys_max;
    size_t total_bytes_max; // keys, values, queues, waits, and unread replies
    size_t reply_bytes_max; // unread replies of one client; a single one may be longer
    size_t sessions_max;
};

enum {
    STORE_KEY_BYTES_MAX = 8 << 10,
    STORE_VALUE_BYTES_MAX = 8 << 20,
    STORE_REQUEST_BYTES_MAX = 64 << 20,
    STORE_REQUEST_KEYS_MAX = 128 << 10,
    STORE_TOTAL_BYTES_MAX = 1 << 30,
    STORE_REPLY_BYTES_MAX = 64 << 20,
    STORE_SESSIONS_MAX = 65536,
};

struct store;
struct store_dialect;
struct store_wait;

struct store_session {
    struct strbuf out; // replies; the owner sends and consumes them
    void *ctx;         // owner's
    // private
    struct store *store;
    const struct store_dialect *dialect; // NULL until the first byte has arrived
    struct strbuf in;                    // an incomplete request
    size_t at;                           // progress inside the incomplete request:
    int field;                           // number of its parsed fields,
    uint64_t repeats;                    // remaining repetitions of its last fields
    size_t charged;                      // bytes of in and out charged to the store's account
    struct store_wait *waits;
    struct store_session *ready_next;
    bool ready, validated, heard;
};

struct store_figures {
    uint64_t requests, keys, sessions, waits, bytes;
};

struct store *store_open(const struct store_limits *limits); // NULL: defaults
void store_close(struct store *s);                           // sessions must be closed

// ERR_LIMIT when there are too many sessions.
struct store_session *store_session_open(struct store *s, void *ctx, struct err *e);
void store_session_close(struct store_session *c);
// -1: this client violated the protocol or a limit and must be closed; others are unaffected.
int store_feed(struct store_session *c, const void *p, size_t len, struct err *e);
// The next session with replies in `out`, removed from the list; NULL when there is none.
struct store_session *store_ready(struct store *s);
struct store_figures store_figures(const struct store *s);

#endif
