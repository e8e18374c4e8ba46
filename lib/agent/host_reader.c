// SPDX-License-Identifier: Apache-2.0
// Reads the counters of this host. Each file is read with one call into a buffer on the stack.
#include "agent/host_reader.h"

#include "base/arena.h"
#include "sys/cgroup.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 64 << 10, NS_PER_US = 1000 };

// Not a named pipe, which would hold the agent.
static int open_file(const char *dir, const char *name) {
    char path[FILE_PATH_BYTES_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
}

static size_t read_text(int fd, char *text, size_t room) {
    ssize_t n = fd < 0 ? -1 : pread(fd, text, room, 0);
    return n > 0 ? (size_t)n : 0;
}

static void close_file(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

// ---- control groups -----------------------------------------------------------------------------

// Opens the files of groups with less than the host has.
static void open_groups(struct host_reader *r, const char *proc, const char *cgroup) {
    char text[TEXT_BYTES_MAX];
    struct arena a = {0};
    struct cgroup_limits limits;
    struct host_pair memory;
    size_t len = read_text(r->memory, text, sizeof text);
    uint64_t all = host_counters_memory(text, len, &memory) ? memory.second : (uint64_t)INT64_MAX;
    cgroup_limits_read(&limits, &a, proc, cgroup);
    if (limits.memory_bytes && limits.memory_bytes < all) {
        bool v1 = limits.memory.version == 1;
        const char *used = v1 ? "memory.usage_in_bytes" : "memory.current";
        r->group_memory = open_file(limits.memory.dir, used);
        r->group_memory_stat = open_file(limits.memory.dir, "memory.stat");
        r->group_memory_max = limits.memory_bytes;
        r->group_cache = v1 ? "total_inactive_file" : "inactive_file";
    }
    if (limits.cpus > 0 && limits.cpus < CPU_COUNT(&r->allowed)) {
        r->group_cpu_v1 = limits.cpu.version == 1;
        r->group_cpu = open_file(limits.cpu.dir, r->group_cpu_v1 ? "cpuacct.usage" : "cpu.stat");
        r->group_cpus = limits.cpus;
    }
    arena_fini(&a);
}

// ---- the host -----------------------------------------------------------------------------------

void host_reader_open(struct host_reader *r, const char *proc, const char *cgroup,
                      const char *folder) {
    *r = (struct host_reader){.stat = open_file(proc, "stat"),
                              .memory = open_file(proc, "meminfo"),
                              .network = open_file(proc, "net/dev"),
                              .disks = open_file(proc, "diskstats"),
                              .group_memory = -1,
                              .group_memory_stat = -1,
                              .group_cpu = -1,
                              .folder = folder};
    if (sched_getaffinity(0, sizeof r->allowed, &r->allowed) < 0)
        CPU_ZERO(&r->allowed);
    open_groups(r, proc, cgroup);
}

void host_reader_close(struct host_reader *r) {
    int *const files[] = {&r->stat,     &r->memory,       &r->network,
                          &r->disks,    &r->group_memory, &r->group_memory_stat,
                          &r->group_cpu};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        close_file(files[i]);
}

// With a quota: microseconds in use, and those that the quota has allowed until now.
static void read_cpu(struct host_reader *r, char *text, int64_t mono_us, struct host_reading *out) {
    size_t len;
    out->cpus = CPU_COUNT(&r->allowed);
    if (r->group_cpu < 0) {
        len = read_text(r->stat, text, TEXT_BYTES_MAX);
        out->knows_cpu = host_counters_cpu(text, len, &r->allowed, &out->cpu);
        return;
    }
    len = read_text(r->group_cpu, text, TEXT_BYTES_MAX);
    out->cpus = r->group_cpus;
    out->knows_cpu = r->group_cpu_v1
                         ? host_counters_number(text, len, &out->cpu.first)
                         : host_counters_named(text, len, "usage_usec", &out->cpu.first);
    if (r->group_cpu_v1)
        out->cpu.first /= NS_PER_US;
    out->cpu.second = (uint64_t)((double)mono_us * r->group_cpus);
}

static void read_memory(struct host_reader *r, char *text, struct host_reading *out) {
    struct host_pair memory = {0};
    uint64_t used, cache = 0;
    size_t len;
    out->memory_bytes = out->memory_limit_bytes = -1;
    if (r->group_memory < 0) {
        len = read_text(r->memory, text, TEXT_BYTES_MAX);
        if (host_counters_memory(text, len, &memory)) {
            out->memory_bytes = (int64_t)memory.first;
            out->memory_limit_bytes = (int64_t)memory.second;
        }
        return;
    }
    len = read_text(r->group_memory, text, TEXT_BYTES_MAX);
    if (!host_counters_number(text, len, &used) || used > INT64_MAX)
        return;
    len = read_text(r->group_memory_stat, text, TEXT_BYTES_MAX);
    if (!host_counters_named(text, len, r->group_cache, &cache) || cache > used)
        cache = 0;
    out->memory_bytes = (int64_t)(used - cache);
    out->memory_limit_bytes = (int64_t)r->group_memory_max;
}

static void read_room(const struct host_reader *r, struct host_reading *out) {
    uint64_t left;
    struct err ignored;
    out->disk_free_bytes = -1;
    if (r->folder && file_disk_free(r->folder, &left, &ignored) == 0 && left <= INT64_MAX)
        out->disk_free_bytes = (int64_t)left;
}

void host_reader_read(struct host_reader *r, int64_t mono_us, struct host_reading *out) {
    char text[TEXT_BYTES_MAX];
    *out = (struct host_reading){0};
    read_cpu(r, text, mono_us, out);
    read_memory(r, text, out);
    out->knows_network =
        host_counters_network(text, read_text(r->network, text, TEXT_BYTES_MAX), &out->network);
    out->knows_disks =
        host_counters_disks(text, read_text(r->disks, text, TEXT_BYTES_MAX), &out->disks);
    read_room(r, out);
}
