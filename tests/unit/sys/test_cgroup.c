// SPDX-License-Identifier: Apache-2.0
// lib/sys/cgroup: limits of groups of both versions, of groups above them, and of containers.
#include "base/str.h"
#include "sys/cgroup.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena;
static char root[] = "/tmp/test_cgroup.XXXXXX";

static const char *in(const char *path) {
    return file_join(&arena, root, path);
}

static void put(const char *path, const char *text) {
    struct err e;
    if (file_make_dirs(file_dir(&arena, in(path)), 0755, &e) < 0 ||
        file_write_atomic(in(path), text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

static struct cgroup_limits limits_of(const char *self) {
    struct cgroup_limits l;
    put("proc/self/cgroup", self);
    cgroup_limits_read(&l, &arena, in("proc"), in("groups"));
    return l;
}

static void test_v2(void) {
    put("groups/a/cpu.max", "150000 100000\n");
    put("groups/a/b/cpu.max", "max 100000\n");
    put("groups/a/b/memory.max", "max\n");
    struct cgroup_limits l = limits_of("0::/a/b\n");
    near(l.cpus, 1.5, 0, "the quota of a group above applies");
    is_int(l.cpu.version, 2, "version 2 sets it");
    is_str(l.cpu.dir, in("groups/a"), "the folder of its group is known");
    ok(l.memory_bytes == 0 && l.memory.version == 0, "max is no limit");
    put("groups/a/memory.max", "1048576\n");
    put("groups/a/b/memory.max", "2097152\n");
    put("groups/cpu.max", "50000 100000\n");
    l = limits_of("0::/a/b\n");
    is_uint(l.memory_bytes, 1 << 20, "the least limit applies, not the nearest");
    is_str(l.memory.dir, in("groups/a"), "the folder of that group is known");
    near(l.cpus, 0.5, 0, "the root of a container has files, too");
    is_str(l.cpu.dir, in("groups"), "the root is the folder then");
    l = limits_of("0::/gone/in/the/container\n");
    near(l.cpus, 0.5, 0, "a path of the host ends at the root of the mount");
    l = limits_of("0::/\n");
    near(l.cpus, 0.5, 0, "the root is read as a group, too");
    put("groups/cpu.max", "50000 0\n");
    l = limits_of("0::/\n");
    ok(l.cpus <= 0 && l.cpu.version == 0, "a period of zero is no quota");
}

static void test_v1(void) {
    static const char self[] = "4:cpuset,memory:/m n\n3:cpu,cpuacct:/c\n1:name=systemd:/\n";
    put("groups/cpu/c/cpu.cfs_quota_us", "300000\n");
    put("groups/cpu/c/cpu.cfs_period_us", "100000\n");
    put("groups/memory/m n/memory.limit_in_bytes", "9223372036854771712\n");
    struct cgroup_limits l = limits_of(self);
    near(l.cpus, 3, 0, "a hierarchy with two controllers has the quota");
    is_int(l.cpu.version, 1, "version 1 sets it");
    is_str(l.cpu.dir, in("groups/cpu/c"), "the folder of that hierarchy is known");
    is_uint(l.memory_bytes, 0, "the largest number of version 1 is no limit");
    put("groups/memory/m n/memory.limit_in_bytes", "4194304\n");
    put("groups/memory/memory.limit_in_bytes", "2097152\n");
    put("groups/cpu/c/cpu.cfs_quota_us", "-1\n");
    l = limits_of(self);
    ok(l.cpus <= 0, "-1 is no quota");
    is_uint(l.memory_bytes, 2 << 20, "a limit above the group applies");
    is_int(l.memory.version, 1, "version 1 sets it");
}

static void test_odd(void) {
    put("etc/cpu.max", "1 100000\n");
    put("groups/cpu.max", "200000 100000\n");
    struct cgroup_limits l = limits_of("0::/../etc\n");
    near(l.cpus, 2, 0, "a path out of the mount counts as its root");
    static const char *const none[] = {"", "0::", "0::\n", "0::etc\n", "0:name=systemd:/\n", "/\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        l = limits_of(none[i]);
        ok(l.cpus <= 0 && l.memory_bytes == 0, "no group: case %zu", i);
    }
    static const char *const texts[] = {"", "\n", "x 1\n", "99999999999999999999 1\n", "5\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("groups/cpu.max", texts[i]);
        l = limits_of("0::/\n");
        ok(l.cpus <= 0, "no quota: case %zu", i);
    }
    cgroup_limits_read(&l, &arena, in("nothing"), in("nothing"));
    ok(l.cpus <= 0 && l.memory_bytes == 0, "no /proc, no limits");
}

int main(void) {
    struct err e;
    if (!mkdtemp(root))
        bail_out("no folder");
    test_v2();
    test_v1();
    test_odd();
    file_remove_tree(root, &e);
    arena_fini(&arena);
    return done_testing();
}
