// SPDX-License-Identifier: Apache-2.0
// Slurm, MPI and torchrun's further variables as weak values of the flags, and the way for tasks
// of one node to share its agent.
#ifndef DTRUN_SCHEDULER_FLAGS_H
#define DTRUN_SCHEDULER_FLAGS_H

#include "conf/option.h"
#include "launch/scheduler.h"

// After the command line was scanned, before real PET_ variables (of set->env) are read.
int scheduler_flags_read(struct option_set *set, struct around *out, struct err *e);
// Makes this process the node's agent (0; *hold is for scheduler_flags_end_turn), or waits until
// the agent of this node is done (1).
int scheduler_flags_take_turn(struct arena *a, const struct around *x, int *hold, struct err *e);
void scheduler_flags_end_turn(const struct around *x, int hold);

#endif
