// SPDX-License-Identifier: Apache-2.0
// Parses the environment of a task of Slurm's `srun`: nodes, position of this node, tasks and GPUs.
// Pure. All memory is in the arena.
//
//     struct slurm_step s;
//     int inside = slurm_read(&arena, environ, &s, e);   // 1: in a step of srun; 0: not; -1: e
//
// A batch script or an salloc shell is not a step and is ignored, because only one process runs it.
// Grammar of node lists and task counts: srun(1), OUTPUT ENVIRONMENT VARIABLES.
#ifndef LAUNCH_SLURM_H
#define LAUNCH_SLURM_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>

enum {
    SLURM_NODES_MAX = 16384,
    SLURM_TEXT_BYTES_MAX = 1 << 20, // of one variable
    SLURM_TASKS_MAX = 1 << 20,      // on one node
};

struct slurm_step {
    const char *job, *step; // their numbers, as text
    const char *self;       // this node's name
    const char *leader;     // name of the first node
    int nodes, node;        // number of nodes, and index of this one from 0
    int tasks, local;       // tasks on this node, and index of this one
    int gpus;               // allocated on this node, 0 when missing
};

int slurm_read(struct arena *a, char *const *env, struct slurm_step *out, struct err *e);

// Expands "gpu[01-04,7],x" to gpu01 gpu02 gpu03 gpu04 gpu7 x (base/hostlist.h), separated by
// commas.
int slurm_nodelist(struct arena *a, const char *text, char ***names, size_t *count, struct err *e);
// Tasks of one node in "2(x3),1": 2 for nodes 0 to 2, 1 for node 3.
int slurm_tasks_of(const char *text, int node, int *out, struct err *e);

#endif
