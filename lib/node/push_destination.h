// SPDX-License-Identifier: Apache-2.0
// Where a push goes to on the node: the folder that the operator names, and the folders that no
// push may replace.
#ifndef NODE_PUSH_DESTINATION_H
#define NODE_PUSH_DESTINATION_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

// Below `root` unless given as an absolute path or as "~/…". NULL with an error: a path through
// "..", or, with replace, a folder that is or holds a home folder, `root`, or one of those in which
// dtctl keeps its things. env has the HOME of "~".
char *xfer_dest(struct arena *a, char *const *env, const char *root, const char *given,
                bool replace, struct err *e);
// The same without a judgement: for reading.
char *xfer_node_path(struct arena *a, char *const *env, const char *root, const char *given);

#endif
