// SPDX-License-Identifier: Apache-2.0
// Reads the limits of control groups, and memory and load of the machine.
#include "trainer/machine_limits.h"

#include "base/arena.h"
#include "sys/cgroup.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20 };

static const char *text_of(struct arena *a, const char *root, const char *name) {
    struct err ignored;
    char *text;
    size_t len;
    const char *path = arena_printf(a, "%s/proc/%s", root, name);
    return file_read(a, path, TEXT_BYTES_MAX, &text, &len, &ignored) < 0 ? "" : text;
}

void machine_limits_read(struct machine_limits *out, const char *root) {
    struct arena a = {0};
    struct cgroup_limits groups;
    cgroup_limits_read(&groups, &a, arena_printf(&a, "%s/proc", root),
                       arena_printf(&a, "%s/sys/fs/cgroup", root));
    const char *available = strstr(text_of(&a, root, "meminfo"), "MemAvailable:");
    uint64_t bytes = available ? strtoull(available + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
    if (bytes == 0 || (groups.memory_bytes && groups.memory_bytes < bytes))
        bytes = groups.memory_bytes;
    *out = (struct machine_limits){
        .cpus = groups.cpus,
        .memory_bytes = bytes,
        .load = strtod(text_of(&a, root, "loadavg"), NULL),
    };
    arena_fini(&a);
}
