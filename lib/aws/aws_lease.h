// SPDX-License-Identifier: Apache-2.0
// The lease of a cluster on AWS: nodes end themselves at /var/lib/dtctl/lease, whoever watches.
//
// A node has made that deadline itself when it booted. Once an end is decided for the cluster (by
// extend, or by an up with another lease.ttl) it is kept in terraform/lease, and holds for all of
// its nodes: those that did not answer, and those that are made later, get it from the next up.
#ifndef AWS_AWS_LEASE_H
#define AWS_AWS_LEASE_H

#include "aws/aws_tfvars.h"
#include "fleet/fleet.h"

#include <stdint.h>

enum { AWS_LEASE_AHEAD_S_MAX = 31 * 86400 }; // a node takes no deadline beyond (cloud-init)

// Asks every node that is reached for its deadline; the earliest in *wall_ms, 0 when none said one.
int aws_lease_get(struct fleet *f, int64_t *wall_ms, struct err *e);
// Sets it on every node that is reached, and decides it for the cluster when there was one.
// Failures stay in the fleet.
int aws_lease_set(struct fleet *f, int64_t wall_ms, struct err *e);
// Gives every node that is reached the end that was decided, if one was, and the idle limit of the
// configuration, and says which of them that has changed. Failures stay in the fleet.
int aws_lease_settle(struct fleet *f, struct err *e);

// Writes that end to the instances' tag dtctl-expires, and changes nothing else. What AWS refuses
// is a warning; the next up does it then.
int aws_lease_tag(struct context *s, int64_t wall_ms, struct err *e);

// The end that was decided for the cluster, ms since 1970; 0: none, or it has passed.
int64_t aws_lease_decided(struct context *s);
int aws_lease_decide(struct context *s, int64_t wall_ms, struct err *e);
void aws_lease_forget(struct context *s);

// When a cluster ends, as up sees it; pure.
struct aws_lease_end {
    int64_t at_ms; // since 1970, whole seconds
    bool moved;    // lease.ttl is another one than that of the nodes that run: they have to be told
    bool cut;      // to what they take
};
// before: of the last apply, or NULL. decided_ms: as above. running: nodes of it may be there.
struct aws_lease_end aws_lease_choose(int64_t now_ms, int64_t ttl_ms, const struct aws_vars *before,
                                      int64_t decided_ms, bool running);

// Where nodes of the fleet have failed: which of the inventory's AWS has no more, one each; that is
// their error then. When AWS cannot be asked that is a warning, and none are.
const bool *aws_lease_gone(struct fleet *f, const struct inventory *inv);

#endif
