// SPDX-License-Identifier: Apache-2.0
// The readiness file that cloud-init's last script writes on a node, /var/lib/dtctl/ready.
#ifndef AWS_AWS_READY_H
#define AWS_AWS_READY_H

#include "fleet/fleet.h"

// What one node's readiness file says; pure, for tests.
struct aws_ready {
    enum { AWS_READY_OK, AWS_READY_DEGRADED, AWS_READY_FAILED, AWS_READY_UNKNOWN } status;
    const char *config_hash;
    const char *problems; // "scratch: the local disks …; gpu: …", "" without
};
void aws_ready_parse(struct arena *a, const char *text, size_t len, struct aws_ready *out);

// Warns, once each, of the nodes of the fleet that are configured otherwise than a node made now
// would be (info->config_hash), and of those that have not passed their checks since their last
// boot. Such nodes stay in use. -1 only when interrupted.
int aws_ready_check(struct fleet *f, struct err *e);

#endif
