// SPDX-License-Identifier: Apache-2.0
// `dtctl down`: takes nodes away. What only they have is brought here first. Idempotent.
#ifndef LIFECYCLE_DOWN_H
#define LIFECYCLE_DOWN_H

#include "provider/provider.h"

struct lifecycle_down_options {
    const char *nodes;  // NULL: all
    const char *way;    // what does it whatever is lost, such as "dtctl down --force"
    bool force;         // ends runs, and loses results that were not fetched
    bool forget;        // nodes that cannot be reached are dropped; what is on them stays
    bool dry_run;       // only says what would go
    const char *asking; // the question; NULL: the usual one
};

// Results that only these nodes have are fetched first. A run that goes on is an error, and so are
// results that cannot be fetched, unless force. On a terminal somebody is asked.
int lifecycle_down(struct context *s, const struct lifecycle_down_options *o,
                   struct provider_down_result *out, struct err *e);
// The same check alone, before machines end that are these nodes of the inventory: fetches what
// only they have, or refuses.
int lifecycle_check_losses(struct context *s, struct inventory *inv, const char *nodes, bool force,
                           struct err *e);

#endif
