// SPDX-License-Identifier: Apache-2.0
// The lease of a cluster on AWS: nodes end themselves at /var/lib/dtctl/lease, whoever watches.
#ifndef JOB_AWS_LEASE_H
#define JOB_AWS_LEASE_H

#include "job/fleet.h"

#include <stdint.h>

// Asks every node that is reached for its deadline; the earliest in *wall_ms, 0 when none said one.
int aws_lease_get(struct fleet *f, int64_t *wall_ms, struct err *e);
// Sets it on every node that is reached, and for nodes and tags that are still to be made.
// Failures stay in the fleet.
int aws_lease_set(struct fleet *f, int64_t wall_ms, struct err *e);
// "2026-01-02T03:04:05Z" as extend left it, or NULL.
const char *aws_lease_extended(struct session *s);
void aws_lease_forget(struct session *s);

// For status: which of the nodes' instances AWS still has; gone[i] for those it has not.
int aws_lease_gone(struct session *s, const struct inventory *inv, bool *gone, struct err *e);

#endif
