// SPDX-License-Identifier: Apache-2.0
// Inputs from an earlier run of this cluster: "run:TASK[@RUN]/PART[/SUB]". PART is output, model,
// state (a folder per node for a command's), or source: the folder of the command on its first
// node. Without @RUN it is the newest run of the task that has finished.
//
// Results are taken from their folder here. Results that are still on the nodes are fetched first.
#ifndef RUN_INPUT_FROM_RUN_H
#define RUN_INPUT_FROM_RUN_H

#include "cluster/run_record.h"
#include "ui/context.h"

#include <stdbool.h>

struct input_from_run {
    const char *run;           // its id
    const char *path;          // here
    const char *on_nodes;      // RUN/PART: where a node has its part of it, below `runs`
    const char *const *ignore; // what in the folder is no part of it; NULL: nothing
};

bool input_from_run_is(const char *source);
// The task of a source, and its run in *run ("": the newest one); NULL: it is no such source.
const char *input_from_run_task(struct arena *a, const char *source, const char **run);
// The run that a command line names: TASK@RUN, or what cluster_find_run takes.
int input_from_run_named(const struct context *s, const char *text, struct run *out, struct err *e);
// Checks the words and that the run exists. Needs no connection.
int input_from_run_check(const struct context *s, const char *source, struct err *e);
// Finds the folder or file; may connect to the nodes of the run. A dry run does not.
int input_from_run_find(struct context *s, const char *source, struct input_from_run *out,
                        struct err *e);

#endif
