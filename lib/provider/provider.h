// SPDX-License-Identifier: Apache-2.0
// Providers are the sources of nodes. Each is one table of functions whose result is an inventory;
// all layers above are the same for all providers.
//
//     const struct provider *p = provider_of(config);
//     provider_diff(context, p, &diff, e); // pure: the changes that `up` would make
//
// A provider is in provider_<name>.c, or in a layer of its own. `up` and `down` are in
// lib/lifecycle.
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include "fleet/fleet.h"
#include "provider/boot_progress.h"
#include "ui/findings.h"

struct provider_diff;
struct provider_down_result;

// Input and output of make.
struct provider_made {
    struct inventory *inv;        // in: the plan; out: the machines
    struct boot_progress *phases; // NULL: no phases were recorded
    const char **failed; // names of nodes that did not become ready: terminated, or kept in inv
    size_t failed_count;
    int64_t outside_ms, boot_ms; // time in other programs; boot time of machines
};
bool provider_made_failed(const struct provider_made *m, const char *name);

// The lease: nodes power off at a deadline without help from the operator. Failures of nodes are
// kept in the fleet.
struct provider_lease {
    int64_t ahead_ms_max; // nodes accept no later deadline
    // The earliest deadline of the reachable nodes; 0 when none reported one.
    int (*get)(struct fleet *f, int64_t *wall_ms, struct err *e);
    // Sets the deadline on the reachable nodes, and decides it for the cluster if a deadline
    // exists.
    int (*set)(struct fleet *f, int64_t wall_ms, struct err *e);
    // Writes the deadline to the machines' tags. A refusal is a warning.
    int (*tag)(struct context *s, int64_t wall_ms, struct err *e);
};

struct provider_leftovers {
    size_t regions, found, removed;
    size_t in_use; // machines of other folders' clusters whose lease has not ended
};

// The AWS account of the machines, as the configuration has it.
struct provider_account {
    const char *profile;    // counts for s3:// as well; "": the default one
    const char *region;     // "": that of the profile
    struct option_map tags; // of all resources
};

struct provider_adopted {
    struct inventory inventory;
    size_t runs; // that were not here
    bool again;  // the cluster was here
};

