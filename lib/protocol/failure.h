// SPDX-License-Identifier: Apache-2.0
// One failed worker: reported by its node, recorded by the run.
#ifndef PROTOCOL_FAILURE_H
#define PROTOCOL_FAILURE_H

#include "base/arena.h"

#include <stdint.h>

struct worker_failure {
    int64_t rank, local_rank, group_rank, pid;
    int64_t status;   // the shell's convention
    int64_t signal;   // 0: none
    int64_t age_ms;   // time since its end, when this was sent
    int64_t wall_ms;  // its end, on its node's clock
    const char *node; // its name in the run; set by the coordinator
    const char *host;
    const char *error_file; // path on its node, "" if there is none
    const char *message;    // from the error file, "" if there is none
    const char *tail;       // last lines of its standard error
    const char *evidence;   // findings of the kernel (worker_postmortem.h), "" if none
};

// Cuts its texts to `most` bytes in all: first the oldest lines of the tail, then the beginning of
// the message, whose end has the exception, then the ends of the others.
void failure_fit(struct arena *a, struct worker_failure *f, size_t most);

#endif
