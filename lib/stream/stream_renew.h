// SPDX-License-Identifier: Apache-2.0
// Signed addresses expire (s3.h). Before they do, the server asks for new ones by the event `ends`,
// and takes them at RUN_DIR/renew.sock, where `dtdata renew` passes on what dtctl sends:
// {"now":MS}, the time of dtctl's clock, which may differ from the clock here; {"input":"NAME"}; a
// line for each object with its "path", "id" and "url"; and {"end":true,"ends":MS}. The answer is
// {"end":OBJECTS}. An address is taken for the same content alone; reads of an object that has
// changed in the source, or is not in it any more, say so once they fail. Without new addresses the
// event `over` ends the run before a read fails. Inputs that are on the node need none.
//
// Several dtctl may send at once: each connection is served by itself.
#ifndef STREAM_STREAM_RENEW_H
#define STREAM_STREAM_RENEW_H

#include "base/json.h"
#include "stream/stream_store.h"
#include "sys/conn.h"
#include "sys/listener.h"

#define STREAM_RENEW_SOCKET "renew.sock" // in the run's folder

enum {
    STREAM_RENEW_MS = 10 * 60 * 1000,  // before the end
    STREAM_RENEW_AGAIN_MS = 30 * 1000, // from one event `ends` to the next
    STREAM_RENEW_OVER_MS = 60 * 1000,  // before the end
    STREAM_RENEW_CONNS_MAX = 4,        // one more takes the place of the oldest
    STREAM_RENEW_IDLE_MS_MAX = 60 * 1000,
    STREAM_RENEW_LINE_BYTES_MAX = 64 << 10,
};

struct stream_server;

// The clock of a dtctl.
struct stream_clock {
    int64_t now_ms, at_ms; // its time when the monotonic time here was at_ms; 0: the clock here
};

struct stream_renew_conn {
    struct conn conn;
    struct stream_server *server;
    struct stream_clock clock;
    struct stream_input *input; // whose addresses come; NULL: none
    size_t count;
    int64_t began_ms; // monotonic
    uint64_t number;  // the oldest connection has the lowest
};

struct stream_renew {
    int listen_fd;
    struct listener door;
    struct stream_renew_conn conns[STREAM_RENEW_CONNS_MAX];
    uint64_t number; // of connections so far
};

int stream_renew_open(struct stream_server *s, const char *run_dir, struct err *e);
int stream_renew_start(struct stream_server *s, struct err *e);
void stream_renew_close(struct stream_server *s);
// Serves a connection of `dtdata renew`; takes fd.
void stream_renew_accept(struct stream_server *s, int fd);
struct stream_clock stream_clock_of(const struct json *line); // {"now":MS}, which has just come
// The monotonic time here of a time of that clock; 0: 0.
int64_t stream_clock_end(const struct stream_clock *c, int64_t ends_ms);
// Called often: sends the events that are due.
void stream_renew_look(struct stream_server *s);

#endif
