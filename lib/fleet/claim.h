// SPDX-License-Identifier: Apache-2.0
// Whose a root and a run on a node are. Several clusters may use one login on one host, and so one
// folder there. Each has an id, made once and kept in its own folder; `up` leaves it in the root
// with words for people, and each run carries it. What bears another id is never removed.
//
//     .dtctl/<cluster>/owner           here: the id
//     <root>/owners/<id>               there: "cluster 'demo' in user@host:/folder"
//     <root>/runs/<run>/owner          there: the id
#ifndef FLEET_CLAIM_H
#define FLEET_CLAIM_H

#include "cluster/run_record.h"
#include "content/manifest.h"
#include "fleet/fleet.h"

// The cluster's id, in the context's arena. It is made when there is none yet.
int claim_id(struct context *s, const char **id, struct err *e);
// "cluster 'demo' in user@host:/folder".
const char *claim_words(struct context *s);
// Marks the roots of all nodes that have not failed; failures stay in the nodes.
int claim_mark(struct fleet *f, struct err *e);
// Adds the run's mark to what is sent to its nodes.
int claim_add_run(struct context *s, const struct run *r, struct manifest *m, struct err *e);

#endif
