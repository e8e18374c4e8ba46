// SPDX-License-Identifier: Apache-2.0
// Files that a run made in its working folders. They are no results unless asked for, and gone with
// the nodes, so the end of a run names them.
#ifndef RUN_WORK_LEFT_H
#define RUN_WORK_LEFT_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { WORK_LEFT_NAMES_MAX = 4 };

struct work_left {
    int64_t files, bytes;
    const char *names[WORK_LEFT_NAMES_MAX]; // the first few, foreign text
    size_t name_count;
};

// Asks every node that has not failed. Where run->bring_work is set they are also made ready to be
// fetched, and a node that cannot do that has failed.
int work_left_ask(struct fleet *f, const struct run *run, struct work_left *out, struct err *e);

#endif
