// SPDX-License-Identifier: Apache-2.0
// One cluster of provider aws while a command works on it: what was found out about operator and
// region, what was chosen before, and Terraform.
#ifndef AWS_AWS_CLUSTER_H
#define AWS_AWS_CLUSTER_H

#include "aws/aws_estimate.h"
#include "aws/aws_lease.h"
#include "aws/aws_tfvars.h"
#include "cluster/inventory.h"
#include "provider/provider.h"
#include "terraform/terraform.h"

// Ids of what is gone although AWS's tagging API may list it for hours. All zero: none.
struct aws_gone {
    const char **ids;
    size_t count, room;
};

extern const struct terraform_cloud aws_terraform; // aws_state_s3.c

struct aws_cluster {
    struct context *context;
    struct terraform terraform;
    struct aws_vars before;   // of the last apply; nodes 0: none yet
    struct aws_vars vars;     // of the next one
    struct aws_lease_end end; // of the lease; vars has it as text
    bool has_before;
    struct aws_gone gone; // by this command
};

// The region of the cluster, configuration, environment or profile; ERR_CONFIG says how to set it.
int aws_cluster_region(struct context *s, const char **region, struct err *e);
// Whose the cluster is that was made; who shares its state may be somebody else. NULL: none yet.
const char *aws_cluster_made_by(struct context *s);
// Whose instances: aws.owner, or the name of this user at this computer.
const char *aws_cluster_owner(struct context *s);

// Finds out what is not configured, makes the login key, prepares Terraform, reads what was chosen
// before. The cluster must be locked.
int aws_cluster_open(struct aws_cluster *c, struct context *s, struct err *e);
// The variables for so many nodes, as far as they are no matter of choice: names, keys, operator,
// lease. inv: the nodes as they are known (keys of nodes that have their own are made anew).
int aws_cluster_fill(struct aws_cluster *c, size_t nodes, const struct inventory *inv,
                     struct err *e);
int aws_cluster_write(struct aws_cluster *c, struct err *e); // terraform.tfvars.json
const char *aws_cluster_node_name(struct arena *a, size_t rank);
const char *aws_cluster_key_name(struct context *s);           // the comment of the login key
bool aws_cluster_same_key(const char *one, const char *other); // whatever their comments
// What dtctl knows of an instance stays with it; one with another id is another machine, which was
// launched at that time. Both inventories' strings live on in `now`.
void aws_cluster_remember(struct context *s, const struct inventory *before, const char *launched,
                          struct inventory *now);

// What the nodes have cost so far, thousandths of a dollar, by list price; -1: not known.
int64_t aws_cluster_spent_mils(struct context *s, const struct inventory *inv); // aws_down.c

// ---- state in S3, for several folders: aws_state_s3.c
bool aws_shared(const struct context *s);
// Before anything is compared or changed: what the state in S3 says of the cluster becomes what the
// folder says of it, also where it was made, changed or taken down from another one. With local
// state nothing is to be done. needs_key: it is an error when the cluster's login key is not here.
int aws_shared_find(struct context *s, bool needs_key, struct err *e);
// Before things that no state knows are ended: they may be somebody's who is making them now, which
// is ERR_BUSY. left: the lock that a killed Terraform of this folder left, to be ended when that is
// done (until then it keeps others out); id "": none.
int aws_shared_alone(struct aws_cluster *c, struct terraform_lock *left, struct err *e);

// ---- doctor: aws_doctor.c
void aws_doctor(struct context *s, provider_finding *tell, void *ctx);

// ---- down: aws_down.c
int aws_take_down(struct context *s, struct provider_down_result *out, struct err *e);

// ---- up: aws_instances.c
// Applies until it is made or nothing is left to try. The inventory is what Terraform says, with
// what was known of the same instances; rows of phases are ranks.
int aws_make_nodes(struct aws_cluster *c, struct phases *p, const struct inventory *before,
                   struct inventory *out, struct err *e);

// ---- after the boot: aws_boot_failures.c
struct aws_boot_node;
// Tells of the nodes that failed, and names them in m. Unless they are kept they are ended, leave
// the inventory, and the network goes with the last one. -1: it could not be done.
int aws_failed_settle(struct aws_cluster *c, struct provider_made *m, struct aws_boot_node *nodes,
                      size_t count, struct err *e);

// ---- sweep: aws_sweep.c
struct aws_found {
    struct aws_found_item {
        const char *kind, *id, *cluster, *name, *type, *zone;
        const char *state, *since, *expires; // of an instance, else ""
    } * items;
    size_t count;
    bool whole, roles; // networks, groups and keys, or roles, were looked for, too
};
// What to look for, by tags.
struct aws_wish {
    const char *region;
    const char *cluster;     // NULL: every one of the owner but those in keep
    const char *const *keep; // clusters
    size_t keep_count;
    bool paid_only; // leave networks, groups and keys out; else only what is not permitted
    bool ending;    // also instances that are shutting down
    bool roles;     // also roles, where that is permitted
};
// What the state has: to be called before it is destroyed, as it does not have it afterwards.
void aws_gone_add_state(struct aws_gone *g, struct arena *a, const struct terraform_state *state);
// Reads only, as far as AWS is concerned. What turns out to be gone is added to `gone`. Trouble
// with what costs nothing is a warning, and leaves that out (found.whole).
int aws_sweep_find(struct terraform *t, const struct aws_wish *wish, struct aws_gone *gone,
                   struct aws_found *out, struct err *e);
bool aws_sweep_costs(const struct aws_found_item *i);
// Ends what find just found; only those that are not in `except` (ids), unless that is empty.
int aws_sweep_remove(struct terraform *t, const struct aws_found *found, struct aws_gone *gone,
                     const char *const *except, size_t except_count, struct err *e);
// Throws away what find found, and leaves it as it is.
void aws_sweep_forget(const struct terraform *t);
// Finds what the state does not have, and takes it away. why: how it came to be, for the log.
int aws_sweep_unrecorded(struct aws_cluster *c, const char *why, size_t *removed, struct err *e);
// The same after an unclean end.
int aws_sweep_orphans(struct aws_cluster *c, size_t *removed, struct err *e);
// Every region that accounts have without asking for it; NULL-terminated.
extern const char *const aws_sweep_regions[];

// ---- ssh: aws_ssh_config.c
// known_hosts of the cluster, and the file for ssh(1); its Include line, if that is wanted.
int aws_ssh_write(struct context *s, const struct inventory *inv, struct err *e);
int aws_ssh_remove(struct context *s, struct err *e);
// Nodes without a host key get the one that the cluster's known_hosts has for them.
int aws_ssh_known_keys(struct context *s, struct inventory *inv, struct err *e);

#endif
