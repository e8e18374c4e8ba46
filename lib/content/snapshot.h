// SPDX-License-Identifier: Apache-2.0
// One whole generation of a folder that programs write to, such as a run's state: its files as they
// are at a time when nothing but logs has changed for a second, and no process can write into a
// file of it anywhere but at its end. A log is a file that grows by what is appended to it; the
// generation has its beginning up to that time.
//
//     snapshot_scan(&l, state, e);               // l.count files, l.digest
//     const char *why = snapshot_take(&l, to, e); // NULL: `to` is whole, and l describes it
//     snapshot_close(&l);
//
// Large files are linked, logs and small files are copied, so that what is appended to them later
// is not in the generation.
//
// Blocks for up to six seconds, and as long as it copies. The process must ignore SIGIO
// (sys/file_writers.h).
#ifndef CONTENT_SNAPSHOT_H
#define CONTENT_SNAPSHOT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct snapshot_file { // or link
    const char *name;  // below dir
    uint64_t inode;
    int64_t size; // -1: it went away meanwhile
    struct timespec mtime;
    bool regular;
    bool log; // it has grown, or is open for that (snapshot_take)
};

struct snapshot {
    struct arena arena;
    const char *dir;
    struct snapshot_file *files; // sorted by name
    size_t count, room;
    int64_t bytes;
    char digest[HASH_HEX_BYTES]; // of names, sizes and times
};

int snapshot_scan(struct snapshot *l, const char *dir, struct err *e); // absent: no files
// Replaces the folder `to`. Returns the reason why there is no whole generation now; NULL: done.
const char *snapshot_take(struct snapshot *l, const char *to, struct err *e);
void snapshot_close(struct snapshot *l);

#endif
