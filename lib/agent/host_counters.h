// SPDX-License-Identifier: Apache-2.0
// Parses the kernel's counters of a host: processors, memory, network, disks, control groups. Pure.
//
// A text has `len` bytes and need not end in a NUL. Files that a container or a worker may have put
// in the place of the kernel's are no harm: numbers are bounded, lines without meaning are skipped.
#ifndef AGENT_HOST_COUNTERS_H
#define AGENT_HOST_COUNTERS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_DISKS_MAX = 256, HOST_DISK_NAME_BYTES_MAX = 32 };

struct host_pair {
    uint64_t first, second;
};

// /proc/stat, of the processors in `allowed`: busy and all ticks. False: it has none of them.
bool host_counters_cpu(const char *text, size_t len, const cpu_set_t *allowed,
                       struct host_pair *busy_and_all);
// /proc/meminfo: bytes in use (all but what the kernel can give at once), and bytes of the host.
bool host_counters_memory(const char *text, size_t len, struct host_pair *used_and_all);
// /proc/net/dev: bytes received and sent, of all devices but loopback and those in front of other
// devices of the same host (bridges, bonds, VLANs, tunnels, ends of containers).
bool host_counters_network(const char *text, size_t len, struct host_pair *received_and_sent);
// /proc/diskstats: bytes read and written, of whole disks.
bool host_counters_disks(const char *text, size_t len, struct host_pair *read_and_written);

// A file of a control group with one number.
bool host_counters_number(const char *text, size_t len, uint64_t *out);
// The number behind a name at the beginning of a line: memory.stat, cpu.stat.
bool host_counters_named(const char *text, size_t len, const char *name, uint64_t *out);

// One GPU in nvidia-smi's CSV: index, percent in use, MiB in use, MiB. Figures that it does not
// know ("[N/A]") are -1.
struct host_gpu {
    int index, percent;
    int64_t memory_mib, memory_limit_mib;
};
bool host_counters_gpu(const char *line, size_t len, struct host_gpu *out);

#endif
