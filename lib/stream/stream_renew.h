// SPDX-License-Identifier: Apache-2.0
// Signed addresses end. Before they do, the server asks for new ones by the event `ends`, and takes
// them at RUN_DIR/renew.sock, where `dtdata renew` passes on what dtctl sends: {"input":"NAME"}, a
// line for each object with its "path", "id" and "url", and {"end":true,"ends":MS}. The answer is
// {"end":OBJECTS}. An address is taken for the same content alone. Without new addresses the event
// `over` ends the run before a read fails. Inputs that are on the node need none.
#ifndef STREAM_STREAM_RENEW_H
#define STREAM_STREAM_RENEW_H

#include "stream/stream_store.h"
#include "sys/conn.h"
#include "sys/listener.h"

#define STREAM_RENEW_SOCKET "renew.sock" // in the run's folder

enum {
    STREAM_RENEW_MS = 10 * 60 * 1000,  // before the end
    STREAM_RENEW_AGAIN_MS = 60 * 1000, // from one event `ends` to the next
    STREAM_RENEW_OVER_MS = 60 * 1000,  // before the end
    STREAM_RENEW_LINE_BYTES_MAX = 64 << 10,
};

struct stream_server;

struct stream_renew {
    int listen_fd;
    struct listener door;
    struct conn conn;
    struct stream_input *input; // whose addresses come; NULL: none
    size_t count;
};

int stream_renew_open(struct stream_server *s, const char *run_dir, struct err *e);
int stream_renew_start(struct stream_server *s, struct err *e);
void stream_renew_close(struct stream_server *s);
// Called often: sends the events that are due.
void stream_renew_look(struct stream_server *s, int64_t wall_ms);

#endif
