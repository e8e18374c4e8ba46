// SPDX-License-Identifier: Apache-2.0
// What surrounds a launch by hand: a step of Slurm or an mpirun that says how many nodes there are,
// which this one is, who leads and how many workers to start. It becomes PET_ variables that are
// weaker than real ones, so that whatever is typed or exported wins.
//
//     struct around around;
//     if (around_read(&arena, environ, &around, e) > 0 && around.local > 0)
//         …                                          // another task of this node is the agent
//     option_set_env(&set, around_variables(&arena, &around, &given));
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
    const char *self;   // name of this node; "" when not told
    const char *leader; // host of the coordinator, "" when not told
    int nodes;          // how many
    int order;          // of this node among them: its rank with Slurm
    int local, tasks;   // which of the tasks on this node, and how many
    int nproc;          // workers to start here, 0 when not told
    int port;           // of the coordinator, from the run's name
    bool ordered;       // order is the rank of the node, not only an order
    int rank, size;     // of this task among all, and their number; size 0: not told
    bool per_task;      // each task is a launcher of its own; none waits for another
};

// What was given for the flags that decide whether the surroundings matter; NULL: not given.
struct around_given {
    const char *nnodes, *node_rank, *rdzv_backend, *rdzv_endpoint, *rdzv_conf, *master_addr;
    bool standalone;
};

// 1: there are surroundings; 0: none; -1: they contradict themselves.
int around_read(struct arena *a, char *const *env, struct around *out, struct err *e);
// What was given makes each task of a node a launcher: a node rank, or as many nodes as tasks.
bool around_is_per_task(const struct around *x, const struct around_given *g);
// The workers are this node's alone: only their number is taken from the surroundings.
bool around_is_alone(const struct around *x, const struct around_given *g);
// NULL-terminated "PET_…=…" list.
char *const *around_variables(struct arena *a, const struct around *x, const struct around_given *g,
                              struct err *e);
// The name that the tasks of one node share (node_lock.h).
const char *around_task_name(struct arena *a, const struct around *x, const char *host);

#endif
