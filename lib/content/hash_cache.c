// SPDX-License-Identifier: Apache-2.0
// A cache of file hashes, keyed by stat.
#include "content/hash_cache.h"

#include "base/arena.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// File: magic, boot id (36 bytes or zeros), count, entries of 72 bytes, SHA-256 of all before.
static const char magic[8] = "dthash1\n";
enum { BOOT_BYTES = 36, HEAD_BYTES = 8 + BOOT_BYTES + 8, ENTRY_BYTES = 5 * 8 + HASH_BYTES };
enum { READ_BYTES = 256 << 10 };

static int64_t stamp_ns(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hash_cache_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return stamp_ns(t);
}

static void boot_id(char out[BOOT_BYTES]) {
    memset(out, 0, BOOT_BYTES);
    auto_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, out, BOOT_BYTES) < BOOT_BYTES)
        memset(out, 0, BOOT_BYTES);
}

static struct hash_cache_entry *find(struct hash_cache *c, uint64_t device, uint64_t inode) {
    uint64_t h = (inode * 0x9E3779B97F4A7C15U) ^ (device * 0xC2B2AE3D27D4EB4FU);
    size_t i = (size_t)(h >> 20) & (c->room - 1);
    while (c->slots[i].inode && !(c->slots[i].inode == inode && c->slots[i].device == device))
        i = (i + 1) & (c->room - 1);
    return &c->slots[i];
}

static void grow(struct hash_cache *c, size_t count) {
    if (c->room && count * 4 < c->room * 3)
        return;
    struct hash_cache old = *c;
    c->room = c->room ? c->room : 1024;
    while (count * 4 >= c->room * 3)
        c->room *= 2;
    c->slots = heap_alloc(c->room * sizeof *c->slots);
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].inode)
            *find(c, old.slots[i].device, old.slots[i].inode) = old.slots[i];
    free(old.slots);
}

static void put(struct hash_cache *c, const struct hash_cache_entry *n, bool over) {
    grow(c, c->count + 1);
    struct hash_cache_entry *slot = find(c, n->device, n->inode);
    if (slot->inode && !over)
        return;
    c->count += slot->inode == 0;
    *slot = *n;
}

static void load(struct hash_cache *c, const char *data, size_t len) {
    unsigned char digest[HASH_BYTES];
    char boot[BOOT_BYTES];
    if (len < HEAD_BYTES + HASH_BYTES || memcmp(data, magic, sizeof magic) != 0)
        return;
    struct bytes_reader r = bytes_reader(data + sizeof magic, len - HASH_BYTES - sizeof magic);
    const char *saved = bytes_get(&r, BOOT_BYTES);
    uint64_t count = bytes_u64(&r);
    boot_id(boot);
    if (count > HASH_CACHE_ENTRIES_MAX || bytes_left(&r) != count * ENTRY_BYTES ||
        (c->bound_to_boot && memcmp(saved, boot, BOOT_BYTES) != 0))
        return;
    hash_of(digest, data, len - HASH_BYTES);
    if (memcmp(digest, data + len - HASH_BYTES, HASH_BYTES) != 0)
        return;
    grow(c, c->count + (size_t)count);
    for (uint64_t i = 0; i < count; i++) {
        struct hash_cache_entry n = {.device = bytes_u64(&r), .inode = bytes_u64(&r)};
        n.size = bytes_u64(&r);
        n.mtime_ns = (int64_t)bytes_u64(&r);
        n.ctime_ns = (int64_t)bytes_u64(&r);
        memcpy(n.hash, bytes_get(&r, HASH_BYTES), HASH_BYTES);
        if (n.inode)
            put(c, &n, false); // entries of this process are newer
    }
}

static void read_file(struct hash_cache *c) {
    struct arena a = {0};
    struct err ignored;
    struct stat st;
    char *data;
    size_t len;
    if (!c->path || stat(c->path, &st) < 0 ||
        (c->read && c->read_inode == st.st_ino && c->read_mtime_ns == stamp_ns(st.st_mtim)))
        return;
    c->read_inode = st.st_ino;
    c->read_mtime_ns = stamp_ns(st.st_mtim);
    if (file_read(&a, c->path,
                  HEAD_BYTES + HASH_BYTES + (size_t)HASH_CACHE_ENTRIES_MAX * ENTRY_BYTES, &data,
                  &len, &ignored) == 0)
        load(c, data, len);
    arena_fini(&a);
}

void hash_cache_open(struct hash_cache *c, const char *path, bool bound_to_boot) {
    *c = (struct hash_cache){.bound_to_boot = bound_to_boot, .path = heap_strdup(path)};
    grow(c, 0);
}

bool hash_cache_get(struct hash_cache *c, const struct stat *st, unsigned char hash[HASH_BYTES]) {
    if (!c->read)
        read_file(c);
    c->read = true;
    struct hash_cache_entry *n = find(c, (uint64_t)st->st_dev, (uint64_t)st->st_ino);
    if (!n->inode || n->size != (uint64_t)st->st_size || n->mtime_ns != stamp_ns(st->st_mtim) ||
        n->ctime_ns != stamp_ns(st->st_ctim))
        return false;
    n->used = true;
    memcpy(hash, n->hash, HASH_BYTES);
    return true;
}

