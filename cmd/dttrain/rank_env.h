// SPDX-License-Identifier: Apache-2.0
// The variables that a launcher sets for a worker: torchrun's and dtctl's.
// Strings belong to the environment or to the arena.
#ifndef DTTRAIN_RANK_ENV_H
#define DTTRAIN_RANK_ENV_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

struct rank_env {
    char *const *env;
    bool launched; // RANK is set; else one process by itself
    int rank, world, local_rank, local_world, node, nodes;
    int restart; // which attempt this is
    const char *master_host;
    int master_port;
    const char *output_dir, *model_dir, *state_dir, *cache_dir;
};

int rank_env_read(struct rank_env *r, struct arena *a, char *const *env, struct err *e);

// Where an input is: wish is its name, or a path; "" is the input with the usual name when there is
// one. NULL: none.
const char *rank_env_input(const struct rank_env *r, struct arena *a, const char *wish,
                           const char *usual);
// Whether every node has a share of its own of that input.
bool rank_env_shared_out(const struct rank_env *r, struct arena *a, const char *wish,
                         const char *usual);

#endif
