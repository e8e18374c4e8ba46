// SPDX-License-Identifier: Apache-2.0
// Finds and reads the binary files of CIFAR-10.
#include "data/cifar10.h"

#include "base/str.h"
#include "data/source.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    const char *path[CIFAR10_FILES_MAX];
    size_t bytes[CIFAR10_FILES_MAX]; // 0: there is no such file
    int fd[CIFAR10_FILES_MAX];       // -1: not open
    int32_t *label;
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
    for (int i = 0; i < CIFAR10_FILES_MAX; i++)
        c->fd[i] = -1;
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
        c->path[i] = path;
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
    const char **name = arena_new(&s->arena, const char *, CIFAR10_CLASSES);
    memcpy(name, cifar10_names, sizeof cifar10_names);
    s->class_names = name;
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
        name[i] = line[i];
}

// Labels of one file, read in pieces.
static int cifar10_labels(struct cifar10 *c, int file, int32_t *label, struct err *e) {
    enum { RECORDS = 256 };
    uint8_t *piece = heap_alloc((size_t)RECORDS * CIFAR10_RECORD_BYTES);
    size_t count = c->bytes[file] / CIFAR10_RECORD_BYTES;
    int bad = 0;
    for (size_t at = 0; at < count && bad == 0; at += RECORDS) {
        size_t n = count - at < RECORDS ? count - at : RECORDS;
        bad = file_read_all(c->fd[file], piece, n * CIFAR10_RECORD_BYTES, e);
        for (size_t i = 0; i < n && bad == 0; i++) {
            label[at + i] = piece[i * CIFAR10_RECORD_BYTES];
            if (label[at + i] >= CIFAR10_CLASSES)
                bad = err_set(e, ERR_FORMAT, "record %zu has label %d of %d classes", at + i,
                              label[at + i], CIFAR10_CLASSES);
        }
    }
    free(piece);
    return bad;
}

static int cifar10_open(struct source *s, struct err *e) {
    struct cifar10 *c = s->impl;
    if (s->config->image_size != 0 && s->config->image_size != CIFAR10_SIDE)
        return err_set(e, ERR_CONFIG, "CIFAR-10 has images of %d pixels, not %d", CIFAR10_SIDE,
                       s->config->image_size);
    for (int i = 0; i < CIFAR10_FILES_MAX; i++)
        s->samples += (uint32_t)(c->bytes[i] / CIFAR10_RECORD_BYTES);
    int32_t *label = c->label = heap_alloc(s->samples * sizeof *label);
    s->labels = label;
    for (int i = 0; i < CIFAR10_FILES_MAX && c->bytes[i] > 0; i++) {
        c->fd[i] = open(c->path[i], O_RDONLY | O_CLOEXEC);
        if (c->fd[i] < 0)
            return err_errno(e, ERR_SYS, "opening '%s'", c->path[i]);
        if (cifar10_labels(c, i, label, e) < 0)
            return err_wrap(e, "'%s'", c->path[i]);
        label += c->bytes[i] / CIFAR10_RECORD_BYTES;
    }
    s->height = s->width = CIFAR10_SIDE;
    s->channels = 3;
    s->classes = CIFAR10_CLASSES;
    cifar10_read_names(s);
    return 0;
}

// The file and the record in it of sample i.
static int cifar10_place(const struct cifar10 *c, uint32_t i, size_t *record) {
    int file = 0;
    *record = i;
    for (; *record >= c->bytes[file] / CIFAR10_RECORD_BYTES; file++)
        *record -= c->bytes[file] / CIFAR10_RECORD_BYTES;
    return file;
}

static int cifar10_read(const struct source *s, uint32_t i, struct source_reader *r,
                        struct sample *out, struct err *e) {
    enum { PIXELS = CIFAR10_RECORD_BYTES - 1 };
    const struct cifar10 *c = s->impl;
    uint8_t record[CIFAR10_RECORD_BYTES];
    int32_t label;
    size_t at;
    int file = cifar10_place(c, i, &at);
    uint8_t *room = source_room(r, PIXELS, 0, e);
    if (!room)
        return -1;
    ssize_t n = pread(c->fd[file], record, sizeof record, (off_t)(at * sizeof record));
    if (n < 0)
        return err_errno(e, ERR_SYS, "reading");
    if (n != (ssize_t)sizeof record)
        return err_set(e, ERR_FORMAT, "the file became shorter while it was read");
    if (cifar10_convert(record, sizeof record, room, &label, e) < 0)
        return -1;
    *out = (struct sample){room, PIXELS, true};
    return 0;
}

static void cifar10_where(const struct source *s, uint32_t i, struct strbuf *out) {
    const struct cifar10 *c = s->impl;
    size_t at;
    int file = cifar10_place(c, i, &at);
    strbuf_addf(out, "'%s': record %zu", c->path[file], at);
}

static void cifar10_close(struct source *s) {
    struct cifar10 *c = s->impl;
    for (int i = 0; c && i < CIFAR10_FILES_MAX; i++)
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    if (c)
        free(c->label);
}

const struct source_kind source_cifar10 = {.name = "cifar10",
                                           .detect = cifar10_detect,
                                           .wanted = "a folder with data_batch_1.bin",
                                           .identify = cifar10_identify,
                                           .open = cifar10_open,
                                           .read = cifar10_read,
                                           .where = cifar10_where,
                                           .close = cifar10_close};
