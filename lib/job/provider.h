// SPDX-License-Identifier: Apache-2.0
// Providers: where nodes come from. One table of functions each; everything above is the same for
// all: what a provider makes is an inventory.
//
//     const struct provider *p = provider_find(config->cluster.provider);
//     p->plan(session, &wanted, e);          // pure: what `up` would make
//     provider_up(session, p, …)
//
// `up` and `down` are idempotent. A provider lives in one file provider_<name>.c.
#ifndef JOB_PROVIDER_H
#define JOB_PROVIDER_H

#include "job/fleet.h"

struct provider {
    const char *name;
    // The inventory that the configuration asks for; nothing is touched and nothing is reached.
    int (*plan)(struct session *s, struct inventory *out, struct err *e);
    // Makes or finds the machines so that transports can reach them. Before agents are installed.
    int (*make)(struct session *s, struct inventory *inv, struct err *e);
    // Checks of the nodes once they are reached, filling in what only they know (addresses).
    // Failures are kept per node in the fleet.
    int (*check)(struct session *s, struct fleet *f, struct err *e);
    // Gives back what make made for this node, after dtctl's files are gone from it.
    int (*give_back)(struct session *s, const struct inventory_node *n, struct err *e);
};

extern const struct provider provider_local, provider_hosts, provider_aws;

const struct provider *provider_of(const struct config *c);
const struct provider *provider_named(const char *name); // NULL when there is none

// What `up` would change: nodes of `wanted` that the inventory lacks, and the other way round.
struct provider_diff {
    const char **added, **kept, **removed;
    size_t added_count, kept_count, removed_count;
    struct inventory wanted, current; // current.count 0: not up
};
int provider_diff(struct session *s, const struct provider *p, struct provider_diff *out,
                  struct err *e);

struct provider_up_result {
    struct inventory inventory;
    size_t uploaded; // nodes that did not have the agent yet
    int64_t took_ms;
};
// Locks the cluster, makes, connects, installs, checks, writes the inventory.
int provider_up(struct session *s, struct provider_up_result *out, struct err *e);

struct provider_down_result {
    size_t removed;   // nodes cleaned
    uint64_t bytes;   // freed on them
    size_t runs_left; // folders of runs on the operator's side
};
// Stops nothing by itself: a node with runs going is an error unless force. forget: nodes that
// cannot be reached are dropped from the inventory all the same. nodes NULL: all.
int provider_down(struct session *s, const char *nodes, bool force, bool forget,
                  struct provider_down_result *out, struct err *e);

#endif
