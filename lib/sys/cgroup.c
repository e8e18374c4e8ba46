// SPDX-License-Identifier: Apache-2.0
// Finds the groups of this process and reads their limits.
#include "sys/cgroup.h"

#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 64 << 10 };

// From this on, a limit of version 1 is none: it is the largest number of whole pages then.
#define MEMORY_NONE (UINT64_C(1) << 60)

static const char *text_of(struct arena *a, const char *dir, const char *name) {
    struct err ignored;
    char *text;
    size_t len;
    const char *path = file_join(a, dir, name);
    return file_read(a, path, TEXT_BYTES_MAX, &text, &len, &ignored) < 0 ? "" : text;
}

// Takes the next number. 0: "max", -1, or none.
static uint64_t take_number(const char **text) {
    char *end;
    while (**text == ' ')
        ++*text;
    if (**text < '0' || **text > '9')
        return 0;
    errno = 0;
    unsigned long long v = strtoull(*text, &end, 10);
    *text = end;
    return errno ? 0 : v;
}

static uint64_t number_of(struct arena *a, const char *dir, const char *name) {
    const char *text = text_of(a, dir, name);
    return take_number(&text);
}

static void apply_quota(struct cgroup_limits *out, uint64_t us, uint64_t period_us, int version,
                        const char *dir) {
    double cpus = us && period_us ? (double)us / (double)period_us : 0;
    if (cpus <= 0 || (out->cpus > 0 && cpus >= out->cpus))
        return;
    out->cpus = cpus;
    out->cpu = (struct cgroup){version, dir};
}

static void apply_memory(struct cgroup_limits *out, uint64_t bytes, int version, const char *dir) {
    if (bytes == 0 || bytes >= MEMORY_NONE || (out->memory_bytes && bytes >= out->memory_bytes))
        return;
    out->memory_bytes = bytes;
    out->memory = (struct cgroup){version, dir};
}

// A group has the files of its version and of its controllers alone.
static void read_group(struct cgroup_limits *out, struct arena *a, const char *dir) {
    const char *quota = text_of(a, dir, "cpu.max"); // "200000 100000", or "max 100000"
    uint64_t us = take_number(&quota);
    apply_quota(out, us, take_number(&quota), 2, dir);
    apply_quota(out, number_of(a, dir, "cpu.cfs_quota_us"), number_of(a, dir, "cpu.cfs_period_us"),
                1, dir);
    apply_memory(out, number_of(a, dir, "memory.max"), 2, dir);
    apply_memory(out, number_of(a, dir, "memory.limit_in_bytes"), 1, dir);
}

// Inside a container the path may be one of the host's, of which only the root of the mount exists.
static void read_groups(struct cgroup_limits *out, struct arena *a, const char *mount,
                        const char *path) {
    char *part = arena_strdup(a, strstr(path, "/..") || str_eq(path, "/") ? "" : path);
    for (;;) {
        read_group(out, a, arena_printf(a, "%s%s", mount, part));
        char *slash = strrchr(part, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

// The folder of a hierarchy below the mount, "" for version 2; NULL: it sets neither limit.
static const char *hierarchy_of(struct arena *a, char *controllers) {
    char **names;
    size_t count = *controllers ? str_split(a, controllers, ',', &names) : 0;
    for (size_t i = 0; i < count; i++)
        if (str_eq(names[i], "cpu") || str_eq(names[i], "memory"))
            return arena_printf(a, "/%s", names[i]);
    return *controllers ? NULL : "";
}

void cgroup_limits_read(struct cgroup_limits *out, struct arena *a, const char *proc,
                        const char *mount) {
    char **lines;
    const char *text = text_of(a, proc, "self/cgroup");
    size_t count = *text ? str_split(a, text, '\n', &lines) : 0;
    *out = (struct cgroup_limits){0};
    for (size_t i = 0; i < count; i++) { // "0::/path", "4:cpu,cpuacct:/path"
        char *controllers = strchr(lines[i], ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        const char *below = hierarchy_of(a, controllers + 1);
        if (below)
            read_groups(out, a, arena_printf(a, "%s%s", mount, below), path);
    }
}
