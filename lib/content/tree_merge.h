// SPDX-License-Identifier: Apache-2.0
// Several folders, one per node, put together into one by moving their files.
#ifndef CONTENT_TREE_MERGE_H
#define CONTENT_TREE_MERGE_H

#include "base/err.h"

// folders and nodes (their names, for errors) end with NULL. Everything is checked before the first
// file moves: where two nodes have the same path with different content, ERR_EXISTS names both and
// nothing has moved. Equal content becomes one file.
int tree_merge(const char *dest, const char *const *folders, const char *const *nodes,
               struct err *e);

#endif
