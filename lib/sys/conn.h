// SPDX-License-Identifier: Apache-2.0
// A buffered byte stream on the loop: TCP, unix sockets, pipes. Capped buffers both ways, one idle
// timer. Owns its fd(s).
//
// Callbacks run from the loop, never from inside conn_send. `on_data` is called while there is
// unread input; it consumes from c->in (strbuf_consume) and leaves what is incomplete. When the
// input buffer is full and nothing is consumed, reading pauses until conn_resume or a consume.
// After `on_end` (once; e->code is ERR_NONE on a clean end of file) the conn is closed already and
// its memory may be reused.
#ifndef SYS_CONN_H
#define SYS_CONN_H

#include "base/err.h"
#include "base/str.h"
#include "sys/loop.h"

struct conn;

struct conn_events {
    void (*on_open)(struct conn *c);                     // connect finished; may be NULL
    void (*on_data)(struct conn *c);                     // more bytes in c->in
    void (*on_drain)(struct conn *c);                    // everything sent went out; may be NULL
    void (*on_end)(struct conn *c, const struct err *e); // closed by peer, error or timeout
};

struct conn {
    struct loop *loop;
    const struct conn_events *events;
    struct watch watch;
    struct timer idle;
    struct timer kick; // delivers events that a callback must not see re-entrantly
    struct strbuf in, out;
    size_t out_sent;     // bytes of out already written
    int64_t idle_ms_max; // 0: none; counted since the last byte in either direction
    size_t in_bytes_max;
    bool connecting, closing, eof, drain_due;
    int error; // errno that ended it; 0: none. Readable in on_end
    void *ctx; // caller's
};

// Takes ownership of fd (made non-blocking). Both buffers are bounded. Exceeding out_bytes_max,
// because the peer does not read, ends the conn with ERR_LIMIT.
int conn_open(struct conn *c, struct loop *loop, int fd, const struct conn_events *events,
              size_t in_bytes_max, size_t out_bytes_max, struct err *e);
// The same for a socket on which connect(2) is still in progress; on_open tells when it is done,
// and connect_timeout_ms_max (0: none) ends it.
int conn_open_connecting(struct conn *c, struct loop *loop, int fd,
                         const struct conn_events *events, size_t in_bytes_max,
                         size_t out_bytes_max, int64_t connect_timeout_ms_max, struct err *e);
void conn_send(struct conn *c, const void *p, size_t len);
void conn_finish(struct conn *c); // sends what is queued, then shuts the sending side down
void conn_idle_limit(struct conn *c, int64_t idle_ms_max);
void conn_resume(struct conn *c); // reads the input again after a pause
size_t conn_unsent(const struct conn *c);
void conn_close(struct conn *c); // at once, no callback; safe anywhere, also on a closed one
bool conn_is_open(const struct conn *c);

#endif
