// SPDX-License-Identifier: Apache-2.0
// Binds workers to processors near their GPUs. Processors of a node are grouped by a shared
// resource (a core, a cache); the first processor of a group represents it. Workers of one node
// take its groups in order. Kernel files: Documentation/admin-guide/cputopology.rst,
// Documentation/ABI/stable/sysfs-devices-node.
#include "worker/numa.h"

#include "base/arena.h"
#include "base/cpu_list.h"
#include "sys/file_entries.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 4096, PATH_BYTES_MAX = 4096, CACHE_LEVELS_MAX = 8 };

const char *const numa_words[] = {"node", "socket", "exclusive", "core-complex", NULL};

struct gpus {
    char pci[NUMA_GPUS_MAX][NUMA_PCI_BYTES_MAX];
    int node[NUMA_GPUS_MAX];
    int count;
};

__attribute__((format(printf, 3, 4))) static int read_text(char *out, struct err *e,
                                                           const char *fmt, ...) {
    char path[PATH_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, TEXT_BYTES_MAX - 1);
    if (n < 0)
        err_errno(e, ERR_SYS, "--numa-binding: cannot read '%s'", path);
    if (fd >= 0)
        close(fd);
    out[n < 0 ? 0 : n] = '\0';
    return n < 0 ? -1 : 0;
}

static int first_of(const cpu_set_t *set) {
    int cpu = 0;
    while (cpu < CPU_LIST_MAX && !CPU_ISSET((size_t)cpu, set))
        cpu++;
    return cpu;
}

static int node_cpus(const char *root, int node, const cpu_set_t *allowed, cpu_set_t *out,
                     struct err *e) {
    char text[TEXT_BYTES_MAX];
    if (read_text(text, e, "%s/sys/devices/system/node/node%d/cpulist", root, node) < 0 ||
        cpu_list_parse(text, out, e) < 0)
        return -1;
    CPU_AND(out, out, allowed);
    return 0;
}

static int package_of(const char *root, int cpu) {
    char text[TEXT_BYTES_MAX];
    struct err no_matter;
    int rc = read_text(text, &no_matter, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root, cpu,
                       "physical_package_id");
    return rc < 0 ? -1 : (int)strtol(text, NULL, 10);
}

// Processors that share a core (or the last cache) with cpu; only cpu if unknown.
static void sharing(const char *root, enum numa_mode mode, int cpu, cpu_set_t *out) {
    char text[TEXT_BYTES_MAX];
    struct err no_matter;
    int rc = -1;
    if (mode == NUMA_EXCLUSIVE)
        rc = read_text(text, &no_matter, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root, cpu,
                       "thread_siblings_list");
    for (int i = CACHE_LEVELS_MAX; mode == NUMA_CORE_COMPLEX && rc < 0 && i >= 0; i--)
        rc = read_text(text, &no_matter, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/%s", root,
                       cpu, i, "shared_cpu_list");
    if (rc < 0 || cpu_list_parse(text, out, &no_matter) < 0) {
        CPU_ZERO(out);
        CPU_SET((size_t)cpu, out);
    }
}

// Splits the processors of a node into groups; groups has room for CPU_LIST_MAX. Returns their
// number.
static int group(const char *root, enum numa_mode mode, const cpu_set_t *cpus, cpu_set_t *groups) {
    cpu_set_t left = *cpus;
    int count = 0;
    for (int cpu; (cpu = first_of(&left)) < CPU_LIST_MAX; count++) {
        sharing(root, mode, cpu, &groups[count]);
        CPU_AND(&groups[count], &groups[count], &left);
        CPU_SET((size_t)cpu, &groups[count]);
        CPU_XOR(&left, &left, &groups[count]);
    }
    return count;
}

static int larger_first(const void *a, const void *b) {
    const cpu_set_t *x = a, *y = b;
    int by_size = CPU_COUNT(y) - CPU_COUNT(x);
    return by_size ? by_size : first_of(x) - first_of(y);
}

