// SPDX-License-Identifier: Apache-2.0
// The content store of a receiver: content by hash. Small content goes into packs (append-only
// files of records). Large content has one file each, which is filled in units, by several
// processes at a time if necessary, and survives an interruption.
//
//     DIR/packs/NAME.pack    records: magic, u32 size, hash, bytes
//     DIR/<2 hex>/<64 hex>   complete large content
//     DIR/tmp/<hash>.part    incomplete large content, and .map: one byte per received unit
//     DIR/hashes             hash_cache of the objects and of placed files
//
// Names are not trusted: packed content is hashed when it is read, large content when it is
// complete, and again when its stat differs from the cache of hashes. Blocking; not thread-safe;
// several processes may use one folder.
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
    CAS_SMALL_BYTES_MAX = 256 << 10, // content up to this size goes into packs
    CAS_PIECE_BYTES = 256 << 10,     // read and sent at once
    CAS_UNIT_BYTES = 4 << 20,        // unit of resumption and of assignment to a connection
    CAS_PACKS_MAX = 32, // more are merged into one when no other process uses the folder
    CAS_PACK_BUFFER_BYTES = 1 << 20,
    CAS_RECORD_HEAD_BYTES = 40,
    CAS_FOREIGN_PACKS_MAX = 4096,
};

static inline uint64_t cas_unit_count(uint64_t size) {
    return (size + CAS_UNIT_BYTES - 1) / CAS_UNIT_BYTES;
}

struct cas_slot {
    unsigned char hash[HASH_BYTES];
    uint64_t offset; // offset of the content
    uint32_t size;
    uint32_t pack; // number + 1; 0: empty slot
};

struct cas_pack {
    char name[40];
    int fd;
    uint64_t indexed; // bytes covered by the index
};

struct cas {
    struct arena arena;
    struct arena paths; // that functions below have returned
    const char *dir;
    bool keep;   // store small content; otherwise only parts
    bool loaded; // the packs have been read, which happens on the first use of small content
    int lock_fd;
    struct cas_pack *packs;
    size_t pack_count, pack_room;
    struct cas_slot *slots;
    size_t slot_count, slot_room;
    int own;                               // pack written by this process, -1: none yet
    struct strbuf pending;                 // records not written yet
    struct hash_cache own_hashes, *hashes; // in use: own_hashes, or the caller's
};

int cas_open(struct cas *c, const char *dir, struct err *e); // keeps content
// Without keep the caller may pass its own cache of hashes (NULL: none), which must outlive c.
int cas_open_parts(struct cas *c, const char *dir, struct hash_cache *hashes, struct err *e);
// Writes pending records, but not the cache of hashes. remove: deletes the folder if it is empty.
int cas_close(struct cas *c, bool remove, struct err *e);

// Removes entries older than the limit that are not among the hashes to keep (sorted by memcmp):
// small content, objects that no file shares, and parts of abandoned transfers. Placed files are
// not affected: the store only saves sending their content again. ERR_BUSY while a transfer uses
// the folder. dry_run: only counts.
struct cas_prune {
    const unsigned char (*keep)[HASH_BYTES];
    size_t keep_count;
    int64_t before_ns; // wall clock
    bool dry_run;
    size_t removed; // result, like bytes
    uint64_t bytes;
};
int cas_prune(struct cas *c, struct cas_prune *p, struct err *e);
// Shared by cas.c and cas_prune.c. Locks the folder for this process; false: others use it.
bool cas_alone(struct cas *c);
// Copies the wanted records (NULL: all) into one new pack. The caller must hold the lock.
typedef bool cas_wanted(void *ctx, const struct cas_pack *p, const struct cas_slot *s);
int cas_rewrite(struct cas *c, cas_wanted *wanted, void *ctx, struct err *e);

int cas_load(struct cas *c, struct err *e); // call before the functions below
bool cas_has_small(const struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size);
int cas_add_small(struct cas *c, const unsigned char hash[HASH_BYTES], const void *p, size_t size,
                  struct err *e);
