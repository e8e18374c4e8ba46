// SPDX-License-Identifier: Apache-2.0
// Fetches the results of a run: output, model and state of every node, verified by hash in transit,
// then merged into one folder.
//
// Every node's part arrives in runs/<run>/incoming/<node>/ first. Then it moves into the run's
// folder, which is marked as the run's (results_owner.h). A command's state becomes state/NODE.
// Other files are merged by results_layout.h, or stay in a folder per node when run->apart is set.
//
// For a node that left before the end, the part that `rescue` fetched is used when the node itself
// gives nothing.
//
// The native trainer differs: every node of the last round has the same model and checkpoints.
// After success one node is enough, that of rank 0 first. After a failure all nodes are asked,
// since any of them may hold the newest checkpoint; where files differ, rank 0's node wins.
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
    struct results_layout layout; // of a command's results
    struct work_left work_left;
    bool complete; // no part that can still be fetched is missing
};

// Fetches the part of one node.
struct xfer *results_collect_start(struct fleet_node *n, const struct run *run,
                                   const struct xfer_events *events, void *ctx, struct err *e);
// runs/<run>/left/<node>: exists when a node has left and its part is complete.
const char *results_mark_path(struct context *s, const struct run *run, const char *node);

// Failures of nodes are kept in the fleet; -1 only for errors on this side and interruption.
// gone[i]: the node answers but does not know the run, or is not in the cluster any more. Files
// that only this node had are lost: run->lost names such nodes.
int results_collect(struct fleet *f, struct run *run, const struct story *story, const bool *gone,
                    struct collect_result *out, struct err *e);

// Fetches the results of a node that is about to be preempted, while the run continues without it.
// results_collect uses them when the node cannot be reached any more. The native trainer does not
// need this: the other nodes have the same files.
//
//     results_drain_open(&r, &follow);
//     … results_drain_node(&r, n) when the agent of a followed node has ended …
//     results_drain_close(&r); // drops transfers in progress
//
// follow_wait waits for transfers in progress. Failures are warnings: the run continues.

struct rescue {
    struct follow *follow;
    struct results_drain_node {
        struct rescue *rescue;
        const struct follow_node *node;
        struct xfer *xfer; // NULL: no transfer
    } * nodes;
};

void results_drain_open(struct rescue *r, struct follow *f);
void results_drain_node(struct rescue *r, const struct follow_node *n);
void results_drain_close(struct rescue *r);

#endif
