// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of given ranks of an active run: asks all nodes of the cluster.
#ifndef RUN_RANK_NODES_H
#define RUN_RANK_NODES_H

#include "ui/context.h"

// run: name, unique prefix, or NULL for the only active run. *indices: the nodes that hold any of
// the ranks, in the order of the inventory, without duplicates. A rank that runs nowhere is
// ERR_NOT_FOUND; the text names the ranks that run.
int rank_nodes_find(struct context *s, struct inventory *inv, const char *run,
                    const struct option_ints *ranks, size_t **indices, size_t *count,
                    struct err *e);

#endif
