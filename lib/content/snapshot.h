// SPDX-License-Identifier: Apache-2.0
// One whole generation of a folder that programs write to, such as a run's state. Its files are
// linked, not copied, into another folder, once nothing has changed for a second and no process has
// one of them open for writing.
//
//     snapshot_look(&l, state, e);               // l.count files, l.digest
//     const char *why = snapshot_take(&l, to, e); // NULL: `to` is whole, and l describes it
//     snapshot_close(&l);
//
// Blocks for up to six seconds. The process must ignore SIGIO: a lease that another process breaks
// sends this signal, which would end the program.
#ifndef CONTENT_SNAPSHOT_H
#define CONTENT_SNAPSHOT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot {
    struct arena arena;
    const char *dir;
    const char **names; // of files and links, below dir
    size_t count, room;
    int64_t bytes;
    char digest[HASH_HEX_BYTES]; // of names, sizes, times and inodes
};

int snapshot_look(struct snapshot *l, const char *dir, struct err *e); // absent: no files
// Replaces the folder `to`. Returns the reason why there is no whole generation now; NULL: done.
const char *snapshot_take(struct snapshot *l, const char *to, struct err *e);
void snapshot_close(struct snapshot *l);
// Whether a process has the file open for writing. The kernel may not know it of other computers.
bool snapshot_is_written(const char *path);

#endif
