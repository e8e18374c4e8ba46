// SPDX-License-Identifier: Apache-2.0
// A manifest: a list of files, folders and symbolic links to transfer, each file with its SHA-256.
// Built once from local paths and from memory, hashed once, used for any number of nodes.
//
//     struct manifest *m = manifest_new();
//     manifest_add_path(m, ".", "", &(struct manifest_rules){.ignore_default = true}, e);
//     manifest_add_bytes(m, "bin/dttrain", data, size, 0755, e);
//     manifest_hash(m, cache_path, NULL, NULL, e);
//     …; manifest_free(m);
//
// Sockets, devices and fifos are skipped with a warning. Not thread-safe. Paths are relative to the
// destination folder, separated by '/', and pass file_is_safe_relative.
#ifndef CONTENT_MANIFEST_H
#define CONTENT_MANIFEST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "content/content_tick.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MANIFEST_ENTRIES_MAX = 4000000,
    MANIFEST_LINK_BYTES_MAX = 4095,
    MANIFEST_DEPTH_MAX = 128,             // nested folders
    MANIFEST_NAMES_BYTES_MAX = 256 << 20, // total of paths and link targets
};
// Limit per file: the bitmap of its missing units must fit into one frame (xfer_frame.h).
#define MANIFEST_FILE_BYTES_MAX ((uint64_t)1 << 45)
#define MANIFEST_BYTES_MAX      ((uint64_t)1 << 50) // of all files

enum manifest_kind { MANIFEST_FILE = 1, MANIFEST_FOLDER = 2, MANIFEST_LINK = 3 };

struct manifest_entry {
    const char *path;   // at the destination
    const char *source; // FILE: local path, or NULL when the content is `bytes`
    const void *bytes;
    const char *target; // LINK
    uint64_t size;      // FILE
    int64_t mtime_ns;
    uint32_t mode; // permission bits 07777 without setuid, setgid and sticky
    enum manifest_kind kind;
    bool hashed;
    unsigned char hash[HASH_BYTES]; // FILE, after manifest_hash
};

struct manifest {
    struct arena arena;
    struct manifest_entry *entries; // sorted by path after manifest_hash
    size_t count, room;
    uint64_t bytes; // of all files
    size_t names_bytes;
    size_t files;   // number of FILE entries
    size_t ignored; // paths excluded by ignore rules
    bool sorted;
};

// Folders named ".dtctl" are always excluded, since they hold keys of nodes and the state of
// clusters. own_too includes them for files to and from nodes.
struct manifest_rules {
    bool ignore_default;        // ".git", and the .dtctlignore of each folder (ignore.h)
    bool own_too;               // also ".dtctl"
    const char *const *ignore;  // additional patterns, NULL-terminated; NULL: none
    struct content_ticks ticks; // the caller's, while folders are read
};

struct manifest *manifest_new(void);
void manifest_free(struct manifest *m);

// Adds a file, or a folder with its contents (path "": the contents go directly below the
// destination). If local_path itself is a symbolic link it is followed; links inside a folder are
// kept as links.
int manifest_add_path(struct manifest *m, const char *local_path, const char *path,
                      const struct manifest_rules *rules, struct err *e);
// The caller keeps the bytes, which must outlive the manifest.
int manifest_add_bytes(struct manifest *m, const char *path, const void *bytes, size_t len,
                       uint32_t mode, struct err *e);

// True when a link at this path stays inside the folder of the list, given that all other links do:
// it goes up only at its beginning, and at most to the top.
bool manifest_link_stays(const char *path, const char *target);
// True when a component of the path is ".dtctl".
bool manifest_names_own(const char *path);

// Computes all hashes in up to `MANIFEST_THREADS_MAX` threads, using and updating the cache file
// (NULL: none; hash_cache.h). Blocking. on_progress (may be NULL) is called from this thread at
// least every 100 ms; a non-zero result stops the work (ERR_INTERRUPTED).
enum { MANIFEST_THREADS_MAX = 8 };
typedef int manifest_progress_cb(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
int manifest_hash(struct manifest *m, const char *cache_path, manifest_progress_cb *on_progress,
                  void *ctx, struct err *e);

// Appends one entry. The path must be safe and is copied. ERR_LIMIT for lists that are too large.
int manifest_append(struct manifest *m, const struct manifest_entry *entry, struct err *e);
// Sorts by path. ERR_EXISTS names a duplicate path, or a path below a file.
int manifest_sort(struct manifest *m, struct err *e);
// The order of paths in a sorted manifest: '/' sorts before all other bytes, so that the contents
// of a folder directly follow it.
int manifest_order(const char *a, const char *b);
// The index in a sorted manifest of the first entry that is not before path; m->count: none.
size_t manifest_lower_bound(const struct manifest *m, const char *path);
// One digest of all entries (paths, modes, links, hashes; not mtimes).
void manifest_digest(const struct manifest *m, unsigned char out[HASH_BYTES]);

#endif
