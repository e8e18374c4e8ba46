// SPDX-License-Identifier: Apache-2.0
// Objects without an address: files of the operator's computer, whose dtctl follows the run. Its
// program on this node (`dtdata source`) connects to RUN_DIR/source.sock and carries requests to
// dtctl, and bytes back (protocol/source_frames.h). Without a connection these objects wait; reads
// of them do, too.
#ifndef STREAM_STREAM_SOURCE_H
#define STREAM_STREAM_SOURCE_H

#include "stream/stream_store.h"
#include "sys/conn.h"
#include "sys/listener.h"

#define STREAM_SOURCE_SOCKET "source.sock"

struct stream_source {
    struct stream_store *store;
    struct conn conn;
    struct listener door;
    int listen_fd; // -1: no object needs it, or the door has it
};

// Listens where an object of the store has no address.
int stream_source_listen(struct stream_source *s, struct stream_store *store, const char *run_dir,
                         struct err *e);
int stream_source_open(struct stream_source *s, struct loop *loop, struct err *e);
// Serves a connection of `dtdata source`; takes fd.
void stream_source_accept(struct stream_source *s, struct loop *loop, int fd);
void stream_source_close(struct stream_source *s, const char *run_dir);

// `dtdata source`: carries bytes between standard input and output and the socket until one of them
// ends.
int stream_source_carry(const char *run_dir, struct err *e);

#endif
