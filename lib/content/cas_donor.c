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

// ---- work ---------------------------------------------------------------------------------------

enum { FILE_COST_BYTES = 4096 }; // of opening a file, in the time of hashing

static void spend(uint64_t *most, uint64_t bytes) {
    *most -= bytes < *most ? bytes : *most;
}

// Ends the work. A part in the store that is not adopted is removed.
static void stop(struct cas_donor *d) {
    struct cas_donor_work *w = &d->work;
    if (w->stage == CAS_DONOR_COPIES || w->stage == CAS_DONOR_VERIFIES) {
        (void)unlink(w->map_path);
        (void)unlink(w->part_path);
        close(w->fd);
    }
    if (w->stage != CAS_DONOR_IDLE)
        cas_part_close(&w->part);
    w->stage = CAS_DONOR_IDLE;
}

static void spoil(struct cas_donor *d) {
    d->work.file->spoilt = true;
    stop(d);
}

// A small file is hashed at once: allocation would cost more than hashing.
static int hash_some(struct cas_donor_work *w, uint64_t *most) {
    struct err ignored;
    uint64_t before = w->part.hashed;
    if (w->part.size <= CAS_SMALL_BYTES_MAX) {
        spend(most, w->part.size);
        return hash_cache_file(w->part.fd, w->part.size, w->file->hash, NULL, &ignored) < 0 ? -1
                                                                                            : 1;
    }
    int rc = cas_part_hash(&w->part, *most, &ignored);
    spend(most, w->part.hashed - before);
    if (rc > 0)
        hash_final(&w->part.running, w->file->hash);
    return rc;
}

// Hashes up to *most further bytes of the file.
static void hash_on(struct cas_donor *d, uint64_t *most) {
    struct cas_donor_work *w = &d->work;
    int rc = hash_some(w, most);
    if (rc < 0)
        spoil(d);
    if (rc <= 0)
        return;
    hash_cache_put(&d->hashes, &w->st, w->file->hash, w->now_ns);
    note_hash(d, w->file);
    stop(d);
}

// Begins to hash the next of the files that have no hash. False: there is none.
static bool hash_begin(struct cas_donor *d, struct cas_donor_file *first, uint64_t *most) {
    struct cas_donor_work *w = &d->work;
    while (first->looked < first->count && first[first->looked].hashed)
        first->looked++;
    if (first->looked == first->count)
        return false;
    w->file = first + first->looked++;
    w->now_ns = hash_cache_now_ns();
    int fd = open_file(w->file, &w->st);
    w->file->spoilt = fd < 0;
    spend(most, FILE_COST_BYTES);
    if (fd < 0)
        return true;
    w->part = (struct cas_part){.size = w->file->size, .fd = fd, .map_fd = -1};
    hash_init(&w->part.running);
    w->stage = CAS_DONOR_HASHES;
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

// Copies up to *most further bytes, at least one piece.
static bool copy_on(struct cas_donor_work *w, uint64_t *most) {
    struct cas_part *p = &w->part;
    unsigned char *buf = heap_alloc(CAS_PIECE_BYTES);
    struct err ignored;
    bool good = true;
    while (good && p->next < p->size && *most) {
        uint64_t left = p->size - p->next;
        size_t len = left < CAS_PIECE_BYTES ? (size_t)left : CAS_PIECE_BYTES;
        good = file_read_all(w->fd, buf, len, &ignored) == 0 &&
               cas_part_write(p, p->next, buf, len, &ignored) == 0;
        spend(most, len);
    }
    free(buf);
    return good;
}

static bool has_room(const struct cas *c, const struct cas_part *p) {
    uint64_t room = 0;
    struct err ignored;
    return ftruncate(p->fd, 0) == 0 && file_disk_free(c->dir, &room, &ignored) == 0 &&
           room > p->size;
}

// Takes the fd. The part has a name of its own, so that no transfer of the same content takes bytes
// from it.
static bool take_large(struct cas_donor *d, struct cas *c, int fd) {
    struct cas_donor_work *w = &d->work;
    unsigned char name[HASH_BYTES];
    struct err ignored;
    hash_random(name, sizeof name);
    if (cas_part_open(c, &w->part, name, w->file->size, &ignored) < 0) {
        close(fd);
        return false;
    }
    w->fd = fd;
    w->part_path = arena_strdup(&d->arena, cas_part_path(c, name, ".part"));
    w->map_path = arena_strdup(&d->arena, cas_part_path(c, name, ".map"));
    w->stage = clone_part(&w->part, fd) ? CAS_DONOR_VERIFIES : CAS_DONOR_COPIES;
    return w->stage == CAS_DONOR_VERIFIES || has_room(c, &w->part);
}

// Begins to take the content of a file. True: the store has it already.
static bool take_begin(struct cas_donor *d, struct cas *c, struct cas_donor_file *f,
                       uint64_t *most) {
    struct stat st;
    int fd = open_file(f, &st);
    d->work.file = f;
    if (fd >= 0 && f->size > CAS_SMALL_BYTES_MAX) {
        if (!take_large(d, c, fd))
            spoil(d);
        return false;
    }
    bool good = fd >= 0 && take_small(c, fd, f->hash, f->size);
    spend(most, f->size);
    f->spoilt = !good;
    if (fd >= 0)
        close(fd);
    return good;
}

// Continues with the part of a large file. True: the store has the content that its hash says.
static bool take_on(struct cas_donor *d, struct cas *c, uint64_t *most) {
    struct cas_donor_work *w = &d->work;
    struct err ignored;
    const char *path;
    if (w->stage == CAS_DONOR_COPIES && !copy_on(w, most)) {
        spoil(d);
        return false;
    }
    if (w->stage == CAS_DONOR_COPIES && w->part.next < w->part.size)
        return false;
    w->stage = CAS_DONOR_VERIFIES;
    uint64_t before = w->part.hashed;
    int rc = cas_part_hash(&w->part, *most, &ignored);
    spend(most, w->part.hashed - before);
    if (rc == 0)
        return false;
    bool good = rc > 0 && cas_part_adopt(c, &w->part, &path, &ignored) == 0 &&
                memcmp(w->part.hash, w->file->hash, HASH_BYTES) == 0;
    w->file->spoilt = !good;
    stop(d);
    return good;
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

enum cas_donor_result cas_donor_give(struct cas_donor *d, struct cas *c,
                                     const unsigned char hash[HASH_BYTES], uint64_t size,
                                     uint64_t most) {
    struct cas_donor_work *w = &d->work;
    struct cas_donor_file *first = first_of(d, size), *f;
    bool has = false;
    if (first && !first->asked)
        ask_cache(d, first);
    if (w->stage != CAS_DONOR_IDLE && w->file->size != size)
        stop(d);
    while (first && !has) {
        if (most == 0)
            return CAS_DONOR_AGAIN;
        if (w->stage == CAS_DONOR_HASHES)
            hash_on(d, &most);
        else if (w->stage != CAS_DONOR_IDLE)
            has = take_on(d, c, &most) && memcmp(w->file->hash, hash, HASH_BYTES) == 0;
        else if ((f = find(d, hash)))
            has = take_begin(d, c, f, &most);
        else if (!hash_begin(d, first, &most))
            break;
    }
    return has ? CAS_DONOR_GIVEN : CAS_DONOR_ABSENT;
}

void cas_donor_close(struct cas_donor *d) {
    struct err e;
    stop(d);
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
