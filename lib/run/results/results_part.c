// SPDX-License-Identifier: Apache-2.0
// Receives the part of a run's results that one node sends.
#include "run/results/results_part.h"

#include "sys/file.h"

#include <string.h>

enum { KINDS_BYTES_MAX = 16 };

const char *results_part_path(struct context *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "incoming"), node);
}

const char *results_part_mark(struct context *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "left"), node);
}

// Holds the kinds that the part has, or is about to have.
static const char *kinds_path(struct context *s, const struct run *run, const char *node) {
    return arena_printf(s->arena, "%s.kinds", results_part_path(s, run, node));
}

int results_part_begin(struct context *s, const struct run *run, const char *node, unsigned kinds,
                       struct err *e) {
    const char *path = kinds_path(s, run, node), *now = arena_printf(s->arena, "%u\n", kinds);
    struct err unreadable = {0};
    char *text = NULL;
    size_t len = 0;
    if (file_exists(results_part_mark(s, run, node)))
        return 0;
    bool same = file_read(s->arena, path, KINDS_BYTES_MAX, &text, &len, &unreadable) == 0 &&
                str_eq(text, now);
    if (!same && file_remove_tree(results_part_path(s, run, node), e) < 0)
        return -1;
    return file_write_atomic(path, now, strlen(now), 0600, e);
}
