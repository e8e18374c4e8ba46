// SPDX-License-Identifier: Apache-2.0
// When workers' logs had which sizes, so that `dtctl logs --since` knows when a line was written:
// attempt_<round>/<local rank>/log-times, lines "<wall clock, ms> <bytes of stdout> <of stderr>".
// One a second at first, where a log has grown; half as often after each LOG_TIMES_TICKS of them.
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
void log_times_note(const struct worker *x); // now; what it has written is complete
void log_times_end(struct log_times *t);     // also when none has begun

#endif
