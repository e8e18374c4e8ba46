// SPDX-License-Identifier: Apache-2.0
// --numa-binding: which processors each worker runs on, from where its GPU is attached.
//
//     cpu_set_t sets[8];
//     numa_bind("", NUMA_NODE, env_get(env, "CUDA_VISIBLE_DEVICES"), 8, &allowed, sets, e);
//
// Reads /proc/driver/nvidia and /sys below root ("" for this machine; tests use a copy). Worker i
// has the i-th visible GPU, in order of PCI addresses.
#ifndef WORKER_NUMA_H
#define WORKER_NUMA_H

#include "base/err.h"

#include <sched.h>

enum {
    NUMA_GPUS_MAX = 64,
    NUMA_NODES_MAX = 1024,
    NUMA_PCI_BYTES_MAX = 32, // "0000:3b:00.0"
};

enum numa_mode {
    NUMA_NODE,         // all processors of the GPU's node
    NUMA_SOCKET,       // all processors of the sockets of the node
    NUMA_EXCLUSIVE,    // a share of the node's cores, disjoint
    NUMA_CORE_COMPLEX, // processors of the node that share one last-level cache
};

extern const char *const numa_words[]; // in the order of the enum, NULL-terminated

int numa_bind(const char *root, enum numa_mode mode, const char *visible, int nproc,
              const cpu_set_t *allowed, cpu_set_t *out, struct err *e);

#endif
