// SPDX-License-Identifier: Apache-2.0
// Source tar: the image folder layout inside tar files, which are never unpacked. A first pass
// reads the headers only and gives every image its place; then those of plain archives are read
// wherever they lie, and those of zstd ones front to back.
#include "content/tar.h"
#include "data/archive_find.h"
#include "data/index.h"
#include "data/jpeg.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct archive {
    struct archives files;
    struct index index;
};

static bool archive_detect(const char *path) {
    struct arena scratch = {0};
    struct archives a;
    struct err ignored;
    bool found = archives_find(&a, &scratch, path, DATASET_TRAIN, &ignored) == 0 && a.count > 0;
    archives_close(&a);
    arena_fini(&scratch);
    return found;
}

static int archive_identify(struct source *s, struct err *e) {
    struct archive *a = s->impl = heap_alloc(sizeof *a);
    if (archives_find(&a->files, &s->arena, s->config->source,
                      s->config->alone ? s->config->split : DATASET_TRAIN, e) < 0)
        return -1;
    return archives_identify(&a->files, s, e);
}

// ---- the first pass ----------------------------------------------------------------------------

// Offers a member to the layout under the path it has or would have in a folder.
static int archive_place(struct layout *l, const struct archive_file *f, uint32_t file,
                         const struct tar_entry *entry, struct err *e) {
    if (!f->listed) {
        int added = layout_add(l, entry->path, entry->offset, entry->size, file, e);
        if (added != 0 || !f->prefix)
            return added;
    }
    char path[TAR_PATH_BYTES_MAX + DATASET_CLASS_NAME_BYTES_MAX + 16];
    const char *inner = f->listed ? file_base(entry->path) : entry->path;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", f->prefix, inner) >= sizeof path)
        return err_set(e, ERR_LIMIT, "name of a member is too long");
    return layout_add(l, path, entry->offset, entry->size, file, e);
}

static int archive_index(struct source *s, struct layout *l, uint32_t file, struct err *e) {
    struct archive *a = s->impl;
    struct archive_file *f = &a->files.file[file];
    struct tar t;
    struct tar_entry entry = {.path = "0.jpg"};
    if (f->listed && f->split != s->config->split) // only its name is of interest
        return archive_place(l, f, file, &entry, e);
    if (tar_open(&t, f->path, e) < 0)
        return -1;
    f->unseekable = !t.seekable;
    int r;
    while ((r = tar_next(&t, &entry, e)) > 0)
        if (entry.type == TAR_FILE && (r = archive_place(l, f, file, &entry, e)) < 0)
            break;
    if (r < 0)
        err_wrap(e, "'%s', about byte %llu", f->path, (unsigned long long)t.offset);
    tar_close(&t);
    return r;
}

static void archive_files(struct archive *a) {
    struct index *x = &a->index;
    x->file = heap_alloc(a->files.count * sizeof *x->file);
    x->files = a->files.count;
    for (uint32_t i = 0; i < x->files; i++)
        x->file[i] = (struct index_file){a->files.file[i].path, -1, a->files.file[i].unseekable};
}

static int archive_open(struct source *s, struct err *e) {
    struct archive *a = s->impl;
    struct layout l;
    struct arena names = {0}; // of members, needed for sorting only
    layout_init(&l, &names, s->config->split);
    layout_like(&l, s->config->like);
    int bad = 0;
    for (uint32_t i = 0; i < a->files.count && bad >= 0; i++)
        bad = archive_index(s, &l, i, e);
    if (bad >= 0)
        bad = layout_finish(&l, e);
    if (bad >= 0)
        bad = index_add_layout(&a->index, &l, 0, e);
    if (bad >= 0) {
        archive_files(a);
        index_open_files(&a->index);
        s->samples = (uint32_t)a->index.count;
        s->labels = a->index.label;
        s->memory_bytes = index_bytes(&a->index);
        layout_classes(&l, s);
    }
    layout_fini(&l);
    arena_fini(&names);
    return bad < 0 ? -1 : 0;
}

// ---- reading -----------------------------------------------------------------------------------

