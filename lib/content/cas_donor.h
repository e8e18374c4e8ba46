// SPDX-License-Identifier: Apache-2.0
// Folders whose files give a store content that would otherwise be sent, such as the results of an
// earlier run on this node.
//
//     cas_donor_open(&d, cache);
//     cas_donor_add(&d, "…/runs/RUN", "output"); // each folder
//     if (cas_donor_give(&d, &cas, hash, size)) … // the store has the content
//     cas_donor_close(&d);
//
// Programs of users write to the folders. No link is followed, and nothing but regular files is
// opened. The store gets a clone or a copy of a file, and hashes that: a file that changes
// meanwhile is left out. The cache of hashes only tells which file to try.
//
// Folders are read at the first cas_donor_give. Files with the size of the content are hashed until
// one has it. Blocking. A donor has no errors: content that it does not give is sent.
#ifndef CONTENT_CAS_DONOR_H
#define CONTENT_CAS_DONOR_H

#include "content/cas.h"

enum { CAS_DONOR_ENTRIES_MAX = 200000 }; // in all folders; further ones are left out

struct cas_donor_folder;
struct cas_donor_file;

struct cas_donor {
    struct arena arena;
    struct cas_donor_folder *folders;
    struct cas_donor_file *files; // sorted by size
    size_t count, room, seen;
    uint32_t *index; // open addressing by hash: file + 1
    size_t index_room;
    bool read; // the folders
    struct hash_cache hashes;
};

void cas_donor_open(struct cas_donor *d, const char *cache); // cache of hashes; NULL: none
// The folder `name` of dir, without following a link at `name`. An absent one has no files.
void cas_donor_add(struct cas_donor *d, const char *dir, const char *name);
bool cas_donor_give(struct cas_donor *d, struct cas *c, const unsigned char hash[HASH_BYTES],
                    uint64_t size);
void cas_donor_close(struct cas_donor *d);

#endif
