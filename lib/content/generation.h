// SPDX-License-Identifier: Apache-2.0
// Whole generations of a folder's content, in a folder of their own:
//
//     FOLDER/<number>/list    path, mode, time and SHA-256 of every file; written last
//     FOLDER/<number>/state/  the files
//     FOLDER/new/             one that is being made
//
// A number is the wall clock in milliseconds, and rises. A generation gets its number by a rename
// once all of it is on disk, and loses the number by a rename before the first of its files is
// removed, so a number always stands for a whole generation. The two newest are kept. One process
// at a time writes in a folder.
//
//     generation_begin(folder, e);
//     … files into generation_new(&a, folder) …
//     generation_publish(folder, generation_next(folder), list.data, list.len, e);
#ifndef CONTENT_GENERATION_H
#define CONTENT_GENERATION_H

#include "base/str.h"
#include "content/manifest.h"

enum {
    GENERATION_KEPT = 2,
    GENERATION_LIST_BYTES_MAX = 64 << 20,
    GENERATION_FILES_MAX = 200000, // with folders and links
};

int64_t generation_newest(const char *folder); // 0: there is none; -1: it cannot be read
int64_t generation_next(const char *folder);   // for generation_publish
const char *generation_path(struct arena *a, const char *folder, int64_t number); // of its files
const char *generation_new(struct arena *a, const char *folder); // the files of `new`
int generation_begin(const char *folder, struct err *e);         // `new` is empty then
int generation_publish(const char *folder, int64_t number, const void *list, size_t len,
                       struct err *e);
// The list of a generation as bytes.
int generation_list(struct arena *a, const char *folder, int64_t number, char **list, size_t *len,
                    struct err *e);

// m: after manifest_hash.
void generation_encode(const struct manifest *m, struct strbuf *out);
// Bytes from another node: ERR_FORMAT or ERR_LIMIT. The result is sorted.
int generation_decode(const void *list, size_t len, struct manifest **out, struct err *e);

#endif
