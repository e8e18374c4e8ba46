// SPDX-License-Identifier: Apache-2.0
// Limits of this process beyond its affinity mask: control groups' shares of processors and memory
// (versions 1 and 2), and memory and processors in use by others.
#ifndef TRAINER_MACHINE_LIMITS_H
#define TRAINER_MACHINE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct machine_limits {
    double cpus;           // quota in processors, the least of all groups above; 0: none
    uint64_t memory_bytes; // least of the groups' limits and the memory available; 0: not known
    double load;           // processes that ran or waited to run in the last minute
};

// root: "" for this machine; tests put a tree of files there.
void machine_limits_read(struct machine_limits *out, const char *root);

#endif
