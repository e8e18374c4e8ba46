// SPDX-License-Identifier: Apache-2.0
// The dealing of inputs in a round, on one node, in a process of its own. For each input the node
// takes what its share lacks from the other nodes, makes the folder of the share, and unpacks its
// archives (deliver = extract). Then workers may start. Files that no node has may come from the
// operator's side, if a dtctl follows the run. After that the node takes copies of the shares of
// the nodes in front of it (inputs.NAME.replicas), of content that too few nodes have, at half of
// the connection.
//
// A node that gives content that does not match its hash is not asked again in this round.
#ifndef COPIES_INPUT_REDEAL_H
#define COPIES_INPUT_REDEAL_H

#include "copies/keeper_impl.h"

enum {
    REDEAL_TRIES_MAX = 5,  // to reach a node that may have what is lacking
    REDEAL_PAUSE_MS = 500, // between them
    REDEAL_LOOK_MS = 250,  // between two looks whether files have come from the operator's side
    REDEAL_DISK_SPARE_BYTES = 64 << 20, // stay free
};

// Never returns. Notes go to s->fd.
_Noreturn void input_redeal_main(const struct keeper_state *s);

#endif
