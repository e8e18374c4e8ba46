// SPDX-License-Identifier: Apache-2.0
// Whose results a folder holds: the file `.dtctl-run` in it has the id of the run. A folder without
// one belongs to nobody, and results of two runs are never mixed in one folder.
#ifndef RUN_RESULTS_OWNER_H
#define RUN_RESULTS_OWNER_H

#include "base/arena.h"
#include "base/err.h"

#define OWNER_MARK ".dtctl-run"

// "" when nobody's, or when there is no such folder.
const char *owner_of(struct arena *a, const char *dir);
int owner_set(const char *dir, const char *run, struct err *e); // makes the folder

#endif
