// SPDX-License-Identifier: Apache-2.0
// The lease of a cluster on AWS. A node powers off at the time in /var/lib/dtctl/lease without help
// from the operator.
//
// A node sets this deadline itself when it boots. An end that is decided later for the whole
// cluster (by extend, or by an up with another lease.ttl) is kept in terraform/lease. The next up
// sends it to nodes that did not answer and to new nodes.
#ifndef AWS_AWS_LEASE_H
#define AWS_AWS_LEASE_H

#include "aws/aws_tfvars.h"
#include "fleet/fleet.h"

#include <stdint.h>

enum { AWS_LEASE_AHEAD_S_MAX = 31 * 86400 }; // cloud-init on a node accepts no later deadline

// Asks every reachable node for its deadline. *wall_ms: the earliest one, 0 when no node reported
// one.
int aws_lease_get(struct fleet *f, int64_t *wall_ms, struct err *e);
// Sets the deadline on every reachable node, and decides it for the cluster if a deadline exists.
// Failures are kept in the fleet.
int aws_lease_set(struct fleet *f, int64_t wall_ms, struct err *e);
// Sends the decided end, if any, and the configured idle limit to every reachable node, and reports
// the nodes that change. Failures are kept in the fleet.
int aws_lease_settle(struct fleet *f, struct err *e);

// Writes the end to the instances' tag dtctl-expires and changes nothing else. A refusal by AWS is
// a warning; the next up writes the tag again.
int aws_lease_tag(struct context *s, int64_t wall_ms, struct err *e);

// The end decided for the cluster, ms since 1970; 0: none, or it has passed.
int64_t aws_lease_decided(struct context *s);
int aws_lease_decide(struct context *s, int64_t wall_ms, struct err *e);
void aws_lease_forget(struct context *s);

// The end of a cluster as seen by up; pure.
struct aws_lease_end {
    int64_t at_ms; // since 1970, whole seconds
    bool moved;    // lease.ttl differs from that of the running nodes, which must be updated
    bool cut;      // shortened to AWS_LEASE_AHEAD_S_MAX
};
// before: of the last apply, or NULL. decided_ms: see aws_lease_decided. running: nodes of the last
// apply may exist.
struct aws_lease_end aws_lease_choose(int64_t now_ms, int64_t ttl_ms, const struct aws_vars *before,
                                      int64_t decided_ms, bool running);

// After nodes of the fleet have failed: one entry per node of the inventory, true when AWS has no
// such instance any more. The error of the node then says so. When AWS cannot be queried, a warning
// is logged and all entries are false.
const bool *aws_lease_gone(struct fleet *f, const struct inventory *inv);

#endif
