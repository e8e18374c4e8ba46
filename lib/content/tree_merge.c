// SPDX-License-Identifier: Apache-2.0
// Merges several per-node folders into one. All checks precede the first move.
#include "content/tree_merge.h"

#include "base/str.h"
#include "content/manifest.h"
#include "content/same_content.h"
#include "content/tree_writer.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum { FOLDERS_MAX = 4096 };

struct merge {
    const char *dest;
    const char *const *folders, *const *nodes;
    const struct content_ticks *ticks;
    struct manifest **all; // one per folder
    size_t count;
};

// ---- checks -------------------------------------------------------------------------------------

// An entry of the list of all folders, by path.
struct place_of {
    const struct manifest_entry *entry;
    size_t node;
};

static int by_path(const void *x, const void *y) {
    const struct place_of *a = x, *b = y;
    int order = manifest_order(a->entry->path, b->entry->path);
    return order ? order : a->node < b->node ? -1 : a->node > b->node;
}

// Two nodes that have files of one name with different content.
struct clash {
    size_t node_a, node_b; // node_a < node_b
    size_t files;          // of both; 0: there is no clash
    const char *first;
};

// The error names the first nodes that clash.
static void add_clash(struct clash *c, size_t a, size_t b, const char *path) {
    if (c->files && (b > c->node_b || (b == c->node_b && a > c->node_a)))
        return;
    if (!c->files || a != c->node_a || b != c->node_b)
        *c = (struct clash){.node_a = a, .node_b = b, .first = path};
    c->files++;
}

// The entries at p have one path.
static int check_path(const struct merge *m, const struct place_of *p, size_t count,
                      struct clash *c, struct err *e) {
    bool equal = true;
    for (size_t k = 1; equal && k < count; k++)
        if (same_entry(p[0].entry, p[k].entry, m->ticks, &equal, e) < 0)
            return -1;
    for (size_t k = 1; !equal && k < count; k++)
        for (size_t i = 0; i < k; i++) {
            bool pair = true;
            if (c->files && p[k].node > c->node_b)
                return 0;
            if (same_entry(p[i].entry, p[k].entry, m->ticks, &pair, e) < 0)
                return -1;
            if (!pair)
                add_clash(c, p[i].node, p[k].node, p[0].entry->path);
        }
    return 0;
}

static int check_together(const struct merge *m, struct err *e) {
    size_t total = 0, at = 0;
    struct clash c = {0};
    int rc = 0;
    for (size_t i = 0; i < m->count; i++)
        total += m->all[i]->count;
    struct place_of *list = heap_alloc((total + 1) * sizeof *list);
    for (size_t i = 0; i < m->count; i++)
        for (size_t k = 0; k < m->all[i]->count; k++)
            list[at++] = (struct place_of){&m->all[i]->entries[k], i};
    if (m->count > 1) // one list has each path once
        qsort(list, total, sizeof *list, by_path);
    for (size_t i = 0, end; rc == 0 && i < total; i = end) {
        for (end = i + 1; end < total && str_eq(list[end].entry->path, list[i].entry->path);)
            end++;
        rc = check_path(m, &list[i], end - i, &c, e);
        if (rc == 0)
            rc = content_tick_call(m->ticks, 0, e);
    }
    free(list);
    if (rc < 0 || !c.files)
        return rc;
    return err_set(e, ERR_EXISTS,
                   "%zu files differ between %s and %s, the first one is '%s'; keep the "
                   "folders of the nodes apart, or let each rank write to a name of its own",
                   c.files, m->nodes[c.node_a], m->nodes[c.node_b], c.first);
}

// Refuses to write below a project's .dtctl folder, which decides how dtctl reaches its nodes.
// Files from nodes must not get there.
static int check_names(const struct manifest *m, const char *dest, const char *node,
                       struct err *e) {
    struct arena a = {0};
    bool meets = false;
    size_t i = 0;
    while (i < m->count && !meets) {
        const struct manifest_entry *n = &m->entries[i++];
        meets = n->kind == MANIFEST_FOLDER && manifest_names_own(n->path) &&
                !manifest_names_own(dest) && !file_is_absent(file_join(&a, dest, n->path));
    }
    arena_fini(&a);
    return meets ? err_set(e, ERR_EXISTS,
                           "node %s sent '%s', and dtctl's own folder of this name is in '%s'; put "
                           "what the nodes send elsewhere",
                           node, m->entries[i - 1].path, dest)
                 : 0;
}

// ---- moves --------------------------------------------------------------------------------------

// Removes the originals of copied files, which are on another disk.
static int move_all(const struct merge *m, size_t node, struct err *e) {
    const struct manifest *list = m->all[node];
    const char *from = m->folders[node];
    struct place p;
    bool copied = false;
    int rc = tree_open(&p, m->dest, false, e);
    p.ticks = *m->ticks;
    for (size_t i = 0; rc == 0 && i < list->count; i++) {
        const struct manifest_entry *n = &list->entries[i];
        struct arena a = {0};
        rc = n->kind == MANIFEST_FOLDER
                 ? tree_folder(&p, n, e)
                 : tree_move(&p, n, file_join(&a, from, n->path), &copied, e);
        arena_fini(&a);
        if (rc == 0)
            rc = content_tick_call(m->ticks, 0, e);
    }
    tree_close(&p);
    if (rc == 0 && copied)
        rc = file_sync_disk(m->dest, e);
    return rc == 0 ? file_remove_tree(from, e) : -1;
}

// ---- all of it ----------------------------------------------------------------------------------

static int list_all(struct merge *m, struct err *e) {
    const struct manifest_rules rules = {.own_too = true, .ticks = *m->ticks};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        m->all[i] = manifest_new();
        rc = manifest_add_path(m->all[i], m->folders[i], "", &rules, e);
        if (rc == 0)
            rc = check_names(m->all[i], m->dest, m->nodes[i], e);
        if (rc == 0)
            rc = manifest_sort(m->all[i], e);
    }
    return rc;
}

int tree_merge(const char *dest, const char *const *folders, const char *const *nodes,
               const struct content_ticks *ticks, struct err *e) {
    struct arena a = {0};
    struct merge m = {.dest = dest, .folders = folders, .nodes = nodes, .ticks = ticks};
    while (folders[m.count])
        m.count++;
    if (m.count > FOLDERS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d folders to merge", FOLDERS_MAX);
    m.all = arena_new(&a, struct manifest *, m.count);
    int rc = list_all(&m, e);
    if (rc == 0)
        rc = check_together(&m, e);
    if (rc == 0)
        rc = file_make_dirs(dest, 0755, e);
    // Sync first, or a power failure could leave a name with partial content.
    if (rc == 0 && m.count > 0)
        rc = file_sync_disk(folders[0], e);
    for (size_t i = 0; rc == 0 && i < m.count; i++)
        rc = move_all(&m, i, e);
    for (size_t i = 0; i < m.count; i++)
        manifest_free(m.all[i]);
    arena_fini(&a);
    return rc;
}
