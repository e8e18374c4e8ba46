// SPDX-License-Identifier: Apache-2.0
// Fetches the results of a run: output, model and state of every node, verified by hash in transit,
// then merged into one folder.
//
// Every node's part arrives in runs/<run>/incoming/<node>/ first (results_kinds.h). Then it moves
// into the run's folder, which is marked as the run's (results_owner.h). A command's state becomes
// state/NODE. Other files are merged by results_collisions.h, stay in a folder per node, or come
// from the node of rank 0 alone (run->merge). Where that node is not known, they come from all
// nodes.
//
// Only the kinds of run->bring are fetched; run->left then has the others of which the nodes have
// something. With run->rest set, the fetch adds to results that are here.
//
// For a node that left before the end, the part that results_drain.h fetched is used when the node
// itself gives nothing. That part has all kinds, since the node is about to end.
//
// The native trainer differs: every node of the last round has the same model and checkpoints.
// After success one node is enough, that of rank 0 first. After a failure all nodes are asked,
// since any of them may hold the newest checkpoint; where files differ, rank 0's node wins.
#ifndef RUN_RESULTS_H
#define RUN_RESULTS_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "fleet/fleet_transfer.h"
#include "follow/follow.h"
#include "follow/run_history.h"
#include "run/results/results_collisions.h"
#include "run/results/work_left.h"
#include "xfer/xfer.h"

struct collect_result {
    struct transfer_totals totals;
    struct results_collisions collisions; // of a command's results
    struct work_left work_left;
    bool complete; // no part that can still be fetched is missing
};

// Fetches the part of one node: these kinds, with RESULT_WORK too, without logs, which are followed
// (follow.h). NULL without an error: none of them is to be transferred.
struct xfer *results_collect_start(struct fleet_node *n, const struct run *run, unsigned kinds,
                                   const struct xfer_events *events, void *ctx, struct err *e);
unsigned results_with_work(const struct run *run); // RESULT_WORK where the run brings it

// Failures of nodes are kept in the fleet; -1 only for errors on this side and interruption.
// gone[i]: the node answers but does not know the run, or is not in the cluster any more. Files
// that only this node had are lost: run->lost names such nodes. A node that turns out to have lost
// the run since is added.
int results_collect(struct fleet *f, struct run *run, const struct run_history *history, bool *gone,
                    struct collect_result *out, struct err *e);

#endif
