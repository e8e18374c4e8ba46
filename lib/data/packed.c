// SPDX-License-Identifier: Apache-2.0
// Writes, checks and maps the packed file of a split.
#include "data/packed.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char packed_magic[8] = {'D', 'T', 'P', 'A', 'C', 'K', 0, 1};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "labels are used in place");

enum { LABEL_BYTES = 4, HASHED_BYTES = 128, NAMES_OFFSET = 160 };

struct packed_layout {
    uint64_t names_bytes, labels, pixels, file;
};

static uint64_t packed_align(uint64_t v) {
    return (v + PACKED_ALIGN_BYTES - 1) / PACKED_ALIGN_BYTES * PACKED_ALIGN_BYTES;
}

// Sizes from the counts; ERR_LIMIT before anything can overflow.
static int packed_plan(const struct packed_info *i, uint64_t names_bytes, struct packed_layout *l,
                       struct err *e) {
    if (i->samples == 0 || i->classes == 0 || i->channels == 0 || i->channels > 4 ||
        i->height == 0 || i->height > 65535 || i->width == 0 || i->width > 65535)
        return err_set(e, ERR_FORMAT, "%u samples of %u x %u x %u in %u classes make no data set",
                       i->samples, i->height, i->width, i->channels, i->classes);
    if (names_bytes > PACKED_NAMES_BYTES_MAX || names_bytes < i->classes)
        return err_set(e, ERR_LIMIT, "class names of %llu bytes for %u classes (at most %d)",
                       (unsigned long long)names_bytes, i->classes, PACKED_NAMES_BYTES_MAX);
    uint64_t image = (uint64_t)i->height * i->width * i->channels;
    if (image > PACKED_FILE_BYTES_MAX / i->samples)
        return err_set(e, ERR_LIMIT, "%u images of %llu bytes are above the limit of %llu bytes",
                       i->samples, (unsigned long long)image,
                       (unsigned long long)PACKED_FILE_BYTES_MAX);
    l->names_bytes = names_bytes;
    l->labels = packed_align(NAMES_OFFSET + names_bytes);
    l->pixels = packed_align(l->labels + (uint64_t)i->samples * LABEL_BYTES);
    l->file = l->pixels + image * i->samples;
    return 0;
}

static void packed_digest(const unsigned char *bytes, uint64_t names_bytes,
                          unsigned char out[HASH_BYTES]) {
    struct hash h;
    hash_init(&h);
    hash_add(&h, bytes, HASHED_BYTES);
    hash_add(&h, bytes + NAMES_OFFSET, names_bytes);
    hash_final(&h, out);
}

static int packed_names(struct packed *p, const char *names, size_t len, struct err *e) {
    const char **list = arena_new(&p->arena, const char *, p->info.classes + (size_t)1);
    const char *at = names, *end = names + len;
    for (uint32_t i = 0; i < p->info.classes; i++) {
        const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!stop)
            return err_set(e, ERR_FORMAT, "class name %u is missing", i);
        list[i] = at;
        at = stop + 1;
    }
    p->info.class_names = list;
    return 0;
}

static int packed_check(struct packed *p, const unsigned char *b, size_t len, struct err *e) {
    if (len < PACKED_HEAD_BYTES || memcmp(b, packed_magic, sizeof packed_magic) != 0)
        return err_set(e, ERR_FORMAT, "not a packed data set (no such header)");
    if (bytes_load(b + 8, 4) != PACKED_VERSION)
        return err_set(e, ERR_FORMAT, "packed form of version %llu, this program reads %d",
                       (unsigned long long)bytes_load(b + 8, 4), PACKED_VERSION);
    struct packed_info *i = &p->info;
    i->channels = (uint32_t)bytes_load(b + 12, 4);
    i->samples = (uint32_t)bytes_load(b + 16, 4);
    i->height = (uint32_t)bytes_load(b + 20, 4);
    i->width = (uint32_t)bytes_load(b + 24, 4);
    i->classes = (uint32_t)bytes_load(b + 28, 4);
    memcpy(i->kind, b + 72, PACKED_KIND_BYTES - 1);
    memcpy(i->key, b + 96, PACKED_KEY_BYTES);
    struct packed_layout l;
    if (packed_plan(i, bytes_load(b + 40, 8), &l, e) < 0)
        return -1;
    if (bytes_load(b + 32, 8) != NAMES_OFFSET || bytes_load(b + 48, 8) != l.labels ||
        bytes_load(b + 56, 8) != l.pixels || bytes_load(b + 64, 8) != l.file || len != l.file)
        return err_set(e, ERR_FORMAT, "packed data set of %zu bytes where its header says %llu",
                       len, (unsigned long long)l.file);
    unsigned char digest[HASH_BYTES];
    packed_digest(b, l.names_bytes, digest);
    if (!hash_equal(digest, b + HASHED_BYTES, HASH_BYTES))
        return err_set(e, ERR_HASH, "header does not match its hash");
    p->labels = (const int32_t *)(const void *)(b + l.labels);
    p->pixels = b + l.pixels;
    for (uint32_t k = 0; k < i->samples; k++)
        if (p->labels[k] < 0 || (uint32_t)p->labels[k] >= i->classes)
            return err_set(e, ERR_FORMAT, "sample %u has label %d of %u classes", k, p->labels[k],
                           i->classes);
    return packed_names(p, (const char *)b + NAMES_OFFSET, l.names_bytes, e);
}

int packed_parse(struct packed *p, const void *bytes, size_t len, struct err *e) {
    memset(p, 0, sizeof *p);
    must((uintptr_t)bytes % _Alignof(int32_t) == 0);
    if (packed_check(p, bytes, len, e) == 0)
        return 0;
    packed_close(p);
    return -1;
}

