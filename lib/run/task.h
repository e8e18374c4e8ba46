// SPDX-License-Identifier: Apache-2.0
// Tasks: runs of one name. A task comes after others, and a finished run of the same reuse key
// stands in for a new one. (The secret key of a run is in struct job_spec.)
//
// The reuse key has a hash of each part that decides a result: command, processes per node, files
// of the working folder, inputs, setup, environment, settings of the native trainer, layout of
// outputs, and the reuse keys of the runs that it comes after. The number of nodes and the programs
// of dtctl are no part of it.
#ifndef RUN_TASK_H
#define RUN_TASK_H

#include "run/run_start.h"

// Sets l->run.key, the reuse key; call after run_start_files.
void task_key(struct run_start *l);
// The hash of a part of a run's key: command, files, inputs, setup, env, outputs or after. NULL:
// the key has no such part.
const char *task_key_part(struct arena *a, const char *key, const char *part);
// Adds DTCTL_TASK, and DTCTL_TASK_<NAME> for each of task.after, to the workers' environment, which
// has room. ERR_NOT_FOUND names a task without a finished run.
int task_env(struct run_start *l, struct err *e);
enum { TASK_VARIABLES_MORE = 1 }; // beside those of task.after

// The newest run of the task, or (state not NULL) the newest one in that state. 1; 0: there is
// none; -1: the runs cannot be read.
int task_find(const struct cluster *c, const char *name, const char *state, struct run *out,
              struct err *e);
// 1: *out is reused instead of the run that l is; 0: none is, and *why says what differs, or is
// NULL where no run of the task has finished. ERR_BUSY: the newest run of the task may be active.
int task_find_reusable(struct run_start *l, struct run *out, const char **why, struct err *e);

#endif
