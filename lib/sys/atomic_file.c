// SPDX-License-Identifier: Apache-2.0
// Writes a temporary file beside the path, and renames it to the path.
#include "sys/atomic_file.h"

#include "base/arena.h"
#include "base/hash.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".tmp-%016llx"
enum { SUFFIX_BYTES = sizeof ".tmp-" + 16 };

static void forget(struct atomic_file *f) {
    if (f->temporary && f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->temporary);
    *f = (struct atomic_file){.fd = -1};
}

int atomic_file_open(struct atomic_file *f, const char *path, mode_t mode, struct err *e) {
    size_t bytes = strlen(path) + SUFFIX_BYTES;
    unsigned long long random;
    struct stat is;
    *f = (struct atomic_file){.fd = -1};
    if (lstat(path, &is) == 0 && !S_ISREG(is.st_mode) && !S_ISLNK(is.st_mode))
        return err_set(e, ERR_SYS, "'%s' is a folder, a device, a pipe or a socket, no file", path);
    hash_random(&random, sizeof random);
    *f = (struct atomic_file){.path = heap_alloc(strlen(path) + 1), .temporary = heap_alloc(bytes)};
    memcpy(f->path, path, strlen(path) + 1);
    snprintf(f->temporary, bytes, "%s" SUFFIX, path, random);
    f->fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (f->fd >= 0)
        return 0;
    err_errno(e, ERR_SYS, "cannot create '%s'", f->temporary);
    forget(f); // there is nothing to remove
    return -1;
}

void atomic_file_abort(struct atomic_file *f) {
    if (f->temporary)
        unlink(f->temporary);
    forget(f);
}

static int put_in_place(struct atomic_file *f, struct err *e) {
    if (rename(f->temporary, f->path) == 0)
        return 0;
    err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", f->temporary, f->path);
    atomic_file_abort(f);
    return -1;
}

int atomic_file_commit(struct atomic_file *f, struct err *e) {
    struct arena a = {0};
    if (fsync(f->fd) < 0) {
        err_errno(e, ERR_SYS, "cannot sync '%s'", f->temporary);
        atomic_file_abort(f);
        return -1;
    }
    if (put_in_place(f, e) < 0)
        return -1;
    int result = file_sync_dir(file_dir(&a, f->path), e);
    arena_fini(&a);
    forget(f);
    return result;
}

int atomic_file_commit_unsynced(struct atomic_file *f, struct err *e) {
    if (put_in_place(f, e) < 0)
        return -1;
    forget(f);
    return 0;
}
