// SPDX-License-Identifier: Apache-2.0
// Names and labels of webdataset shards, and the samples of one.
#include "data/webdataset_scan.h"

#include "content/tar.h"
#include "data/dataset.h"
#include "data/webdataset.h"

#include <string.h>
#include <strings.h>

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

// ---- the samples of a shard ---------------------------------------------------------------------

// The sample whose members are being read.
struct group {
    char key[TAR_PATH_BYTES_MAX];
    size_t len;
    struct webdataset_sample sample;
    bool image, labelled;
};

struct scan {
    struct tar tar;
    struct group group;
    webdataset_each *each;
    void *ctx;
};

// Ends the group: both members, or none that matters.
static int scan_end(struct scan *s, struct err *e) {
    struct group *g = &s->group;
    if (g->image && !g->labelled)
        return err_set(e, ERR_FORMAT,
                       "sample '%s' has an image and no .cls beside it; labels in .json or .txt "
                       "are not read (try: write the class number to '%s.cls')",
                       g->key, g->key);
    int bad = 0;
    if (g->image)
        bad = s->each(s->ctx, &g->sample, e);
    *g = (struct group){0};
    return bad;
}

static int scan_label(struct scan *s, const struct tar_entry *m, struct err *e) {
    struct webdataset_sample *out = &s->group.sample;
    char text[WEBDATASET_LABEL_BYTES_MAX];
    if (m->size == 0 || m->size > sizeof text)
        return err_set(e, ERR_FORMAT, "label '%s' has %llu bytes", m->path,
                       (unsigned long long)m->size);
    if (tar_read(&s->tar, text, m->size, e) < 0 ||
        webdataset_label(text, m->size, &out->label, e) < 0)
        return err_wrap(e, "'%s'", m->path);
    out->label_at = m->offset;
    out->label_size = m->size;
    s->group.labelled = true;
    return 0;
}

static int scan_member(struct scan *s, const struct tar_entry *m, struct err *e) {
    struct group *g = &s->group;
    size_t key;
    enum webdataset_field field = webdataset_name(m->path, &key);
    if (key == 0)
        return 0;
    if (key != g->len || memcmp(m->path, g->key, key) != 0) {
        if (scan_end(s, e) < 0)
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
        g->sample.at = m->offset;
        g->sample.size = m->size;
    }
    return field == WEBDATASET_LABEL ? scan_label(s, m, e) : 0;
}

// Closes the archive. r below 0: it cannot be read.
static int scan(struct scan *s, int r, const char *name, struct err *e) {
    struct tar_entry m;
    while (r > 0 && (r = tar_next(&s->tar, &m, e)) > 0)
        if (m.type == TAR_FILE && scan_member(s, &m, e) < 0)
            r = -1;
    if (r == 0)
        r = scan_end(s, e);
    if (r < 0)
        err_wrap(e, "'%s', about byte %llu", name, (unsigned long long)s->tar.offset);
    tar_close(&s->tar);
    return r;
}

int webdataset_scan(const char *path, webdataset_each *each, void *ctx, struct err *e) {
    struct scan s = {.each = each, .ctx = ctx};
    int r = 1;
    if (tar_open(&s.tar, path, e) < 0)
        return -1;
    if (!s.tar.seekable)
        r = err_set(e, ERR_FORMAT, "shards must not be compressed: unpack it with 'zstd -d'");
    return scan(&s, r, path, e);
}

int webdataset_scan_input(struct tar_input *in, const char *name, webdataset_each *each, void *ctx,
                          struct err *e) {
    struct scan s = {.each = each, .ctx = ctx};
    tar_open_input(&s.tar, in);
    return scan(&s, 1, name, e);
}
