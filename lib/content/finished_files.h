// SPDX-License-Identifier: Apache-2.0
// The finished files of folders that programs still write to, such as a run's output. A file is
// finished when no process has it open for writing and it has not changed for a second.
//
//     finished_files_take(&c, run, folders, known, e); // on the node; c.is_new
//     … run/closed/ is fetched to `here` …
//     finished_files_drop(here, list, known, e);       // what the node has no more
//
// run/closed/<folder>/ has hard links to the finished files. They stay from call to call, so that
// ctime, and with it a cached hash, stays. run/closed/list names all files, also those that are
// being written: the copy of an earlier content stays until the next one is finished.
//
// The process must ignore SIGIO (sys/file_writers.h).
#ifndef CONTENT_FINISHED_FILES_H
#define CONTENT_FINISHED_FILES_H

#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FINISHED_FILES_DISK_BYTES = 33, // 32 hexadecimal digits
    FINISHED_FILES_LIST_BYTES_MAX = 64 << 20,
};

struct finished_files {
    char digest[HASH_HEX_BYTES]; // of all names, and of the finished files' content as of stat
    int64_t files, bytes;        // finished ones
    bool is_new;                 // the digest is not the known one
};

// folders: names below run, NULL-terminated; absent ones are empty.
int finished_files_take(struct finished_files *out, const char *run, const char *const *folders,
                        const char *known, struct err *e);
// Writes run/closed/list of all files that are there now, where there is a list.
int finished_files_list(const char *run, const char *const *folders, struct err *e);
// The disk that a list is from: 32 digits made at random at its first one. ERR_FORMAT,
// ERR_NOT_FOUND.
int finished_files_disk(const char *list, char disk[FINISHED_FILES_DISK_BYTES], struct err *e);
// Removes from the folders below `here` the files that the list does not have.
int finished_files_drop(const char *here, const char *list, const char *const *folders,
                        struct err *e);

#endif
