// SPDX-License-Identifier: Apache-2.0
// `dtctl logs --since`: which lines of workers were written before a time, by the sizes that their
// logs had then (agent/log_times.h).
#ifndef FOLLOW_LOG_SINCE_H
#define FOLLOW_LOG_SINCE_H

#include "base/arena.h"
#include "base/err.h"
#include "protocol/follow_record.h"

struct log_since {
    int64_t ms; // wall clock; 0: every line
    struct arena *arena;
    struct log_since_mark *marks;
};

// A duration before now ("90s", "1h30m"), a time of day ("14:05": when it was that late last), a
// date, or both ("2026-01-02T14:05:06", with 'Z', "+02:00" or local), or seconds since 1970
// ("@1767362706").
int log_since_parse(const char *text, int64_t now_ms, int64_t *ms, struct err *e);
// A line of the file log-times of a worker.
void log_since_take(struct log_since *l, size_t node, const struct follow_file *file,
                    const char *line, size_t len);
// Whether the line that ends at that offset of a worker's log was written before the time.
bool log_since_hides(const struct log_since *l, size_t node, const struct follow_file *file,
                     uint64_t end);

#endif
