// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of a worker's end that the worker could not say: it was killed for want of
// memory, or the NVIDIA driver logged an error of its GPU.
//
//     worker_evidence_begin(&ev);                              // before the workers start
//     text = worker_evidence_about(&ev, &arena, pid, signal);  // when one has failed
//     worker_evidence_end(&ev);
//
// Sources, each used where it may be read: /dev/kmsg from the start of the round on, and the count
// of such kills of the workers' own memory cgroup (version 1 or 2). Without them there is no
// evidence, which says nothing about the cause.
#ifndef WORKER_WORKER_POSTMORTEM_H
#define WORKER_WORKER_POSTMORTEM_H

#include "base/arena.h"
#include "worker/kernel_log.h"

#include <sys/types.h>

enum {
    EVIDENCE_NOTES_MAX = 16,     // of a round, the first ones
    EVIDENCE_RECORDS_MAX = 4096, // of the log, read at a time
    EVIDENCE_PATH_BYTES_MAX = 1024,
};

struct worker_evidence {
    int log_fd;                           // 0: not opened yet; -1: may not be read
    char cgroup[EVIDENCE_PATH_BYTES_MAX]; // folder of the memory controller, "" if there is none
    int64_t kills;                        // counted there when the round began; -1: unknown
    struct kernel_note notes[EVIDENCE_NOTES_MAX];
    int count;
};

void worker_evidence_begin(struct worker_evidence *ev);
void worker_evidence_end(struct worker_evidence *ev);
// One finding per line, the worker's own first; "" when there is none. In the arena.
const char *worker_evidence_about(struct worker_evidence *ev, struct arena *a, pid_t pid,
                                  int signal);

#endif
