// SPDX-License-Identifier: Apache-2.0
// Inputs whose content nodes may have.
//
// on_change = keep: a run of a task whose source has changed gets the content that the task had
// before, which its nodes have in their stores. Results of an earlier run: each node has its part
// of them in the folder of that run, from where its store takes what is lacking.
//
//     input_keep_take(l, in, folder, e)   // 1: in->manifest is the earlier content
//     input_keep_add_results(l, "RUN/output");
//     input_keep_send(l, &fleet, e)       // nodes put it into place, and give it to each other
//     input_keep_save(l, e)               // once the nodes have all inputs
//
// runs/<run>/inputs/NAME has the list of an input: path and SHA-256 of each file. Files that are
// still the same here are sent to nodes that lack them. Other files exist on nodes only. Results
// are also here, so files that a node lacks in the end are sent.
#ifndef RUN_INPUT_KEEP_H
#define RUN_INPUT_KEEP_H

#include "run/run_start.h"

// After the present content is known (manifest_digest). folder: the source is one. 0: the content
// is the same, or no earlier run of the task has a list of this source.
int input_keep_take(struct run_start *l, struct run_start_input *in, bool folder, struct err *e);
void input_keep_add_results(struct run_start *l, const char *on_nodes);
// Nodes put into place what they have of these manifests, by node; NULL: none. Files that a node
// lacks are noted in *peers, by node, and not sent. Failures are kept per node.
int input_keep_find(struct run_start *l, struct fleet *f, struct manifest *const *all,
                    struct xfer_peers **peers, struct err *e);
// Failures are kept per node.
int input_keep_send(struct run_start *l, struct fleet *f, struct err *e);
int input_keep_save(struct run_start *l, struct err *e);
struct manifest *input_keep_shard(struct run_start *l, size_t node); // what it gets of kept inputs
struct manifest *input_keep_common(struct run_start *l);             // what every node gets
void input_keep_close(struct run_start *l);

#endif
