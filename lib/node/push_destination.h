// SPDX-License-Identifier: Apache-2.0
// The destination folder of a push on the node, and the folders that no push may replace.
#ifndef NODE_PUSH_DESTINATION_H
#define NODE_PUSH_DESTINATION_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

// Resolves a path below `root`, or an absolute path or "~/…". NULL with an error for a path through
// "..", or, with replace, for a folder that is or contains a home folder, `root`, or a folder of
// dtctl itself. env has the HOME for "~".
char *push_destination(struct arena *a, char *const *env, const char *root, const char *given,
                       bool replace, struct err *e);
// The same without these checks, for reading.
char *push_destination_path(struct arena *a, char *const *env, const char *root, const char *given);

#endif