int packed_open(struct packed *p, const char *path, struct err *e) {
    memset(p, 0, sizeof *p);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "opening '%s'", path);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_errno(e, ERR_SYS, "reading '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size < PACKED_HEAD_BYTES)
        return err_set(e, ERR_FORMAT, "'%s' is not a packed data set (too small)", path);
    size_t len = (size_t)st.st_size;
    void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return err_errno(e, ERR_SYS, "mapping '%s'", path);
    if (packed_parse(p, map, len, e) < 0) {
        munmap(map, len);
        return err_wrap(e, "'%s'", path);
    }
    (void)madvise(map, len, MADV_WILLNEED);
    p->map = map;
    p->map_bytes = len;
    return 0;
}

void packed_close(struct packed *p) {
    if (p->map)
        munmap(p->map, p->map_bytes);
    arena_fini(&p->arena);
    memset(p, 0, sizeof *p);
}

// Reserves the whole file, so that a full disk is an error here and not a signal while writing. The
// room is compared first: a file system that reserves until it is full leaves others without any.
static int packed_reserve(struct packed_writer *w, uint64_t bytes, struct err *e) {
    uint64_t room;
    if (file_disk_free(w->file.temporary, &room, e) < 0)
        return -1;
    int error = room < bytes ? ENOSPC : posix_fallocate(w->file.fd, 0, (off_t)bytes);
    if (error == EOPNOTSUPP || error == EINVAL)
        error = ftruncate(w->file.fd, (off_t)bytes) < 0 ? errno : 0;
    if (error == 0)
        return 0;
    char human[STR_HUMAN_BYTES_MAX];
    errno = error;
    return err_errno(e, error == ENOSPC ? ERR_LIMIT : ERR_SYS,
                     "'%s' needs %s: choose another cache folder or make room", w->file.path,
                     str_human_bytes(human, bytes));
}

static int packed_map(struct packed_writer *w, uint64_t bytes, struct err *e) {
    int flags = w->file.fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, w->file.fd, 0);
    if (map == MAP_FAILED) {
        char human[STR_HUMAN_BYTES_MAX];
        return err_errno(e, ERR_LIMIT, "no memory for a data set of %s",
                         str_human_bytes(human, bytes));
    }
    w->map = map;
    w->map_bytes = bytes;
    return 0;
}

static void packed_head(struct packed_writer *w, const struct packed_layout *l) {
    unsigned char *b = w->map;
    const struct packed_info *i = &w->info;
    memcpy(b, packed_magic, sizeof packed_magic);
    const uint32_t small[6] = {PACKED_VERSION, i->channels, i->samples,
                               i->height,      i->width,    i->classes};
    for (int k = 0; k < 6; k++)
        bytes_store(b + 8 + 4 * k, small[k], 4);
    const uint64_t large[5] = {NAMES_OFFSET, l->names_bytes, l->labels, l->pixels, l->file};
    for (int k = 0; k < 5; k++)
        bytes_store(b + 32 + 8 * k, large[k], 8);
    memcpy(b + 72, i->kind, PACKED_KIND_BYTES);
    memcpy(b + 96, i->key, PACKED_KEY_BYTES);
    char *at = (char *)b + NAMES_OFFSET;
    for (uint32_t k = 0; k < i->classes; k++)
        at = stpcpy(at, i->class_names[k]) + 1;
    packed_digest(b, l->names_bytes, b + HASHED_BYTES);
}

int packed_create(struct packed_writer *w, const char *path, const struct packed_info *info,
                  struct err *e) {
    memset(w, 0, sizeof *w);
    w->info = *info;
    w->file.fd = -1;
    uint64_t names_bytes = 0;
    for (uint32_t i = 0; i < info->classes; i++)
        names_bytes += strlen(info->class_names[i]) + 1;
    struct packed_layout l;
    if (packed_plan(info, names_bytes, &l, e) < 0)
        return -1;
    if (path && atomic_file_open(&w->file, path, 0600, e) < 0)
        return -1;
    if ((path && packed_reserve(w, l.file, e) < 0) || packed_map(w, l.file, e) < 0) {
        packed_abort(w);
        return -1;
    }
    packed_head(w, &l);
    w->labels = (int32_t *)(void *)((unsigned char *)w->map + l.labels);
    w->pixels = (uint8_t *)w->map + l.pixels;
    return 0;
}

int packed_commit(struct packed_writer *w, struct packed *p, struct err *e) {
    if (w->file.fd < 0) { // hands the memory over
        int bad = packed_parse(p, w->map, w->map_bytes, e);
        if (bad == 0) {
            p->map = w->map;
            p->map_bytes = w->map_bytes;
            w->map = NULL;
        }
        packed_abort(w);
        return bad;
    }
    struct arena scratch = {0};
    const char *path = arena_strdup(&scratch, w->file.path);
    int bad = 0;
    if (msync(w->map, w->map_bytes, MS_SYNC) < 0 || fchmod(w->file.fd, 0644) < 0)
        bad = err_errno(e, ERR_SYS, "writing '%s'", path);
    else
        bad = atomic_file_commit(&w->file, e);
    if (bad == 0)
        bad = packed_open(p, path, e);
    arena_fini(&scratch);
    packed_abort(w);
    return bad;
}

void packed_abort(struct packed_writer *w) {
    if (w->map)
        munmap(w->map, w->map_bytes);
    atomic_file_abort(&w->file);
    memset(w, 0, sizeof *w);
    w->file.fd = -1;
}
