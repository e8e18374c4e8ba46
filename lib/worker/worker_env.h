// SPDX-License-Identifier: Apache-2.0
// The environment of a worker: torchrun's variables with the same meaning, and DTCTL_*. Pure:
// computed from the agent's environment and the facts of a round.
#ifndef WORKER_WORKER_ENV_H
#define WORKER_WORKER_ENV_H

#include "base/arena.h"
#include "protocol/job_spec.h"

#include <stdbool.h>

struct worker_facts {              // of one round on one node
    const char *run, *role, *node; // node: its name
    int nproc, group_rank, group_world, rank, world_size, role_rank, role_world;
    int restarts, max_restarts, round;
    const char *master_addr; // numeric
    int master_port;
    const char *ifname;     // interface towards the leader, "" if unknown
    bool has_efa;           // efa_is_here
    const char *signals;    // TORCHELASTIC_SIGNALS_TO_HANDLE
    const char *timer_file; // TORCHELASTIC_TIMER_FILE; NULL: as inherited
    bool own_store;         // rank 0 opens the store itself, at MASTER_PORT
    bool virtual_local_rank;
    const char *const *addresses;  // of the round's nodes by group rank; NULL: not all are known
    const struct job_pair *compat; // of compat.sagemaker; the job's own variables override them
    int compat_count;
    const struct job_pair *inputs; // variables of inputs that the round deals
    int input_count;
    const struct job_pair *extra; // variables of the job, set last, override all others
    int extra_count;
    const struct job_pair *defaults; // set unless the agent's environment has them
    int default_count;
};

// Returns a NULL-terminated list "NAME=value" in the arena. error_file "": none.
const char *const *worker_env_build(struct arena *a, char *const *inherited,
                                    const struct worker_facts *f, int local_rank,
                                    const char *error_file);
// True when OMP_NUM_THREADS is set to 1 by that rule, which deserves a warning.
bool worker_env_limits_threads(char *const *inherited, const struct worker_facts *f);

#endif
