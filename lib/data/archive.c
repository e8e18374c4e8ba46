// SPDX-License-Identifier: Apache-2.0
// Source tar: the image folder layout inside tar files, which are never unpacked. A first pass
// reads the headers only and gives every image its place; then plain archives are read by all
// threads at once, wherever they like, and zstd ones front to back in batches that all threads
// decode.
#include "base/array.h"
#include "base/str.h"
#include "data/decode.h"
#include "data/layout.h"
#include "data/parallel.h"
#include "data/source.h"
#include "data/tar.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARCHIVES_MAX = 65536, BATCH_BYTES_MAX = 32 << 20, BATCH_IMAGES_MAX = 8192 };

struct archive_file {
    const char *path;
    enum dataset_split split; // of train.tar, or of the folder with one archive per class
    const char *prefix;       // "train" or "train/<class>"; NULL: members have it
    bool one_class;           // every member belongs to prefix, whatever folders it names
    bool seekable;
};

struct archive {
    struct layout layout;
    struct decoders decoders;
    struct archive_file *files;
    uint32_t count;
    size_t room;
    // Filling.
    uint8_t *pixels;
    int32_t *labels;
    size_t image_bytes;
    struct batch_image {
        size_t at, size, item;
    } * batch;
    uint8_t *bytes;
    size_t batch_count, bytes_used, bytes_room;
};

static const char *const archive_suffixes[] = {".tar", ".tar.zst", ".tzst", NULL};

static size_t archive_suffix(const char *name) {
    for (int i = 0; archive_suffixes[i]; i++)
        if (str_ends(name, archive_suffixes[i]) && strlen(name) > strlen(archive_suffixes[i]))
            return strlen(archive_suffixes[i]);
    return 0;
}

static bool archive_is(const char *path, mode_t type) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

// ---- finding the archives ----------------------------------------------------------------------

static struct archive_file *archive_add(struct archive *a, const char *path) {
    array_grow(a->files, &a->room, (size_t)a->count + 1);
    struct archive_file *f = &a->files[a->count++];
    *f = (struct archive_file){.path = path};
    return f;
}

static int archive_name_cmp(const void *a, const void *b) {
    return strcmp(((const struct archive_file *)a)->path, ((const struct archive_file *)b)->path);
}

// <root>/<split>/<class>.tar
static int archive_find_classes(struct archive *a, struct arena *arena, const char *dir,
                                const char *split_name, enum dataset_split split, struct err *e) {
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    uint32_t first = a->count;
    for (struct dirent *entry; (entry = readdir(d)) && a->count < ARCHIVES_MAX;) {
        size_t suffix = archive_suffix(entry->d_name);
        if (suffix == 0 || entry->d_name[0] == '.')
            continue;
        struct archive_file *f = archive_add(a, file_join(arena, dir, entry->d_name));
        f->split = split;
        f->one_class = true;
        f->prefix = arena_printf(arena, "%s/%.*s", split_name,
                                 (int)(strlen(entry->d_name) - suffix), entry->d_name);
    }
    closedir(d);
    if (a->count == ARCHIVES_MAX)
        return err_set(e, ERR_LIMIT, "'%s' holds more than %d archives", dir, ARCHIVES_MAX - 1);
    if (a->count > first)
        qsort(a->files + first, a->count - first, sizeof *a->files, archive_name_cmp);
    return 0;
}

static int archive_find(struct archive *a, struct arena *arena, const char *source, struct err *e) {
    if (archive_is(source, S_IFREG)) {
        struct archive_file *f = archive_add(a, arena_strdup(arena, source));
        const char *base = file_base(f->path);
        if (layout_split(base, strlen(base) - archive_suffix(base), &f->split) >= 0)
            f->prefix = arena_strndup(arena, base, strlen(base) - archive_suffix(base));
        return 0;
    }
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i]; i++) {
            const char *name = source_split_names[s][i];
            for (int k = 0; archive_suffixes[k]; k++) {
                char *path = file_join(arena, source,
                                       arena_printf(arena, "%s%s", name, archive_suffixes[k]));
                if (!archive_is(path, S_IFREG))
                    continue;
                struct archive_file *f = archive_add(a, path);
                f->split = (enum dataset_split)s;
                f->prefix = name;
            }
            if (archive_find_classes(a, arena, file_join(arena, source, name), name,
                                     (enum dataset_split)s, e) < 0)
                return -1;
        }
    return 0;
}

