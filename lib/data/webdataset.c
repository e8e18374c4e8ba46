// SPDX-License-Identifier: Apache-2.0
// Source webdataset: shards 000000.tar, 000001.tar, … with stem.jpg and stem.cls, read in place.
// Samples keep the order in which they lie.
#include "data/webdataset.h"

#include "content/tar.h"
#include "data/archive_find.h"
#include "data/index.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CLASSES_BYTES_MAX = 16 << 20 };
static const char CLASSES_FILE[] =
    "classes.txt"; // beside the shards, one name a line; may be absent

struct webdataset {
    struct archives files;
    struct index index;
};

enum webdataset_field webdataset_name(const char *path, size_t *key) {
    static const struct {
        const char *suffix;
        enum webdataset_field field;
    } FIELDS[] = {{"jpg", WEBDATASET_IMAGE},    {"jpeg", WEBDATASET_IMAGE},
                  {"cls", WEBDATASET_LABEL},    {"png", WEBDATASET_FOREIGN},
                  {"webp", WEBDATASET_FOREIGN}, {"ppm", WEBDATASET_FOREIGN},
                  {"pgm", WEBDATASET_FOREIGN},  {"bmp", WEBDATASET_FOREIGN}};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strchr(base, '.');
    *key = 0;
    if (!dot || dot == base)
        return WEBDATASET_OTHER;
    *key = (size_t)(dot - path);
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++)
        if (strcasecmp(dot + 1, FIELDS[i].suffix) == 0)
            return FIELDS[i].field;
    return WEBDATASET_OTHER;
}

int webdataset_label(const char *text, size_t len, int32_t *label, struct err *e) {
    int32_t v = 0;
    size_t i = 0;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        len--;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        v = v * 10 + (text[i] - '0');
        if (v >= DATASET_CLASSES_MAX)
            return err_set(e, ERR_LIMIT, "a label is above the limit of %d",
                           DATASET_CLASSES_MAX - 1);
    }
    if (i == 0 || i < len)
        return err_set(e, ERR_FORMAT, "a label is not a number");
    *label = v;
    return 0;
}

static bool webdataset_detect(const char *path) {
    struct arena scratch = {0};
    struct archives a;
    struct err ignored;
    bool found =
        archives_find(&a, &scratch, path, DATASET_TRAIN, &ignored) == 0 && archives_are_shards(&a);
    archives_close(&a);
    arena_fini(&scratch);
    return found;
}

static int webdataset_identify(struct source *s, struct err *e) {
    struct webdataset *w = s->impl = heap_alloc(sizeof *w);
    if (archives_find(&w->files, &s->arena, s->config->source,
                      s->config->alone ? s->config->split : DATASET_TRAIN, e) < 0)
        return -1;
    return archives_identify(&w->files, s, e);
}

// The sample whose members are being read.
struct group {
    char key[TAR_PATH_BYTES_MAX];
    size_t len;
    uint64_t at, size; // of the image
    int32_t label;
    bool image, labelled;
};

// Ends the group: both members, or none that matters.
static int webdataset_end(struct webdataset *w, struct group *g, uint32_t file, struct err *e) {
    if (g->image && !g->labelled)
        return err_set(e, ERR_FORMAT,
                       "sample '%s' has an image and no .cls beside it; labels in .json or .txt "
                       "are not read (try: write the class number to '%s.cls')",
                       g->key, g->key);
    int bad = 0;
    if (g->image)
        bad = index_add(&w->index, NULL, g->at, g->size, file, g->label, e);
    *g = (struct group){0};
    return bad;
}