void hash_cache_put(struct hash_cache *c, const struct stat *st,
                    const unsigned char hash[HASH_BYTES], int64_t now_ns) {
    struct hash_cache_entry n = {
        .device = (uint64_t)st->st_dev,
        .inode = (uint64_t)st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = stamp_ns(st->st_mtim),
        .ctime_ns = stamp_ns(st->st_ctim),
        .used = true,
    };
    if (!n.inode || (now_ns != HASH_CACHE_OWN && now_ns - n.ctime_ns < HASH_CACHE_FRESH_NS))
        return;
    memcpy(n.hash, hash, HASH_BYTES);
    put(c, &n, true);
    c->changed = true;
}

static int write_file(struct hash_cache *c, struct err *e) {
    bool only_used = c->count > HASH_CACHE_ENTRIES_MAX / 2;
    char boot[BOOT_BYTES];
    unsigned char field[8], digest[HASH_BYTES];
    uint64_t count = 0;
    struct strbuf b = {0};
    boot_id(boot);
    strbuf_add(&b, magic, sizeof magic);
    strbuf_add(&b, boot, sizeof boot);
    strbuf_add(&b, field, 8);
    for (size_t i = 0; i < c->room && count < HASH_CACHE_ENTRIES_MAX; i++) {
        const struct hash_cache_entry *n = &c->slots[i];
        const uint64_t values[] = {n->device, n->inode, n->size, (uint64_t)n->mtime_ns,
                                   (uint64_t)n->ctime_ns};
        if (!n->inode || (only_used && !n->used))
            continue;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            bytes_store(field, values[k], 8);
            strbuf_add(&b, field, 8);
        }
        strbuf_add(&b, n->hash, HASH_BYTES);
        count++;
    }
    bytes_store(b.data + sizeof magic + BOOT_BYTES, count, 8);
    hash_of(digest, b.data, b.len);
    strbuf_add(&b, digest, sizeof digest);
    int rc = file_write_atomic(c->path, b.data, b.len, 0600, e);
    strbuf_fini(&b);
    c->changed = rc != 0;
    return rc;
}

// Opens and locks the file until the descriptor is closed; -1: cannot lock.
static int lock_file(const char *path) {
    for (;;) {
        struct stat now, locked;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        if (file_lock_fd(fd, F_WRLCK, true) == 0 && fstat(fd, &locked) == 0 &&
            stat(path, &now) == 0 && now.st_ino != locked.st_ino) {
            close(fd); // the previous holder has replaced the file
            continue;
        }
        return fd;
    }
}

int hash_cache_save(struct hash_cache *c, struct err *e) {
    if (!c->path || !c->changed)
        return 0;
    int fd = lock_file(c->path); // held while reading, merging and writing
    read_file(c);
    c->read = true;
    int rc = write_file(c, e);
    file_close_scope(&fd);
    return rc;
}

void hash_cache_renew(struct hash_cache *c) {
    struct hash_cache fresh;
    struct stat st;
    if (!c->path || !c->read || stat(c->path, &st) < 0 ||
        (c->read_inode == st.st_ino && c->read_mtime_ns == stamp_ns(st.st_mtim)))
        return;
    hash_cache_open(&fresh, c->path, c->bound_to_boot);
    hash_cache_fini(c);
    *c = fresh;
}

void hash_cache_fini(struct hash_cache *c) {
    free(c->slots);
    free(c->path);
    *c = (struct hash_cache){0};
}

// ---- shared -----------------------------------------------------------------------------------

struct shared {
    struct hash_cache cache; // first
    int users;
    struct shared *next;
};
static struct shared *all_shared;

struct hash_cache *hash_cache_share(const char *path) {
    struct shared *s = all_shared;
    while (s && strcmp(s->cache.path, path) != 0)
        s = s->next;
    if (!s) {
        s = heap_alloc(sizeof *s);
        hash_cache_open(&s->cache, path, false);
        s->next = all_shared;
        all_shared = s;
    }
    s->users++;
    return &s->cache;
}

void hash_cache_unshare(struct hash_cache *c) {
    struct shared *s = (struct shared *)c, **at = &all_shared;
    struct err e;
    if (!c || --s->users > 0)
        return;
    if (hash_cache_save(c, &e) < 0)
        log_warn("cannot keep the cache of hashes", "error=\"%s\"", e.text);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    hash_cache_fini(c);
    free(s);
}

int hash_cache_file(int fd, uint64_t size, unsigned char hash[HASH_BYTES],
                    const struct content_ticks *ticks, struct err *e) {
    // Not more than needed: for many small files, allocation costs more than hashing.
    size_t room = size < READ_BYTES ? (size_t)size : READ_BYTES;
    unsigned char *buf = heap_realloc(NULL, room);
    struct hash h;
    uint64_t done = 0;
    hash_init(&h);
    int rc = 0;
    while (rc == 0 && done < size) {
        size_t want = size - done < room ? (size_t)(size - done) : room;
        ssize_t n = pread(fd, buf, want, (off_t)done);
        if (err_interrupted(n))
            continue;
        if (n <= 0) {
            free(buf);
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read")
                         : err_set(e, ERR_HASH, "it became shorter while it was read");
        }
        hash_add(&h, buf, (size_t)n);
        done += (uint64_t)n;
        rc = content_tick_call(ticks, (uint64_t)n, e);
    }
    hash_final(&h, hash);
    free(buf);
    return rc;
}
