// SPDX-License-Identifier: Apache-2.0
// Gives a store the content of files that lie in other folders.
#include "content/cas_donor.h"

#include "base/array.h"
#include "base/bytes.h"
#include "base/log.h"
#include "content/tree_writer.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct cas_donor_folder {
    struct place place; // only for reading
    const char *name;
    struct cas_donor_folder *next;
};

struct cas_donor_file {
    struct cas_donor_folder *folder;
    const char *path; // below the place
    uint64_t size;
    unsigned char hash[HASH_BYTES];
    uint32_t same;          // next file with this hash + 1
    bool hashed, spoilt;    // spoilt: it cannot be read, or is not what its hash says
    uint32_t first;         // of the files with this size, which knows:
    uint32_t count, looked; // how many they are, and how many were hashed if they had to be
    bool asked;             // the cache of hashes
};

// ---- the folders --------------------------------------------------------------------------------

void cas_donor_open(struct cas_donor *d, const char *cache) {
    *d = (struct cas_donor){0};
    hash_cache_open(&d->hashes, cache, false);
}

void cas_donor_add(struct cas_donor *d, const char *dir, const char *name) {
    struct cas_donor_folder *f = arena_new(&d->arena, struct cas_donor_folder, 1);
    struct err ignored;
    f->name = arena_strdup(&d->arena, name);
    if (tree_open(&f->place, dir, false, &ignored) < 0)
        return;
    f->next = d->folders;
    d->folders = f;
}

void cas_donor_close(struct cas_donor *d) {
    struct err e;
    for (struct cas_donor_folder *f = d->folders; f; f = f->next)
        tree_close(&f->place);
    if (hash_cache_save(&d->hashes, &e) < 0)
        log_warn("cannot keep the cache of hashes", "error=\"%s\"", e.text);
    hash_cache_fini(&d->hashes);
    free(d->files);
    free(d->index);
    arena_fini(&d->arena);
    *d = (struct cas_donor){0};
}

static void add_file(struct cas_donor *d, struct cas_donor_folder *f, const char *path,
                     uint64_t size) {
    array_grow(d->files, &d->room, d->count + 1);
    d->files[d->count++] = (struct cas_donor_file){.folder = f, .path = path, .size = size};
}

// Closes fd.
static void read_folder(struct cas_donor *d, struct cas_donor_folder *f, int fd, const char *below,
                        int depth) {
    enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    struct file_entries in = file_entries_at(fd, below);
    while (d->seen < CAS_DONOR_ENTRIES_MAX && file_entries_next(&in)) {
        struct stat st;
        const char *path = arena_printf(&d->arena, "%s/%s", below, in.name);
        d->seen++;
        if (strlen(path) >= FILE_PATH_BYTES_MAX || !file_entries_stat(&in, &st))
            continue;
        if (S_ISREG(st.st_mode) && st.st_size > 0)
            add_file(d, f, path, (uint64_t)st.st_size);
        else if (S_ISDIR(st.st_mode) && depth < MANIFEST_DEPTH_MAX)
            read_folder(d, f, openat(in.fd, in.name, OPEN_FOLDER), path, depth + 1);
    }
    (void)file_entries_close(&in, 0, NULL); // the rest is sent
}

static int by_size(const void *x, const void *y) {
    const struct cas_donor_file *a = x, *b = y;
    return (a->size > b->size) - (a->size < b->size);
}

// Sorts the files, so that those of one size follow each other.
static void make_groups(struct cas_donor *d) {
    if (d->count)
        qsort(d->files, d->count, sizeof *d->files, by_size);
    for (size_t i = 0, first = 0; i < d->count; i++) {
        first = d->files[i].size == d->files[first].size ? first : i;
        d->files[i].first = (uint32_t)first;
        d->files[first].count++;
    }
    for (d->index_room = 16; d->index_room < 2 * d->count;)
        d->index_room *= 2;
    d->index = heap_alloc(d->index_room * sizeof *d->index);
}

