// SPDX-License-Identifier: Apache-2.0
// Unpacks the archive of a run's environment, once on this node for each hash.
#ifndef NODE_NODE_BUNDLE_H
#define NODE_NODE_BUNDLE_H

#include "base/arena.h"
#include "protocol/job_spec.h"

// env: of this program. Waits for another run that unpacks the same archive. *made: false when it
// was there. The environment is there as a whole or not at all, also after a kill or a power
// failure.
int node_bundle(struct arena *a, const char *root, const struct job_spec *spec, char *const *env,
                bool *made, struct err *e);

// Environment of a program that prepares the node: `first`, then those of the list whose name is
// not there yet. In the arena, NULL-terminated.
char **node_setup_env(struct arena *a, const struct job_pair *first, int first_count,
                      char *const *rest);

#endif