// The processors for the index-th of the GPUs on a node.
static int share(const char *root, enum numa_mode mode, int index, int gpus, cpu_set_t *cpus,
                 struct err *e) {
    cpu_set_t *groups = heap_alloc(CPU_LIST_MAX * sizeof *groups);
    int count = group(root, mode, cpus, groups), from = 0, to = 0;
    if (mode == NUMA_CORE_COMPLEX && count > 0) {
        qsort(groups, (size_t)count, sizeof *groups, larger_first);
        from = index % count;
        to = from + 1;
    } else if (mode == NUMA_EXCLUSIVE) { // the first GPUs get the remainder
        int each = count / gpus, more = count % gpus;
        from = index * each + (index < more ? index : more);
        to = from + each + (index < more);
    }
    CPU_ZERO(cpus);
    for (int i = from; i < to; i++)
        CPU_OR(cpus, cpus, &groups[i]);
    free(groups);
    return to > from ? 0
                     : err_set(e, ERR_CONFIG,
                               "--numa-binding: %d cores are too few for %d GPUs of one node",
                               count, gpus);
}

static int compare_pci(const void *a, const void *b) {
    return strcmp(a, b);
}

static void find_gpus(const char *root, struct gpus *g) {
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
    struct file_entries in = file_entries_open(path);
    g->count = 0;
    while (g->count < NUMA_GPUS_MAX && file_entries_next(&in)) {
        size_t bytes = strlen(in.name) + 1;
        if (in.name[0] != '.' && bytes <= NUMA_PCI_BYTES_MAX)
            memcpy(g->pci[g->count++], in.name, bytes);
    }
    (void)file_entries_close(&in, 0, NULL);
    qsort(g->pci, (size_t)g->count, sizeof g->pci[0], compare_pci);
}

// Keeps the GPUs of CUDA_VISIBLE_DEVICES, in its order.
static int keep_visible(struct gpus *g, const char *visible, struct err *e) {
    struct gpus all = *g;
    for (g->count = 0; *visible && g->count < NUMA_GPUS_MAX; g->count++) {
        char *end;
        long index = strtol(visible, &end, 10);
        if (end == visible || (*end && *end != ',') || index < 0 || index >= all.count)
            return err_set(e, ERR_USAGE,
                           "--numa-binding: CUDA_VISIBLE_DEVICES must be numbers below %d here",
                           all.count);
        memcpy(g->pci[g->count], all.pci[index], sizeof g->pci[0]);
        visible = end + (*end == ',');
    }
    return 0;
}

static int find_nodes(const char *root, struct gpus *g, struct err *e) {
    char text[TEXT_BYTES_MAX];
    for (int i = 0; i < g->count; i++) {
        for (char *p = g->pci[i]; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        if (read_text(text, e, "%s/sys/bus/pci/devices/%s/numa_node", root, g->pci[i]) < 0)
            return -1;
        int node = (int)strtol(text, NULL, 10); // -1: the machine has one node
        g->node[i] = node < 0 || node >= NUMA_NODES_MAX ? 0 : node;
    }
    return 0;
}

static void socket_cpus(const char *root, int node, const cpu_set_t *allowed, cpu_set_t *cpus) {
    int package = package_of(root, first_of(cpus));
    struct err no_matter;
    for (int n = 0; n < NUMA_NODES_MAX; n++) {
        cpu_set_t other;
        if (n == node || node_cpus(root, n, allowed, &other, &no_matter) < 0)
            continue;
        if (CPU_COUNT(&other) > 0 && package_of(root, first_of(&other)) == package)
            CPU_OR(cpus, cpus, &other);
    }
}

int numa_bind(const char *root, enum numa_mode mode, const char *visible, int nproc,
              const cpu_set_t *allowed, cpu_set_t *out, struct err *e) {
    struct gpus g;
    find_gpus(root, &g);
    if (visible && keep_visible(&g, visible, e) < 0)
        return -1;
    if (g.count != nproc)
        return err_set(e, ERR_USAGE,
                       "--numa-binding needs one worker per GPU: %d workers, %d NVIDIA GPUs", nproc,
                       g.count);
    if (find_nodes(root, &g, e) < 0)
        return -1;
    for (int i = 0; i < nproc; i++) {
        int before = 0, on_node = 0, rc = 0;
        for (int k = 0; k < nproc; k++) {
            on_node += g.node[k] == g.node[i];
            before += k < i && g.node[k] == g.node[i];
        }
        if (node_cpus(root, g.node[i], allowed, &out[i], e) < 0)
            return -1;
        if (mode == NUMA_SOCKET)
            socket_cpus(root, g.node[i], allowed, &out[i]);
        else if (mode != NUMA_NODE)
            rc = share(root, mode, before, on_node, &out[i], e);
        if (rc < 0)
            return -1;
        if (CPU_COUNT(&out[i]) == 0)
            return err_set(e, ERR_CONFIG,
                           "--numa-binding: this process may use no processor of node %d",
                           g.node[i]);
    }
    return 0;
}
