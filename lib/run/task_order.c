// SPDX-License-Identifier: Apache-2.0
// The order of tasks.
#include "run/task_order.h"

#include "base/str.h"

#include <string.h>

static size_t index_of(const struct task_node *nodes, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(nodes[i].name, name) != 0)
        i++;
    return i;
}

static int check_names(struct arena *a, const struct task_node *nodes, size_t count,
                       struct err *e) {
    const char **names = arena_new(a, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        names[i] = nodes[i].name;
    for (size_t i = 0; i < count; i++)
        for (const char *const *after = nodes[i].after; *after; after++) {
            const char *near = str_nearest(*after, names);
            if (index_of(nodes, count, *after) == count)
                return err_set(e, ERR_CONFIG, "task '%s' comes after '%.100s', which is no task%s",
                               nodes[i].name, *after,
                               near ? arena_printf(a, " (did you mean '%s'?)", near) : "");
        }
    return 0;
}

// Marks the tasks that precede the wanted ones, until there are no more.
static void want_earlier(struct task_node *nodes, size_t count) {
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; i++)
            for (const char *const *after = nodes[i].after; nodes[i].wanted && *after; after++) {
                struct task_node *earlier = &nodes[index_of(nodes, count, *after)];
                more |= !earlier->wanted;
                earlier->wanted = true;
            }
    }
}

static bool is_ready(const struct task_node *nodes, size_t count, size_t i, const bool *placed) {
    for (const char *const *after = nodes[i].after; *after; after++)
        if (!placed[index_of(nodes, count, *after)])
            return false;
    return true;
}

// The first task without a place that a waiting one comes after.
static size_t waits_for(const struct task_node *nodes, size_t count, size_t i, const bool *placed) {
    const char *const *after = nodes[i].after;
    while (*after && placed[index_of(nodes, count, *after)])
        after++;
    must(*after != NULL);
    return index_of(nodes, count, *after);
}

// Follows the waiting tasks until one comes twice: it is in a circle.
static int refuse_circle(struct arena *a, const struct task_node *nodes, size_t count,
                         const bool *placed, struct err *e) {
    bool *seen = arena_new(a, bool, count);
    const char *text = "";
    size_t at = 0;
    while (placed[at] || !nodes[at].wanted)
        at++;
    for (; !seen[at]; at = waits_for(nodes, count, at, placed))
        seen[at] = true;
    size_t first = at;
    do {
        text = arena_printf(a, "%s'%s' after ", text, nodes[at].name);
        at = waits_for(nodes, count, at, placed);
    } while (at != first);
    return err_set(e, ERR_CONFIG, "tasks wait for each other: %s'%s'", text, nodes[first].name);
}

int task_order(struct arena *a, struct task_node *nodes, size_t count, size_t *order,
               size_t *wanted, struct err *e) {
    bool *placed = arena_new(a, bool, count + 1);
    size_t left = 0;
    *wanted = 0;
    if (count > TASK_ORDER_MAX)
        return err_set(e, ERR_LIMIT, "%zu tasks, and %d are the most", count, TASK_ORDER_MAX);
    if (check_names(a, nodes, count, e) < 0)
        return -1;
    want_earlier(nodes, count);
    for (size_t i = 0; i < count; i++)
        left += nodes[i].wanted;
    while (left > 0) {
        size_t next = 0;
        while (next < count &&
               (placed[next] || !nodes[next].wanted || !is_ready(nodes, count, next, placed)))
            next++;
        if (next == count)
            return refuse_circle(a, nodes, count, placed, e);
        placed[next] = true;
        nodes[next].place = *wanted;
        order[(*wanted)++] = next;
        left--;
    }
    return 0;
}
