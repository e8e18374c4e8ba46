// SPDX-License-Identifier: Apache-2.0
// `dtctl up`: turns a configuration into a cluster of connected, checked nodes with programs.
// Idempotent.
#ifndef LIFECYCLE_UP_H
#define LIFECYCLE_UP_H

#include "provider/provider.h"

struct lifecycle_up_result {
    struct inventory inventory;
    size_t uploaded;              // nodes that did not have the agent before
    struct boot_progress *phases; // NULL: none
    int64_t took_ms;
};
// Locks the cluster, makes, connects, installs, checks, writes the inventory. Drops leaving nodes
// last, as by lifecycle_down. force: discard results that would be lost with them.
int lifecycle_up(struct context *s, bool force, struct lifecycle_up_result *out, struct err *e);

// Prints a line for each value in the file that an option of an earlier `up` overrides.
void lifecycle_show_kept(struct context *s);
void lifecycle_forget_options(struct context *s); // of a removed cluster

#endif
