// SPDX-License-Identifier: Apache-2.0
// Ensures one agent per node when a scheduler starts dtrun once per task. The first task holds a
// name on its node while it lives; the others wait for its end. The name is an abstract socket: it
// needs no file, and the kernel releases it with the process.
//
//     int fd = node_lock_hold("slurm/12.0/gpu01", e);
//     …
//     node_lock_release(fd, 3, LOCAL_TASK_LATE_MS_MAX);   // or the process ends
//     node_lock_wait("slurm/12.0/gpu01", 20000, e);       // blocks
//
// Only processes of the same user count as holders.
#ifndef LAUNCH_NODE_LOCK_H
#define LAUNCH_NODE_LOCK_H

#include "base/err.h"

enum {
    LOCAL_TASK_WAITERS_MAX = 4096,
    LOCAL_TASK_COME_MS_MAX = 20000, // limit for the first task to hold the name
    LOCAL_TASK_LATE_MS_MAX = 2000,  // limit for the other tasks to start after a very short run
};

int node_lock_hold(const char *name, struct err *e); // its descriptor, or -1
// Releases all waiting tasks. First waits up to late_ms_max for `waiters` tasks, since after a very
// short run they would search for the holder in vain until their limit.
void node_lock_release(int fd, int waiters, int late_ms_max);
// 0 when the holder has ended, or when none appeared within come_ms_max. Once a holder is found,
// termination signals are left to it, since it receives them, too.
int node_lock_wait(const char *name, int come_ms_max, struct err *e);

#endif
