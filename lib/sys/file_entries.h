// SPDX-License-Identifier: Apache-2.0
// The entries of a folder. A read that fails is an error and never looks like the folder's end:
//
//     struct file_entries in = file_entries_open(path);
//     while (rc == 0 && file_entries_next(&in))
//         rc = …in.name…
//     return file_entries_close(&in, rc, e);
#ifndef SYS_FILE_ENTRIES_H
#define SYS_FILE_ENTRIES_H

#include "base/err.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

struct file_entries {
    const char *name;   // of this entry, until the next call; "." and ".." are left out
    unsigned char type; // DT_…; DT_UNKNOWN: ask for it
    int fd;             // the folder, for calls like fstatat; -1: it is not open
    bool is_missing;    // there is no such folder: it has no entries, which is no error
    int error;          // errno of the first failure; 0
    const char *path;   // the caller's, for the message
    DIR *dir;
};

struct file_entries file_entries_open(const char *path);
struct file_entries file_entries_at(int fd, const char *path); // takes fd; < 0: errno says why
bool file_entries_next(struct file_entries *in);
// Looks at the entry without following a link. False: it is gone meanwhile; or it cannot be known,
// which ends the reading as a failure.
bool file_entries_stat(struct file_entries *in, struct stat *st);
// Closes the folder. Returns rc if it is negative, else 0, or -1 when the folder could not be
// opened or read to its end. e: NULL where no message is wanted.
int file_entries_close(struct file_entries *in, int rc, struct err *e);

#endif