int cas_flush(struct cas *c, struct err *e);
int cas_reload(struct cas *c, struct err *e); // indexes records added by other processes
// buf holds size bytes. ERR_NOT_FOUND, or ERR_HASH when the pack is damaged; the pack is then
// removed.
int cas_read_small(struct cas *c, const unsigned char hash[HASH_BYTES], void *buf, size_t size,
                   struct err *e);

// For processes that live long: frees all paths that functions below have returned.
void cas_forget_paths(struct cas *c);

// Large content: the path of the complete object.
const char *cas_object_path(struct cas *c, const unsigned char hash[HASH_BYTES]);
const char *cas_part_path(struct cas *c, const unsigned char hash[HASH_BYTES], const char *end);
// Opens the complete object for reading; -1 with errno.
int cas_object_open(struct cas *c, const unsigned char hash[HASH_BYTES]);
// True when the object exists and has this hash; a wrong one is removed. Hashes all of its bytes
// when its stat is unknown: after a reboot, or when it was modified through a link.
bool cas_has_object(struct cas *c, const unsigned char hash[HASH_BYTES], uint64_t size);

struct cas_part {
    unsigned char hash[HASH_BYTES];
    uint64_t size;
    uint32_t units;
    int fd, map_fd;  // -1: closed
    uint64_t next;   // offset at which the current unit continues
    uint64_t hashed; // number of bytes from the front in `running`
    struct hash running;
};

int cas_part_open(struct cas *c, struct cas_part *p, const unsigned char hash[HASH_BYTES],
                  uint64_t size, struct err *e);
// Bytes of a unit that is complete already, by another process maybe, are dropped.
int cas_part_write(struct cas_part *p, uint64_t offset, const void *data, size_t len,
                   struct err *e);
// Reads the map: one bit per unit; NULL when there is no part. In the given arena.
unsigned char *cas_part_have(struct cas *c, struct arena *a, const unsigned char hash[HASH_BYTES],
                             uint64_t size, uint32_t *count);
bool cas_part_complete(const struct cas_part *p);
// Hashes up to `most` further bytes. 1: reached the end, 0: not yet.
int cas_part_hash(struct cas_part *p, uint64_t most, struct err *e);
// Finishes a part after its end. ERR_HASH: the part was deleted. Otherwise the content is at *path:
// the object with keep, the part itself without.
int cas_part_finish(struct cas *c, struct cas_part *p, const char **path, struct err *e);
// The same for content of an unknown hash: the part was opened by any other name of HASH_BYTES
// that stands for this content alone. Its hash is in p->hash then. Needs keep.
int cas_part_adopt(struct cas *c, struct cas_part *p, const char **path, struct err *e);
void cas_part_discard(struct cas *c, struct cas_part *p); // removes and closes it
// True when another transfer has finished the object: it is at *path, and the part is removed.
bool cas_part_elsewhere(struct cas *c, const struct cas_part *p, const char **path);
void cas_part_close(struct cas_part *p);

// cas_has_object in steps, for an event loop:
//
//     struct cas_check k = {0};
//     while ((found = cas_check_object(c, &k, hash, size, &most)) == CAS_FOUND_LATER) …
//
// Each call hashes up to *most bytes, rounded up to CAS_PIECE_BYTES, and takes them off *most. One
// check is of one object at a time; another hash begins anew.
enum cas_found { CAS_ABSENT, CAS_PRESENT, CAS_FOUND_LATER };
struct cas_check {
    struct cas_part part; // the object's bytes that are hashed
    struct stat st;       // of the object, before
    int64_t now_ns;       // then
    bool open;
};
enum cas_found cas_check_object(struct cas *c, struct cas_check *k,
                                const unsigned char hash[HASH_BYTES], uint64_t size,
                                uint64_t *most);
void cas_check_close(struct cas_check *k); // no-op on a closed one

#endif
