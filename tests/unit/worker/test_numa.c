// SPDX-License-Identifier: Apache-2.0
// --numa-binding on a made-up machine: two sockets, a node each with 6 cores of two threads, two
// caches per node, three GPUs on node 0 and one on node 1.
#include "base/cpu_list.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "worker/numa.h"

#include <unistd.h>

static struct arena arena;
static char dir[] = "/tmp/dtctl-numa-XXXXXX";

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *fmt, ...) {
    struct err e;
    char path[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    char *file = file_join(&arena, dir, path), *end = strrchr(file, '/');
    *end = '\0';
    if (file_make_dirs(file, 0755, &e) < 0)
        bail_out("%s", e.text);
    *end = '/';
    if (file_write_atomic(file, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

// Processors 0-11 are the first threads, 12-23 the second ones; cores 0-5 are on node 0.
static void make_machine(void) {
    static const char *const pci[] = {"0000:3B:00.0", "0000:1a:00.0", "0000:5e:00.0",
                                      "0000:86:00.0"};
    for (int i = 0; i < 4; i++) {
        char *lower = arena_strdup(&arena, pci[i]);
        lower[5] = pci[i][5];
        for (char *p = lower; *p; p++)
            *p = *p == 'B' ? 'b' : *p;
        put("", "proc/driver/nvidia/gpus/%s/information", pci[i]);
        put(i == 3 ? "1\n" : "0\n", "sys/bus/pci/devices/%s/numa_node", lower);
    }
    put("0-5,12-17\n", "sys/devices/system/node/node0/cpulist");
    put("6-11,18-23\n", "sys/devices/system/node/node1/cpulist");
    for (int cpu = 0; cpu < 24; cpu++) {
        int core = cpu % 12, first = core / 3 * 3;
        char *base = arena_printf(&arena, "sys/devices/system/cpu/cpu%d", cpu);
        put(core < 6 ? "0\n" : "1\n", "%s/topology/physical_package_id", base);
        put(arena_printf(&arena, "%d,%d\n", core, core + 12), "%s/topology/thread_siblings_list",
            base);
        put(arena_printf(&arena, "%d-%d,%d-%d\n", first, first + 2, first + 12, first + 14),
            "%s/cache/index3/shared_cpu_list", base);
    }
}

// Sets as text, one per worker: "0,1,12 6,7".
static void bound(const char *want, enum numa_mode mode, const char *visible, int nproc,
                  const char *allowed) {
    struct err e = {0};
    cpu_set_t may, sets[8];
    struct strbuf b = {0};
    if (cpu_list_parse(allowed, &may, &e) < 0)
        bail_out("%s", e.text);
    int rc = numa_bind(dir, mode, visible, nproc, &may, sets, &e);
    for (int i = 0; rc == 0 && i < nproc; i++)
        for (int cpu = 0, n = 0; cpu < CPU_LIST_MAX; cpu++)
            if (CPU_ISSET((size_t)cpu, &sets[i]))
                strbuf_addf(&b, "%s%d", n++ ? "," : b.len ? " " : "", cpu);
    if (rc < 0)
        has_str(e.text, want, "%s, %d workers, GPUs %s: the error has its reason", numa_words[mode],
                nproc, visible);
    else
        is_str(strbuf_cstr(&b), want, "%s, %d workers, GPUs %s: the processors are right",
               numa_words[mode], nproc, visible);
    strbuf_fini(&b);
}

int main(void) {
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    make_machine();
    bound("0,1,2,3,4,5,12,13,14,15,16,17 6,7,8,9,10,11,18,19,20,21,22,23", NUMA_NODE, "2,3", 2,
          "0-23");
    bound("0,1,12,13 2,3,14,15 4,5,16,17 6,7,8,9,10,11,18,19,20,21,22,23", NUMA_EXCLUSIVE, NULL, 4,
          "0-23");
    bound("0,1,2,12,13,14 3,4,15,16", NUMA_EXCLUSIVE, "0,1", 2, "0-4,12-16");
    bound("0,1,2,12,13,14 3,4,5,15,16,17 0,1,2,12,13,14", NUMA_CORE_COMPLEX, "0,1,2", 3, "0-23");
    bound("3,4,5,15 2", NUMA_CORE_COMPLEX, "0,1", 2, "2-5,15");
    bound("0,1,2", NUMA_SOCKET, "0", 1, "0-2,7");
    put("0\n", "sys/devices/system/cpu/cpu6/topology/physical_package_id");
    bound("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23", NUMA_SOCKET, "0", 1,
          "0-23");
    bound("one worker per GPU: 2 workers, 4 NVIDIA GPUs", NUMA_NODE, NULL, 2, "0-23");
    bound("numbers below 4", NUMA_NODE, "GPU-1234", 1, "0-23");
    bound("numbers below 4", NUMA_NODE, "4", 1, "0-23");
    bound("no processor of node 1", NUMA_NODE, "3", 1, "0-5");
    bound("2 cores are too few for 3 GPUs", NUMA_EXCLUSIVE, "0,1,2", 3, "0-1");
    put("130-131\n", "sys/devices/system/node/node1/cpulist");
    bound("130,131", NUMA_NODE, "3", 1, "0-191");
    bound("130 131", NUMA_EXCLUSIVE, "3,3", 2, "0-191");
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
