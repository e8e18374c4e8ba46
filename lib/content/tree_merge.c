// SPDX-License-Identifier: Apache-2.0
// Merges several per-node folders into one. All checks precede the first move.
#include "content/tree_merge.h"

#include "content/manifest.h"
#include "content/tree_writer.h"
#include "sys/file.h"

#include <string.h>

static bool same(const struct manifest_entry *a, const struct manifest_entry *b) {
    if (a->kind != b->kind)
        return false;
    if (a->kind == MANIFEST_FOLDER)
        return true;
    return a->kind == MANIFEST_LINK
               ? strcmp(a->target, b->target) == 0
               : a->size == b->size && memcmp(a->hash, b->hash, HASH_BYTES) == 0;
}

static int check_pair(const struct manifest *a, const char *node_a, const struct manifest *b,
                      const char *node_b, struct err *e) {
    size_t i = 0, k = 0, clashes = 0;
    const char *first = NULL;
    while (i < a->count && k < b->count) {
        int order = manifest_order(a->entries[i].path, b->entries[k].path);
        if (order == 0) {
            if (!same(&a->entries[i], &b->entries[k]) && clashes++ == 0)
                first = a->entries[i].path;
            i++;
            k++;
        } else if (order < 0) {
            i++;
        } else {
            k++;
        }
    }
    if (!clashes)
        return 0;
    return err_set(e, ERR_EXISTS,
                   "%zu files differ between %s and %s, the first one is '%s'; keep the "
                   "folders of the nodes apart, or let each rank write to a name of its own",
                   clashes, node_a, node_b, first);
}

// Removes the originals of copied files, which are on another disk.
static int move_all(const struct manifest *m, const char *from, const char *dest, struct err *e) {
    struct arena a = {0};
    struct place p;
    bool copied = false;
    int rc = tree_open(&p, dest, false, e);
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        rc = n->kind == MANIFEST_FOLDER
                 ? tree_folder(&p, n, e)
                 : tree_move(&p, n, file_join(&a, from, n->path), &copied, e);
    }
    tree_close(&p);
    arena_fini(&a);
    if (rc == 0 && copied)
        rc = file_sync_disk(dest, e);
    return rc == 0 ? file_remove_tree(from, e) : -1;
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

int tree_merge(const char *dest, const char *const *folders, const char *const *nodes,
               struct err *e) {
    enum { FOLDERS_MAX = 4096 };
    static const struct manifest_rules rules = {.own_too = true};
    struct arena a = {0};
    size_t count = 0;
    int rc = 0;
    while (folders[count])
        count++;
    if (count > FOLDERS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d folders to merge", FOLDERS_MAX);
    struct manifest **all = arena_new(&a, struct manifest *, count + 1);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        all[i] = manifest_new();
        rc = manifest_add_path(all[i], folders[i], "", &rules, e);
        if (rc == 0)
            rc = check_names(all[i], dest, nodes[i], e);
        if (rc == 0)
            rc = manifest_hash(all[i], NULL, NULL, NULL, e);
        for (size_t k = 0; rc == 0 && k < i; k++)
            rc = check_pair(all[k], nodes[k], all[i], nodes[i], e);
    }
    if (rc == 0)
        rc = file_make_dirs(dest, 0755, e);
    // Sync first, or a power failure could leave a name with partial content.
    if (rc == 0 && count > 0)
        rc = file_sync_disk(folders[0], e);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = move_all(all[i], folders[i], dest, e);
    for (size_t i = 0; i < count; i++)
        manifest_free(all[i]);
    arena_fini(&a);
    return rc;
}
