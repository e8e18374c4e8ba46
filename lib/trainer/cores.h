// SPDX-License-Identifier: Apache-2.0
// Selects the CPUs of a rank: the allowed CPUs, divided evenly among all ranks of the run on this
// machine. Two nodes of provider `local` are one machine, so ranks are grouped by boot id and
// allowed CPUs.
#ifndef TRAINER_CORES_H
#define TRAINER_CORES_H

#include "base/err.h"
#include "trainer/machine_limits.h"

#include <sched.h>
#include <stdint.h>

enum { CORES_MAX = 1024, CORES_ID_BYTES = 32 };

struct cores_id {
    unsigned char digest[CORES_ID_BYTES]; // equal: same machine, same CPUs allowed
};

struct cores {
    int threads;
    int cpu[CORES_MAX]; // threads entries when pinned
    bool pinned;
    bool quota, busy; // why there are fewer threads than CPUs, or why they are not pinned
    int most;         // what it would take by itself; more threads wait for each other
};

// Where this process may run; of more than CPU_LIST_MAX processors the first ones.
int cores_allowed(cpu_set_t *out, struct err *e);

void cores_identify(struct cores_id *id, const cpu_set_t *allowed);

// ids: one per rank, in rank order. threads_wanted 0: the share, or as many as the quota lets run,
// if those are fewer. Pinned when the threads are just the share and the machine was idle: with
// others on the same CPU the one thread that waits stops all, because each layer waits for it.
void cores_share(struct cores *out, const cpu_set_t *allowed, const struct machine_limits *limits,
                 const struct cores_id *ids, int world, int rank, int threads_wanted);

// Threads of a rank that decode images, while its GPU or its other threads compute: its share of
// the processors that the `ranks` of its node may use, and no more than it may use itself.
int cores_decoding(int node_cpus, int own_cpus, const struct machine_limits *limits, int ranks);

#endif
