// SPDX-License-Identifier: Apache-2.0
// The scheduler around a manual launch: a step of Slurm or an mpirun, which defines the number of
// nodes, the rank of this node, the leader and the number of workers. The values become PET_
// variables with lower precedence than real ones, so that options and exported variables win.
//
//     struct around around;
//     if (scheduler_read(&arena, environ, &around, e) > 0 && around.local > 0)
//         …                                          // another task of this node is the agent
//     option_set_env(&set, scheduler_variables(&arena, &around, &given));
//     option_set_env(&set, environ);
//
// Pure. All memory is in the arena.
#ifndef LAUNCH_SCHEDULER_H
#define LAUNCH_SCHEDULER_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

enum { AROUND_PORT_FIRST = 12000, AROUND_PORTS = 16000 }; // below the kernel's ephemeral ports

struct around {
    const char *by;     // "slurm", "mpi"; NULL: neither
    const char *run;    // name of the run, the same on all nodes
    const char *self;   // name of this node; "" when missing
    const char *leader; // host of the coordinator, "" when missing
    int nodes;          // number of nodes
    int order;          // position of this node: its rank with Slurm
    int local, tasks;   // index of this task on the node, and number of its tasks
    int nproc;          // workers to start here, 0 when missing
    int port;           // of the coordinator, derived from the run's name
    bool ordered;       // order is the node's rank
    int rank, size;     // of this task among all, and their number; size 0: missing
    bool per_task;      // each task is a launcher of its own; none waits for another
};

// Values of the flags that decide whether the scheduler matters; NULL: not given.
struct around_given {
    const char *nnodes, *node_rank, *rdzv_backend, *rdzv_endpoint, *rdzv_conf, *master_addr;
    bool standalone;
};

// 1: inside a scheduler; 0: not; -1: its variables are inconsistent.
int scheduler_read(struct arena *a, char *const *env, struct around *out, struct err *e);
// True when the given flags make each task of a node a launcher: a node rank, or as many nodes as
// tasks.
bool scheduler_is_per_task(const struct around *x, const struct around_given *g);
// True when the workers are on this node only: just their number is taken from the scheduler.
bool scheduler_is_alone(const struct around *x, const struct around_given *g);
// NULL-terminated "PET_…=…" list.
char *const *scheduler_variables(struct arena *a, const struct around *x,
                                 const struct around_given *g, struct err *e);
// The name that the tasks of one node share (node_lock.h).
const char *scheduler_task_name(struct arena *a, const struct around *x, const char *host);

#endif
