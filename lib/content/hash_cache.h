// SPDX-License-Identifier: Apache-2.0
// Caches the SHA-256 of files by device, inode, size, mtime and ctime. Content cannot change
// without the ctime, unless the file is written within one tick of the kernel's clock after
// hashing. Fresh files are therefore not cached.
//
//     struct hash_cache c;
//     hash_cache_open(&c, path, false);           // absent or damaged: empty
//     if (!hash_cache_get(&c, &st, hash)) { …; hash_cache_put(&c, &st, hash, now_ns); }
//     hash_cache_save(&c, e); hash_cache_fini(&c);
//
// The file is read on the first lookup, or else when it is saved. Entries that other processes have
// added meanwhile are kept.
//
// With bound_to_boot, entries of files written before the last boot are ignored, since a crash may
// have lost their bytes. Not thread-safe.
#ifndef CONTENT_HASH_CACHE_H
#define CONTENT_HASH_CACHE_H

#include "base/err.h"
#include "base/hash.h"
#include "content/content_tick.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    HASH_CACHE_ENTRIES_MAX = 2000000,
    HASH_CACHE_FRESH_NS = 50000000, // several ticks of a kernel with HZ=100
};

struct hash_cache_entry {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
    unsigned char hash[HASH_BYTES];
    bool used; // used by this process: kept first when the cache is full
};

struct hash_cache {
    struct hash_cache_entry *slots; // open addressing; inode 0: empty
    size_t count, room;             // room is a power of two
    bool bound_to_boot, changed;
    char *path; // heap; NULL: none
    bool read;  // the file was read, in this state:
    uint64_t read_inode;
    int64_t read_mtime_ns;
};

void hash_cache_open(struct hash_cache *c, const char *path, bool bound_to_boot); // NULL: empty
// One cache for all users of this path in the loop's thread; the last user saves it.
struct hash_cache *hash_cache_share(const char *path);
void hash_cache_unshare(struct hash_cache *c);
bool hash_cache_get(struct hash_cache *c, const struct stat *st, unsigned char hash[HASH_BYTES]);
// now_ns: wall clock (CLOCK_REALTIME) before the file was read; HASH_CACHE_OWN for a file that this
// process has just created and no other process knows.
#define HASH_CACHE_OWN INT64_MAX
void hash_cache_put(struct hash_cache *c, const struct stat *st,
                    const unsigned char hash[HASH_BYTES], int64_t now_ns);
int hash_cache_save(struct hash_cache *c, struct err *e); // only when changed
// When other processes have saved the file since, its entries count in place of the unsaved ones.
void hash_cache_renew(struct hash_cache *c);
void hash_cache_fini(struct hash_cache *c);

int64_t hash_cache_now_ns(void);
// SHA-256 of an open file's first `size` bytes; ERR_HASH when it is shorter.
// ticks: between pieces; or NULL.
int hash_cache_file(int fd, uint64_t size, unsigned char hash[HASH_BYTES],
                    const struct content_ticks *ticks, struct err *e);

#endif