static bool archive_detect(const char *path) {
    if (archive_is(path, S_IFREG))
        return archive_suffix(path) > 0;
    struct archive a = {0};
    struct arena scratch = {0};
    struct err ignored;
    bool found = archive_find(&a, &scratch, path, &ignored) == 0 && a.count > 0;
    free(a.files);
    arena_fini(&scratch);
    return found;
}

static int archive_identify(struct source *s, struct err *e) {
    struct archive *a = s->impl = heap_alloc(sizeof *a);
    if (archive_find(a, &s->arena, s->config->source, e) < 0)
        return -1;
    if (a->count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "no tar files: looked for train.tar and train/<class>.tar");
    for (uint32_t i = 0; i < a->count; i++) {
        struct stat st;
        if (stat(a->files[i].path, &st) < 0)
            return err_errno(e, ERR_SYS, "reading '%s'", a->files[i].path);
        const int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
        hash_add(&s->identity, a->files[i].path, strlen(a->files[i].path) + 1);
        hash_add(&s->identity, facts, sizeof facts);
    }
    return 0;
}

// ---- the first pass ----------------------------------------------------------------------------

// Offers a member to the layout under the path it has or would have in a folder.
static int archive_place(struct source *s, uint32_t file, const struct tar_entry *entry,
                         struct err *e) {
    struct archive *a = s->impl;
    const struct archive_file *f = &a->files[file];
    if (!f->one_class) {
        int added = layout_add(&a->layout, entry->path, entry->offset, entry->size, file, e);
        if (added != 0 || !f->prefix)
            return added;
    }
    char path[TAR_PATH_BYTES_MAX + DATASET_CLASS_NAME_BYTES_MAX + 16];
    const char *inner = f->one_class ? file_base(entry->path) : entry->path;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", f->prefix, inner) >= sizeof path)
        return err_set(e, ERR_LIMIT, "name of a member is too long");
    return layout_add(&a->layout, path, entry->offset, entry->size, file, e);
}

static int archive_index(struct source *s, uint32_t file, struct err *e) {
    struct archive *a = s->impl;
    struct archive_file *f = &a->files[file];
    if (f->one_class && f->split != s->config->split) { // only its name is of interest
        struct tar_entry any = {.path = "0.jpg"};
        return archive_place(s, file, &any, e);
    }
    struct tar t;
    struct tar_entry entry;
    if (tar_open(&t, f->path, e) < 0)
        return -1;
    f->seekable = t.seekable;
    int r;
    while ((r = tar_next(&t, &entry, e)) > 0) {
        if (entry.type != TAR_FILE)
            continue;
        int added = archive_place(s, file, &entry, e);
        if (added < 0) {
            r = -1;
            break;
        }
        if (added == 0 || a->decoders.width > 0)
            continue;
        uint8_t *room = decoder_room(&a->decoders.each[0], entry.size, e);
        if (!room || tar_read(&t, room, entry.size, e) < 0 ||
            decoders_first(&a->decoders, room, entry.size, e) < 0) {
            r = err_wrap(e, "member '%s'",
                         str_printable(&s->arena, entry.path, strlen(entry.path)));
            break;
        }
    }
    tar_close(&t);
    return r < 0 ? err_wrap(e, "'%s'", f->path) : 0;
}

