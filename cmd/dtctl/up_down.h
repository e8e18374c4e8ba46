// SPDX-License-Identifier: Apache-2.0
// The steps of up, down and extend that train --up --down shares with them, and their order there.
#ifndef DTCTL_UP_DOWN_H
#define DTCTL_UP_DOWN_H

#include "lifecycle/down.h"

// Shows the plan of the cluster, asks, makes the cluster and shows its nodes. *began: machines may
// be there.
int up_down_make(struct context *s, bool force, bool *began, struct err *e);
// Removes the cluster and names the removed nodes.
int up_down_remove(struct context *s, const struct lifecycle_down_options *o, struct err *e);
// Moves the end of the nodes to for_ms from now. shorten: also when that is sooner.
int up_down_extend(struct context *s, int64_t for_ms, bool shorten, struct err *e);

// The flags of train.
struct up_down {
    bool up, down;
    int64_t keep_ms; // of a cluster whose run failed; 0: it is removed
};
int up_down_check(const struct up_down *w, const struct context *s, struct err *e);

// How the run ended, for the cluster's end.
struct up_down_end {
    int result; // of the command: 0, -1 with e set, or an exit status
    bool going; // the run is still active
};
// Removes the cluster or keeps it. Returns the result of the command.
int up_down_after(struct context *s, const struct up_down *w, const struct up_down_end *end,
                  struct err *e);

#endif
