// SPDX-License-Identifier: Apache-2.0
// The inputs of a run: their files, and which node gets which of them. Adds a replicated input to
// l->common, a node's share of a sharded one to l->shards. A dry run writes nothing.
#ifndef RUN_INPUT_ADD_H
#define RUN_INPUT_ADD_H

#include "content/deal.h"
#include "run/run_start.h"

struct deal_rule input_add_rule(const struct run_start_input *in); // by which it is dealt
int input_add_all(struct run_start *l, struct err *e);
void input_add_close(struct run_start *l); // also removes parts of archives that were written

#endif
