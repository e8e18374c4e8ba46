// SPDX-License-Identifier: Apache-2.0
// The owner of a results folder: file `.dtctl-run` in it holds the id of the run. A folder without
// this file has no owner. Results of two runs are never mixed in one folder.
#ifndef RUN_RESULTS_OWNER_H
#define RUN_RESULTS_OWNER_H

#include "base/arena.h"
#include "base/err.h"
#include "cluster/run_record.h"

#define OWNER_MARK ".dtctl-run"

// "" when the folder has no owner or does not exist.
const char *results_owner_of(struct arena *a, const char *dir);
// True when the folder has files and no owner. Results never go among them.
bool results_owner_is_foreign(const char *dir);
// The run is over, and its results are in their folder on this side.
bool results_owner_is_here(struct arena *a, const struct run *run);
// The folder has an entry beside the mark of its owner; also for a file, and for what cannot be
// read.
bool results_owner_has_files(const char *dir);
int results_owner_set(const char *dir, const char *run, struct err *e); // makes the folder

#endif