struct provider {
    const char *name;
    // The inventory that the configuration asks for. Changes and contacts nothing.
    int (*plan)(struct context *s, struct inventory *out, struct err *e);
    // Optional. Called first: brings in changes made from another folder (shared state). NULL when
    // a cluster has one folder only. needs_key: nodes will be contacted.
    int (*find)(struct context *s, bool needs_key, struct err *e);
    // Describes the plan and its cost, as text and as JSON; NULL: nothing to add.
    int (*show)(struct context *s, const struct provider_diff *d, struct err *e);
    int (*show_json)(struct context *s, const struct provider_diff *d, struct json_out *j,
                     struct err *e);
    // Compares the plan with existing resources and lists the differences; NULL: the inventory is
    // complete.
    int (*compare)(struct context *s, const struct provider_diff *d, size_t *changes,
                   struct err *e);
    // Makes or finds the machines so that transports can reach them. Called before agents are
    // installed.
    int (*make)(struct context *s, const struct inventory *before, struct provider_made *m,
                struct err *e);
    // Checks the connected nodes and fills in facts that only they know (addresses). Failures are
    // kept per node in the fleet.
    int (*check)(struct context *s, struct fleet *f, struct err *e);
    // Releases a node after dtctl's files were removed from it.
    int (*give_back)(struct context *s, const struct inventory_node *n, struct err *e);
    // True when resources may exist outside any inventory, after an interrupted `up`. NULL: never.
    bool (*left_something)(struct context *s);
    // After nodes of the fleet have failed: one entry per node of the inventory, true when its
    // machine does not exist any more. The error of the node then says so. NULL: machines of this
    // provider do not end by themselves.
    const bool *(*gone)(struct fleet *f, const struct inventory *inv);
    // Optional. Ends all machines, in place of clean + give_back. A provider that has it also
    // removes unwanted machines in make, and writes the inventory itself.
    int (*take_down)(struct context *s, struct provider_down_result *out, struct err *e);
    // Optional. Bytes of the disk that a node will have; *key: the setting that decides it.
    uint64_t (*disk_bytes)(const struct config *c, const char **key);
    bool costs; // machines cost money: up asks before it makes them
    // Cost of a node over `ms` milliseconds as it was bought, in thousandths of a dollar by list
    // price; -1: unknown. NULL: machines cost nothing.
    int64_t (*cost_mils)(struct context *s, const struct inventory_node *n, int64_t ms);
    const struct provider_lease *lease; // NULL: machines have no lease
    // Finds machines and other resources of this owner outside all cluster folders; NULL:
    // impossible. wanted: true when a search makes sense.
    bool (*leftovers_wanted)(struct context *s);
    int (*leftovers)(struct context *s, bool everywhere, bool in_use,
                     struct provider_leftovers *out, struct err *e);
    // Adopts a cluster that was made from another folder, by its login key, from the node at login
    // ([user@]address[:port]). ERR_SOME_FAILED: adopted, but some nodes could not be asked about
    // their runs. NULL: clusters of this provider have no records on their nodes.
    int (*adopt)(struct context *s, const char *login, const char *key_path,
                 struct provider_adopted *out, struct err *e);
    // Reports each local requirement of the provider. NULL: none.
    void (*doctor)(struct findings *f);
    // Finds a setting in the environment for a new dtctl.toml; NULL: none.
    bool (*discover)(struct context *s, struct option_pair *out);
    bool makes_keys; // make creates the key for the login on its machines
    // Optional. Names of nodes, as a node set, whose machines make replaces; "": none.
    const char *(*replaced)(const struct config *c);
    // Optional: machines of an AWS account.
    struct provider_account (*account)(const struct config *c);
};

#define PROVIDER_EXTERN(id, word, object) extern const struct provider object;
CONFIG_PROVIDERS(PROVIDER_EXTERN)
#undef PROVIDER_EXTERN

// All fields are empty where machines belong to no account.
struct provider_account provider_account(const struct config *c);

const struct provider *provider_at(size_t i); // NULL past the last one

const struct provider *provider_of(const struct config *c);
const struct provider *provider_named(const char *name); // NULL: unknown name
// The provider with possible resources outside any inventory; NULL: none.
const struct provider *provider_that_left_something(struct context *s);

// The changes that `up` would make: nodes that `wanted` adds to the inventory, and nodes that it
// removes.
struct provider_diff {
    const char **added, **kept, **removed;
    size_t added_count, kept_count, removed_count;
    struct inventory wanted, current; // current.count 0: not up
};
int provider_diff(struct context *s, const struct provider *p, struct provider_diff *out,
                  struct err *e);
// One entry per node of the inventory: true when its machine does not exist any more. The error of
// the node says so.
const bool *provider_gone(struct fleet *f, const struct inventory *inv);
// Cost of the nodes over `ms` milliseconds, and since their launch, in thousandths of a dollar; -1:
// unknown.
int64_t provider_cost_mils(struct context *s, const struct inventory *inv, int64_t ms);
int64_t provider_spent_mils(struct context *s, const struct inventory *inv);
// Checks architecture, disk and clock of every node that has not failed; for check functions.
void provider_judge(struct fleet *f);

struct provider_down_result {
    size_t removed;              // nodes cleaned
    uint64_t bytes;              // freed on them
    size_t runs_here, runs_none; // recorded runs with results here, and without
    // After the machines themselves were ended:
    bool made_here;
    size_t swept;         // resources outside the state
    const char *verified; // the verified absence, as a sentence
    int64_t spent_mils;   // thousandths of a dollar; -1: unknown
};

#endif
