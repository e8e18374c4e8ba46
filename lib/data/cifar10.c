// SPDX-License-Identifier: Apache-2.0
#include "data/cifar10.h"

#include "base/str.h"
#include "data/source.h"
#include "sys/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CIFAR10_FILES_MAX = 5, CIFAR10_META_BYTES_MAX = 64 << 10 };

static const char *const cifar10_files[DATASET_SPLITS][CIFAR10_FILES_MAX + 1] = {
    [DATASET_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                       "data_batch_4.bin", "data_batch_5.bin", NULL},
    [DATASET_TEST] = {"test_batch.bin", NULL}};

// Where the files may lie below the given folder: as the archive unpacks, or directly.
static const char *const cifar10_folders[] = {"", "cifar-10-batches-bin"};

static const char *const cifar10_names[CIFAR10_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

struct cifar10 {
    const char *dir;
    size_t bytes[CIFAR10_FILES_MAX];
};

int cifar10_convert(const uint8_t *records, size_t len, uint8_t *pixels, int32_t *labels,
                    struct err *e) {
    enum { PLANE = CIFAR10_SIDE * CIFAR10_SIDE };
    if (len == 0 || len % CIFAR10_RECORD_BYTES != 0)
        return err_set(e, ERR_FORMAT, "%zu bytes are not a whole number of records of %d", len,
                       CIFAR10_RECORD_BYTES);
    size_t count = len / CIFAR10_RECORD_BYTES;
    for (size_t i = 0; i < count; i++, records += CIFAR10_RECORD_BYTES, pixels += 3 * PLANE) {
        if (records[0] >= CIFAR10_CLASSES)
            return err_set(e, ERR_FORMAT, "record %zu has label %d of %d classes", i, records[0],
                           CIFAR10_CLASSES);
        labels[i] = records[0];
        for (int p = 0; p < PLANE; p++)
            for (int k = 0; k < 3; k++)
                pixels[p * 3 + k] = records[1 + k * PLANE + p];
    }
    return 0;
}

static const char *cifar10_find(struct arena *a, const char *path) {
    for (size_t i = 0; i < sizeof cifar10_folders / sizeof cifar10_folders[0]; i++) {
        const char *dir = cifar10_folders[i][0] ? file_join(a, path, cifar10_folders[i]) : path;
        for (int s = 0; s < DATASET_SPLITS; s++)
            if (file_exists(file_join(a, dir, cifar10_files[s][0])))
                return dir;
    }
    return NULL;
}

static bool cifar10_detect(const char *path) {
    struct arena scratch = {0};
    bool found = cifar10_find(&scratch, path) != NULL;
    arena_fini(&scratch);
    return found;
}

static int cifar10_identify(struct source *s, struct err *e) {
    struct cifar10 *c = s->impl = arena_new(&s->arena, struct cifar10, 1);
    const char *dir = cifar10_find(&s->arena, s->config->source);
    if (!dir)
        return err_set(e, ERR_NOT_FOUND, "no %s", cifar10_files[s->config->split][0]);
    c->dir = arena_strdup(&s->arena, dir);
    for (int i = 0; cifar10_files[s->config->split][i]; i++) {
        const char *path = file_join(&s->arena, dir, cifar10_files[s->config->split][i]);
        struct stat st;
        if (stat(path, &st) < 0)
            return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "reading '%s'", path);
        if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size % CIFAR10_RECORD_BYTES != 0 ||
            st.st_size / CIFAR10_RECORD_BYTES > CIFAR10_RECORDS_MAX)
            return err_set(e, ERR_FORMAT,
                           "'%s' of %lld bytes is not a file of 1 to %d records of %d bytes", path,
                           (long long)st.st_size, CIFAR10_RECORDS_MAX, CIFAR10_RECORD_BYTES);
        c->bytes[i] = (size_t)st.st_size;
        const int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
        hash_add(&s->identity, path, strlen(path) + 1);
        hash_add(&s->identity, facts, sizeof facts);
    }
    return 0;
}

// batches.meta.txt has one name per line; the usual ones where it is absent.
static void cifar10_read_names(struct source *s) {
    const struct cifar10 *c = s->impl;
    struct err ignored;
    char *text, **line;
    size_t len;
    s->class_names = arena_new(&s->arena, const char *, CIFAR10_CLASSES);
    memcpy(s->class_names, cifar10_names, sizeof cifar10_names);
    if (file_read(&s->arena, file_join(&s->arena, c->dir, "batches.meta.txt"),
                  CIFAR10_META_BYTES_MAX, &text, &len, &ignored) < 0)
        return;
    size_t lines = str_split(&s->arena, text, '\n', &line);
    if (lines < CIFAR10_CLASSES)
        return;
    for (int i = 0; i < CIFAR10_CLASSES; i++)
        if (!str_is_name(line[i], DATASET_CLASS_NAME_BYTES_MAX - 1))
            return;
    for (int i = 0; i < CIFAR10_CLASSES; i++)
        s->class_names[i] = line[i];
}

static int cifar10_open(struct source *s, struct err *e) {
    const struct cifar10 *c = s->impl;
    if (s->config->image_size != 0 && s->config->image_size != CIFAR10_SIDE)
        return err_set(e, ERR_CONFIG, "CIFAR-10 has images of %d pixels, not %d", CIFAR10_SIDE,
                       s->config->image_size);
    for (int i = 0; i < CIFAR10_FILES_MAX; i++)
        s->samples += (uint32_t)(c->bytes[i] / CIFAR10_RECORD_BYTES);
    s->height = s->width = CIFAR10_SIDE;
    s->channels = 3;
    s->classes = CIFAR10_CLASSES;
    cifar10_read_names(s);
    return 0;
}

static int cifar10_fill(struct source *s, uint8_t *pixels, int32_t *labels, struct err *e) {
    const struct cifar10 *c = s->impl;
    uint64_t done = 0;
    for (int i = 0; cifar10_files[s->config->split][i]; i++) {
        struct arena scratch = {0};
        const char *path = file_join(&scratch, c->dir, cifar10_files[s->config->split][i]);
        char *records;
        size_t len = 0;
        int bad = file_read(&scratch, path, c->bytes[i], &records, &len, e);
        if (bad == 0 && len != c->bytes[i])
            bad = err_set(e, ERR_FORMAT, "the file became shorter while it was read");
        if (bad == 0)
            bad =
                cifar10_convert((const uint8_t *)records, len,
                                pixels + done * 3 * CIFAR10_SIDE * CIFAR10_SIDE, labels + done, e);
        if (bad)
            err_wrap(e, "'%s'", path);
        arena_fini(&scratch);
        if (bad)
            return -1;
        done += len / CIFAR10_RECORD_BYTES;
        if (s->config->progress)
            s->config->progress(s->config->progress_ctx, done, s->samples);
    }
    return 0;
}

const struct source_kind source_cifar10 = {.name = "cifar10",
                                           .detect = cifar10_detect,
                                           .wanted = "a folder with data_batch_1.bin",
                                           .identify = cifar10_identify,
                                           .open = cifar10_open,
                                           .fill = cifar10_fill};
