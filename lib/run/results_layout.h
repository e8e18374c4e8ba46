// SPDX-License-Identifier: Apache-2.0
// The layout of results from several nodes in one folder. A path that is the same on all nodes, or
// on one node alone, stays; one that differs between nodes becomes NODE/PATH for each of them. So
// the place of a file never depends on any other file.
//
// Works on the folders in which the nodes' parts have arrived, before they are merged. Where NODE/
// PATH is taken it becomes NODE_/PATH: a script made that file, or it was set apart before a merge
// that failed and has come once more.
#ifndef RUN_RESULTS_LAYOUT_H
#define RUN_RESULTS_LAYOUT_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>

struct layout {
    size_t apart;      // paths that differ between nodes
    const char *first; // one of them; in the arena
};

// folders[i] is the part of the node names[i]. Links in the parts are never followed. dest is where
// they are merged then: copies that an earlier merge of fewer nodes left there, of files that
// differ by now, are removed.
int layout_split(struct arena *a, const char *const *folders, const char *const *names,
                 size_t count, const char *dest, struct layout *out, struct err *e);

#endif
