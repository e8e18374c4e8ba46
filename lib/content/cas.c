// SPDX-License-Identifier: Apache-2.0
// Packs of the content store: small content.
#include "content/cas.h"

#include "base/array.h"
#include "base/bytes.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char record_magic[4] = "dtp1";

// ---- index ------------------------------------------------------------------------------------

static struct cas_slot *slot_find(const struct cas *c, const unsigned char *hash) {
    size_t i = (size_t)bytes_load(hash, 8) & (c->slot_room - 1);
    while (c->slots[i].pack && memcmp(c->slots[i].hash, hash, HASH_BYTES) != 0)
        i = (i + 1) & (c->slot_room - 1);
    return &c->slots[i];
}

static void slot_put(struct cas *c, const unsigned char *hash, size_t pack, uint64_t offset,
                     uint32_t size) {
    if (c->slot_count * 4 >= c->slot_room * 3) {
        struct cas_slot *old = c->slots;
        size_t room = c->slot_room;
        c->slot_room = room ? 2 * room : 1024;
        c->slots = heap_alloc(c->slot_room * sizeof *c->slots);
        for (size_t i = 0; i < room; i++)
            if (old[i].pack)
                *slot_find(c, old[i].hash) = old[i];
        free(old);
    }
    struct cas_slot *s = slot_find(c, hash);
    c->slot_count += s->pack == 0;
    memcpy(s->hash, hash, HASH_BYTES);
    s->pack = (uint32_t)pack + 1;
    s->offset = offset;
    s->size = size;
}

bool cas_has_small(const struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size) {
    const struct cas_slot *s = c->slot_room ? slot_find(c, hash) : NULL;
    return s && s->pack && s->size == size;
}

