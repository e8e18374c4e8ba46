// SPDX-License-Identifier: Apache-2.0
// The built-in shapes as a folder of JPEG files, for tests of everything that reads such folders.
#include "data/data_make_shapes.h"

#include "base/str.h"
#include "data/data_scan.h"
#include "data/jpeg_write.h"
#include "data/resize.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct make {
    const struct data_shapes *spec;
    const char *dir; // of the split
    struct data_scan scan;
    struct resize resize;
    uint8_t *pixels;
    struct arena arena;
};

static int make_write(const char *path, const void *data, size_t len, struct err *e) {
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "making '%s'", path);
    return file_write_all(fd, data, len, e) < 0 ? err_wrap(e, "'%s'", path) : 0;
}

static int make_image(void *ctx, uint32_t i, const struct sample *sample, struct err *e) {
    struct make *m = ctx;
    const struct source *s = &m->scan.store->source;
    unsigned char *jpeg;
    size_t len;
    resize_square(&m->resize, sample->bytes, s->width, s->height, m->spec->size, m->pixels);
    if (jpeg_write(m->pixels, m->spec->size, m->spec->size, &jpeg, &len, e) < 0)
        return -1;
    int bad = make_write(
        arena_printf(&m->arena, "%s/%s/%06u.jpg", m->dir, s->class_names[s->labels[i]], i), jpeg,
        len, e);
    free(jpeg);
    arena_reset(&m->arena);
    return bad;
}

static int make_folders(const struct make *m, struct err *e) {
    const struct source *s = &m->scan.store->source;
    struct arena a = {0};
    int bad = 0;
    for (int i = 0; i < s->classes && bad == 0; i++)
        bad = file_make_dirs(file_join(&a, m->dir, s->class_names[i]), 0755, e);
    arena_fini(&a);
    return bad;
}

static int make_split(const struct data_shapes *t, const struct dataset_config *c, const char *dir,
                      struct err *e) {
    struct make m = {.spec = t, .dir = dir};
    m.pixels = heap_alloc((size_t)t->size * (size_t)t->size * RESIZE_CHANNELS);
    int bad = data_scan_open(&m.scan, c, e);
    if (bad == 0)
        bad = make_folders(&m, e);
    if (bad == 0)
        bad = data_scan_each(&m.scan, make_image, &m, e);
    resize_fini(&m.resize);
    free(m.pixels);
    arena_fini(&m.arena);
    data_scan_close(&m.scan);
    return bad;
}

int data_make_shapes(const struct data_shapes *t,
                     int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                     void *ctx, struct err *e) {
    static const char *const names[DATASET_SPLITS] = {"train", "test"};
    const uint32_t counts[DATASET_SPLITS] = {t->train, t->test};
    struct arena a = {0};
    int bad = data_scan_folder(t->dir, e);
    for (int split = 0; split < DATASET_SPLITS && bad == 0; split++) {
        if (counts[split] == 0)
            continue;
        const struct dataset_config c = {.source = "shapes",
                                         .kind = "shapes",
                                         .split = (enum dataset_split)split,
                                         .samples_max = counts[split],
                                         .seed = t->seed,
                                         .progress = progress,
                                         .progress_ctx = ctx};
        bad = make_split(t, &c, file_join(&a, t->dir, names[split]), e);
    }
    arena_fini(&a);
    return bad;
}