static int archive_open(struct source *s, struct err *e) {
    struct archive *a = s->impl;
    layout_init(&a->layout, &s->arena, s->config->split);
    if (decoders_open(&a->decoders, parallel_threads(s->config->threads), s->config->image_size,
                      e) < 0)
        return -1;
    for (uint32_t i = 0; i < a->count; i++)
        if (archive_index(s, i, e) < 0)
            return -1;
    if (layout_finish(&a->layout, e) < 0)
        return -1;
    s->samples = (uint32_t)a->layout.count;
    s->width = a->decoders.width;
    s->height = a->decoders.height;
    s->channels = 3;
    s->classes = a->layout.class_count;
    s->class_names = a->layout.class_names;
    return 0;
}

// ---- the second pass ---------------------------------------------------------------------------

static int archive_wrap(struct source *s, size_t item, struct err *e) {
    struct archive *a = s->impl;
    const struct layout_item *i = &a->layout.items[item];
    struct arena scratch = {0}; // not the source's: several threads may fail at once
    err_wrap(e, "'%s': member '%s'", a->files[i->archive].path,
             str_printable(&scratch, i->path, strlen(i->path)));
    arena_fini(&scratch);
    return -1;
}

static int archive_decode(struct source *s, size_t item, int thread, const uint8_t *bytes,
                          size_t len, struct err *e) {
    struct archive *a = s->impl;
    a->labels[item] = a->layout.items[item].label;
    if (decoders_image(&a->decoders, thread, bytes, len, a->pixels + item * a->image_bytes, e) < 0)
        return archive_wrap(s, item, e);
    return 0;
}

