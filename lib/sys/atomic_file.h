// SPDX-License-Identifier: Apache-2.0
// Replaces a file as a whole: written beside it under a temporary name, then synced and renamed. A
// reader sees the old file or the new one, never a part, also after a power failure.
//
//     struct atomic_file f;
//     if (atomic_file_open(&f, path, 0600, e) < 0)
//         return -1;
//     if (file_write_all(f.fd, data, len, e) < 0) {
//         atomic_file_abort(&f);
//         return -1;
//     }
//     return atomic_file_commit(&f, e);
//
// A process that dies between open and commit leaves "<path>.tmp-<16 hex digits>" behind.
#ifndef SYS_ATOMIC_FILE_H
#define SYS_ATOMIC_FILE_H

#include "base/err.h"

#include <sys/types.h>

struct atomic_file {
    int fd;                 // of the temporary file, for reading and writing; -1: closed
    char *path, *temporary; // owned
};

// mode is subject to the umask. Only a file or a link is replaced: root could lose a device. After
// an error the struct is closed.
int atomic_file_open(struct atomic_file *f, const char *path, mode_t mode, struct err *e);
// Syncs the file, renames it and syncs the folder. The struct is closed in either case. After an
// error the old file is in place, unless only the folder could not be synced.
int atomic_file_commit(struct atomic_file *f, struct err *e);
// The same without a sync, for files whose last version may be lost: after a power failure the file
// may be empty.
int atomic_file_commit_unsynced(struct atomic_file *f, struct err *e);
// Removes the temporary file. Does nothing to a closed struct, nor to a zeroed one.
void atomic_file_abort(struct atomic_file *f);

#endif
