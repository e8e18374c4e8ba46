// SPDX-License-Identifier: Apache-2.0
// Files of a run that stay on its nodes and disappear with them, so the end of a run names them:
// new ones in the working folders, which count as results only on request, and the kinds of results
// that outputs.fetch leaves there.
#ifndef RUN_WORK_LEFT_H
#define RUN_WORK_LEFT_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { WORK_LEFT_NAMES_MAX = 4 };

struct work_left {
    int64_t files, bytes;
    const char *names[WORK_LEFT_NAMES_MAX]; // the first few; untrusted text
    size_t name_count;
    struct {
        int64_t files, bytes;
    } kinds[RESULT_KINDS]; // on all nodes; of the native trainer, on the node that has most
    bool kinds_unknown;    // a node did not tell
    bool *gone;            // per node of the fleet: it does not have the run; in the arena
};

// Asks every node that has not failed. With run->bring_work set, the nodes also prepare these files
// for fetch; a node that cannot do so has failed. Results by kind are counted unless run->bring has
// all kinds and none was left. rank0: index of the only node of which output, model and working
// folder count; -1: all.
int work_left_ask(struct fleet *f, const struct run *run, int rank0, struct work_left *out,
                  struct err *e);
// The kinds of a set of which there is something on the nodes, or of which nothing is known.
unsigned work_left_kinds(const struct work_left *w, unsigned kinds);

#endif
