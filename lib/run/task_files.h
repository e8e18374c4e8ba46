// SPDX-License-Identifier: Apache-2.0
// The files in the working folder of a run, which decide with other parts whether a task runs
// again.
//
// runs/<run>/files has their list: path, mode and SHA-256 of each, as in a generation.
#ifndef RUN_TASK_FILES_H
#define RUN_TASK_FILES_H

#include "run/run_start.h"

enum { TASK_FILES_MAX = 20000 }; // no list is written of more files

// Calls fn for each file, folder and link of the working folder. path: in it.
typedef void task_files_each_cb(void *ctx, const char *path, const struct manifest_entry *x);
void task_files_each(const struct run_start *l, task_files_each_cb *fn, void *ctx);
int task_files_save(const struct run_start *l, struct err *e);
// Names the first file in which the run differs from an earlier one, and the number of others, for
// a message. "": they are equal, or the earlier run has no list.
const char *task_files_differing(const struct run_start *l, const struct run *earlier);

#endif
