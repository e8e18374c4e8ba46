// SPDX-License-Identifier: Apache-2.0
// Records the sizes of workers' logs over time, so that `dtctl logs --since` knows when a line was
// written. File: attempt_<round>/<local rank>/log-times. Lines: "<wall clock, ms> <bytes of stdout>
// <of stderr>". There is one line a second at first, where a log has grown, and half as many after
// each LOG_TIMES_TICKS lines.
#ifndef AGENT_LOG_TIMES_H
#define AGENT_LOG_TIMES_H

#include "worker/workers.h"

enum { LOG_TIMES_MS = 1000, LOG_TIMES_TICKS = 1024 };

struct log_times {
    struct timer tick;
    struct loop *loop;
    const struct workers *workers;
    int ticks;
};

void log_times_begin(struct log_times *t, struct loop *loop, const struct workers *w);
void log_times_note(const struct worker *x); // records the sizes now; the output is complete
void log_times_end(struct log_times *t);     // also when none has begun

#endif
