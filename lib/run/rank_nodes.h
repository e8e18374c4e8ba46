// SPDX-License-Identifier: Apache-2.0
// Where ranks of a run that goes on are: asks all nodes of the cluster.
#ifndef RUN_RANK_NODES_H
#define RUN_RANK_NODES_H

#include "ui/context.h"

// run: name, unique beginning, or NULL for the only one that goes on. *indices: the nodes that hold
// one of the ranks, in the order of the inventory, each once. A rank that runs nowhere is
// ERR_NOT_FOUND, with those that do.
int rank_nodes_find(struct context *s, struct inventory *inv, const char *run,
                    const struct option_ints *ranks, size_t **indices, size_t *count,
                    struct err *e);

#endif
