// SPDX-License-Identifier: Apache-2.0
// A node gives content that it has to the node behind it in a chain (fanout.h): from its store, or
// from the destination of the push where the store has lost it. The nodes behind verify it.
#ifndef XFER_XFER_GIVE_H
#define XFER_XFER_GIVE_H

#include "xfer/xfer_receiver.h"
#include "xfer/xfer_relay.h"

// Handles one RELAY_GIVE frame (blocking). Content that cannot be read is left out; the nodes
// behind then report that they lack it. -1: the frame is malformed. *lost: the node behind is gone,
// and `why` has the reason.
int xfer_give(struct receive *r, struct relay *relay, const struct xfer_frame *f, bool *lost,
              struct err *why, struct err *e);

#endif
