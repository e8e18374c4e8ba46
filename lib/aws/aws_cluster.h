// SPDX-License-Identifier: Apache-2.0
// One cluster of provider aws during a command: facts about operator and region, earlier choices,
// and Terraform.
#ifndef AWS_AWS_CLUSTER_H
#define AWS_AWS_CLUSTER_H

#include "aws/aws_estimate.h"
#include "aws/aws_lease.h"
#include "aws/aws_tfvars.h"
#include "cluster/inventory.h"
#include "provider/provider.h"
#include "terraform/terraform.h"

// Ids of resources that are gone although AWS's tagging API may list them for hours. All zero:
// none.
struct aws_gone {
    const char **ids;
    size_t count, room;
};

extern const struct terraform_cloud aws_terraform; // aws_state_s3.c

struct aws_cluster {
    struct context *context;
    struct terraform terraform;
    struct aws_vars before;   // of the last apply; nodes 0: never applied
    struct aws_vars vars;     // of the next apply
    struct aws_lease_end end; // of the lease; vars holds it as text
    bool has_before;
    struct aws_gone gone; // removed by this command
};

// The region of the cluster, configuration, environment or profile; ERR_CONFIG says how to set it.
int aws_cluster_region(struct context *s, const char **region, struct err *e);
// False when the last apply was in another region.
bool aws_cluster_is_in(struct context *s, const char *region);
// The owner recorded when the cluster was made; with shared state this may be another person. NULL:
// no cluster yet.
const char *aws_cluster_made_by(struct context *s);
// The owner of new instances: aws.owner, or this user at this computer.
const char *aws_cluster_owner(struct context *s);

// The end of the lease of the cluster as the next up sees it. running: nodes exist.
struct aws_lease_end aws_cluster_lease_end(struct context *s, bool running);

// Determines missing settings, creates the login key, prepares Terraform, reads earlier choices.
// The cluster must be locked.
int aws_cluster_open(struct aws_cluster *c, struct context *s, struct err *e);
// Fills the variables for `nodes` nodes that are not choices: names, keys, operator, lease. inv:
// the known nodes (keys of nodes that have their own are generated anew).
int aws_cluster_fill(struct aws_cluster *c, size_t nodes, const struct inventory *inv,
                     struct err *e);
// Fills operator_cidrs; "auto" asks AWS, and without any the source address for packets to the
// internet is used if it is public. The text of ERR_CONFIG and ERR_NET says
// which option to give.
// (aws_operator_cidrs.c)
int aws_operator_cidrs_fill(struct aws_cluster *c, struct err *e);
int aws_cluster_write(struct aws_cluster *c, struct err *e); // terraform.tfvars.json
const char *aws_cluster_node_name(struct arena *a, size_t rank);
const char *aws_cluster_key_name(struct context *s);           // the comment of the login key
bool aws_cluster_same_key(const char *one, const char *other); // comments are ignored
// Copies what dtctl knows about each instance to `now`. An instance with another id is another
// machine, launched at the given time. `now` shares the strings of both inventories.
void aws_cluster_remember(struct context *s, const struct inventory *before, const char *launched,
                          struct inventory *now);

// Hooks of aws_terraform.
bool aws_cluster_refused(const struct terraform *t, const struct terraform_result *r,
                         struct err *e);
const char *aws_cluster_next_step(const struct context *s, const char *problem);

// ---- state in S3, for several folders: aws_state_s3.c
bool aws_shared(const struct context *s);
// Copies the cluster's state in S3 to the folder before anything is compared or changed, also after
// another folder made, changed or destroyed the cluster. No-op with local state. needs_key: a
// missing login key is an error.
int aws_shared_find(struct context *s, bool needs_key, struct err *e);
// Called before resources outside the state are removed. ERR_BUSY when another command may be
// creating them at this time. left: the lock of a killed Terraform of this folder, to be released
// after the removal (until then it excludes others); id "": none.
int aws_shared_alone(struct aws_cluster *c, struct terraform_lock *left, struct err *e);

// ---- doctor: aws_doctor.c
void aws_doctor(struct findings *f);

// ---- down: aws_down.c
int aws_take_down(struct context *s, struct provider_down_result *out, struct err *e);

// ---- up: aws_instances.c
// Applies until all nodes exist or no alternative is left. The inventory is Terraform's output,
// completed by what is known of the same instances. Rows of phases are ranks.
int aws_make_nodes(struct aws_cluster *c, struct boot_progress *p, const struct inventory *before,
                   struct inventory *out, struct err *e);

// ---- after the boot: aws_boot_failures.c
struct aws_boot_node;
// Reports the failed nodes and lists them in m. Unless nodes are kept, failed nodes are terminated
// and leave the inventory; the network is removed with the last node. -1: the removal failed.
int aws_failed_settle(struct aws_cluster *c, struct provider_made *m, struct aws_boot_node *nodes,
                      size_t count, struct err *e);

// ---- sweep: aws_sweep.c
struct aws_found {
    struct aws_found_item {
        const char *kind, *id, *cluster, *name, *type, *zone;
        const char *state, *since, *expires; // of an instance, else ""
    } * items;
    size_t count;
    bool whole, roles; // the search included networks, groups and keys; roles
};
// Tags and kinds to search for.
struct aws_wish {
    const char *region;
    const char *cluster;     // NULL: all clusters of the owner except keep
    const char *const *keep; // clusters
    size_t keep_count;
    bool paid_only; // skip networks, groups and keys; else only on missing permission
    bool ending;    // include instances that are shutting down
    bool roles;     // include roles, where permitted
};
// Adds the resources of the state. Call before the state is destroyed.
void aws_gone_add_state(struct aws_gone *g, struct arena *a, const struct terraform_state *state);
// Changes nothing in AWS. Resources that turn out to be gone are added to `gone`. Errors with
// resources that cost nothing are warnings and reduce the search (found.whole).
int aws_sweep_find(struct terraform *t, const struct aws_wish *wish, struct aws_gone *gone,
                   struct aws_found *out, struct err *e);
bool aws_sweep_costs(const struct aws_found_item *i);
// Removes the resources of the last find. With `except` (ids) not empty, those are kept.
int aws_sweep_remove(struct terraform *t, const struct aws_found *found, struct aws_gone *gone,
                     const char *const *except, size_t except_count, struct err *e);
// Discards the result of find and removes nothing.
void aws_sweep_forget(const struct terraform *t);
// Finds resources that the state lacks and removes them. why: the reason, for the log.
int aws_sweep_unrecorded(struct aws_cluster *c, const char *why, size_t *removed, struct err *e);
// The same after a command was killed.
int aws_sweep_orphans(struct aws_cluster *c, size_t *removed, struct err *e);
// All regions that are enabled by default; NULL-terminated.
extern const char *const aws_sweep_regions[];

// ---- ssh: aws_ssh_config.c
// Writes known_hosts of the cluster and a file for ssh(1), and adds its Include line on request.
int aws_ssh_write(struct context *s, const struct inventory *inv, struct err *e);
int aws_ssh_remove(struct context *s, struct err *e);
// Gives nodes without a host key the key that the cluster's known_hosts has for them.
int aws_ssh_known_keys(struct context *s, struct inventory *inv, struct err *e);

#endif
