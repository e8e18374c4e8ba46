// SPDX-License-Identifier: Apache-2.0
// Content by hash, where files arrive. Small content goes into packs (append-only files of
// records), large content into one file each, which is filled in units, by several processes at a
// time if need be, and survives a cut.
//
//     DIR/packs/NAME.pack    records: magic, u32 size, hash, bytes
//     DIR/<2 hex>/<64 hex>   whole large content
//     DIR/tmp/<hash>.part    large content on its way, and .map: one byte per unit that is there
//     DIR/hashes             hash_cache of the objects and of placed files
//
// Nothing is believed because of its name: packed content is hashed when it is read, large content
// when it is complete, and again when its stat differs from what the cache of hashes has.
// Blocking; not thread-safe; several processes may use one folder.
#ifndef CONTENT_CAS_H
#define CONTENT_CAS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "content/hash_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CAS_PIECE_BYTES = 256 << 10, // what is read and sent at a time
    CAS_UNIT_BYTES = 4 << 20,    // what is resumed, and handed to a connection, as a whole
    CAS_PACKS_MAX = 32,          // more are merged into one when nobody else uses the folder
    CAS_PACK_BUFFER_BYTES = 1 << 20,
    CAS_RECORD_HEAD_BYTES = 40,
    CAS_FOREIGN_PACKS_MAX = 4096,
};

static inline uint64_t cas_unit_count(uint64_t size) {
    return (size + CAS_UNIT_BYTES - 1) / CAS_UNIT_BYTES;
}

struct cas_slot {
    unsigned char hash[HASH_BYTES];
    uint64_t offset; // of the content
    uint32_t size;
    uint32_t pack; // number + 1; 0: empty slot
};

struct cas_pack {
    char name[40];
    int fd;
    uint64_t indexed; // bytes that the index covers
};

struct cas {
    struct arena arena;
    const char *dir;
    bool keep;   // small content is stored; without, only parts
    bool loaded; // the packs are read, which waits until somebody asks for small content
    int lock_fd;
    struct cas_pack *packs;
    size_t pack_count, pack_room;
    struct cas_slot *slots;
    size_t slot_count, slot_room;
    int own;                               // pack this process writes, -1: none yet
    struct strbuf pending;                 // records not written yet
    struct hash_cache own_hashes, *hashes; // in use: the own one, or one given
};

int cas_open(struct cas *c, const char *dir, struct err *e); // keeps content
// Without keep the caller may have a cache of hashes (NULL: none) of its own, which outlives c.
int cas_open_parts(struct cas *c, const char *dir, struct hash_cache *hashes, struct err *e);
// Writes what is pending, but not the cache of hashes; remove: deletes the folder when nothing is
// left in it.
int cas_close(struct cas *c, bool remove, struct err *e);

// Removes what is older than the limit and not among the hashes to keep (sorted by memcmp): small
// content, objects that no file shares, and parts of transfers that nobody went on with. What is
// placed is not touched: the store only saves sending it again. ERR_BUSY while a transfer uses the
// folder. dry_run: only counts.
struct cas_prune {
    const unsigned char (*keep)[HASH_BYTES];
    size_t keep_count;
    int64_t before_ns; // wall clock
    bool dry_run;
    size_t removed; // result, like bytes
    uint64_t bytes;
};
int cas_prune(struct cas *c, struct cas_prune *p, struct err *e);
// Between cas.c and cas_prune.c. Takes the folder for this process alone; false: others use it.
bool cas_alone(struct cas *c);
// Puts what is wanted (NULL: all) into one new pack, for the caller who is alone.
typedef bool cas_wanted(void *ctx, const struct cas_pack *p, const struct cas_slot *s);
int cas_rewrite(struct cas *c, cas_wanted *wanted, void *ctx, struct err *e);

int cas_load(struct cas *c, struct err *e); // before the first of these
bool cas_has_small(const struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size);
int cas_add_small(struct cas *c, const unsigned char hash[HASH_BYTES], const void *p, size_t size,
                  struct err *e);
int cas_flush(struct cas *c, struct err *e);
int cas_reload(struct cas *c, struct err *e); // takes note of what other processes have added
// buf holds size bytes. ERR_NOT_FOUND, or ERR_HASH when the pack is damaged (it is then removed).
int cas_read_small(struct cas *c, const unsigned char hash[HASH_BYTES], void *buf, size_t size,
                   struct err *e);

// Large content. path of the finished object.
const char *cas_object_path(struct cas *c, const unsigned char hash[HASH_BYTES]);
const char *cas_part_path(struct cas *c, const unsigned char hash[HASH_BYTES], const char *end);
// The object is there and its stat is known to belong to this hash.
bool cas_has_object(struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size);

struct cas_part {
    unsigned char hash[HASH_BYTES];
    uint64_t size;
    uint32_t units;
    int fd, map_fd;  // -1: closed
    uint64_t next;   // offset that continues the unit being written
    uint64_t hashed; // running covers this many bytes from the front
    struct hash running;
};

int cas_part_open(struct cas *c, struct cas_part *p, const unsigned char hash[HASH_BYTES],
                  uint64_t size, struct err *e);
int cas_part_write(struct cas_part *p, uint64_t offset, const void *data, size_t len,
                   struct err *e);
// Reads the map: one bit per unit; NULL when nothing is there. In the arena given.
unsigned char *cas_part_have(struct cas *c, struct arena *a, const unsigned char hash[HASH_BYTES],
                             uint64_t size, uint32_t *count);
bool cas_part_complete(const struct cas_part *p);
// Hashes up to `most` bytes more: 1 when it reached the end, 0 not yet.
int cas_part_hash(struct cas_part *p, uint64_t most, struct err *e);
// After the end: ERR_HASH (the part is then deleted), or the content is at *path: the object
// with keep, the part itself without.
int cas_part_finish(struct cas *c, struct cas_part *p, const char **path, struct err *e);
// Another transfer of the same content has finished the object: it is at *path, and what is left of
// the part is removed.
bool cas_part_elsewhere(struct cas *c, const struct cas_part *p, const char **path);
void cas_part_close(struct cas_part *p);

#endif
