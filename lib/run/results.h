// SPDX-License-Identifier: Apache-2.0
// Bringing the results of a run to this side: output, model and state of every node, verified by
// hash on the way, then put together into one folder.
//
// Every node's part arrives in runs/<run>/incoming/<node>/ first, and moves into the run's folder,
// which is marked as the run's (results_owner.h). A command's state becomes state/NODE; the rest is
// put together as layout.h says, or stays in a folder per node where run->apart is set.
//
// What a node had that left before its end (results.h) counts where the node itself gives nothing.
//
// The native trainer is different: every node of the last round has the same model and the same
// checkpoints, so one node is enough when it finished, that of rank 0 first. When it did not, all
// are asked, since any of them may have come furthest, and where they differ rank 0's node counts.
#ifndef RUN_RESULTS_H
#define RUN_RESULTS_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "fleet/fleet_transfer.h"
#include "run/follow.h"
#include "run/results_layout.h"
#include "run/run_history.h"
#include "run/work_left.h"
#include "xfer/xfer.h"

struct collect_result {
    struct transfer_totals totals;
    struct layout layout; // of a command's results
    struct work_left work_left;
    bool complete; // nothing that is left to fetch is missing
};

// The fetch of one node's part alone.
struct xfer *collect_start(struct fleet_node *n, const struct run *run,
                           const struct xfer_events *events, void *ctx, struct err *e);
// A file that is there when a node has left and its part is whole: runs/<run>/left/<node>.
const char *collect_mark_path(struct context *s, const struct run *run, const char *node);

// Failures of nodes are kept in the fleet; -1 only for errors on this side and interruption.
// gone[i]: the node answers and knows nothing of the run, or is not in the cluster any more. What
// it had and no other node has is lost: run->lost names such nodes.
int collect_results(struct fleet *f, struct run *run, const struct story *story, const bool *gone,
                    struct collect_result *out, struct err *e);

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
