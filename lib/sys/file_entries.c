// SPDX-License-Identifier: Apache-2.0
// Reads the entries of a folder, and keeps the first error until the folder is closed.
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

// A folder that is removed while it is read has no more entries.
static void fail(struct file_entries *in, int error) {
    if (error == ENOENT)
        in->is_missing = true;
    else
        in->error = error;
}

struct file_entries file_entries_at(int fd, const char *path) {
    struct file_entries in = {.fd = fd, .path = path};
    if (fd < 0) {
        fail(&in, errno);
        return in;
    }
    in.dir = fdopendir(fd);
    if (!in.dir) {
        fail(&in, errno);
        close(fd);
        in.fd = -1;
    }
    return in;
}

struct file_entries file_entries_open(const char *path) {
    return file_entries_at(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
}

bool file_entries_next(struct file_entries *in) {
    while (in->dir && !in->error) {
        errno = 0;
        const struct dirent *entry = readdir(in->dir);
        if (!entry) {
            if (errno)
                fail(in, errno);
            return false;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        in->name = entry->d_name;
        in->type = entry->d_type;
        return true;
    }
    return false;
}

bool file_entries_stat(struct file_entries *in, struct stat *st) {
    if (fstatat(in->fd, in->name, st, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    if (errno != ENOENT)
        fail(in, errno);
    return false;
}

int file_entries_close(struct file_entries *in, int rc, struct err *e) {
    if (in->dir)
        closedir(in->dir);
    in->dir = NULL;
    in->fd = -1;
    if (rc < 0 || !in->error)
        return rc < 0 ? rc : 0;
    errno = in->error;
    return e ? err_errno(e, ERR_SYS, "cannot read the folder '%s'", in->path) : -1;
}
