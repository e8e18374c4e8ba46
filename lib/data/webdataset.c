// SPDX-License-Identifier: Apache-2.0
// Source webdataset: shards 000000.tar, 000001.tar, … with stem.jpg and stem.cls, read in place.
// Samples keep the order in which they lie.
#include "data/archive_find.h"
#include "data/index.h"
#include "data/webdataset_scan.h"
#include "data/webdataset_served.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES_BYTES_MAX = 16 << 20 };
static const char CLASSES_FILE[] =
    "classes.txt"; // beside the shards, one name a line; may be absent

struct webdataset {
    struct archives files;
    struct index index;
    struct webdataset_served served; // of a streamed input; zeroed for files
    bool is_served;
};

static bool webdataset_detect(const char *path) {
    struct arena scratch = {0};
    struct archives a;
    struct err ignored;
    if (served_is(path))
        return true;
    bool found =
        archives_find(&a, &scratch, path, DATASET_TRAIN, &ignored) == 0 && archives_are_shards(&a);
    archives_close(&a);
    arena_fini(&scratch);
    return found;
}

static int webdataset_identify(struct source *s, struct err *e) {
    struct webdataset *w = s->impl = heap_alloc(sizeof *w);
    enum dataset_split split = s->config->alone ? s->config->split : DATASET_TRAIN;
    w->is_served = served_is(s->config->source);
    if (w->is_served)
        return webdataset_served_find(&w->served, s, &w->files, split, e);
    if (archives_find(&w->files, &s->arena, s->config->source, split, e) < 0)
        return -1;
    return archives_identify(&w->files, s, e);
}

static int32_t webdataset_largest(const struct index *x) {
    int32_t most = 0;
    for (size_t i = 0; i < x->count; i++)
        most = x->label[i] > most ? x->label[i] : most;
    return most;
}

// The text of classes.txt in the folder of the shards; NULL: there is none.
static int webdataset_names(struct source *s, const char *dir, char **text, struct err *e) {
    const struct webdataset *w = s->impl;
    struct err ignored;
    size_t len;
    *text = NULL;
    if (w->is_served)
        return webdataset_served_text(&w->served, &s->arena,
                                      arena_printf(&s->arena, "%s%s", dir, CLASSES_FILE),
                                      CLASSES_BYTES_MAX, text, e);
    if (file_read(&s->arena, file_join(&s->arena, *dir ? dir : ".", CLASSES_FILE),
                  CLASSES_BYTES_MAX, text, &len, &ignored) < 0)
        *text = NULL;
    return 0;
}

// From classes.txt, else the numbers themselves. The test split has at least the classes that the
// training split has.
static int webdataset_classes(struct source *s, struct err *e) {
    const struct webdataset *w = s->impl;
    const struct dataset *like = s->config->like;
    char *text, **line;
    size_t lines = 0;
    int found = webdataset_largest(&w->index) + 1;
    const char *first = w->files.file[0].path;
    const char *dir = arena_strndup(&s->arena, first, (size_t)(file_base(first) - first));
    s->classes = like && like->classes > found ? like->classes : found;
    if (webdataset_names(s, dir, &text, e) < 0)
        return -1;
    if (text)
        lines = str_split(&s->arena, text, '\n', &line);
    while (lines > 0 && line[lines - 1][0] == 0)
        lines--;
    if (lines > DATASET_CLASSES_MAX || (lines > 0 && (int)lines < found))
        return err_set(e, ERR_FORMAT, "'%s%s' names %zu classes, and label %d is used", dir,
                       CLASSES_FILE, lines, found - 1);
    if (lines > 0 && (!like || (int)lines >= like->classes))
        s->classes = (int)lines;
    const char **name = arena_new(&s->arena, const char *, (size_t)s->classes);
    for (int i = 0; i < s->classes; i++)
        name[i] = i < (int)lines && strlen(line[i]) < DATASET_CLASS_NAME_BYTES_MAX ? line[i]
                  : like && i < like->classes ? arena_strdup(&s->arena, like->class_names[i])
                                              : arena_printf(&s->arena, "%d", i);
    s->class_names = name;
    return 0;
}

// A sample of the shard that is being looked through.
struct found {
    struct index *index;
    uint32_t file;
};

static int webdataset_found(void *ctx, const struct webdataset_sample *m, struct err *e) {
    const struct found *f = ctx;
    return index_add(f->index, NULL, m->at, m->size, f->file, m->label, e);
}

static int webdataset_open(struct source *s, struct err *e) {
    struct webdataset *w = s->impl;
    struct index *x = &w->index;
    struct found f = {.index = x};
    if (w->is_served && webdataset_served_open(&w->served, s, &w->files, x, e) < 0)
        return -1;
    for (f.file = 0; f.file < w->files.count && !w->is_served; f.file++)
        if (w->files.file[f.file].split == s->config->split &&
            webdataset_scan(w->files.file[f.file].path, webdataset_found, &f, e) < 0)
            return -1;
    if (x->count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "no shards of this split hold samples: looked for %s/*.tar",
                       source_split_names[s->config->split][0]);
    x->file = heap_alloc(w->files.count * sizeof *x->file);
    x->files = w->files.count;
    for (uint32_t i = 0; i < x->files; i++)
        x->file[i] = (struct index_file){w->files.file[i].path, -1, w->is_served};
    if (!w->is_served)
        index_open_files(x);
    s->samples = (uint32_t)x->count;
    s->labels = x->label;
    s->memory_bytes = index_bytes(x) + w->served.room * sizeof *w->served.label;
    return webdataset_classes(s, e);
}

static int webdataset_read(const struct source *s, uint32_t i, struct source_reader *r,
                           struct sample *out, struct err *e) {
    const struct webdataset *w = s->impl;
    return w->is_served ? webdataset_served_read(&w->served, &w->index, i, r, out, e)
                        : index_read(&w->index, i, r, out, e);
}

static void webdataset_where(const struct source *s, uint32_t i, struct strbuf *out) {
    index_where(&((const struct webdataset *)s->impl)->index, i, out);
}

static bool webdataset_waits(const struct source *s) {
    return ((const struct webdataset *)s->impl)->is_served;
}

static void webdataset_cancel(const struct source *s) {
    served_cancel(&((struct webdataset *)s->impl)->served.list);
}

static void webdataset_close(struct source *s) {
    struct webdataset *w = s->impl;
    if (!w)
        return;
    webdataset_served_close(&w->served);
    index_close(&w->index);
    archives_close(&w->files);
    free(w);
}

const struct source_kind source_webdataset = {
    .name = "webdataset",
    .detect = webdataset_detect,
    .wanted = "a folder with train/000000.tar or 000000.tar, of stem.jpg and stem.cls",
    .identify = webdataset_identify,
    .open = webdataset_open,
    .read = webdataset_read,
    .where = webdataset_where,
    .waits = webdataset_waits,
    .cancel = webdataset_cancel,
    .close = webdataset_close};
