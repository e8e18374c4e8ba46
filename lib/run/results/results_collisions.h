// SPDX-License-Identifier: Apache-2.0
// The layout of results from several nodes in one folder. A path keeps its name when it exists on
// one node only or is the same on all nodes. A path that differs between nodes becomes NODE/PATH
// for each of them, but a path of a node that begins with that node's name stays. The place of a
// file therefore never depends on other files.
//
// Works on the folders in which the nodes' parts have arrived, before they are merged. NODE_/PATH
// is used when NODE/PATH is taken, either by a file of the script or by a file that an earlier,
// failed merge set apart.
#ifndef RUN_RESULTS_COLLISIONS_H
#define RUN_RESULTS_COLLISIONS_H

#include "base/arena.h"
#include "base/err.h"
#include "content/content_tick.h"

#include <stddef.h>

struct results_collisions {
    size_t apart;      // number of paths that differ between nodes
    const char *first; // the first of these paths; in the arena
};

// folders[i] is the part of the node names[i]. Links in the parts are never followed. dest is the
// folder that the parts will be merged into. Copies of differing files that an earlier merge of
// fewer nodes left in dest are removed.
int results_collisions_split(struct arena *a, const char *const *folders, const char *const *names,
                             size_t count, const char *dest, const struct content_ticks *ticks,
                             struct results_collisions *out, struct err *e);

#endif
