// SPDX-License-Identifier: Apache-2.0
// Finds the samples of tar archives and writes a node's part of them.
#include "run/inputs/input_samples.h"

#include "base/array.h"
#include "content/tar.h"
#include "data/webdataset.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20, END_BYTES = 2 * TAR_BLOCK_BYTES };

// ---- index --------------------------------------------------------------------------------------

bool input_samples_is_archive(const struct manifest_entry *entry) {
    return entry->kind == MANIFEST_FILE && str_ends(entry->path, ".tar");
}

static int refuse_compressed(const struct manifest_entry *entry, struct err *e) {
    static const char *const ends[] = {".tar.zst", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (entry->kind == MANIFEST_FILE && str_ends(entry->path, ends[i]))
            return err_set(e, ERR_CONFIG,
                           "unit = sample: '%s' is compressed and cannot be split (try: unpack it "
                           "to a .tar, or unit = file)",
                           entry->path);
    return 0;
}

static int begin_sample(struct input_samples *s, size_t entry, uint64_t at, struct err *e) {
    if (s->count == INPUT_SAMPLES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d samples (try: unit = file)", INPUT_SAMPLES_MAX);
    array_grow(s->samples, &s->room, s->count + 1);
    s->samples[s->count++] = (struct input_sample){.entry = entry, .begin = at};
    return 0;
}

// Each sample ends where the next one begins. Members without a name of a sample belong to the
// sample before them.
static int index_archive(struct input_samples *s, size_t number, const struct manifest_entry *entry,
                         struct tar *t, struct err *e) {
    struct tar_entry member;
    char stem[TAR_PATH_BYTES_MAX] = "";
    size_t stem_len = 0, first = s->count;
    uint64_t end = 0;
    int more;
    while ((more = tar_next(t, &member, e)) > 0) {
        size_t len = 0;
        if (member.type == TAR_FILE)
            webdataset_name(member.path, &len);
        bool other = len && (len != stem_len || memcmp(stem, member.path, len) != 0);
        if ((s->count == first || (other && stem_len)) && begin_sample(s, number, end, e) < 0)
            return -1;
        if (other) {
            memcpy(stem, member.path, len);
            stem_len = len;
        }
        end = t->offset + t->pending;
        s->samples[s->count - 1].bytes = end - s->samples[s->count - 1].begin;
    }
    if (more == 0 && end > entry->size)
        return err_set(e, ERR_FORMAT, "archive ends in the middle of an entry");
    return more;
}

static void make_items(struct input_samples *s, struct arena *a, const struct manifest *m) {
    s->items = arena_new(a, struct deal_item, s->count + 1);
    for (size_t i = 0; i < s->count; i++)
        s->items[i] = (struct deal_item){
            .key = arena_printf(a, "%s/%09zu", m->entries[s->samples[i].entry].path, i),
            .bytes = s->samples[i].bytes,
        };
}

int input_samples_index(struct input_samples *s, struct arena *a, const struct manifest *m,
                        struct err *e) {
    size_t archives = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *entry = &m->entries[i];
        struct tar t = {0};
        if (refuse_compressed(entry, e) < 0)
            return -1;
        if (!input_samples_is_archive(entry))
            continue;
        archives++;
        if (tar_open(&t, entry->source, e) < 0)
            return err_wrap(e, "'%s'", entry->source);
        int result = t.seekable ? index_archive(s, i, entry, &t, e)
                                : err_set(e, ERR_CONFIG,
                                          "unit = sample: the archive is "
                                          "compressed and cannot be split");
        tar_close(&t);
        if (result < 0)
            return err_wrap(e, "'%s'", entry->source);
    }
    if (archives == 0)
        return err_set(e, ERR_CONFIG, "unit = sample: there is no .tar file");
    make_items(s, a, m);
    return 0;
}

void input_samples_free(struct input_samples *s) {
    free(s->samples);
    *s = (struct input_samples){0};
}

// ---- parts --------------------------------------------------------------------------------------

static int copy_range(int from, int to, uint64_t at, uint64_t bytes, unsigned char *buffer,
                      struct err *e) {
    while (bytes) {
        ssize_t n = pread(from, buffer, bytes < COPY_BYTES ? bytes : COPY_BYTES, (off_t)at);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "cannot read it");
        if (n == 0)
            return err_set(e, ERR_FORMAT, "it has changed while it was read");
        if (file_write_all(to, buffer, (size_t)n, e) < 0)
            return -1;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static int by_number(const void *x, const void *y) {
    size_t a = *(const size_t *)x, b = *(const size_t *)y;
    return a < b ? -1 : a > b;
}

// Writes the samples numbers[0 … count-1], all of one archive.
static int write_part(const struct input_samples *s, const char *from, const char *to,
                      const size_t *numbers, size_t count, struct err *e) {
    static const unsigned char end[END_BYTES];
    int result = 0;
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", from);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (out < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", to);
    unsigned char *buffer = heap_alloc(COPY_BYTES);
    for (size_t i = 0; i < count && result == 0; i++) {
        const struct input_sample *sample = &s->samples[numbers[i]];
        result = copy_range(in, out, sample->begin, sample->bytes, buffer, e);
    }
    if (result == 0)
        result = file_write_all(out, end, sizeof end, e);
    free(buffer);
    return result < 0 ? err_wrap(e, "'%s' to '%s'", from, to) : 0;
}

int input_samples_write(struct context *c, const struct input_samples *s,
                        const struct manifest *from, const struct deal_share *share,
                        const char *dir, const char *below, struct manifest *to, struct err *e) {
    struct arena a = {0};
    int result = 0;
    size_t *numbers = arena_new(&a, size_t, share->count);
    for (size_t i = 0; i < share->count; i++)
        numbers[i] = share->items[i];
    qsort(numbers, share->count, sizeof *numbers, by_number);
    for (size_t i = 0, next; i < share->count && result == 0; i = next) {
        size_t entry = s->samples[numbers[i]].entry;
        const char *path = from->entries[entry].path, *part = file_join(&a, dir, path);
        for (next = i; next < share->count && s->samples[numbers[next]].entry == entry;)
            next++;
        struct manifest_rules rules = {.own_too = true};
        if (context_check(c, e) < 0 || file_make_dirs(file_dir(&a, part), 0700, e) < 0 ||
            write_part(s, from->entries[entry].source, part, numbers + i, next - i, e) < 0 ||
            manifest_add_path(to, part, file_join(&a, below, path), &rules, e) < 0)
            result = -1;
    }
    arena_fini(&a);
    return result;
}
