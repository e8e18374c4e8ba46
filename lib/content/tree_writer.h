// SPDX-License-Identifier: Apache-2.0
// Puts files, folders and links below one destination folder. No component of a path is followed
// when it is a symbolic link, so nothing foreign gets written outside. Files appear whole: written
// under a name of their own, then renamed.
//
// With `replace` everything is built in a folder beside the destination, and place_switch exchanges
// the two in one step; without, things go straight into the destination.
// Blocking; not thread-safe. Errors name the path below the destination.
#ifndef CONTENT_TREE_WRITER_H
#define CONTENT_TREE_WRITER_H

#include "base/arena.h"
#include "base/err.h"
#include "content/manifest.h"
#include "sys/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { PLACE_LINK_BYTES_MIN = 16 << 20 }; // from here on a shared file beats a copy, see place_file

struct place_parent {
    int fd; // -1: none
    char path[FILE_PATH_BYTES_MAX];
};

struct place {
    struct arena arena;
    const char *dest;    // where things end up
    const char *staging; // where they are built; == dest without replace
    bool replace, ready;
    int fd;                              // of staging, once ready
    int dest_fd;                         // of dest when it exists, else -1
    struct place_parent last, dest_last; // folder used last, below fd and below dest_fd
    unsigned long serial;
};

#define PLACE_CLOSED                                                                               \
    (struct place) {                                                                               \
        .fd = -1, .dest_fd = -1, .last.fd = -1, .dest_last.fd = -1                                 \
    }
int place_open(struct place *p, const char *dest, bool replace, struct err *e);
void place_close(struct place *p); // removes an unfinished staging folder

// What is at this path of the destination as it is now; -1 with errno when nothing, or when a
// link is on the way.
int place_stat(struct place *p, const char *path, struct stat *st);
int place_open_existing(struct place *p, const char *path); // fd for reading, or -1
ssize_t place_read_link(struct place *p, const char *path, char *buf, size_t room);

// Each fills st with the finished file.
int place_bytes(struct place *p, const struct manifest_entry *n, const void *data, size_t len,
                struct stat *st, struct err *e);
// From another file: the file itself is moved (take), or cloned, or shared by hard link when it is
// large, its file system cannot clone, and the link is then read-only, or copied.
int place_file(struct place *p, const struct manifest_entry *n, const char *from, bool take,
               struct stat *st, struct err *e);
// The file or link at `from`, which is then no longer there. On another file system it is copied
// and stays: *copied says so, and the caller removes it once the destination is on its disk.
int place_move(struct place *p, const struct manifest_entry *n, const char *from, bool *copied,
               struct err *e);
// Takes over what is at this path in the destination (replace only).
int place_keep(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e);
int place_mode(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e);
int place_folder(struct place *p, const struct manifest_entry *n, struct err *e);
int place_link(struct place *p, const struct manifest_entry *n, struct err *e);
// Modes of folders, after everything is in them.
int place_folder_mode(struct place *p, const struct manifest_entry *n, struct err *e);
// The destination holds exactly what m (sorted) lists, as far as names go.
bool place_names_equal(struct place *p, const struct manifest *m);
// The new folder, and its name, are on the disk when the old one is removed.
int place_switch(struct place *p, struct err *e);

// Beside the destination while it is replaced, each with a process number behind it.
#define PLACE_NEW ".dtctl-new-"
#define PLACE_OLD ".dtctl-old-"
enum { PLACE_STALE_S = 86400 }; // a folder may be shared: the number alone says nothing
// Removes what a receiver that was killed has left there, or puts it back where it was the only
// one.
void place_tidy(struct place *p);

#endif