static int archive_pread(struct decoder *d, const struct archive_file *f,
                         const struct layout_item *item, struct err *e) {
    if (d->fd < 0 || d->archive != item->archive) {
        if (d->fd >= 0)
            close(d->fd);
        d->archive = item->archive;
        d->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (d->fd < 0)
            return err_errno(e, ERR_SYS, "opening");
    }
    uint8_t *room = decoder_room(d, item->size, e);
    if (!room)
        return -1;
    for (uint64_t done = 0; done < item->size;) {
        ssize_t n = pread(d->fd, room + done, item->size - done, (off_t)(item->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "reading");
        if (n == 0)
            return err_set(e, ERR_FORMAT, "the archive became shorter while it was read");
        done += (uint64_t)n;
    }
    return 0;
}

// Items of plain archives, in any order; those of streams were decoded before.
static int archive_item(void *ctx, uint64_t i, int thread, struct err *e) {
    struct source *s = ctx;
    struct archive *a = s->impl;
    const struct layout_item *item = &a->layout.items[i];
    struct decoder *d = &a->decoders.each[thread];
    if (!a->files[item->archive].seekable)
        return 0;
    if (archive_pread(d, &a->files[item->archive], item, e) < 0)
        return archive_wrap(s, i, e);
    return archive_decode(s, i, thread, d->file, item->size, e);
}

static int archive_batch_item(void *ctx, uint64_t i, int thread, struct err *e) {
    struct source *s = ctx;
    struct archive *a = s->impl;
    const struct batch_image *b = &a->batch[i];
    return archive_decode(s, b->item, thread, a->bytes + b->at, b->size, e);
}

static int archive_batch_run(struct source *s, uint64_t done, struct err *e) {
    struct archive *a = s->impl;
    const struct parallel p = {.threads = a->decoders.count,
                               .count = a->batch_count,
                               .item = archive_batch_item,
                               .ctx = s,
                               .progress = s->config->progress,
                               .progress_ctx = s->config->progress_ctx,
                               .progress_base = done,
                               .progress_total = s->samples};
    int bad = parallel_run(&p, e);
    a->batch_count = a->bytes_used = 0;
    return bad;
}

static int archive_batch_add(struct source *s, struct tar *t, size_t item, struct err *e) {
    struct archive *a = s->impl;
    uint64_t size = a->layout.items[item].size;
    if (size > JPEG_FILE_BYTES_MAX) {
        err_set(e, ERR_LIMIT, "%llu bytes are above the limit of %d for one image",
                (unsigned long long)size, JPEG_FILE_BYTES_MAX);
        return archive_wrap(s, item, e);
    }
    if (a->bytes_used + size > a->bytes_room) {
        a->bytes_room = a->bytes_used + size + BATCH_BYTES_MAX;
        a->bytes = heap_realloc(a->bytes, a->bytes_room);
    }
    if (tar_read(t, a->bytes + a->bytes_used, size, e) < 0)
        return archive_wrap(s, item, e);
    a->batch[a->batch_count++] = (struct batch_image){a->bytes_used, size, item};
    a->bytes_used += size;
    return 0;
}

struct placed {
    uint64_t offset;
    size_t item;
};

static int archive_offset_cmp(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// The items of one archive as they lie in it.
static struct placed *archive_by_offset(const struct archive *a, uint32_t file, size_t *count) {
    struct placed *list = heap_alloc((a->layout.count + 1) * sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < a->layout.count; i++)
        if (a->layout.items[i].archive == file)
            list[n++] = (struct placed){a->layout.items[i].offset, i};
    qsort(list, n, sizeof *list, archive_offset_cmp);
    *count = n;
    return list;
}

static int archive_stream(struct source *s, struct tar *t, const struct placed *list, size_t count,
                          uint64_t *done, struct err *e) {
    struct archive *a = s->impl;
    struct tar_entry entry;
    size_t next = 0;
    int r = 0;
    while (next < count && (r = tar_next(t, &entry, e)) > 0) {
        if (entry.offset != list[next].offset)
            continue;
        if (archive_batch_add(s, t, list[next].item, e) < 0)
            return -1;
        next++;
        if (next < count && a->batch_count < BATCH_IMAGES_MAX && a->bytes_used < BATCH_BYTES_MAX)
            continue;
        size_t images = a->batch_count;
        if (archive_batch_run(s, *done, e) < 0)
            return -1;
        *done += images;
    }
    if (r < 0)
        return -1;
    return next == count ? 0 : err_set(e, ERR_FORMAT, "the archive changed while it was read");
}

static int archive_fill_stream(struct source *s, uint32_t file, uint64_t *done, struct err *e) {
    struct archive *a = s->impl;
    size_t count;
    struct placed *list = archive_by_offset(a, file, &count);
    struct tar t = {0};
    int bad = 0;
    if (count > 0) {
        bad = tar_open(&t, a->files[file].path, e);
        if (bad == 0 && archive_stream(s, &t, list, count, done, e) < 0)
            bad = err_wrap(e, "'%s'", a->files[file].path);
    }
    tar_close(&t);
    free(list);
    return bad;
}

static int archive_fill(struct source *s, uint8_t *pixels, int32_t *labels, struct err *e) {
    struct archive *a = s->impl;
    uint64_t done = 0;
    bool plain = false;
    a->pixels = pixels;
    a->labels = labels;
    a->image_bytes = (size_t)s->width * (size_t)s->height * 3;
    a->batch = heap_alloc(BATCH_IMAGES_MAX * sizeof *a->batch);
    for (uint32_t i = 0; i < a->count; i++) {
        plain |= a->files[i].seekable;
        if (!a->files[i].seekable && archive_fill_stream(s, i, &done, e) < 0)
            return -1;
    }
    if (!plain)
        return 0;
    const struct parallel p = {.threads = a->decoders.count,
                               .count = s->samples,
                               .item = archive_item,
                               .ctx = s,
                               .progress = s->config->progress,
                               .progress_ctx = s->config->progress_ctx,
                               .progress_total = s->samples};
    return parallel_run(&p, e);
}

static void archive_close(struct source *s) {
    struct archive *a = s->impl;
    if (!a)
        return;
    decoders_close(&a->decoders);
    layout_fini(&a->layout);
    free(a->files);
    free(a->batch);
    free(a->bytes);
    free(a);
}

const struct source_kind source_tar = {
    .name = "tar",
    .detect = archive_detect,
    .wanted = "a .tar or .tar.zst file, or a folder with train.tar or train/<class>.tar",
    .identify = archive_identify,
    .open = archive_open,
    .fill = archive_fill,
    .close = archive_close};
