// SPDX-License-Identifier: Apache-2.0
// Source imagefolder: train/<class>/**.jpg as files, or <class>/**.jpg.
#include "data/index.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct folder {
    struct index index;
};

static bool folder_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// True when dir contains a folder, as a split with its classes does.
static bool folder_has_folders(const char *dir) {
    struct arena scratch = {0};
    bool found = false;
    struct file_entries in = file_entries_open(dir);
    while (!found && file_entries_next(&in))
        found = in.name[0] != '.' && folder_is_dir(file_join(&scratch, dir, in.name));
    (void)file_entries_close(&in, 0, NULL);
    arena_fini(&scratch);
    return found;
}

// Whether some folder in dir holds a JPEG: then dir is a split itself.
static bool folder_is_split(const char *dir) {
    struct arena scratch = {0};
    bool found = false;
    struct file_entries in = file_entries_open(dir);
    while (!found && file_entries_next(&in)) {
        if (in.name[0] == '.')
            continue;
        struct file_entries class = file_entries_open(file_join(&scratch, dir, in.name));
        while (!found && file_entries_next(&class))
            found = class.name[0] != '.' && layout_is_jpeg(class.name);
        (void)file_entries_close(&class, 0, NULL);
    }
    (void)file_entries_close(&in, 0, NULL);
    arena_fini(&scratch);
    return found;
}

static bool folder_has_splits(const char *path) {
    struct arena scratch = {0};
    bool found = false;
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i] && !found; i++)
            found = folder_has_folders(file_join(&scratch, path, source_split_names[s][i]));
    arena_fini(&scratch);
    return found;
}

static bool folder_detect(const char *path) {
    return folder_has_splits(path) || folder_is_split(path);
}

// Identifies a file by its stat, without reading it.
static void folder_identify_file(struct source *s, const char *path, const struct stat *st) {
    const int64_t facts[] = {st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
    hash_add(&s->identity, path, strlen(path) + 1);
    hash_add(&s->identity, facts, sizeof facts);
}

// The state of a walk; paths are those of the layout, which begin with the split.
struct walk {
    const char *root;
    size_t flat; // bytes of "train/" where the classes lie in the folder itself; else 0
    struct layout layout;
};

static const char *walk_path(const struct walk *w, struct arena *scratch, const char *path) {
    return file_join(scratch, w->root, strlen(path) > w->flat ? path + w->flat : ".");
}

static int folder_walk(struct walk *w, const char *relative, int depth, bool wanted,
                       struct err *e) {
    struct arena scratch = {0};
    const char *dir = walk_path(w, &scratch, relative);
    struct dirent **names;
    int bad = 0, n = scandir(dir, &names, NULL, NULL);
    if (n < 0)
        bad = err_errno(e, ERR_SYS, "listing '%s'", dir);
    for (int i = 0; i < n; i++) {
        const struct dirent *entry = names[i];
        if (bad == 0 && entry->d_name[0] != '.') {
            char *path = file_join(&scratch, relative, entry->d_name);
            struct stat st = {0};
            if ((wanted || entry->d_type != DT_REG) && stat(walk_path(w, &scratch, path), &st) < 0)
                bad = err_errno(e, ERR_SYS, "reading '%s'", path);
            else if (S_ISDIR(st.st_mode) && depth < LAYOUT_DEPTH_MAX)
                bad = folder_walk(w, path, depth + 1, wanted, e);
            else if (!S_ISDIR(st.st_mode))
                bad = layout_add(&w->layout, path, 0, (uint64_t)st.st_size, 0, e) < 0 ? -1 : 0;
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    arena_fini(&scratch);
    return bad;
}

static int folder_list(struct walk *w, const struct source *s, struct err *e) {
    struct arena scratch = {0};
    int bad = 0;
    enum dataset_split flat = s->config->alone ? s->config->split : DATASET_TRAIN;
    if (!folder_has_splits(w->root)) {
        const char *name = source_split_names[flat][0];
        w->flat = strlen(name) + 1;
        return folder_walk(w, name, 1, flat == s->config->split, e);
    }
    for (int split = 0; split < DATASET_SPLITS && bad == 0; split++)
        for (int i = 0; source_split_names[split][i] && bad == 0; i++) {
            const char *name = source_split_names[split][i];
            if (folder_is_dir(file_join(&scratch, w->root, name)))
                bad = folder_walk(w, name, 1, split == (int)s->config->split, e);
        }
    arena_fini(&scratch);
    return bad;
}

static int folder_keep(struct source *s, const struct walk *w, struct err *e) {
    struct folder *f = s->impl;
    struct arena scratch = {0};
    int bad = index_add_layout(&f->index, &w->layout, w->flat, e);
    for (size_t i = 0; i < w->layout.count && bad == 0; i++) {
        const char *path = w->layout.items[i].path;
        struct stat st;
        if (stat(walk_path(w, &scratch, path), &st) < 0)
            bad = err_errno(e, ERR_SYS, "reading '%s'", path);
        else
            folder_identify_file(s, path, &st);
        if (scratch.total_bytes > (1 << 20))
            arena_reset(&scratch);
    }
    arena_fini(&scratch);
    layout_classes(&w->layout, s);
    return bad;
}

static int folder_identify(struct source *s, struct err *e) {
    struct folder *f = s->impl = heap_alloc(sizeof *f);
    struct arena names = {0};
    struct walk w = {.root = s->config->source};
    f->index.root = s->config->source;
    layout_init(&w.layout, &names, s->config->split);
    layout_like(&w.layout, s->config->like);
    int bad = folder_list(&w, s, e);
    if (bad == 0)
        bad = layout_finish(&w.layout, e);
    if (bad == 0)
        bad = folder_keep(s, &w, e);
    layout_fini(&w.layout);
    arena_fini(&names);
    return bad;
}

static int folder_open(struct source *s, struct err *e) {
    const struct folder *f = s->impl;
    (void)e;
    s->samples = (uint32_t)f->index.count;
    s->labels = f->index.label;
    s->memory_bytes = index_bytes(&f->index);
    return 0;
}

static int folder_read(const struct source *s, uint32_t i, struct source_reader *r,
                       struct sample *out, struct err *e) {
    return index_read(&((const struct folder *)s->impl)->index, i, r, out, e);
}

static void folder_where(const struct source *s, uint32_t i, struct strbuf *out) {
    index_where(&((const struct folder *)s->impl)->index, i, out);
}

static void folder_close(struct source *s) {
    struct folder *f = s->impl;
    if (!f)
        return;
    index_close(&f->index);
    free(f);
}

const struct source_kind source_imagefolder = {
    .name = "imagefolder",
    .detect = folder_detect,
    .wanted = "a folder with train/<class>/*.jpg or <class>/*.jpg",
    .identify = folder_identify,
    .open = folder_open,
    .read = folder_read,
    .where = folder_where,
    .close = folder_close};
