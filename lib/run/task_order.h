// SPDX-License-Identifier: Apache-2.0
// The order of tasks: each behind those that it comes after. Pure.
#ifndef RUN_TASK_ORDER_H
#define RUN_TASK_ORDER_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { TASK_ORDER_MAX = 1000 }; // tasks of one file

struct task_node {
    const char *name;
    const char *const *after; // names of other tasks, NULL-terminated
    bool wanted;              // in: asked for; out: also what an asked one comes after
    size_t place;             // out: position in the order, from 0; only of wanted ones
};

// Fills order[] with the indices of the wanted tasks; their number goes to *wanted. Among tasks
// that may be next, the one that comes first in nodes[]. ERR_CONFIG names an unknown task, or the
// tasks of a circle.
int task_order(struct arena *a, struct task_node *nodes, size_t count, size_t *order,
               size_t *wanted, struct err *e);

#endif
