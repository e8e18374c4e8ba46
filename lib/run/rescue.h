// SPDX-License-Identifier: Apache-2.0
// What a node has that leaves a run because it will be taken away: while the others go on, and
// before its machine ends, its results are fetched to where collect_results wants them, which uses
// them although the node cannot be reached any more. The native trainer needs none of it: the
// others have the same.
//
//     rescue_open(&r, &follow);
//     … rescue_node(&r, n) when the agent of a followed node has ended …
//     rescue_close(&r);                // what is still coming is dropped
//
// follow_wait waits for what has begun. Failures are warnings: the run goes on.
#ifndef RUN_RESCUE_H
#define RUN_RESCUE_H

#include "run/follow.h"
#include "xfer/xfer.h"

struct rescue {
    struct follow *follow;
    struct rescue_node {
        struct rescue *rescue;
        const struct follow_node *node;
        struct xfer *xfer; // NULL: none goes on
    } * nodes;
};

void rescue_open(struct rescue *r, struct follow *f);
void rescue_node(struct rescue *r, const struct follow_node *n);
void rescue_close(struct rescue *r);

#endif
