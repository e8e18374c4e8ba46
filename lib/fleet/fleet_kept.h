// SPDX-License-Identifier: Apache-2.0
// Lists and removes what nodes keep between runs: states of runs, folders of inputs and of
// environments.
#ifndef FLEET_FLEET_KEPT_H
#define FLEET_FLEET_KEPT_H

#include "fleet/fleet.h"

enum { KEPT_ITEMS_MAX = 1000000 };

enum kept_kind { KEPT_STATE, KEPT_INPUT, KEPT_ENVIRONMENT };
extern const char *const kept_kind_names[]; // as nodes say them

struct kept_item {
    enum kept_kind kind;
    const char *name;  // of the run; or of the folder, NAME-HASH[-ofN] of an input
    size_t node_index; // in the fleet
    uint64_t files, bytes;
    int64_t changed_ms; // wall clock of the newest change
};

struct kept {
    struct kept_item *items;
    size_t count, room;
};

// Asks every node that has not failed; sorted by name and node. Failures are kept in the fleet.
int fleet_kept_ask(struct fleet *f, struct kept *out, struct err *e);
// Removes these items from their nodes. Failures are kept in the fleet.
int fleet_kept_drop(struct fleet *f, const struct kept *items, struct err *e);
// Adds the lines of one node's answer. Pure; lines of another form are left out.
void fleet_kept_parse(struct arena *a, const char *text, size_t len, size_t node_index,
                      struct kept *out);

#endif
