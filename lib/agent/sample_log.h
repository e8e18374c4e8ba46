// SPDX-License-Identifier: Apache-2.0
// The samples of a run on one node, in samples.jsonl. The file only grows, so that it can be
// followed. The more lines it has, the longer is the time between two: a month takes less than
// 5 MB, and a file never more than SAMPLE_LOG_BYTES_MAX.
#ifndef AGENT_SAMPLE_LOG_H
#define AGENT_SAMPLE_LOG_H

#include "protocol/node_sample.h"

enum {
    SAMPLE_LOG_DENSE_LINES = 1800, // an hour at 2 s; then one in SAMPLE_LOG_MIDDLE_MS
    SAMPLE_LOG_MIDDLE_MS = 30 * 1000,
    SAMPLE_LOG_MIDDLE_LINES = SAMPLE_LOG_DENSE_LINES + 240, // two hours more; then SPARSE_MS
    SAMPLE_LOG_SPARSE_MS = 300 * 1000,
    SAMPLE_LOG_BYTES_MAX = 8 << 20,
};

struct sample_log {
    int fd; // -1: closed
    int64_t lines, bytes;
    bool cut;    // the file ends with a part of a line
    bool broken; // the last line was not written
};

// Time between the last line and the next one in a file of so many lines; every_ms: the interval
// of samples. Pure.
int64_t sample_log_every_ms(int64_t lines, int64_t every_ms);

// Continues the file of an earlier agent of the run. Only a plain file is written.
int sample_log_open(struct sample_log *l, const char *path, struct err *e);
void sample_log_add(struct sample_log *l, const struct node_sample *s);
void sample_log_close(struct sample_log *l);

#endif