static int archive_read(const struct source *s, uint32_t i, struct source_reader *r,
                        struct sample *out, struct err *e) {
    const struct archive *a = s->impl;
    const struct index_file *f = &a->index.file[a->index.entry[i].file];
    if (f->unseekable)
        return err_set(e, ERR_CONFIG,
                       "a compressed archive has no place to read one image from (try: "
                       "train.decode=once, or unpack it with 'zstd -d')");
    return index_read(&a->index, i, r, out, e);
}

static bool archive_is_sequential(const struct source *s) {
    const struct archive *a = s->impl;
    for (size_t i = 0; i < a->index.count; i++)
        if (a->index.file[a->index.entry[i].file].unseekable)
            return true;
    return false;
}

struct placed {
    uint64_t offset;
    uint32_t item;
};

static int archive_offset_cmp(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// The samples of one archive as they lie in it.
static struct placed *archive_by_offset(const struct index *x, uint32_t file, size_t *count) {
    struct placed *list = heap_alloc((x->count + 1) * sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < x->count; i++)
        if (x->entry[i].file == file)
            list[n++] = (struct placed){x->entry[i].at, (uint32_t)i};
    qsort(list, n, sizeof *list, archive_offset_cmp);
    *count = n;
    return list;
}

static int sequential_member(struct tar *t, const struct tar_entry *entry, uint32_t item,
                             struct source_reader *r, source_each *each, void *ctx, struct err *e) {
    struct sample sample = {.len = entry->size};
    struct arena scratch = {0};
    uint8_t *room = source_room(r, entry->size, 0, e);
    sample.bytes = room;
    int bad = !room || tar_read(t, room, entry->size, e) < 0 ? -1 : each(ctx, item, &sample, e);
    if (bad < 0)
        err_wrap(e, "member '%s'", str_printable(&scratch, entry->path, strlen(entry->path)));
    arena_fini(&scratch);
    return bad;
}

static int sequential_file(const char *path, const struct placed *list, size_t count,
                           source_each *each, void *ctx, struct err *e) {
    struct source_reader reader = {0};
    struct tar t;
    struct tar_entry entry;
    size_t next = 0;
    int r = 0;
    if (tar_open(&t, path, e) < 0)
        return -1;
    while (next < count && (r = tar_next(&t, &entry, e)) > 0)
        if (entry.offset == list[next].offset &&
            (r = sequential_member(&t, &entry, list[next++].item, &reader, each, ctx, e)) != 0)
            break;
    if (r == 0 && next < count)
        r = err_set(e, ERR_FORMAT, "the archive changed while it was read");
    tar_close(&t);
    source_reader_close(&reader);
    return r < 0 ? err_wrap(e, "'%s'", path) : r == 1 && next < count;
}

static int archive_sequential(struct source *s, source_each *each, void *ctx, struct err *e) {
    const struct index *x = &((struct archive *)s->impl)->index;
    int bad = 0;
    for (uint32_t i = 0; i < x->files && bad == 0; i++) {
        if (!x->file[i].unseekable)
            continue;
        size_t count;
        struct placed *list = archive_by_offset(x, i, &count);
        if (count > 0)
            bad = sequential_file(x->file[i].path, list, count, each, ctx, e);
        free(list);
    }
    return bad < 0 ? -1 : 0;
}

static void archive_where(const struct source *s, uint32_t i, struct strbuf *out) {
    index_where(&((const struct archive *)s->impl)->index, i, out);
}

static void archive_close(struct source *s) {
    struct archive *a = s->impl;
    if (!a)
        return;
    index_close(&a->index);
    archives_close(&a->files);
    free(a);
}

const struct source_kind source_tar = {
    .name = "tar",
    .detect = archive_detect,
    .wanted = "a .tar or .tar.zst file, or a folder with train.tar, train/<class>.tar or "
              "<class>.tar",
    .identify = archive_identify,
    .open = archive_open,
    .read = archive_read,
    .sequential = archive_sequential,
    .is_sequential = archive_is_sequential,
    .where = archive_where,
    .close = archive_close};