static int webdataset_member(struct webdataset *w, struct tar *t, const struct tar_entry *m,
                             struct group *g, uint32_t file, struct err *e) {
    size_t key;
    char text[WEBDATASET_LABEL_BYTES_MAX];
    enum webdataset_field field = webdataset_name(m->path, &key);
    if (key == 0)
        return 0;
    if (key != g->len || memcmp(m->path, g->key, key) != 0) {
        if (webdataset_end(w, g, file, e) < 0)
            return -1;
        memcpy(g->key, m->path, key);
        g->len = key;
    }
    if (field == WEBDATASET_FOREIGN)
        return err_set(e, ERR_FORMAT, "only JPEG images can be read: convert '%s' or leave it out",
                       m->path);
    if (field == WEBDATASET_IMAGE) {
        if (g->image)
            return err_set(e, ERR_FORMAT, "sample '%s' has two images", g->key);
        g->image = true;
        g->at = m->offset;
        g->size = m->size;
    } else if (field == WEBDATASET_LABEL) {
        if (m->size == 0 || m->size > sizeof text)
            return err_set(e, ERR_FORMAT, "label '%s' has %llu bytes", m->path,
                           (unsigned long long)m->size);
        if (tar_read(t, text, m->size, e) < 0 || webdataset_label(text, m->size, &g->label, e) < 0)
            return err_wrap(e, "'%s'", m->path);
        g->labelled = true;
    }
    return 0;
}

static int webdataset_shard(struct webdataset *w, uint32_t file, struct err *e) {
    const char *path = w->files.file[file].path;
    struct tar t;
    struct tar_entry m;
    struct group g = {0};
    if (tar_open(&t, path, e) < 0)
        return -1;
    int r = 1;
    if (!t.seekable)
        r = err_set(e, ERR_FORMAT, "shards must not be compressed: unpack it with 'zstd -d'");
    while (r > 0 && (r = tar_next(&t, &m, e)) > 0)
        if (m.type == TAR_FILE && webdataset_member(w, &t, &m, &g, file, e) < 0)
            r = -1;
    if (r == 0)
        r = webdataset_end(w, &g, file, e);
    if (r < 0)
        err_wrap(e, "'%s', about byte %llu", path, (unsigned long long)t.offset);
    tar_close(&t);
    return r;
}

static int32_t webdataset_largest(const struct index *x) {
    int32_t most = 0;
    for (size_t i = 0; i < x->count; i++)
        most = x->label[i] > most ? x->label[i] : most;
    return most;
}

// From classes.txt, else the numbers themselves. The test split has at least the classes that the
// training split has.
static int webdataset_classes(struct source *s, struct err *e) {
    const struct webdataset *w = s->impl;
    const struct dataset *like = s->config->like;
    struct err ignored;
    char *text, **line;
    size_t len, lines = 0;
    int found = webdataset_largest(&w->index) + 1;
    const char *first = w->files.file[0].path;
    const char *dir = arena_strndup(&s->arena, first, (size_t)(file_base(first) - first));
    s->classes = like && like->classes > found ? like->classes : found;
    if (file_read(&s->arena, file_join(&s->arena, *dir ? dir : ".", CLASSES_FILE),
                  CLASSES_BYTES_MAX, &text, &len, &ignored) == 0)
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
        name[i] = i < (int)lines && strlen(line[i]) < DATASET_CLASS_NAME_BYTES_MAX
                      ? line[i]
                      : arena_printf(&s->arena, "%d", i);
    s->class_names = name;
    return 0;
}

static int webdataset_open(struct source *s, struct err *e) {
    struct webdataset *w = s->impl;
    struct index *x = &w->index;
    for (uint32_t i = 0; i < w->files.count; i++)
        if (w->files.file[i].split == s->config->split && webdataset_shard(w, i, e) < 0)
            return -1;
    if (x->count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "no shards of this split hold samples: looked for %s/*.tar",
                       source_split_names[s->config->split][0]);
    x->file = heap_alloc(w->files.count * sizeof *x->file);
    x->files = w->files.count;
    for (uint32_t i = 0; i < x->files; i++)
        x->file[i] = (struct index_file){w->files.file[i].path, -1, false};
    index_open_files(x);
    s->samples = (uint32_t)x->count;
    s->labels = x->label;
    s->memory_bytes = index_bytes(x);
    return webdataset_classes(s, e);
}

static int webdataset_read(const struct source *s, uint32_t i, struct source_reader *r,
                           struct sample *out, struct err *e) {
    return index_read(&((const struct webdataset *)s->impl)->index, i, r, out, e);
}

static void webdataset_where(const struct source *s, uint32_t i, struct strbuf *out) {
    index_where(&((const struct webdataset *)s->impl)->index, i, out);
}

static void webdataset_close(struct source *s) {
    struct webdataset *w = s->impl;
    if (!w)
        return;
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
    .close = webdataset_close};
