// SPDX-License-Identifier: Apache-2.0
// Reads the limits of control groups, and memory and load of the machine.
#include "trainer/machine_limits.h"

#include "base/arena.h"
#include "base/str.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20 };

// Above this a limit of version 1 is none: it says so with the largest number of whole pages.
#define MEMORY_NONE (UINT64_C(1) << 60)

static const char *text_of(struct arena *a, const char *path) {
    struct err ignored;
    char *text;
    size_t len;
    return file_read(a, path, TEXT_BYTES_MAX, &text, &len, &ignored) < 0 ? "" : text;
}

static void least(uint64_t *least, uint64_t v) {
    if (v > 0 && v < MEMORY_NONE && (*least == 0 || v < *least))
        *least = v;
}

static void quota(struct machine_limits *out, double us, double period_us) {
    double cpus = us > 0 && period_us > 0 ? us / period_us : 0;
    if (cpus > 0 && (out->cpus <= 0 || cpus < out->cpus))
        out->cpus = cpus;
}

// One group's files; those of the other version, or of the root, are not there.
static void read_group(struct machine_limits *out, struct arena *a, const char *group) {
    char *end; // "200000 100000", or "max 100000"
    double us = strtod(text_of(a, file_join(a, group, "cpu.max")), &end);
    quota(out, us, strtod(end, NULL));
    quota(out, strtod(text_of(a, file_join(a, group, "cpu.cfs_quota_us")), NULL),
          strtod(text_of(a, file_join(a, group, "cpu.cfs_period_us")), NULL));
    least(&out->memory_bytes, strtoull(text_of(a, file_join(a, group, "memory.max")), NULL, 10));
    least(&out->memory_bytes,
          strtoull(text_of(a, file_join(a, group, "memory.limit_in_bytes")), NULL, 10));
}

// Reads the limits of the group and all its parents; each applies. Inside a container the path may
// be one of the host's, of which only the root of the mount exists.
static void read_groups(struct machine_limits *out, struct arena *a, const char *mount,
                        const char *path) {
    char *part = arena_strdup(a, path);
    for (;;) {
        read_group(out, a, arena_printf(a, "%s%s", mount, part));
        char *slash = strrchr(part, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void read_cgroups(struct machine_limits *out, struct arena *a, const char *root) {
    char **lines;
    const char *text = text_of(a, arena_printf(a, "%s/proc/self/cgroup", root));
    size_t count = *text ? str_split(a, text, '\n', &lines) : 0;
    for (size_t i = 0; i < count; i++) { // "0::/path", "4:cpu,cpuacct:/path"
        char *kinds = strchr(lines[i], ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        kinds++;
        const char *below = !*kinds                                             ? ""
                            : str_starts(kinds, "cpu,") || str_eq(kinds, "cpu") ? "/cpu"
                            : str_starts(kinds, "cpuacct,cpu")                  ? "/cpu"
                            : str_eq(kinds, "memory")                           ? "/memory"
                                                                                : NULL;
        if (below)
            read_groups(out, a, arena_printf(a, "%s/sys/fs/cgroup%s", root, below),
                        str_eq(path, "/") ? "" : path);
    }
}

void machine_limits_read(struct machine_limits *out, const char *root) {
    struct arena a = {0};
    *out = (struct machine_limits){0};
    read_cgroups(out, &a, root);
    const char *available =
        strstr(text_of(&a, arena_printf(&a, "%s/proc/meminfo", root)), "MemAvailable:");
    if (available)
        least(&out->memory_bytes, strtoull(available + strlen("MemAvailable:"), NULL, 10) * 1024);
    out->load = strtod(text_of(&a, arena_printf(&a, "%s/proc/loadavg", root)), NULL);
    arena_fini(&a);
}
