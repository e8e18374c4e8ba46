// SPDX-License-Identifier: Apache-2.0
// Which CPUs a rank computes on: the CPUs it may use, divided evenly among all ranks of the run on
// this machine. Those are not only the ranks of its node: two nodes of provider `local` are one
// machine, so ranks are told apart by boot id and allowed CPUs.
#ifndef NN_CORES_H
#define NN_CORES_H

#include "base/err.h"

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
};

void cores_identify(struct cores_id *id, const cpu_set_t *allowed);

// ids: one per rank, in rank order. threads_wanted 0: the share. Pinned
// when the threads are just the share.
void cores_share(struct cores *out, const cpu_set_t *allowed, const struct cores_id *ids, int world,
                 int rank, int threads_wanted);

#endif
