// SPDX-License-Identifier: Apache-2.0
// Takes an instance that AWS reports as running to a usable node: first login with the one-time
// host key, wait for cloud-init, new host key generated on the node.
#ifndef AWS_AWS_BOOT_H
#define AWS_AWS_BOOT_H

#include "aws/aws_tfvars.h"
#include "cluster/inventory.h"
#include "fleet/fleet.h"
#include "provider/boot_progress.h"

enum {
    AWS_BOOT_CONNECT_MS_MAX = 5000, // of one login attempt
    AWS_BOOT_PAUSE_MS = 1000,       // between two attempts
    AWS_BOOT_MS = 900000,           // from the start of an instance until the node is ready
    AWS_BOOT_METAL_MS = 2400000,    // with the hardware tests of a whole machine
    AWS_BOOT_LOGIN_MS_MAX =
        120000, // a login may be refused this long: users are created after sshd starts
};

struct aws_boot_node {
    struct inventory_node *info;
    const char *first_key; // public host key of the first login; "" when the node has its own key,
                           // or when known_hosts decides
    size_t row;            // in phases
    bool failed;
    bool silent; // failed without any login
    struct err err;
};

// aws.boot_timeout, or its default for the instance type.
int64_t aws_boot_timeout_ms(const struct aws_config *aws);

// Returns when every node is ready or has failed; info->host_key then holds a rotated key. -1 only
// when interrupted. Failures are kept in the nodes.
int aws_boot(struct context *s, struct boot_progress *p, struct aws_boot_node *nodes, size_t count,
             struct err *e);

// The readiness file /var/lib/dtctl/ready, written by the last script of cloud-init on a node.

// Parses the readiness file of one node. Pure.
struct aws_ready {
    enum { AWS_READY_OK, AWS_READY_DEGRADED, AWS_READY_FAILED, AWS_READY_UNKNOWN } status;
    const char *config_hash;
    const char *problems; // "scratch: the local disks …; gpu: …", "" when there are none
};
void aws_ready_parse(struct arena *a, const char *text, size_t len, struct aws_ready *out);

// Warns once about nodes of the fleet whose configuration (info->config_hash) differs from that of
// a new node, and about nodes that have not passed their checks since the last boot. Such nodes
// stay in use. -1 only when interrupted.
int aws_ready_check(struct fleet *f, struct err *e);

#endif
