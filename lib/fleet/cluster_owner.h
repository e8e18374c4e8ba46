// SPDX-License-Identifier: Apache-2.0
// Ownership of the root folder and runs on a node. Several clusters may use one login on one host
// and share the root. Each cluster has an id, generated once in its own folder. `up` writes the id
// to the root together with a description, and each run carries the id. Files with another id are
// never removed.
//
//     .dtctl/<cluster>/owner           here: the id
//     <root>/owners/<id>               on the node: "cluster 'demo' in user@host:/folder"
//     <root>/runs/<run>/owner          on the node: the id
#ifndef FLEET_CLUSTER_OWNER_H
#define FLEET_CLUSTER_OWNER_H

#include "cluster/run_record.h"
#include "content/manifest.h"
#include "fleet/fleet.h"

// Returns the cluster's id, in the context's arena. Generates it on first use.
int cluster_owner_id(struct context *s, const char **id, struct err *e);
// "cluster 'demo' in user@host:/folder".
const char *cluster_owner_description(struct context *s);
// Marks the roots of all nodes that have not failed. Failures are kept in the nodes.
int cluster_owner_mark(struct fleet *f, struct err *e);
// Adds the owner file of the run to the files for its nodes.
int cluster_owner_add_run(struct context *s, const struct run *r, struct manifest *m,
                          struct err *e);

#endif
