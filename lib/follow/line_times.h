// SPDX-License-Identifier: Apache-2.0
// The times at which workers of a node wrote the lines of their logs, by the sizes that the logs
// had over time (agent/log_times.h). Lines that come while a run is followed need none: they are
// new. Lines that have waited on the node have the time of the first size that includes them.
//
//     line_times_take(&t, file, line, len);          // each line of the file log-times
//     ms = line_times_of(&t, file, end, now_ms);     // each line of a worker, in order
//
// A node sends log-times before the logs. Sizes that the lines have reached are dropped.
#ifndef FOLLOW_LINE_TIMES_H
#define FOLLOW_LINE_TIMES_H

#include "protocol/follow_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of a node; further ones are left out.
enum { LINE_TIMES_MARKS_MAX = 1 << 20, LINE_TIMES_WORKERS_MAX = 4096 };

struct line_times { // zeroed: of a node without lines
    struct line_times_worker *newest;
    size_t workers, marks;
};

// A line of log-times.
struct line_times_sizes {
    int64_t ms;        // wall clock of the node
    uint64_t out, err; // bytes of stdout and stderr then
};
bool line_times_read(const char *line, size_t len, struct line_times_sizes *out);

void line_times_fini(struct line_times *t);
void line_times_take(struct line_times *t, const struct follow_file *file, const char *line,
                     size_t len);
// Wall clock of the node in milliseconds; now_ms where the line is new, or the node's clock is
// ahead. end: the offset at which the line ends.
int64_t line_times_of(struct line_times *t, const struct follow_file *file, uint64_t end,
                      int64_t now_ms);

#endif
