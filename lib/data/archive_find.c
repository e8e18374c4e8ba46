// SPDX-License-Identifier: Apache-2.0
// Finding the tar files of a source.
#include "data/archive_find.h"

#include "base/array.h"
#include "content/tar.h"
#include "data/layout.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHARD_MEMBERS_LOOKED_AT = 16 };

// Archives through gzip are found, and refused by tar_open with what to do.
static const char *const archive_suffixes[] = {".tar",    ".tar.zst", ".tzst",
                                               ".tar.gz", ".tgz",     NULL};

static size_t archive_suffix(const char *name) {
    for (int i = 0; archive_suffixes[i]; i++)
        if (str_ends(name, archive_suffixes[i]) && strlen(name) > strlen(archive_suffixes[i]))
            return strlen(archive_suffixes[i]);
    return 0;
}

static struct archive_file *archive_add(struct archives *a, const char *path) {
    array_grow(a->file, &a->room, (size_t)a->count + 1);
    struct archive_file *f = &a->file[a->count++];
    *f = (struct archive_file){.path = path};
    return f;
}

static int archive_name_cmp(const void *a, const void *b) {
    return strcmp(((const struct archive_file *)a)->path, ((const struct archive_file *)b)->path);
}

// The bytes of the name before its suffix; 0 for no archive and for that of a whole split. macOS
// puts a ._x.tar beside x.tar.
static size_t archive_listed(const char *name) {
    enum dataset_split other;
    size_t suffix = archive_suffix(name), len = strlen(name) - suffix;
    return suffix == 0 || name[0] == '.' || layout_split(name, len, &other) >= 0 ? 0 : len;
}

static int archives_sort(struct archives *a, uint32_t first, const char *dir, struct err *e) {
    if (a->count == ARCHIVES_MAX)
        return err_set(e, ERR_LIMIT, "'%s' holds more than %d archives", dir, ARCHIVES_MAX - 1);
    if (a->count > first)
        qsort(a->file + first, a->count - first, sizeof *a->file, archive_name_cmp);
    return 0;
}

// Lists <dir>/<name>.tar.
static int archives_list(struct archives *a, struct arena *arena, const char *dir,
                         const char *split_name, enum dataset_split split, struct err *e) {
    struct file_entries in = file_entries_open(dir);
    uint32_t first = a->count;
    if (in.error == ENOTDIR)
        in.error = 0; // a file of that name holds no archives
    while (a->count < ARCHIVES_MAX && file_entries_next(&in)) {
        size_t len = archive_listed(in.name);
        if (len == 0)
            continue;
        struct archive_file *f = archive_add(a, file_join(arena, dir, in.name));
        f->split = split;
        f->listed = true;
        f->prefix = arena_printf(arena, "%s/%.*s", split_name, (int)len, in.name);
    }
    return file_entries_close(&in, 0, e) < 0 ? -1 : archives_sort(a, first, dir, e);
}

static int archives_find_split(struct archives *a, struct arena *arena, const char *source,
                               enum dataset_split split, const char *name, struct err *e) {
    for (int k = 0; archive_suffixes[k]; k++) {
        char *path =
            file_join(arena, source, arena_printf(arena, "%s%s", name, archive_suffixes[k]));
        struct stat st;
        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        struct archive_file *f = archive_add(a, path);
        f->split = split;
        f->prefix = name;
    }
    return archives_list(a, arena, file_join(arena, source, name), name, split, e);
}

int archives_find(struct archives *a, struct arena *arena, const char *source,
                  enum dataset_split split, struct err *e) {
    memset(a, 0, sizeof *a);
    struct stat st;
    if (stat(source, &st) == 0 && S_ISREG(st.st_mode)) {
        const char *base = file_base(source);
        size_t suffix = archive_suffix(base);
        if (suffix == 0)
            return 0;
        struct archive_file *f = archive_add(a, arena_strdup(arena, source));
        f->split = split;
        if (layout_split(base, strlen(base) - suffix, &f->split) >= 0)
            f->prefix = arena_strndup(arena, base, strlen(base) - suffix);
        return 0;
    }
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i]; i++)
            if (archives_find_split(a, arena, source, (enum dataset_split)s,
                                    source_split_names[s][i], e) < 0)
                return -1;
    if (a->count > 0)
        return 0;
    return archives_list(a, arena, source, source_split_names[split][0], split, e);
}

// ---- streamed inputs ----------------------------------------------------------------------------

// Adds the archives of a folder ("": of the top); an object that comes twice counts once.
static int archives_list_served(struct archives *a, const struct served *list, const char *dir,
                                enum dataset_split split, struct err *e) {
    uint32_t first = a->count;
    size_t len = strlen(dir);
    for (size_t i = 0; i < list->count && a->count < ARCHIVES_MAX; i++) {
        const char *path = list->object[i].path, *base = file_base(path);
        bool here =
            len ? (size_t)(base - path) == len + 1 && memcmp(path, dir, len) == 0 : base == path;
        if (!here || archive_listed(base) == 0 ||
            (i > 0 && strcmp(path, list->object[i - 1].path) == 0))
            continue;
        struct archive_file *f = archive_add(a, path);
        f->split = split;
        f->listed = true;
    }
    return archives_sort(a, first, *dir ? dir : "the input", e);
}

int archives_find_served(struct archives *a, struct arena *arena, const struct served *list,
                         enum dataset_split split, struct err *e) {
    memset(a, 0, sizeof *a);
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i]; i++) {
            const char *name = source_split_names[s][i];
            for (int k = 0; archive_suffixes[k]; k++) {
                const struct served_object *o =
                    served_find(list, arena_printf(arena, "%s%s", name, archive_suffixes[k]));
                if (o)
                    archive_add(a, o->path)->split = (enum dataset_split)s;
            }
            if (archives_list_served(a, list, name, (enum dataset_split)s, e) < 0)
                return -1;
        }
    return a->count > 0 ? 0 : archives_list_served(a, list, "", split, e);
}

// ---- all ----------------------------------------------------------------------------------------

void archives_close(struct archives *a) {
    free(a->file);
    memset(a, 0, sizeof *a);
}

bool archives_are_shards(const struct archives *a) {
    struct tar t;
    struct tar_entry member;
    struct err ignored;
    bool found = false;
    if (a->count == 0 || tar_open(&t, a->file[0].path, &ignored) < 0)
        return false;
    for (int i = 0; i < SHARD_MEMBERS_LOOKED_AT && !found; i++) {
        if (tar_next(&t, &member, &ignored) <= 0)
            break;
        found = str_ends(member.path, ".cls");
    }
    tar_close(&t);
    return found;
}

int archives_identify(const struct archives *a, struct source *s, struct err *e) {
    if (a->count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "no tar files: looked for train.tar, train/<name>.tar and <name>.tar");
    for (uint32_t i = 0; i < a->count; i++) {
        struct stat st;
        if (stat(a->file[i].path, &st) < 0)
            return err_errno(e, ERR_SYS, "reading '%s'", a->file[i].path);
        const int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
        hash_add(&s->identity, a->file[i].path, strlen(a->file[i].path) + 1);
        hash_add(&s->identity, facts, sizeof facts);
    }
    return 0;
}
