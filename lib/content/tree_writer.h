// SPDX-License-Identifier: Apache-2.0
// Writes files, folders and links below one destination folder. Symbolic links in paths are never
// followed, so nothing is written outside. Files appear complete: they are written under a
// temporary name and renamed.
//
// With `replace`, everything is built in a folder beside the destination, and tree_switch
// exchanges the two in one step. Without, entries are written directly to the destination.
// Blocking; not thread-safe. Errors name the path below the destination.
#ifndef CONTENT_TREE_WRITER_H
#define CONTENT_TREE_WRITER_H

#include "base/arena.h"
#include "base/err.h"
#include "content/content_tick.h"
#include "content/manifest.h"
#include "sys/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    PLACE_LINK_BYTES_MIN = 16 << 20, // larger files are shared instead of copied, see tree_file
    PLACE_TOKEN_LENGTH = 16,         // hexadecimal digits
};

struct place_parent {
    int fd; // -1: none
    char path[FILE_PATH_BYTES_MAX];
};

struct place {
    struct arena arena;
    const char *dest;    // final folder
    const char *staging; // folder in which entries are built; == dest without replace
    bool replace, ready;
    int fd;                              // of staging, after its creation
    int dest_fd;                         // of dest when it exists, else -1
    struct place_parent last, dest_last; // folder used last, below fd and below dest_fd
    unsigned long serial;                // of the next unfinished file
    int mark_fd;                         // without replace: tree_unfinished_begin; -1: none
    struct content_ticks ticks;          // the caller's, while tree_file and tree_move copy
    char token[PLACE_TOKEN_LENGTH + 1];
};

#define PLACE_CLOSED                                                                               \
    (struct place) {                                                                               \
        .fd = -1, .dest_fd = -1, .last.fd = -1, .dest_last.fd = -1, .mark_fd = -1                  \
    }
int tree_open(struct place *p, const char *dest, bool replace, struct err *e);
void tree_close(struct place *p); // removes an unfinished staging folder

// Stats the path in the current destination; -1 with errno when it does not exist, or when a
// component is a link.
int tree_stat(struct place *p, const char *path, struct stat *st);
int tree_open_existing(struct place *p, const char *path); // fd for reading, or -1
ssize_t tree_read_link(struct place *p, const char *path, char *buf, size_t room);

// These functions fill st with the finished file.
int tree_bytes(struct place *p, const struct manifest_entry *n, const void *data, size_t len,
               struct stat *st, struct err *e);
// The same with content that `fill` writes to fd, from its front to its end.
typedef int tree_fill(void *ctx, int fd, struct err *e);
int tree_write(struct place *p, const struct manifest_entry *n, tree_fill *fill, void *ctx,
               struct stat *st, struct err *e);
enum { TREE_TEMPORARY_BYTES = 64 }; // a name until the file is complete

// Places the content of another file: the file itself is moved (TREE_TAKE), or it is cloned. On a
// file system without cloning, a large file is hard-linked, read-only (TREE_SHARE), or it is
// copied.
enum tree_from { TREE_TAKE, TREE_SHARE, TREE_COPY };
int tree_file(struct place *p, const struct manifest_entry *n, const char *from, enum tree_from how,
              struct stat *st, struct err *e);
// tree_file in steps, for an event loop. Each call copies up to *most bytes and takes them off.
// 1: placed, 0: call again, with the same arguments.
struct tree_copy { // zeroed at first
    bool open;
    int from, to;
    const char *path; // of the entry
    char temporary[TREE_TEMPORARY_BYTES];
};
int tree_file_step(struct place *p, struct tree_copy *c, const struct manifest_entry *n,
                   const char *from, enum tree_from how, uint64_t *most, struct stat *st,
                   struct err *e);
void tree_copy_close(struct place *p, struct tree_copy *c); // removes what is not placed yet
// Moves the file or link at `from`. From another file system it is copied: *copied is set, and the
// caller removes the original once the destination is synced.
int tree_move(struct place *p, const struct manifest_entry *n, const char *from, bool *copied,
              struct err *e);
// Keeps the current file of the destination (replace only).
int tree_keep(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e);
int tree_mode(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e);
// Removes the file or link, if there is one, from where entries are built.
int tree_remove(struct place *p, const struct manifest_entry *n, struct err *e);
int tree_folder(struct place *p, const struct manifest_entry *n, struct err *e);
int tree_link(struct place *p, const struct manifest_entry *n, struct err *e);
// A second name for the finished file at `first`; ERR_NOT_FOUND when there is none.
int tree_hard_link(struct place *p, const struct manifest_entry *n, const char *first,
                   struct err *e);
// Sets modes of folders after their contents are complete.
int tree_folder_mode(struct place *p, const struct manifest_entry *n, struct err *e);
// True when the names in the destination are exactly those in m (sorted).
bool tree_names_equal(struct place *p, const struct manifest *m);
// Exchanges the folders. The new folder and its name are synced before the old one is removed.
int tree_switch(struct place *p, struct err *e);

// Prefixes of temporary folders beside the destination; a process number follows.
#define PLACE_NEW ".dtctl-new-"
#define PLACE_OLD ".dtctl-old-"
enum {
    PLACE_STALE_S = 86400
}; // the process number may belong to another machine that shares the folder
// Removes folders that a killed receiver left, or restores the old folder if it is the only one.
void tree_tidy(struct place *p);

// tree_unfinished.c: names of unfinished files begin with PLACE_UNFINISHED and p->token. Chooses
// the token and marks the destination, after removing what killed writers left there. Writers that
// still work, on any host, keep theirs.
#define PLACE_UNFINISHED ".dtctl-"
void tree_unfinished_begin(struct place *p);
void tree_unfinished_end(struct place *p);

#endif