// Indexes all complete records behind the indexed part; a torn record at the end is ignored.
static int index_pack(struct cas *c, size_t number, struct err *e) {
    struct cas_pack *p = &c->packs[number];
    struct stat st;
    if (fstat(p->fd, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot look at the pack '%s'", p->name);
    uint64_t end = (uint64_t)st.st_size;
    while (p->indexed + CAS_RECORD_HEAD_BYTES <= end) {
        unsigned char head[CAS_RECORD_HEAD_BYTES];
        if (pread(p->fd, head, sizeof head, (off_t)p->indexed) != (ssize_t)sizeof head)
            return err_errno(e, ERR_SYS, "cannot read the pack '%s'", p->name);
        uint64_t size = bytes_load(head + 4, 4);
        if (memcmp(head, record_magic, 4) != 0 || size > end - p->indexed - sizeof head)
            break;
        slot_put(c, head + 8, number, p->indexed + sizeof head, (uint32_t)size);
        p->indexed += sizeof head + size;
    }
    return 0;
}

static int add_pack(struct cas *c, const char *name, int flags, size_t *number, struct err *e) {
    for (size_t i = 0; i < c->pack_count; i++)
        if (strcmp(c->packs[i].name, name) == 0) {
            *number = i;
            return 0;
        }
    if (strlen(name) >= sizeof c->packs->name || c->pack_count == CAS_FOREIGN_PACKS_MAX)
        return err_set(e, ERR_LIMIT, "'%s/packs' holds files of someone else", c->dir);
    array_grow(c->packs, &c->pack_room, c->pack_count + 1);
    const char *path = arena_printf(&c->arena, "%s/packs/%s", c->dir, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", path);
    struct cas_pack *p = &c->packs[c->pack_count];
    *p = (struct cas_pack){.fd = fd};
    snprintf(p->name, sizeof p->name, "%s", name);
    *number = c->pack_count++;
    return 0;
}

static int read_packs(struct cas *c, struct err *e) {
    const char *path = arena_printf(&c->arena, "%s/packs", c->dir);
    struct file_entries in = file_entries_open(path);
    int rc = in.is_missing ? err_set(e, ERR_NOT_FOUND, "there is no folder '%s'", path) : 0;
    while (rc == 0 && file_entries_next(&in)) {
        size_t number = 0;
        if (in.name[0] == '.' || !str_ends(in.name, ".pack"))
            continue;
        rc = add_pack(c, in.name, O_RDONLY, &number, e);
        if (rc == 0 && (int)number != c->own)
            rc = index_pack(c, number, e);
    }
    return file_entries_close(&in, rc, e);
}

int cas_reload(struct cas *c, struct err *e) {
    return c->loaded ? read_packs(c, e) : 0;
}

// ---- writing ----------------------------------------------------------------------------------

static int open_own(struct cas *c, struct err *e) {
    unsigned char random[12];
    char name[40], hex[25];
    size_t number;
    hash_random(random, sizeof random);
    str_hex(hex, random, sizeof random);
    snprintf(name, sizeof name, "%s.pack", hex);
    if (add_pack(c, name, O_RDWR | O_CREAT | O_EXCL, &number, e) < 0)
        return -1;
    c->own = (int)number;
    return 0;
}

int cas_flush(struct cas *c, struct err *e) {
    if (!c->pending.len)
        return 0;
    struct cas_pack *p = &c->packs[c->own];
    if (file_write_at(p->fd, c->pending.data, c->pending.len, p->indexed - c->pending.len, e) < 0)
        return err_wrap(e, "'%s/packs/%s'", c->dir, p->name);
    strbuf_clear(&c->pending);
    return 0;
}

int cas_add_small(struct cas *c, const unsigned char hash[HASH_BYTES], const void *p, size_t size,
                  struct err *e) {
    unsigned char head[CAS_RECORD_HEAD_BYTES];
    if (cas_load(c, e) < 0)
        return -1;
    if (!c->keep || cas_has_small(c, hash, size))
        return 0;
    if (c->own < 0 && open_own(c, e) < 0)
        return -1;
    memcpy(head, record_magic, 4);
    bytes_store(head + 4, size, 4);
    memcpy(head + 8, hash, HASH_BYTES);
    strbuf_add(&c->pending, head, sizeof head);
    strbuf_add(&c->pending, p, size);
    struct cas_pack *pack = &c->packs[c->own];
    slot_put(c, hash, (size_t)c->own, pack->indexed + sizeof head, (uint32_t)size);
    pack->indexed += sizeof head + size;
    return c->pending.len >= CAS_PACK_BUFFER_BYTES ? cas_flush(c, e) : 0;
}

int cas_read_small(struct cas *c, const unsigned char hash[HASH_BYTES], void *buf, size_t size,
                   struct err *e) {
    unsigned char digest[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, hash);
    if (!cas_has_small(c, hash, size))
        return err_set(e, ERR_NOT_FOUND, "content %s is not there", hex);
    const struct cas_slot *s = slot_find(c, hash);
    const struct cas_pack *p = &c->packs[s->pack - 1];
    if ((int)s->pack - 1 == c->own && cas_flush(c, e) < 0)
        return -1;
    if (pread(p->fd, buf, size, (off_t)s->offset) == (ssize_t)size) {
        hash_of(digest, buf, size);
        if (memcmp(digest, hash, HASH_BYTES) == 0)
            return 0;
    }
    (void)unlink(arena_printf(&c->arena, "%s/packs/%s", c->dir, p->name));
    return err_set(e, ERR_HASH, "'%s/packs/%s' was damaged and has been removed; try again", c->dir,
                   p->name);
}

// ---- opening and closing ----------------------------------------------------------------------

int cas_rewrite(struct cas *c, cas_wanted *wanted, void *ctx, struct err *e) {
    unsigned char *buf = heap_alloc(
        (size_t)UINT32_MAX < CAS_PACK_BUFFER_BYTES ? (size_t)UINT32_MAX : CAS_PACK_BUFFER_BYTES);
    size_t old_count = c->pack_count, room = c->slot_room;
    struct cas_slot *old = c->slots;
    int rc = 0;
    c->slots = heap_alloc(room * sizeof *old);
    c->slot_count = 0;
    for (size_t i = 0; i < room && rc == 0; i++) {
        const struct cas_slot *s = &old[i];
        unsigned char digest[HASH_BYTES];
        if (!s->pack || s->size > CAS_PACK_BUFFER_BYTES ||
            (wanted && !wanted(ctx, &c->packs[s->pack - 1], s)) ||
            pread(c->packs[s->pack - 1].fd, buf, s->size, (off_t)s->offset) != (ssize_t)s->size)
            continue;
        hash_of(digest, buf, s->size);
        if (memcmp(digest, s->hash, HASH_BYTES) == 0)
            rc = cas_add_small(c, s->hash, buf, s->size, e);
    }
    free(old);
    free(buf);
    if (rc == 0)
        rc = cas_flush(c, e);
    if (rc == 0) // before the only other copy is removed
        rc = file_sync_disk(c->dir, e);
    for (size_t i = 0; i < old_count && rc == 0; i++)
        (void)unlink(arena_printf(&c->arena, "%s/packs/%s", c->dir, c->packs[i].name));
    return rc;
}

bool cas_alone(struct cas *c) {
    return file_lock_fd(c->lock_fd, F_WRLCK, false) == 0;
}

static int open_folder(struct cas *c, const char *dir, bool keep, struct hash_cache *hashes,
                       struct err *e) {
    *c = (struct cas){.keep = keep, .own = -1, .lock_fd = -1};
    c->dir = arena_strdup(&c->arena, dir);
    c->hashes = hashes ? hashes : &c->own_hashes;
    if (!hashes)
        hash_cache_open(c->hashes, keep ? arena_printf(&c->arena, "%s/hashes", dir) : NULL, keep);
    return file_make_dirs(arena_printf(&c->arena, "%s/tmp", dir), 0700, e);
}

int cas_open_parts(struct cas *c, const char *dir, struct hash_cache *hashes, struct err *e) {
    return open_folder(c, dir, false, hashes, e);
}

int cas_open(struct cas *c, const char *dir, struct err *e) {
    if (open_folder(c, dir, true, NULL, e) < 0)
        return -1;
    const char *lock = arena_printf(&c->arena, "%s/packs/lock", dir);
    if (file_make_dirs(arena_printf(&c->arena, "%s/packs", dir), 0700, e) < 0)
        return -1;
    c->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock_fd < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", lock);
    return file_lock_fd(c->lock_fd, F_RDLCK, true) < 0
               ? err_errno(e, ERR_SYS, "cannot lock '%s'", lock)
               : 0;
}

int cas_load(struct cas *c, struct err *e) {
    if (c->loaded || !c->keep)
        return 0;
    c->loaded = true;
    bool alone = cas_alone(c);
    int rc = read_packs(c, e);
    if (rc == 0 && alone && c->pack_count > CAS_PACKS_MAX)
        rc = cas_rewrite(c, NULL, NULL, e);
    if (file_lock_fd(c->lock_fd, F_RDLCK, true) < 0 && rc == 0)
        rc = err_errno(e, ERR_SYS, "cannot lock '%s/packs/lock'", c->dir);
    return rc;
}

int cas_close(struct cas *c, bool remove, struct err *e) {
    int rc = cas_flush(c, e);
    for (size_t i = 0; i < c->pack_count; i++)
        close(c->packs[i].fd);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    if (remove && c->dir) {
        (void)rmdir(arena_printf(&c->arena, "%s/tmp", c->dir));
        (void)rmdir(c->dir);
    }
    free(c->packs);
    free(c->slots);
    strbuf_fini(&c->pending);
    hash_cache_fini(&c->own_hashes);
    arena_fini(&c->paths);
    arena_fini(&c->arena);
    *c = (struct cas){.own = -1, .lock_fd = -1};
    return rc;
}
