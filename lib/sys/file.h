// SPDX-License-Identifier: Apache-2.0
// Files: whole reads with a cap, atomic writes (temporary file, fsync, rename, fsync of the
// folder), folders, locks, removal of trees without following links.
#ifndef SYS_FILE_H
#define SYS_FILE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FILE_PATH_BYTES_MAX = 4096 };

// Whole file into the arena, NUL-terminated; ERR_NOT_FOUND, ERR_LIMIT above bytes_max. A named pipe
// is an error: workers and users can put one in the place of any file, and its open waits.
int file_read(struct arena *a, const char *path, size_t bytes_max, char **data, size_t *len,
              struct err *e);
// The same for a file that the user names on the command line, such as <(command): waits for it.
// ERR_INTERRUPTED: SIGINT, SIGTERM or SIGHUP, which the program blocks, is pending.
int file_read_piped(struct arena *a, const char *path, size_t bytes_max, char **data, size_t *len,
                    struct err *e);
int file_write_atomic(const char *path, const void *p, size_t len, mode_t mode, struct err *e);
int file_append(const char *path, const void *p, size_t len, struct err *e); // one write, O_APPEND
int file_write_all(int fd, const void *p, size_t len, struct err *e);        // blocking fd
// Writes to standard output. A reader that has gone is no error.
int file_print(const char *text, struct err *e);
int file_write_at(int fd, const void *p, size_t len, uint64_t offset, struct err *e);
int file_read_all(int fd, void *p, size_t len, struct err *e);    // exactly len
int file_make_dirs(const char *path, mode_t mode, struct err *e); // mkdir -p
int file_remove_tree(const char *path, struct err *e);            // absent is fine
// Removes the folders of a tree that contain no file; ignores errors.
void file_remove_empty(const char *path);
// Both are false when it cannot be known: `!file_exists` is no reason to take a file for absent.
bool file_exists(const char *path);
bool file_is_absent(const char *path);
int file_sync_dir(const char *path, struct err *e);
// Syncs the file system of this folder to disk.
int file_sync_disk(const char *path, struct err *e);
// Starts to write bytes of a file to disk, so that a later sync is short; len 0: to its end. Does
// not wait for them.
void file_write_back(int fd, uint64_t from, uint64_t len);

// Joins with exactly one '/'; an absolute b wins.
char *file_join(struct arena *a, const char *dir, const char *name);
const char *file_base(const char *path); // after the last '/'
char *file_dir(struct arena *a, const char *path);
char *file_absolute(struct arena *a, const char *path, struct err *e); // no link resolution
// A relative path from outside that stays below its folder: no "", ".", "..", no leading '/', no
// NUL, no double slash, components of at most 255 bytes.
bool file_is_safe_relative(const char *path, size_t len);

// Advisory whole-file lock with the holder's pid and purpose inside. wait_ms 0: one try;
// ERR_BUSY names the holder; ERR_NOT_FOUND: the holder removed the file. The fd holds the lock
// until closed.
int file_lock(const char *path, const char *purpose, int wait_ms, int *fd_out, struct err *e);
// The same of an open file, without a text: type is F_RDLCK, F_WRLCK or F_UNLCK. wait: until others
// have let go. -1: errno. The lock is of the open file description: it ends with that, and works
// over NFS as well.
int file_lock_fd(int fd, short type, bool wait);

// Free bytes for an ordinary user on the file system of path.
int file_disk_free(const char *path, uint64_t *bytes, struct err *e);

// Closes at scope end: `auto_close int fd = open(…);`
#define auto_close __attribute__((cleanup(file_close_scope)))
void file_close_scope(int *fd);

#endif
