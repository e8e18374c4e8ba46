// SPDX-License-Identifier: Apache-2.0
// Push to, or fetch from, every node of a fleet in one step, with progress, totals and continuation
// after a lost connection.
#ifndef FLEET_FLEET_TRANSFER_H
#define FLEET_FLEET_TRANSFER_H

#include "content/manifest.h"
#include "fleet/fleet.h"
#include "xfer/xfer.h"

enum { FLEET_SHARE_NODES_MAX = 64 };

struct transfer_totals {
    uint64_t bytes, bytes_wire; // transferred, over all nodes
    uint64_t bytes_all;         // at the destination in the end
    size_t files, files_all;
};

// Creates the transfer of one node with these events and n as their context. NULL with an error in
// e: failure; NULL without: nothing to transfer for this node.
typedef struct xfer *fleet_transfer_start(void *ctx, struct fleet_node *n,
                                          const struct xfer_events *events, struct err *e);

// Adds to totals. Failures are kept per node. -1 for errors of this side and when interrupted; the
// next attempt then reuses the data that has arrived. Uses the nodes' work.
int fleet_transfer_each(struct fleet *f, const char *operation, fleet_transfer_start *start,
                        void *ctx, struct transfer_totals *totals, struct err *e);

// Sends a manifest to every node at once. dest: folder on the node, below its root ("" is the root
// itself). Failures are kept per node.
int fleet_send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                        const char *dest, enum xfer_mode mode, struct err *e);
// The same with one manifest per node (by fleet index; NULL: none for this node). totals may be
// NULL.
int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *e);
// Whether nodes may give content to each other: there are others, cluster.fanout is not off, and
// they reach each other by address.
bool fleet_can_share(const struct fleet *f);
// Puts a manifest into place on every node, with content that is on some of the nodes alone: they
// give it to each other, at most FLEET_SHARE_NODES_MAX at once. peers: per node, with their lacks;
// a node that lacks some in the end has not got everything in place.
int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers, struct transfer_totals *totals,
                         struct err *e);
// The same with one manifest per node, without giving: a node places what it has in its store, or
// in these results of earlier runs (xfer_push_spec; NULL: none).
int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers,
                         struct transfer_totals *totals, struct err *e);

#endif
