// SPDX-License-Identifier: Apache-2.0
// One agent per node, though a scheduler starts dtrun once per task: the first task holds a name on
// its node while it lives, the others wait until it is gone. The name is an abstract socket: no
// file, and the kernel takes it back however the holder ends.
//
//     int fd = local_task_hold("slurm/12.0/gpu01", e);
//     …
//     local_task_release(fd, 3, LOCAL_TASK_LATE_MS_MAX);   // or the process ends
//     local_task_wait("slurm/12.0/gpu01", 20000, e);       // blocks
//
// Only processes of the same user count as holders.
#ifndef LAUNCH_NODE_LOCK_H
#define LAUNCH_NODE_LOCK_H

#include "base/err.h"

enum {
    LOCAL_TASK_WAITERS_MAX = 4096,
    LOCAL_TASK_COME_MS_MAX = 20000, // how long the first task may take until it holds the name
    LOCAL_TASK_LATE_MS_MAX = 2000,  // how much later than all the work the others may start
};

int local_task_hold(const char *name, struct err *e); // its descriptor, or -1
// Lets all that wait go. Waits for the given number of them to come, up to late_ms_max: after a
// very short run they would look for the holder in vain, and long.
void local_task_release(int fd, int waiters, int late_ms_max);
// 0 when the holder has ended, also when none came within come_ms_max. Once it is found, signals
// that ask this process to end are left to the holder, which gets them too.
int local_task_wait(const char *name, int come_ms_max, struct err *e);

#endif
