// SPDX-License-Identifier: Apache-2.0
// Objects without an address: files of the operator's computer, whose dtctl follows the run. Its
// program on this node (`dtdata source`) connects to RUN_DIR/source.sock and carries requests to
// dtctl, and bytes back. Without a connection these objects wait; reads of them do, too.
//
// Frames, little-endian. To dtctl, STREAM_ASK_BYTES each: u32 slot, with STREAM_ASK_URGENT where a
// reader waits; u64 file, u64 from, u64 len.
// From dtctl: u8 kind, u32 slot, u32 len, then len bytes: of the range, in order; or the text of a
// failure, after which the slot gets no more.
#ifndef STREAM_STREAM_SOURCE_H
#define STREAM_STREAM_SOURCE_H

#include "stream/stream_store.h"
#include "sys/conn.h"
#include "sys/listener.h"

#define STREAM_SOURCE_SOCKET "source.sock"

enum {
    STREAM_ASK_BYTES = 28,
    STREAM_ASK_URGENT = 1 << 30,
    STREAM_ANSWER_HEAD_BYTES = 9,
    STREAM_ANSWER_BYTES_MAX = 256 << 10, // of one frame, without its head
};
enum stream_answer {
    STREAM_ANSWER_BYTES = 1,
    STREAM_ANSWER_CHANGED, // the file is not what was listed
    STREAM_ANSWER_FAILED,
};

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
void stream_source_close(struct stream_source *s, const char *run_dir);

// `dtdata source`: carries bytes between standard input and output and the socket until one of them
// ends.
int stream_source_carry(const char *run_dir, struct err *e);

#endif
