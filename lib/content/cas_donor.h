// SPDX-License-Identifier: Apache-2.0
// Folders whose files give a store content that would otherwise be sent, such as the results of an
// earlier run on this node.
//
//     cas_donor_open(&d, cache);
//     cas_donor_add(&d, "…/runs/RUN", "output"); // each folder
//     while ((result = cas_donor_give(&d, &cas, hash, size, STEP_BYTES)) == CAS_DONOR_AGAIN) …
//     cas_donor_close(&d);
//
// Programs of users write to the folders. No link is followed, and nothing but regular files is
// opened. The store gets a clone or a copy of a file, and hashes that: a file that changes
// meanwhile is left out. The cache of hashes only tells which file to try.
//
// Folders are read at the first cas_donor_give. Files with the size of the content are hashed until
// one has it. One call reads, hashes or copies about `most` bytes, so that its caller stays
// responsive. A donor has no errors: content that it does not give is sent.
#ifndef CONTENT_CAS_DONOR_H
#define CONTENT_CAS_DONOR_H

#include "content/cas.h"

enum { CAS_DONOR_ENTRIES_MAX = 200000 }; // in all folders; further ones are left out

struct cas_donor_folder;
struct cas_donor_file;

enum cas_donor_result {
    CAS_DONOR_ABSENT,
    CAS_DONOR_GIVEN, // the store has the content
    CAS_DONOR_AGAIN  // not yet known: the same call continues
};

// The work on one file between two calls.
struct cas_donor_work {
    enum { CAS_DONOR_IDLE, CAS_DONOR_HASHES, CAS_DONOR_COPIES, CAS_DONOR_VERIFIES } stage;
    struct cas_donor_file *file;
    struct cas_part part; // HASHES: the file, for reading; later: the part in the store
    struct stat st;       // HASHES: of the file, with the time before its first byte was read
    int64_t now_ns;
    int fd; // COPIES, VERIFIES: of the file
    const char *part_path, *map_path;
};

struct cas_donor {
    struct arena arena;
    struct cas_donor_folder *folders;
    struct cas_donor_file *files; // sorted by size
    size_t count, room, seen;
    uint32_t *index; // open addressing by hash: file + 1
    size_t index_room;
    bool read; // the folders
    struct hash_cache hashes;
    struct cas_donor_work work;
};

void cas_donor_open(struct cas_donor *d, const char *cache); // cache of hashes; NULL: none
// The folder `name` of dir, without following a link at `name`. An absent one has no files.
void cas_donor_add(struct cas_donor *d, const char *dir, const char *name);
// most: bytes, above 0. A call for other content ends the work on a file of another size.
enum cas_donor_result cas_donor_give(struct cas_donor *d, struct cas *c,
                                     const unsigned char hash[HASH_BYTES], uint64_t size,
                                     uint64_t most);
void cas_donor_close(struct cas_donor *d); // also ends the work, without a trace in the store

#endif
