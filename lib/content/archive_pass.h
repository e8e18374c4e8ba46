// SPDX-License-Identifier: Apache-2.0
// One pass over a tar archive whose bytes are foreign. Refused are a name that leads out of the
// folder, a device, a pipe and a sparse file. Links are the caller's to check; member_names.h finds
// members that conflict. Owners, setuid, setgid and the modes of folders do not count; the
// owner may read and write every file.
#ifndef CONTENT_ARCHIVE_PASS_H
#define CONTENT_ARCHIVE_PASS_H

#include "base/err.h"
#include "content/content_tick.h"
#include "content/tar.h"
#include "content/tree_writer.h"

#include <stddef.h>
#include <stdint.h>

enum { ARCHIVE_ENTRIES_MAX = 4000000, ARCHIVE_DEPTH_MAX = 128 /* nested folders */ };
#define ARCHIVE_BYTES_MAX (UINT64_C(1) << 40) // of all files, unpacked

struct archive_total {
    uint64_t entries, bytes; // bytes: of all files
    uint64_t disk_bytes;     // estimate of what they take on a disk
};

struct archive_pass { // zeroed but for ticks; then the caller opens tar
    struct tar tar;
    struct tar_entry entry;
    const char *name; // of the entry, without "./" in front and "/" at the end; "": the archive
    struct content_ticks ticks; // between members and between pieces of large files
    struct archive_total total;
};

// 1 with the next member, whose name and kind are fine; 0 at the end.
int archive_pass_next(struct archive_pass *p, struct err *e);
// Counts the member. ERR_LIMIT.
int archive_pass_count(struct archive_pass *p, struct err *e);
// -1 with "member 'NAME' WHY".
int archive_pass_refuse(const struct archive_pass *p, struct err *e, const char *why);
// A path as tar programs write it ("./bin/"), without what does not count: "bin". Changes path.
const char *archive_pass_plain(char *path);
// Writes the member, which was checked, at `below` and its name without the first `drop` bytes. A
// later file takes the place of an earlier one.
int archive_pass_write(struct archive_pass *p, struct place *to, size_t drop, const char *below,
                       struct err *e);

#endif
