// SPDX-License-Identifier: Apache-2.0
// `dtctl down`: removes nodes. Fetches results that only they have first. Idempotent.
#ifndef LIFECYCLE_DOWN_H
#define LIFECYCLE_DOWN_H

#include "provider/provider.h"

struct lifecycle_down_options {
    const char *nodes;  // NULL: all
    const char *way;    // command that forces the removal, such as "dtctl down --force"
    bool force;         // ends runs and discards results that were not fetched
    bool forget;        // drops unreachable nodes; their files stay there
    bool dry_run;       // only lists the nodes
    bool agreed;        // the user has agreed: nothing is asked
    const char *asking; // the question; NULL: the default
};

// Fetches results that only these nodes have. An active run is an error, and so are results that
// cannot be fetched, unless force. Asks for confirmation on a terminal.
int lifecycle_down(struct context *s, const struct lifecycle_down_options *o,
                   struct provider_down_result *out, struct err *e);
// Performs the same check before machines of the inventory end for another reason: fetches results
// that only these nodes have, or refuses.
int lifecycle_check_losses(struct context *s, struct inventory *inv, const char *nodes, bool force,
                           struct err *e);

#endif
