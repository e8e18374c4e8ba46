// SPDX-License-Identifier: Apache-2.0
// Providers: where nodes come from. One table of functions each; everything above is the same for
// all: what a provider makes is an inventory.
//
//     const struct provider *p = provider_of(config);
//     provider_diff(context, p, &diff, e);      // pure: what `up` would make
//
// A provider lives in provider_<name>.c, or in a layer of its own. `up` and `down` are in
// lib/lifecycle.
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include "fleet/fleet.h"
#include "provider/boot_progress.h"

struct provider_diff;
struct provider_down_result;

// What make is given and gives back.
struct provider_made {
    struct inventory *inv; // in: what plan said; out: the machines
    struct phases *phases; // NULL: nothing took long enough
    const char **failed;   // names of nodes that did not become ready: ended, or kept in inv
    size_t failed_count;
    int64_t outside_ms, boot_ms; // of the time: other programs; machines that start
};
bool provider_made_failed(const struct provider_made *m, const char *name);

// Nodes end themselves at a deadline, whoever watches. Failures of nodes stay in the fleet.
struct provider_lease {
    int64_t ahead_ms_max; // a node takes no deadline beyond
    // The earliest deadline of the nodes that are reached; 0 when none said one.
    int (*get)(struct fleet *f, int64_t *wall_ms, struct err *e);
    // Sets it on the nodes that are reached, and decides it for the cluster when there was one.
    int (*set)(struct fleet *f, int64_t wall_ms, struct err *e);
    // Writes it to the machines' tags. A refusal is a warning.
    int (*tag)(struct context *s, int64_t wall_ms, struct err *e);
};

struct provider_leftovers {
    size_t regions, found, removed;
    size_t in_use; // machines of other folders' clusters whose lease has not ended
};

struct provider_adopted {
    struct inventory inventory;
    size_t runs;
};

// One thing that was looked at: what is so, and the remedy (NULL when nothing need be done).
enum provider_verdict { PROVIDER_GOOD, PROVIDER_WARN, PROVIDER_BAD };
typedef void provider_finding(void *ctx, enum provider_verdict v, const char *what,
                              const char *remedy, const char *fact);

struct provider {
    const char *name;
    // The inventory that the configuration asks for; nothing is touched and nothing is reached.
    int (*plan)(struct context *s, struct inventory *out, struct err *e);
    // Before all of these: what others did to the same cluster; NULL: only this folder can have.
    // needs_key: it will be reached, too.
    int (*find)(struct context *s, bool needs_key, struct err *e);
    // What that is and costs, for a person and for a program; NULL: nothing to add.
    int (*show)(struct context *s, const struct provider_diff *d, struct err *e);
    int (*show_json)(struct context *s, const struct provider_diff *d, struct json_out *j,
                     struct err *e);
    // Compares with what is there and lists the differences; NULL: the inventory says all.
    int (*compare)(struct context *s, const struct provider_diff *d, size_t *changes,
                   struct err *e);
    // Makes or finds the machines so that transports can reach them. Before agents are installed.
    int (*make)(struct context *s, const struct inventory *before, struct provider_made *m,
                struct err *e);
    // Checks of the nodes once they are reached, filling in what only they know (addresses).
    // Failures are kept per node in the fleet.
    int (*check)(struct context *s, struct fleet *f, struct err *e);
    // Gives back what make made for this node, after dtctl's files are gone from it.
    int (*give_back)(struct context *s, const struct inventory_node *n, struct err *e);
    // Whether something may exist that no inventory knows: an `up` that was cut made it. NULL:
    // never.
    bool (*left_something)(struct context *s);
    // Which nodes of the inventory exist no more, one each, where nodes of the fleet have failed;
    // that is their error then. NULL: machines of this provider do not end.
    const bool *(*gone)(struct fleet *f, const struct inventory *inv);
    // Instead of cleaning nodes and give_back: ends all machines. Then make also takes away those
    // that are no longer wanted, and writes the inventory itself.
    int (*take_down)(struct context *s, struct provider_down_result *out, struct err *e);
    bool costs; // money: up asks
    // Thousandths of a dollar by list price; -1: not known. NULL: machines are not paid for.
    int64_t (*spent_mils)(struct context *s, const struct inventory *inv); // so far
    int64_t (*cost_mils)(struct context *s, size_t nodes, int64_t ms);     // so many over that time
    const struct provider_lease *lease; // NULL: machines do not end by themselves
    // Machines and other things of this owner that no cluster folder knows; NULL: there are none.
    // wanted: whether there is any reason to look for them.
    bool (*leftovers_wanted)(struct context *s);
    int (*leftovers)(struct context *s, bool everywhere, bool in_use,
                     struct provider_leftovers *out, struct err *e);
    // Takes over a cluster that another folder brought up, by the login key, from the node at
    // login ([user@]address[:port]). ERR_SOME_FAILED when it is adopted, and nodes could not be
    // asked about their runs. NULL: such clusters have no records on their nodes.
    int (*adopt)(struct context *s, const char *login, const char *key_path,
                 struct provider_adopted *out, struct err *e);
    // Tells of each thing that it needs on this computer. NULL: nothing.
    void (*doctor)(struct context *s, provider_finding *tell, void *ctx);
    // A setting that the surroundings have and a new dtctl.toml should; NULL: none is looked for.
    bool (*discover)(struct context *s, struct option_pair *out);
};

#define PROVIDER_EXTERN(id, word, object) extern const struct provider object;
CONFIG_PROVIDERS(PROVIDER_EXTERN)
#undef PROVIDER_EXTERN

const struct provider *provider_at(size_t i); // NULL past the last one

const struct provider *provider_of(const struct config *c);
const struct provider *provider_named(const char *name); // NULL when there is none
// The provider that may have made something which no inventory knows; NULL when there is none.
const struct provider *provider_that_left_something(struct context *s);

// What `up` would change: nodes of `wanted` that the inventory lacks, and the other way round.
struct provider_diff {
    const char **added, **kept, **removed;
    size_t added_count, kept_count, removed_count;
    struct inventory wanted, current; // current.count 0: not up
};
int provider_diff(struct context *s, const struct provider *p, struct provider_diff *out,
                  struct err *e);
// One each of the inventory: its machine exists no more. The errors of such nodes say so.
const bool *provider_gone(struct fleet *f, const struct inventory *inv);
// For check functions: architecture, disk, clock of every node that has not failed.
void provider_judge(struct fleet *f);

struct provider_down_result {
    size_t removed;              // nodes cleaned
    uint64_t bytes;              // freed on them
    size_t runs_here, runs_none; // of the runs recorded on this side: with results here, without
    // Where the machines themselves were ended:
    bool made_here;
    size_t swept;         // things that no state knew
    const char *verified; // what was seen to be gone, as a sentence
    int64_t spent_mils;   // thousandths of a dollar; -1: not known
};

#endif
