// SPDX-License-Identifier: Apache-2.0
// Joins the part of the results that one node has sent with the other parts.
#include "run/results/results_kinds.h"

#include "cluster/run_record.h"
#include "run/results/results_owner.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <stdio.h>
#include <string.h>

// `from` on the node and in the part, `to` in the results folder.
static const struct {
    unsigned kind;
    const char *on_node, *from, *to;
} FOLDERS[] = {
    {RESULT_OUTPUT, "output", "output", NULL}, // its entries, each by its name
    {RESULT_WORK, "gathered", "gathered/work", "work"},
    {RESULT_MODEL, "model", "model", "model"},
    {RESULT_STATE, "state", "state", "state"},
    {RESULTS_KINDS_LIST, "closed/list", "list", "list"},
};
enum { FOLDERS_COUNT = sizeof FOLDERS / sizeof FOLDERS[0] };

const char **results_kinds_paths(struct arena *a, const char *run, unsigned kinds) {
    const char **paths = arena_new(a, const char *, FOLDERS_COUNT + 1);
    size_t count = 0;
    for (size_t i = 0; i < FOLDERS_COUNT; i++)
        if (kinds & FOLDERS[i].kind)
            paths[count++] = run_node_dir(a, run, FOLDERS[i].on_node);
    return paths;
}

static bool is_reserved(const char *name) {
    static const char *const own[] = {"model", "state", "work", OWNER_MARK};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        size_t len = strlen(own[i]);
        if (strncmp(name, own[i], len) == 0 && strspn(name + len, "_") == strlen(name + len))
            return true;
    }
    return false;
}

// An entry at `to` comes from an earlier attempt with the same files.
static int move(const char *from, const char *to, struct err *e) {
    if (file_remove_tree(to, e) < 0)
        return -1;
    return rename(from, to) < 0 ? err_errno(e, ERR_SYS, "cannot move '%s' to '%s'", from, to) : 0;
}

static int move_output(struct arena *a, const char *from, const char *whole, const char **renamed,
                       struct err *e) {
    struct file_entries in = file_entries_open(from);
    int result = 0;
    while (result == 0 && file_entries_next(&in)) {
        const char *name = arena_strdup(a, in.name);
        bool reserved = is_reserved(name);
        if (reserved && !*renamed)
            *renamed = name;
        const char *to = reserved ? arena_printf(a, "%s_", name) : name;
        result = move(file_join(a, from, name), file_join(a, whole, to), e);
    }
    return file_entries_close(&in, result, e);
}

const char *results_kinds_join(struct arena *a, const char *part, unsigned kinds, bool fresh,
                               const char **renamed, struct err *e) {
    const char *whole = file_join(a, part, "whole");
    *renamed = NULL;
    if ((fresh && file_remove_tree(whole, e) < 0) || file_make_dirs(whole, 0755, e) < 0)
        return NULL;
    for (size_t i = 0; i < FOLDERS_COUNT; i++) {
        const char *from = file_join(a, part, FOLDERS[i].from);
        int result = 0;
        if (!(kinds & FOLDERS[i].kind) || file_is_absent(from))
            continue;
        if (FOLDERS[i].to)
            result = move(from, file_join(a, whole, FOLDERS[i].to), e);
        else
            result = move_output(a, from, whole, renamed, e);
        if (result < 0)
            return NULL;
    }
    return whole;
}
