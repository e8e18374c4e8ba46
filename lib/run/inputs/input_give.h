// SPDX-License-Identifier: Apache-2.0
// Shares of an input that is results of an earlier run: nodes give each other what their results
// have of the shares of others. One share after the other moves from node to node.
#ifndef RUN_INPUT_GIVE_H
#define RUN_INPUT_GIVE_H

#include "run/run_start.h"

// After input_keep_find, with its manifests and peers. Nodes that have got content lack less of it
// then. Nothing happens where nodes cannot give (fleet_can_share), and for shares of which others
// have less than FANOUT_SAVED_BYTES_MIN. Failures are kept per node.
int input_give_shares(struct run_start *l, struct fleet *f, struct manifest *const *all,
                      struct xfer_peers *peers, struct err *e);

#endif
