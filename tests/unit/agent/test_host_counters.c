// SPDX-License-Identifier: Apache-2.0
// The kernel's counters of a host: real texts, and hostile ones.
#include "agent/host_counters.h"
#include "base/str.h"
#include "tests/tap.h"

#include <string.h>

static cpu_set_t all;

static bool cpu(const char *text, const cpu_set_t *allowed, struct host_pair *out) {
    return host_counters_cpu(text, strlen(text), allowed, out);
}

static void try_cpu(void) {
    static const char text[] = "cpu  30 0 30 300 30 0 0 0 0 0\n"
                               "cpu0 10 1 20 100 5 2 3 4 9 9\n"
                               "cpu1 20 0 10 200 25 0 0 0 0 0\n"
                               "intr 5 5\ncpu2 1 1 1 1 1 1 1 1\n";
    struct host_pair p;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    ok(cpu(text, &all, &p), "/proc/stat has processors");
    is_uint(p.first, 10 + 1 + 20 + 2 + 3 + 4 + 20 + 10, "busy: neither idle nor waiting for disks");
    is_uint(p.second, p.first + 100 + 5 + 200 + 25, "all: without guests, whose time is counted");
    ok(cpu(text, &first, &p) && p.second == 145, "only processors that the agent may use count");
    CPU_ZERO(&first);
    ok(!cpu(text, &first, &p), "without any there is no figure");
    CPU_SET(191, &first);
    ok(cpu("cpu0 1 2 3 4 5\ncpu191 1 2 3 4 5\n", &first, &p) && p.second == 15,
       "processor 191 counts");
    static const char *const none[] = {"",
                                       "cpu",
                                       "cpu0",
                                       "cpu0 1 2 3 4",
                                       "cpu0\n",
                                       "cpu0 1 2 3\n",
                                       "cpu99999999999999999999999 1 2 3 4\n",
                                       "cpux 1 2 3 4 5\n",
                                       "cpu1024 1 2 3 4 5\n",
                                       "cpu0 99999999999999999999999 1 1 1 1\n",
                                       "\n\n\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!cpu(none[i], &all, &p), "no processors: case %zu", i);
    ok(cpu("cpu0 18446744073709551615 18446744073709551615 1 1\n", &all, &p) &&
           p.first == UINT64_MAX,
       "sums do not wrap around");
}

static void try_memory(void) {
    static const char text[] = "MemTotal:        1000 kB\nMemFree:  10 kB\nMemAvailable:  400 kB\n";
    struct host_pair p;
    ok(host_counters_memory(text, sizeof text - 1, &p), "/proc/meminfo has memory");
    is_uint(p.first, 600 * 1024, "in use: all but what is available");
    is_uint(p.second, 1000 * 1024, "memory of the host");
    static const char *const none[] = {"",
                                       "MemTotal: 1000 kB\n",
                                       "MemAvailable: 5 kB\n",
                                       "MemTotal: -5 kB\nMemAvailable: 1 kB\n",
                                       "MemTotal: 36893488147419103232 kB\nMemAvailable: 1 kB\n",
                                       "MemTotal: 18014398509481985 kB\nMemAvailable: 1 kB\n",
                                       "MemTotal: 9 kB\nMemAvailable: 5"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!host_counters_memory(none[i], strlen(none[i]), &p), "no memory: case %zu", i);
    static const char odd[] = "MemTotal: 5 kB\nMemAvailable: 9 kB\n";
    ok(host_counters_memory(odd, sizeof odd - 1, &p) && p.first == 0, "never less than nothing");
}

static void try_network(void) {
    static const char text[] =
        "Inter-|   Receive                   |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
        "    lo: 7000 1 0 0 0 0 0 0 7000 1 0 0 0 0 0 0\n"
        "  eth0: 100 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
        "eth1:300 1 0 0 0 0 0 0 4000 1 0 0 0 0 0 0\n"
        "docker0: 5000 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0\n"
        "veth12ab: 5000 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0\n"
        "eth0.100: 50 1 0 0 0 0 0 0 60 1 0 0 0 0 0 0\n"
        " bond0: 400 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0\n";
    struct host_pair p;
    ok(host_counters_network(text, sizeof text - 1, &p), "/proc/net/dev has devices");
    is_uint(p.first, 400, "received by the two real devices");
    is_uint(p.second, 6000, "sent by them");
    static const char lo[] = "lo: 7 1 0 0 0 0 0 0 7 1\n";
    ok(host_counters_network(lo, sizeof lo - 1, &p) && p.first == 0, "loopback counts nothing");
    static const char *const none[] = {"",
                                       ":",
                                       "\n",
                                       "eth0\n",
                                       "eth0:\n",
                                       "eth0: 1 2 3\n",
                                       "eth0: 1 1 0 0 0 0 0 0 x 1\n",
                                       "eth0: 1 1 0 0 0 0 0 0 5"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!host_counters_network(none[i], strlen(none[i]), &p), "no devices: case %zu", i);
}

static void try_disks(void) {
    static const char text[] = " 259 0 nvme0n1 1 0 10 0 1 0 20 0 0 0 0\n"
                               " 259 1 nvme0n1p1 1 0 10 0 1 0 20 0 0 0 0\n"
                               " 259 2 nvme1n1 1 0 100 0 1 0 200 0 0 0 0\n"
                               "   8 0 sda 1 0 1000 0 1 0 2000 0 0 0 0\n"
                               "   8 1 sda1 1 0 1000 0 1 0 2000 0 0 0 0\n"
                               "   8 16 sdab 1 0 10000 0 1 0 20000 0 0 0 0\n"
                               " 202 1 xvda1 1 0 100000 0 1 0 200000 0 0 0 0\n"
                               "   7 0 loop0 9 9 9 9 9 9 9 9\n 253 0 dm-0 9 9 9 9 9 9 9 9\n";
    struct host_pair p;
    ok(host_counters_disks(text, sizeof text - 1, &p), "/proc/diskstats has disks");
    is_uint(p.first, 111110 * 512, "read from whole disks, and a partition without its disk");
    is_uint(p.second, 222220 * 512, "written");
    struct strbuf many = {0};
    for (int i = 0; i < HOST_DISKS_MAX * 2; i++)
        strbuf_addf(&many, "8 0 d%dx 1 0 1 0 1 0 1 0\n", i);
    ok(host_counters_disks(many.data, many.len, &p), "more disks are there than are counted");
    strbuf_fini(&many);
    is_uint(p.first, HOST_DISKS_MAX * 512, "the rest is left out");
    static const char *const none[] = {"",
                                       "8 0\n",
                                       "8 0 sda\n",
                                       "8 0 sda 1 2 3 4 5 6\n",
                                       "8 0 sda 1 0 99999999999999999 0 1 0 1 0\n",
                                       "x y sda\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!host_counters_disks(none[i], strlen(none[i]), &p), "no disks: case %zu", i);
}

static void try_groups(void) {
    uint64_t v;
    ok(host_counters_number("4096\n", 5, &v) && v == 4096, "a number");
    ok(!host_counters_number("-1\n", 3, &v) && !host_counters_number("", 0, &v) &&
           !host_counters_number("12x\n", 4, &v) && !host_counters_number("12", 2, &v) &&
           !host_counters_number("max\n", 4, &v),
       "no number");
    static const char stat[] = "anon 5\nfile_mapped 6\ninactive_file 77\n";
    ok(host_counters_named(stat, sizeof stat - 1, "inactive_file", &v) && v == 77,
       "a named number");
    ok(!host_counters_named(stat, sizeof stat - 1, "file", &v), "the name is whole");
}

static bool gpu(const char *line, struct host_gpu *out) {
    return host_counters_gpu(line, strlen(line), out);
}

static void try_gpus(void) {
    struct host_gpu g;
    ok(gpu("3, 97, 40000, 81559", &g), "a GPU");
    ok(g.index == 3 && g.percent == 97 && g.memory_mib == 40000 && g.memory_limit_mib == 81559,
       "the figures are read");
    ok(gpu("0, [N/A], [Not Supported], 24576\r", &g) && g.percent == -1 && g.memory_mib == -1 &&
           g.memory_limit_mib == 24576,
       "figures that it does not know");
    ok(gpu("0, 101, 99999999999999999999, -5, 7", &g) && g.percent == -1 && g.memory_mib == -1 &&
           g.memory_limit_mib == -1,
       "figures that cannot be are not known");
    static const char *const none[] = {"",
                                       ",",
                                       "0",
                                       "0, 1",
                                       "0, 1, 2",
                                       "64, 1, 2, 3",
                                       "-1, 1, 2, 3",
                                       "x, 1, 2, 3",
                                       "No devices were found",
                                       "NVIDIA-SMI has failed because it couldn't communicate"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!gpu(none[i], &g), "no GPU: '%s'", none[i]);
}

int main(void) {
    for (size_t i = 0; i < 1024; i++)
        CPU_SET(i, &all);
    try_cpu();
    try_memory();
    try_network();
    try_disks();
    try_groups();
    try_gpus();
    return done_testing();
}
