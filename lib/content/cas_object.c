// SPDX-License-Identifier: Apache-2.0
// Large content: filled by units, then verified as a whole.
#include "content/cas.h"

#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART_OPENS_MAX = 100 };

const char *cas_object_path(struct cas *c, const unsigned char hash[HASH_BYTES]) {
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, hash);
    return arena_printf(&c->paths, "%s/%.2s/%s", c->dir, hex, hex);
}

const char *cas_part_path(struct cas *c, const unsigned char hash[HASH_BYTES], const char *end) {
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, hash);
    return arena_printf(&c->paths, "%s/tmp/%s%s", c->dir, hex, end);
}

void cas_forget_paths(struct cas *c) {
    arena_fini(&c->paths);
}

int cas_object_open(struct cas *c, const unsigned char hash[HASH_BYTES]) {
    return open(cas_object_path(c, hash), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

// ---- parts ------------------------------------------------------------------------------------

// True when the name refers to the open file.
static bool is_at(int fd, const char *path) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && lstat(path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

// Best effort: some network file systems have no locks.
static void lock_bytes(int fd, short type, uint64_t from, uint64_t len) {
    struct flock l = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)len};
    while (err_interrupted(fcntl(fd, F_OFD_SETLKW, &l)))
        ;
}

// Opens a part and its map. 0: another process has just finished the part; -1: an error.
static int open_pair(struct cas_part *p, const char *part, const char *map, struct err *e) {
    p->fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (p->fd < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", part);
    lock_bytes(p->fd, F_RDLCK, 0, 0);
    bool there = is_at(p->fd, part);
    if (there) {
        p->map_fd = open(map, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (p->map_fd < 0)
            (void)err_errno(e, ERR_SYS, "cannot open '%s'", map);
    }
    lock_bytes(p->fd, F_UNLCK, 0, 0);
    if (p->map_fd >= 0)
        return 1;
    cas_part_close(p);
    return there ? -1 : 0;
}

int cas_part_open(struct cas *c, struct cas_part *p, const unsigned char hash[HASH_BYTES],
                  uint64_t size, struct err *e) {
    const char *part = cas_part_path(c, hash, ".part"), *map = cas_part_path(c, hash, ".map");
    int result = 0;
    *p = (struct cas_part){.size = size, .fd = -1, .map_fd = -1};
    memcpy(p->hash, hash, HASH_BYTES);
    p->units = (uint32_t)cas_unit_count(size);
    for (int i = 0; result == 0 && i < PART_OPENS_MAX; i++)
        result = open_pair(p, part, map, e);
    if (result == 0)
        return err_set(e, ERR_BUSY, "'%s' is finished by others again and again; try again", part);
    hash_init(&p->running);
    return result < 0 ? -1 : 0;
}

void cas_part_close(struct cas_part *p) {
    if (p->fd >= 0)
        close(p->fd);
    if (p->map_fd >= 0)
        close(p->map_fd);
    p->fd = p->map_fd = -1;
}

// Senders of one content may disagree on its bytes: a file changes after it was hashed. A unit that
// the map has as complete is not written again, so its hash stays true.
static int write_piece(struct cas_part *p, uint64_t offset, const void *data, size_t len,
                       struct err *e) {
    uint64_t unit = offset / CAS_UNIT_BYTES, end = offset + len;
    char complete = 0;
    int result = 0;
    lock_bytes(p->map_fd, F_WRLCK, unit, 1);
    if (pread(p->map_fd, &complete, 1, (off_t)unit) != 1 || complete != 1) {
        result = file_write_at(p->fd, data, len, offset, e);
        if (result == 0 && (end % CAS_UNIT_BYTES == 0 || end == p->size))
            result = file_write_at(p->map_fd, "\1", 1, unit, e);
    }
    lock_bytes(p->map_fd, F_UNLCK, unit, 1);
    return result;
}

int cas_part_write(struct cas_part *p, uint64_t offset, const void *data, size_t len,
                   struct err *e) {
    bool starts = offset % CAS_UNIT_BYTES == 0;
    if (offset > p->size || len > p->size - offset || len == 0 || (!starts && offset != p->next) ||
        offset % CAS_UNIT_BYTES + len > CAS_UNIT_BYTES)
        return err_set(e, ERR_FORMAT, "transfer: a piece of a file out of its place");
    if (write_piece(p, offset, data, len, e) < 0)
        return -1;
    p->next = offset + len;
    if (p->next % CAS_UNIT_BYTES != 0 && p->next != p->size)
        return 0;
    // Other processes may have written parts of the unit: hash the bytes that are there.
    uint64_t begin = offset / CAS_UNIT_BYTES * CAS_UNIT_BYTES;
    file_write_back(p->fd, begin, p->next - begin);
    return p->hashed == begin && cas_part_hash(p, p->next - begin, e) < 0 ? -1 : 0;
}

unsigned char *cas_part_have(struct cas *c, struct arena *a, const unsigned char hash[HASH_BYTES],
                             uint64_t size, uint32_t *count) {
    uint64_t units = cas_unit_count(size);
    *count = 0;
    auto_close int fd = open(cas_part_path(c, hash, ".map"), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || !file_exists(cas_part_path(c, hash, ".part")))
        return NULL;
    unsigned char *map = heap_alloc((size_t)units + 1), *bits = NULL;
    ssize_t n = pread(fd, map, (size_t)units, 0);
    for (ssize_t i = 0; i < n; i++) {
        if (map[i] != 1)
            continue;
        if (!bits)
            bits = arena_new(a, unsigned char, (size_t)(units + 7) / 8);
        bits[i / 8] |= (unsigned char)(1U << (i % 8));
        ++*count;
    }
    free(map);
    return bits;
}

bool cas_part_complete(const struct cas_part *p) {
    unsigned char *map = heap_alloc((size_t)p->units + 1);
    bool good = pread(p->map_fd, map, p->units, 0) == (ssize_t)p->units;
    for (uint32_t i = 0; good && i < p->units; i++)
        good = map[i] == 1;
    free(map);
    return good;
}

int cas_part_hash(struct cas_part *p, uint64_t most, struct err *e) {
    unsigned char *buf = heap_alloc(CAS_PIECE_BYTES); // several threads may be here
    int result = 0;
    while (p->hashed < p->size && most > 0) {
        uint64_t left = p->size - p->hashed;
        size_t want = left < CAS_PIECE_BYTES ? (size_t)left : CAS_PIECE_BYTES;
        ssize_t n = pread(p->fd, buf, want, (off_t)p->hashed);
        if (err_interrupted(n))
            continue;
        if (n <= 0) {
            result = n < 0 ? err_errno(e, ERR_SYS, "cannot read the received file")
                           : err_set(e, ERR_HASH, "the received file has become shorter");
            break;
        }
        hash_add(&p->running, buf, (size_t)n);
        p->hashed += (uint64_t)n;
        most -= (uint64_t)n < most ? (uint64_t)n : most;
    }
    free(buf);
    return result < 0 ? -1 : p->hashed == p->size;
}

// Removes the part unless its name is another's by now. The map goes first: a part without a map
// is empty, but a map without its part would count units that are not there.
static void remove_part(struct cas *c, const struct cas_part *p) {
    const char *part = cas_part_path(c, p->hash, ".part");
    lock_bytes(p->fd, F_WRLCK, 0, 0);
    if (is_at(p->fd, part)) {
        (void)unlink(cas_part_path(c, p->hash, ".map"));
        (void)unlink(part);
    }
    lock_bytes(p->fd, F_UNLCK, 0, 0);
}

bool cas_part_elsewhere(struct cas *c, const struct cas_part *p, const char **path) {
    if (!c->keep || !cas_has_object(c, p->hash, p->size))
        return false;
    *path = cas_object_path(c, p->hash);
    remove_part(c, p);
    return true;
}

static int move_part(struct cas *c, const struct cas_part *p, const char *part, const char *path,
                     struct err *e) {
    struct stat st;
    if (fchmod(p->fd, 0444) < 0 || rename(part, path) < 0)
        return err_errno(e, ERR_SYS, "cannot put '%s' into place", path);
    if (fstat(p->fd, &st) == 0)
        hash_cache_put(c->hashes, &st, p->hash, HASH_CACHE_OWN);
    return 0;
}

// The name is the one that the part was opened by.
static int place_part(struct cas *c, const struct cas_part *p, const unsigned char name[HASH_BYTES],
                      const char **path, struct err *e) {
    const char *part = cas_part_path(c, name, ".part"), *map = cas_part_path(c, name, ".map");
    int result = 0;
    *path = c->keep ? cas_object_path(c, p->hash) : part;
    if (c->keep && file_make_dirs(file_dir(&c->paths, *path), 0700, e) < 0)
        return -1;
    lock_bytes(p->fd, F_WRLCK, 0, 0);
    bool there = is_at(p->fd, part);
    if (there)
        (void)unlink(map);
    if (there && c->keep)
        result = move_part(c, p, part, *path, e);
    lock_bytes(p->fd, F_UNLCK, 0, 0);
    // Another process may have put the same file into place, of which this one has the hash.
    bool placed = there || (c->keep && is_at(p->fd, *path));
    if (!placed && !cas_part_elsewhere(c, p, path))
        return err_set(e, ERR_HASH, "'%s' is gone: another transfer has finished it; try again",
                       part);
    return result;
}

int cas_part_finish(struct cas *c, struct cas_part *p, const char **path, struct err *e) {
    unsigned char real[HASH_BYTES];
    hash_final(&p->running, real);
    if (memcmp(real, p->hash, HASH_BYTES) != 0) {
        remove_part(c, p);
        return err_set(e, ERR_HASH,
                       "the received file does not match its hash (did the file change "
                       "while it was sent?); try again");
    }
    return place_part(c, p, p->hash, path, e);
}

int cas_part_adopt(struct cas *c, struct cas_part *p, const char **path, struct err *e) {
    unsigned char name[HASH_BYTES];
    must(c->keep);
    memcpy(name, p->hash, HASH_BYTES);
    hash_final(&p->running, p->hash);
    return place_part(c, p, name, path, e);
}

void cas_part_discard(struct cas *c, struct cas_part *p) {
    remove_part(c, p);
    cas_part_close(p);
}

// ---- whole objects ------------------------------------------------------------------------------

void cas_check_close(struct cas_check *k) {
    if (k->open)
        cas_part_close(&k->part);
    k->open = false;
}

static bool check_begin(struct cas *c, struct cas_check *k, const unsigned char hash[HASH_BYTES],
                        uint64_t size) {
    k->now_ns = hash_cache_now_ns();
    k->part = (struct cas_part){.size = size, .fd = cas_object_open(c, hash), .map_fd = -1};
    memcpy(k->part.hash, hash, HASH_BYTES);
    hash_init(&k->part.running);
    k->open = k->part.fd >= 0;
    return k->open && fstat(k->part.fd, &k->st) == 0;
}

// Hashes up to *most further bytes. 1: real is the object's hash, 0: not yet, -1: it cannot be
// read.
static int check_on(struct cas *c, struct cas_check *k, const char *path,
                    unsigned char real[HASH_BYTES], uint64_t *most) {
    struct err ignored;
    uint64_t before = k->part.hashed;
    int rc = cas_part_hash(&k->part, *most, &ignored);
    uint64_t took = k->part.hashed - before;
    *most -= took < *most ? took : *most;
    if (rc != 0 && !is_at(k->part.fd, path)) { // it was replaced meanwhile
        cas_check_close(k);
        return 0;
    }
    if (rc > 0) {
        hash_final(&k->part.running, real);
        hash_cache_put(c->hashes, &k->st, real, k->now_ns);
    }
    return rc;
}

enum cas_found cas_check_object(struct cas *c, struct cas_check *k,
                                const unsigned char hash[HASH_BYTES], uint64_t size,
                                uint64_t *most) {
    unsigned char real[HASH_BYTES];
    struct stat st;
    const char *path = cas_object_path(c, hash);
    int rc = 1;
    if (k->open && memcmp(k->part.hash, hash, HASH_BYTES) != 0)
        cas_check_close(k);
    if (lstat(path, &st) < 0) {
        cas_check_close(k);
        return CAS_ABSENT;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size)
        rc = -1;
    else if (!hash_cache_get(c->hashes, &st, real))
        rc = *most == 0                                 ? 0
             : k->open || check_begin(c, k, hash, size) ? check_on(c, k, path, real, most)
                                                        : -1;
    if (rc == 0)
        return CAS_FOUND_LATER;
    cas_check_close(k);
    if (rc > 0 && memcmp(real, hash, HASH_BYTES) == 0)
        return CAS_PRESENT;
    (void)unlink(path);
    return CAS_ABSENT;
}

bool cas_has_object(struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size) {
    struct cas_check k = {0};
    uint64_t most = UINT64_MAX;
    enum cas_found found;
    while ((found = cas_check_object(c, &k, hash, size, &most)) == CAS_FOUND_LATER)
        ;
    return found == CAS_PRESENT;
}
