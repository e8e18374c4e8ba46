// SPDX-License-Identifier: Apache-2.0
// Sends a manifest to every node of a fleet at once, with progress.
#ifndef FLEET_SEND_H
#define FLEET_SEND_H

#include "fleet/transfer.h"

// dest: folder on the node, below its root ("" is the root itself). Failures are kept per node.
int send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                  const char *dest, enum xfer_mode mode, struct err *e);
// One manifest per node (index as in the fleet; NULL: nothing for this node); totals may be NULL.
int send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                   const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                   struct err *e);

#endif
