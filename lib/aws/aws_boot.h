// SPDX-License-Identifier: Apache-2.0
// From an instance that AWS calls running to a node that can be used: the first login with the
// one-time host key, waiting for cloud-init, and a host key born on the node.
#ifndef AWS_AWS_BOOT_H
#define AWS_AWS_BOOT_H

#include "aws/aws_tfvars.h"
#include "cluster/inventory.h"
#include "fleet/fleet.h"
#include "provider/boot_progress.h"

enum {
    AWS_BOOT_CONNECT_MS_MAX = 5000, // of one try to log in
    AWS_BOOT_PAUSE_MS = 1000,       // between two tries
    AWS_BOOT_LOGIN_MS_MAX = 120000, // that a login may be refused: users are made after sshd
};

struct aws_boot_node {
    struct inventory_node *info;
    const char *first_key; // public host key of the first login; "" when it has its own (or none is
                           // known: then known_hosts decides)
    size_t row;            // in phases
    bool failed;
    bool silent; // failed, and nobody ever logged in
    struct err err;
};

// Returns when every node is ready or has failed; a rotated key is in info->host_key then. -1 only
// when interrupted. Failures stay in the nodes.
int aws_boot(struct context *s, struct phases *p, struct aws_boot_node *nodes, size_t count,
             struct err *e);

// The readiness file that cloud-init's last script writes on a node, /var/lib/dtctl/ready.

// Reads the readiness file of one node. Pure.
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
