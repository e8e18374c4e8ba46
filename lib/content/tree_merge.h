// SPDX-License-Identifier: Apache-2.0
// Merges several folders, one per node, into one by moving their files.
#ifndef CONTENT_TREE_MERGE_H
#define CONTENT_TREE_MERGE_H

#include "content/content_tick.h"

// folders and nodes (their names, for errors) end with NULL. Everything is checked before the first
// move. If two nodes have one path with different content, ERR_EXISTS names both and nothing is
// moved. Equal content becomes one file. An error of the tick may leave some files moved; a merge
// of the folders as they then are moves the others.
int tree_merge(const char *dest, const char *const *folders, const char *const *nodes,
               const struct content_ticks *ticks, struct err *e);

#endif
