// SPDX-License-Identifier: Apache-2.0
// Divides the CPUs of the machine among its ranks.
#include "trainer/cores.h"

#include "base/cpu_list.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

void cores_identify(struct cores_id *id, const cpu_set_t *allowed) {
    char boot[64] = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot, sizeof boot - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (n <= 0) // no /proc: the host's name is the next best
        gethostname(boot, sizeof boot - 1);
    struct hash h;
    hash_init(&h);
    hash_add(&h, boot, sizeof boot);
    hash_add(&h, allowed, sizeof *allowed);
    hash_final(&h, id->digest);
}

int cores_allowed(cpu_set_t *out, struct err *e) {
    enum { PROCESSORS_MAX = 1 << 16 };
    union {
        cpu_set_t first;
        unsigned char all[PROCESSORS_MAX / 8];
    } set = {.all = {0}};
    if (sched_getaffinity(0, sizeof set, &set.first) < 0)
        return err_errno(e, ERR_SYS, "sched_getaffinity");
    *out = set.first;
    return 0;
}

void cores_share(struct cores *out, const cpu_set_t *allowed, const struct machine_limits *limits,
                 const struct cores_id *ids, int world, int rank, int threads_wanted) {
    int index = 0, sharing = 0, cpus[CORES_MAX], count = 0;
    for (int r = 0; r < world; r++) {
        if (memcmp(&ids[r], &ids[rank], sizeof *ids) != 0)
            continue;
        index += r < rank;
        sharing++;
    }
    for (int c = 0; c < CPU_LIST_MAX && count < CORES_MAX; c++)
        if (CPU_ISSET(c, allowed))
            cpus[count++] = c;
    int share = count / sharing, most = share > 0 ? share : 1;
    double quota = ceil(limits->cpus / sharing);
    *out = (struct cores){.busy = limits->load > count / 2.0};
    if (limits->cpus > 0 && quota < most) {
        out->quota = true;
        most = (int)quota;
    }
    out->most = most;
    out->threads = threads_wanted > 0 ? threads_wanted : most;
    // Fewer threads than CPUs: the system finds better ones than we could name.
    if (out->threads != share || out->quota || out->busy)
        return;
    out->pinned = true;
    for (int i = 0; i < out->threads; i++)
        out->cpu[i] = cpus[index * share + i];
}

int cores_decoding(int node_cpus, int own_cpus, const struct machine_limits *limits, int ranks) {
    double quota = ceil(limits->cpus);
    if (limits->cpus > 0 && quota < node_cpus)
        node_cpus = (int)quota;
    int share = node_cpus / ranks;
    share = share < own_cpus ? share : own_cpus;
    return share > 1 ? share : 1;
}
