// SPDX-License-Identifier: Apache-2.0
// The kernel's evidence about the end of a worker: an out-of-memory kill, or an error of its GPU
// logged by the NVIDIA driver.
//
//     worker_evidence_begin(&ev);                              // before the workers start
//     text = worker_evidence_about(&ev, &arena, pid, signal);  // when one has failed
//     worker_evidence_end(&ev);
//
// Sources, each used if readable: /dev/kmsg since the start of the round, and the out-of-memory
// counter of the workers' own memory cgroup (version 1 or 2). Without them there is no evidence;
// this does not exclude these causes.
#ifndef WORKER_WORKER_POSTMORTEM_H
#define WORKER_WORKER_POSTMORTEM_H

#include "base/arena.h"
#include "worker/kernel_log.h"

#include <sys/types.h>

enum {
    EVIDENCE_NOTES_MAX = 16,     // of a round, the first ones
    EVIDENCE_RECORDS_MAX = 4096, // read from the log at once
    EVIDENCE_PATH_BYTES_MAX = 1024,
};

struct worker_evidence {
    int log_fd;                           // 0: not open yet; -1: unreadable
    char cgroup[EVIDENCE_PATH_BYTES_MAX]; // folder of the memory controller, "" if none
    int64_t kills;                        // counter at the start of the round; -1: unknown
    struct kernel_note notes[EVIDENCE_NOTES_MAX];
    int count;
};

void worker_evidence_begin(struct worker_evidence *ev);
void worker_evidence_end(struct worker_evidence *ev);
// One finding per line, the worker's own first; "" without findings. In the arena.
const char *worker_evidence_about(struct worker_evidence *ev, struct arena *a, pid_t pid,
                                  int signal);

#endif
