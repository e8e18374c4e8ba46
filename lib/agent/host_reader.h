// SPDX-License-Identifier: Apache-2.0
// Reads the counters of this host from /proc and its control groups. Files stay open, and a read
// takes no memory.
//
//     host_reader_open(&r, "/proc", "/sys/fs/cgroup", run_dir);
//     host_reader_read(&r, &counters);
//     host_reader_close(&r);
#ifndef AGENT_HOST_READER_H
#define AGENT_HOST_READER_H

#include "agent/host_counters.h"

struct host_reader {
    int stat, memory, network, disks;    // -1: not readable
    int group_memory, group_memory_stat; // of the narrowest group; -1: no limit
    int group_cpu;                       // of the group with the least quota; -1: no quota
    bool group_cpu_v1;                   // it has nanoseconds in use; else cpu.stat
    uint64_t group_memory_max;           // bytes
    double group_cpus;                   // processors of the quota
    const char *group_cache;             // name of droppable bytes in memory.stat
    const char *folder;                  // whose file system is measured
    cpu_set_t allowed;                   // processors of the agent
};

// Counters since the start of the host, and states. A pair that is not known is false in `known`.
struct host_reading {
    struct host_pair cpu, network, disks; // cpu: ticks, or microseconds of a quota
    double cpus;
    bool knows_cpu, knows_network, knows_disks;
    int64_t memory_bytes, memory_limit_bytes, disk_free_bytes; // -1: not known
};

// proc and cgroup: where the kernel shows them. folder must outlive the reader. Never fails: files
// that are not there give no figures. Limits of control groups are those at this moment.
void host_reader_open(struct host_reader *r, const char *proc, const char *cgroup,
                      const char *folder);
void host_reader_read(struct host_reader *r, int64_t mono_us, struct host_reading *out);
void host_reader_close(struct host_reader *r);

#endif
