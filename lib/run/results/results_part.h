// SPDX-License-Identifier: Apache-2.0
// The part of a run's results that one node gives, while it arrives: runs/<run>/incoming/<node>/.
#ifndef RUN_RESULTS_PART_H
#define RUN_RESULTS_PART_H

#include "cluster/run_record.h"
#include "ui/context.h"

const char *results_part_path(struct context *s, const struct run *run, const char *node);
// runs/<run>/left/<node>: exists when a node has left and its part is complete.
const char *results_part_mark(struct context *s, const struct run *run, const char *node);
// Before kinds of results (enum result_kind) arrive. Removes what an earlier fetch of other kinds
// left when it was broken off: its files, some of them unfinished, would become results. A part
// with a mark stays.
int results_part_begin(struct context *s, const struct run *run, const char *node, unsigned kinds,
                       struct err *e);

#endif
