// SPDX-License-Identifier: Apache-2.0
// Keeps a process on the processors of its GPU's NUMA node. The list of a node's processors:
// Documentation/ABI/stable/sysfs-devices-node of Linux.
#include "base/cpu_list.h"
#include "base/str.h"
#include "gpu/gpu_impl.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIST_BYTES_MAX = 4096 };

static int processors_of(int node, cpu_set_t *out) {
    char path[64], text[LIST_BYTES_MAX];
    struct err no_matter;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    text[n] = '\0';
    return cpu_list_parse(text, out, &no_matter);
}

void gpu_stay_near(struct gpu *g) {
    int node = -1;
    cpu_set_t allowed, near;
    if (g->driver.device_attribute(&node, CU_HOST_NUMA_ID, g->device) != CUDA_SUCCESS || node < 0 ||
        sched_getaffinity(0, sizeof allowed, &allowed) < 0 || processors_of(node, &near) < 0)
        return;
    CPU_AND(&near, &near, &allowed);
    int count = CPU_COUNT(&near);
    if (count == 0 || CPU_EQUAL(&near, &allowed) || sched_setaffinity(0, sizeof near, &near) < 0)
        return;
    size_t used = strlen(g->about);
    snprintf(g->about + used, sizeof g->about - used, ", on the %d processor%s of NUMA node %d",
             count, str_plural(count), node);
}
