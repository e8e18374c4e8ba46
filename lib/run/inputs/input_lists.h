// SPDX-License-Identifier: Apache-2.0
// The list of a copied input's files on each node, for DTCTL_INPUT_<NAME>_LIST: lines of JSON with
// path, size, sha256 and index in the whole input. A node that has its files in place gets it.
// Elastic inputs have lists by round (lib/copies/input_shares.h), streamed ones by dtdata.
#ifndef RUN_INPUT_LISTS_H
#define RUN_INPUT_LISTS_H

#include "run/run_start.h"

// The folder of a copied input's files on the nodes.
const char *input_lists_folder(struct arena *a, const struct run_start_input *in);
bool input_lists_has(const struct run_start_input *in);
// The place of an entry among the files of the whole input, which is sorted.
size_t input_lists_number(struct run_start *l, struct run_start_input *in, size_t entry);
// After the nodes have their files, whose hashes are then known. Failures are kept per node. The
// lists stay in l->listed, for nodes that come later.
int input_lists_send(struct run_start *l, struct fleet *f, struct err *e);
void input_lists_close(struct run_start *l);

#endif
