// SPDX-License-Identifier: Apache-2.0
// Source imagefolder: train/<class>/**.jpg as files.
#include "data/decode.h"
#include "data/layout.h"
#include "data/parallel.h"
#include "data/source.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    struct layout layout;
    struct decoders decoders;
};

static bool folder_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// Whether dir holds at least one folder: then it is a split with its classes.
static bool folder_has_folders(const char *dir) {
    struct arena scratch = {0};
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *entry; d && !found && (entry = readdir(d));)
        found = entry->d_name[0] != '.' && folder_is_dir(file_join(&scratch, dir, entry->d_name));
    if (d)
        closedir(d);
    arena_fini(&scratch);
    return found;
}

static bool folder_detect(const char *path) {
    struct arena scratch = {0};
    bool found = false;
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i] && !found; i++)
            found = folder_has_folders(file_join(&scratch, path, source_split_names[s][i]));
    arena_fini(&scratch);
    return found;
}

// What is known of a file without reading it.
static void folder_identify_file(struct source *s, const char *path, const struct stat *st) {
    const int64_t facts[] = {st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
    hash_add(&s->identity, path, strlen(path) + 1);
    hash_add(&s->identity, facts, sizeof facts);
}

static int folder_walk(struct source *s, const char *relative, int depth, bool wanted,
                       struct err *e) {
    struct folder *f = s->impl;
    struct arena scratch = {0};
    char *dir = file_join(&scratch, s->config->source, relative);
    struct dirent **names;
    int bad = 0, n = scandir(dir, &names, NULL, NULL);
    if (n < 0)
        bad = err_errno(e, ERR_SYS, "listing '%s'", dir);
    for (int i = 0; i < n; i++) {
        const struct dirent *entry = names[i];
        if (bad == 0 && entry->d_name[0] != '.') {
            char *path = file_join(&scratch, relative, entry->d_name);
            struct stat st = {0};
            if ((wanted || entry->d_type != DT_REG) &&
                stat(file_join(&scratch, s->config->source, path), &st) < 0)
                bad = err_errno(e, ERR_SYS, "reading '%s'", path);
            else if (S_ISDIR(st.st_mode) && depth < LAYOUT_DEPTH_MAX)
                bad = folder_walk(s, path, depth + 1, wanted, e);
            else if (!S_ISDIR(st.st_mode))
                bad = layout_add(&f->layout, path, 0, (uint64_t)st.st_size, 0, e) < 0 ? -1 : 0;
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    arena_fini(&scratch);
    return bad;
}

static int folder_identify(struct source *s, struct err *e) {
    struct folder *f = s->impl = heap_alloc(sizeof *f);
    struct arena scratch = {0};
    int bad = 0;
    layout_init(&f->layout, &s->arena, s->config->split);
    for (int split = 0; split < DATASET_SPLITS && bad == 0; split++)
        for (int i = 0; source_split_names[split][i] && bad == 0; i++) {
            const char *name = source_split_names[split][i];
            if (folder_is_dir(file_join(&scratch, s->config->source, name)))
                bad = folder_walk(s, name, 1, split == (int)s->config->split, e);
        }
    if (bad == 0)
        bad = layout_finish(&f->layout, e);
    for (size_t i = 0; i < f->layout.count && bad == 0; i++) {
        const char *path = f->layout.items[i].path;
        struct stat st;
        if (stat(file_join(&scratch, s->config->source, path), &st) < 0)
            bad = err_errno(e, ERR_SYS, "reading '%s'", path);
        else
            folder_identify_file(s, path, &st);
        if (scratch.total_bytes > (1 << 20))
            arena_reset(&scratch);
    }
    arena_fini(&scratch);
    return bad;
}

static int folder_load(struct decoder *d, const char *path, size_t *len, struct err *e) {
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, ERR_SYS, "opening '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_FORMAT, "'%s' is not a file", path);
    uint8_t *room = decoder_room(d, (uint64_t)st.st_size, e);
    if (!room || file_read_all(fd, room, (size_t)st.st_size, e) < 0)
        return err_wrap(e, "'%s'", path);
    *len = (size_t)st.st_size;
    return 0;
}

static int folder_open(struct source *s, struct err *e) {
    struct folder *f = s->impl;
    if (decoders_open(&f->decoders, parallel_threads(s->config->threads), s->config->image_size,
                      e) < 0)
        return -1;
    const char *path = file_join(&s->arena, s->config->source, f->layout.items[0].path);
    size_t len;
    if (folder_load(&f->decoders.each[0], path, &len, e) < 0)
        return -1;
    if (decoders_first(&f->decoders, f->decoders.each[0].file, len, e) < 0)
        return err_wrap(e, "'%s'", path);
    s->samples = (uint32_t)f->layout.count;
    s->width = f->decoders.width;
    s->height = f->decoders.height;
    s->channels = 3;
    s->classes = f->layout.class_count;
    s->class_names = f->layout.class_names;
    return 0;
}

struct folder_fill {
    struct source *source;
    uint8_t *pixels;
    int32_t *labels;
    size_t image_bytes;
};

static int folder_item(void *ctx, uint64_t i, int thread, struct err *e) {
    const struct folder_fill *fill = ctx;
    struct folder *f = fill->source->impl;
    struct decoder *d = &f->decoders.each[thread];
    struct arena scratch = {0};
    const char *path = file_join(&scratch, fill->source->config->source, f->layout.items[i].path);
    size_t len = 0;
    int bad = folder_load(d, path, &len, e);
    if (bad == 0 && decoders_image(&f->decoders, thread, d->file, len,
                                   fill->pixels + i * fill->image_bytes, e) < 0)
        bad = err_wrap(e, "'%s'", path);
    fill->labels[i] = f->layout.items[i].label;
    arena_fini(&scratch);
    return bad;
}

static int folder_fill(struct source *s, uint8_t *pixels, int32_t *labels, struct err *e) {
    struct folder *f = s->impl;
    struct folder_fill fill = {s, pixels, labels, (size_t)s->width * (size_t)s->height * 3};
    const struct parallel p = {.threads = f->decoders.count,
                               .count = s->samples,
                               .item = folder_item,
                               .ctx = &fill,
                               .progress = s->config->progress,
                               .progress_ctx = s->config->progress_ctx,
                               .progress_total = s->samples};
    return parallel_run(&p, e);
}

static void folder_close(struct source *s) {
    struct folder *f = s->impl;
    if (!f)
        return;
    decoders_close(&f->decoders);
    layout_fini(&f->layout);
    free(f);
}

const struct source_kind source_imagefolder = {.name = "imagefolder",
                                               .detect = folder_detect,
                                               .wanted = "a folder with train/<class>/*.jpg",
                                               .identify = folder_identify,
                                               .open = folder_open,
                                               .fill = folder_fill,
                                               .close = folder_close};