static void read_folders(struct cas_donor *d) {
    d->read = true;
    for (struct cas_donor_folder *f = d->folders; f; f = f->next)
        if (f->place.dest_fd >= 0)
            read_folder(
                d, f,
                openat(f->place.dest_fd, f->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                f->name, 0);
    make_groups(d);
}

// ---- hashes -------------------------------------------------------------------------------------

static uint32_t *slot_of(struct cas_donor *d, const unsigned char hash[HASH_BYTES]) {
    size_t i = (size_t)bytes_load(hash, 8) & (d->index_room - 1);
    while (d->index[i] && memcmp(d->files[d->index[i] - 1].hash, hash, HASH_BYTES) != 0)
        i = (i + 1) & (d->index_room - 1);
    return &d->index[i];
}

static void note_hash(struct cas_donor *d, struct cas_donor_file *f) {
    uint32_t *slot = slot_of(d, f->hash);
    f->hashed = true;
    f->same = *slot;
    *slot = (uint32_t)(f - d->files) + 1;
}

// The files whose hashes are known need not be read.
static void ask_cache(struct cas_donor *d, struct cas_donor_file *first) {
    for (struct cas_donor_file *f = first; f < first + first->count; f++) {
        struct stat st;
        if (tree_stat(&f->folder->place, f->path, &st) == 0 && S_ISREG(st.st_mode) &&
            (uint64_t)st.st_size == f->size && hash_cache_get(&d->hashes, &st, f->hash))
            note_hash(d, f);
    }
    first->asked = true;
}

// The file for reading; -1: it is gone, or another one by now.
static int open_file(const struct cas_donor_file *f, struct stat *st) {
    int fd = tree_open_existing(&f->folder->place, f->path);
    if (fd < 0 || (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && (uint64_t)st->st_size == f->size))
        return fd;
    close(fd);
    return -1;
}

// Hashes the next of the files that have no hash. False: there is none.
static bool hash_next(struct cas_donor *d, struct cas_donor_file *first) {
    struct stat st;
    struct err ignored;
    while (first->looked < first->count && first[first->looked].hashed)
        first->looked++;
    if (first->looked == first->count)
        return false;
    struct cas_donor_file *f = first + first->looked++;
    int64_t now_ns = hash_cache_now_ns();
    auto_close int fd = open_file(f, &st);
    f->spoilt = fd < 0 || hash_cache_file(fd, f->size, f->hash, &ignored) < 0;
    if (f->spoilt)
        return true;
    hash_cache_put(&d->hashes, &st, f->hash, now_ns);
    note_hash(d, f);
    return true;
}

static struct cas_donor_file *find(struct cas_donor *d, const unsigned char hash[HASH_BYTES]) {
    for (uint32_t at = *slot_of(d, hash); at; at = d->files[at - 1].same)
        if (!d->files[at - 1].spoilt)
            return &d->files[at - 1];
    return NULL;
}

// ---- content ------------------------------------------------------------------------------------

static bool take_small(struct cas *c, int fd, const unsigned char hash[HASH_BYTES], uint64_t size) {
    unsigned char *buf = heap_alloc((size_t)size), real[HASH_BYTES];
    struct err ignored;
    bool good = file_read_all(fd, buf, (size_t)size, &ignored) == 0;
    if (good)
        hash_of(real, buf, (size_t)size);
    good = good && memcmp(real, hash, HASH_BYTES) == 0 &&
           cas_add_small(c, hash, buf, (size_t)size, &ignored) == 0;
    free(buf);
    return good;
}

static bool clone_part(struct cas_part *p, int fd) {
    struct stat st;
    return ioctl(p->fd, FICLONE, fd) == 0 && fstat(p->fd, &st) == 0 &&
           (uint64_t)st.st_size == p->size;
}

static bool copy_part(struct cas *c, struct cas_part *p, int fd) {
    unsigned char *buf = heap_alloc(CAS_PIECE_BYTES);
    uint64_t room = 0;
    struct err ignored;
    bool good =
        ftruncate(p->fd, 0) == 0 && file_disk_free(c->dir, &room, &ignored) == 0 && room > p->size;
    for (uint64_t at = 0; good && at < p->size;) {
        size_t len = p->size - at < CAS_PIECE_BYTES ? (size_t)(p->size - at) : CAS_PIECE_BYTES;
        good = file_read_all(fd, buf, len, &ignored) == 0 &&
               cas_part_write(p, at, buf, len, &ignored) == 0;
        at += len;
    }
    free(buf);
    return good;
}

// The part has a name of its own, so that no transfer of the same content takes bytes from it.
static bool take_large(struct cas *c, int fd, const unsigned char hash[HASH_BYTES], uint64_t size) {
    unsigned char name[HASH_BYTES];
    struct cas_part p;
    struct err ignored;
    const char *path;
    hash_random(name, sizeof name);
    if (cas_part_open(c, &p, name, size, &ignored) < 0)
        return false;
    bool good = (clone_part(&p, fd) || copy_part(c, &p, fd)) &&
                cas_part_hash(&p, UINT64_MAX, &ignored) > 0 &&
                cas_part_adopt(c, &p, &path, &ignored) == 0;
    bool same = memcmp(p.hash, hash, HASH_BYTES) == 0;
    if (good) {
        cas_part_close(&p);
        return same;
    }
    memcpy(p.hash, name, sizeof name);
    cas_part_discard(c, &p);
    return false;
}

// The first file of this size; NULL: there is none.
static struct cas_donor_file *first_of(struct cas_donor *d, uint64_t size) {
    const struct cas_donor_file key = {.size = size};
    if (!d->read)
        read_folders(d);
    const struct cas_donor_file *any =
        d->count ? bsearch(&key, d->files, d->count, sizeof *d->files, by_size) : NULL;
    return any ? &d->files[any->first] : NULL;
}

bool cas_donor_give(struct cas_donor *d, struct cas *c, const unsigned char hash[HASH_BYTES],
                    uint64_t size) {
    struct cas_donor_file *first = first_of(d, size), *f;
    if (first && !first->asked)
        ask_cache(d, first);
    do {
        while (first && (f = find(d, hash))) {
            struct stat st;
            auto_close int fd = open_file(f, &st);
            if (fd >= 0 && (size <= CAS_SMALL_BYTES_MAX ? take_small(c, fd, hash, size)
                                                        : take_large(c, fd, hash, size)))
                return true;
            f->spoilt = true;
        }
    } while (first && hash_next(d, first));
    return false;
}
