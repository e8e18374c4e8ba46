// SPDX-License-Identifier: Apache-2.0
// New files in a run's working folders. They count as results only on request and disappear with
// the nodes, so the end of a run names them.
#ifndef RUN_WORK_LEFT_H
#define RUN_WORK_LEFT_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { WORK_LEFT_NAMES_MAX = 4 };

struct work_left {
    int64_t files, bytes;
    const char *names[WORK_LEFT_NAMES_MAX]; // the first few; untrusted text
    size_t name_count;
};

// Asks every node that has not failed. With run->bring_work set, the nodes also prepare these files
// for fetch; a node that cannot do so has failed.
int work_left_ask(struct fleet *f, const struct run *run, struct work_left *out, struct err *e);

#endif
