// SPDX-License-Identifier: Apache-2.0
// `dtctl up`: from a configuration to a cluster whose nodes are reached, checked and have programs.
// Idempotent.
#ifndef LIFECYCLE_UP_H
#define LIFECYCLE_UP_H

#include "provider/provider.h"

struct lifecycle_up_result {
    struct inventory inventory;
    size_t uploaded;       // nodes that did not have the agent yet
    struct phases *phases; // NULL: none
    int64_t took_ms;
};
// Locks the cluster, makes, connects, installs, checks, writes the inventory.
// Nodes that leave are dropped last, as by lifecycle_down. force: whatever is lost with them.
int lifecycle_up(struct context *s, bool force, struct lifecycle_up_result *out, struct err *e);

// A line for each value of the file that a flag or variable of an earlier `up` takes the place of.
void lifecycle_tell_kept(struct context *s);
void lifecycle_forget_options(struct context *s); // of a cluster that is no more

#endif
