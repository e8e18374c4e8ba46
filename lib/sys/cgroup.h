// SPDX-License-Identifier: Apache-2.0
// Limits that control groups (versions 1 and 2) set to this process. The groups of the process and
// all groups above them each apply.
//
//     struct cgroup_limits l;
//     cgroup_limits_read(&l, &arena, "/proc", "/sys/fs/cgroup");
#ifndef SYS_CGROUP_H
#define SYS_CGROUP_H

#include "base/arena.h"

#include <stdint.h>

struct cgroup {
    int version;     // 1 or 2; 0: no group sets a limit
    const char *dir; // the group's folder, in the arena
};

struct cgroup_limits {
    double cpus;               // the least quota, in processors; 0: none
    uint64_t memory_bytes;     // the least limit; 0: none
    struct cgroup cpu, memory; // the groups that set them
};

// proc and mount: where the kernel shows processes and groups; tests have folders of their own.
// Never fails: files that are not there set no limit.
void cgroup_limits_read(struct cgroup_limits *out, struct arena *a, const char *proc,
                        const char *mount);

#endif
