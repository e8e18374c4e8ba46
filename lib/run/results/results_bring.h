// SPDX-License-Identifier: Apache-2.0
// Fetches results of a run that are on its nodes, for a command that needs them here.
#ifndef RUN_RESULTS_BRING_H
#define RUN_RESULTS_BRING_H

#include "cluster/run_record.h"
#include "ui/context.h"

struct results_wish {
    unsigned kinds; // enum result_kind
    bool work;      // also new files of the working folders
};

// Follows the run to the newest state, and when it is over fetches these kinds, or of a run whose
// results are not here also those of outputs.fetch. *run gets the record as it is then: whether all
// of it came is in run->fetched and run->left. An active run is no error.
int results_bring(struct context *s, const char *id, const struct results_wish *wish,
                  struct run *run, struct err *e);

#endif
