// SPDX-License-Identifier: Apache-2.0
// Writes and compares lists of the files in working folders.
#include "run/task_files.h"

#include "content/generation.h"
#include "sys/file.h"

#include <string.h>

static const char FILE_NAME[] = "files";

// The run's id is part of the paths, but not of their names in the working folder.
void task_files_each(const struct run_start *l, task_files_each_cb *fn, void *ctx) {
    const char *work = run_node_dir(l->context->arena, l->run.id, "work");
    size_t len = strlen(work);
    for (size_t i = 0; i < l->common->count; i++) {
        const struct manifest_entry *x = &l->common->entries[i];
        if (str_starts(x->path, work) && x->path[len] == '/')
            fn(ctx, x->path + len + 1, x);
    }
}

struct listing {
    struct manifest *m;
    struct err err;
};

static void append(void *ctx, const char *path, const struct manifest_entry *x) {
    struct listing *t = ctx;
    struct manifest_entry entry = *x;
    entry.path = path;
    if (t->err.code == ERR_NONE)
        manifest_append(t->m, &entry, &t->err);
}

// The present files, sorted. NULL with an error in e.
static struct manifest *present(const struct run_start *l, struct err *e) {
    struct listing t = {.m = manifest_new()};
    task_files_each(l, append, &t);
    if (t.err.code == ERR_NONE && manifest_sort(t.m, &t.err) == 0)
        return t.m;
    manifest_free(t.m);
    *e = t.err;
    return NULL;
}

int task_files_save(const struct run_start *l, struct err *e) {
    struct strbuf list = {0};
    struct manifest *m = present(l, e);
    if (!m)
        return -1;
    int rc = 0;
    if (m->count > 0 && m->count <= TASK_FILES_MAX) {
        generation_encode(m, &list);
        rc = file_write_atomic(run_path(&l->context->cluster, &l->run, FILE_NAME),
                               strbuf_cstr(&list), list.len, 0600, e);
    }
    strbuf_fini(&list);
    manifest_free(m);
    return rc;
}

static struct manifest *earlier_files(const struct run_start *l, const struct run *earlier) {
    struct arena a = {0};
    struct manifest *m = NULL;
    struct err ignored = {0};
    char *list;
    size_t len;
    if (file_read(&a, run_path(&l->context->cluster, earlier, FILE_NAME), GENERATION_LIST_BYTES_MAX,
                  &list, &len, &ignored) == 0 &&
        generation_decode(list, len, &m, &ignored) < 0)
        m = NULL;
    arena_fini(&a);
    return m;
}

// Compares the parts of a file that are in the reuse key.
static bool is_same(const struct manifest_entry *x, const struct manifest_entry *y) {
    return x->kind == y->kind && x->mode == y->mode &&
           (x->kind != MANIFEST_LINK || strcmp(x->target, y->target) == 0) &&
           (x->kind != MANIFEST_FILE || memcmp(x->hash, y->hash, HASH_BYTES) == 0);
}

static const char *compare(struct arena *a, const struct manifest *was, const struct manifest *is) {
    size_t i = 0, k = 0, count = 0;
    const char *first = NULL, *how = "";
    while (i < was->count || k < is->count) {
        int order = i == was->count  ? 1
                    : k == is->count ? -1
                                     : manifest_order(was->entries[i].path, is->entries[k].path);
        bool same = order == 0 && is_same(&was->entries[i], &is->entries[k]);
        if (!same && count++ == 0) {
            first = order < 0 ? was->entries[i].path : is->entries[k].path;
            how = order < 0 ? " (gone)" : order > 0 ? " (new)" : "";
        }
        i += order <= 0;
        k += order >= 0;
    }
    if (count == 0)
        return "";
    const char *name = str_printable(a, first, strlen(first));
    return count == 1 ? arena_printf(a, "'%.200s'%s", name, how)
                      : arena_printf(a, "'%.200s'%s and %zu other%s", name, how, count - 1,
                                     str_plural(count - 1));
}

const char *task_files_differing(const struct run_start *l, const struct run *earlier) {
    struct err ignored = {0};
    struct manifest *was = earlier_files(l, earlier);
    struct manifest *is = was ? present(l, &ignored) : NULL;
    const char *text = is ? compare(l->context->arena, was, is) : "";
    if (was)
        manifest_free(was);
    if (is)
        manifest_free(is);
    return text;
}
