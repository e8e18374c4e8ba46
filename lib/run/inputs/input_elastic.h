// SPDX-License-Identifier: Apache-2.0
// Sharded inputs of a run whose nodes may change: --nodes MIN:MAX, or spare nodes. Every node gets
// the list of all files, and every round deals them anew (lib/copies/input_redeal.h). Here each
// node gets what its share will be when all nodes come. The share of a node that fails meanwhile
// goes to another one, so that every file is on a node when the run begins.
#ifndef RUN_INPUT_ELASTIC_H
#define RUN_INPUT_ELASTIC_H

#include "content/deal.h"
#include "run/run_start.h"

enum { INPUT_ELASTIC_NODES_MAX = 256 }; // that know each other

// Refuses what rounds cannot deal anew.
int input_elastic_check(const struct config *c, const struct config_input *in, struct err *e);
int input_elastic_check_run(const struct run_start *l, const struct run_start_input *in,
                            struct err *e);
// Refuses files that the rule cannot deal to each number of nodes that may come together.
int input_elastic_check_deal(const struct run_start *l, const struct run_start_input *in,
                             const struct deal_item *items, size_t count,
                             const struct deal_rule *rule, struct err *e);
const struct job_deal *input_elastic_rule(struct arena *a, const struct config_input *in);
// Adds entry i of the input to the share of a node.
int input_elastic_add(struct run_start *l, struct run_start_input *in, size_t node, size_t i,
                      struct err *e);
// The share of a node in a round with so many nodes, with its folder; NULL with an error.
struct manifest *input_elastic_share(const struct run_start_input *in, size_t nodes, size_t rank,
                                     struct err *e);
// Sends the shares, then the lists. Failures are kept per node.
int input_elastic_send(struct run_start *l, struct fleet *f, struct err *e);
void input_elastic_close(struct run_start *l);

#endif
