// SPDX-License-Identifier: Apache-2.0
// The last lines of every rank's stdout and stderr, in bounded memory.
//
//     struct tail t;
//     log_tail_open(&t, 10);
//     log_tail_add(&t, &line); // for each line
//     log_tail_give(&t, show, ctx); // node by node, rank by rank; empties t
//     log_tail_close(&t);
#ifndef FOLLOW_LOG_TAIL_H
#define FOLLOW_LOG_TAIL_H

#include "follow/follow.h"

enum {
    TAIL_LINES_MAX = 1000 * 1000, // per stream
    TAIL_BYTES_MAX = 64 << 20,    // of all streams; beyond it, older lines are dropped
};

struct tail_stream;

struct tail {
    size_t lines_max;
    size_t bytes; // of all streams
    struct tail_stream *streams, *last;
    size_t stream_count;
    bool cut; // lines were dropped because of TAIL_BYTES_MAX
};

typedef void log_tail_show(void *ctx, const struct follow_line *line);

void log_tail_open(struct tail *t, size_t lines_max);
void log_tail_close(struct tail *t);
void log_tail_add(struct tail *t, const struct follow_line *line);
void log_tail_give(struct tail *t, log_tail_show *show, void *ctx);

#endif
