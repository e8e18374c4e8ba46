// SPDX-License-Identifier: Apache-2.0
// Writes files, folders and links below one destination folder.
#include "content/tree_writer_impl.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

int tree_open(struct place *p, const char *dest, bool replace, struct err *e) {
    *p = PLACE_CLOSED;
    p->replace = replace;
    size_t len = strlen(dest);
    while (len > 1 && dest[len - 1] == '/')
        len--;
    p->dest = p->staging = arena_strndup(&p->arena, dest, len);
    if (len == 0 || len + 64 > FILE_PATH_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the destination path is empty or too long");
    p->dest_fd = open(p->dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dest_fd < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot open the folder '%s'", p->dest);
    if (replace)
        p->staging = arena_printf(&p->arena, "%s" PLACE_NEW "%ld", p->dest, (long)getpid());
    return 0;
}

static int get_ready(struct place *p, struct err *e) {
    if (p->ready)
        return 0;
    if (p->replace) {
        tree_tidy(p);
        if (file_remove_tree(p->staging, e) < 0)
            return -1;
    }
    if (file_make_dirs(p->staging, 0755, e) < 0)
        return -1;
    p->fd = open(p->staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->fd < 0)
        return err_errno(e, ERR_SYS, "cannot open the folder '%s'", p->staging);
    if (!p->replace && p->dest_fd < 0)
        p->dest_fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 3);
    if (!p->replace)
        tree_unfinished_begin(p);
    p->ready = true;
    return 0;
}

static void forget(struct place_parent *m) {
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

void tree_close(struct place *p) {
    struct err ignored;
    tree_unfinished_end(p);
    forget(&p->last);
    forget(&p->dest_last);
    if (p->fd >= 0)
        close(p->fd);
    if (p->dest_fd >= 0)
        close(p->dest_fd);
    if (p->replace && p->ready)
        (void)file_remove_tree(p->staging, &ignored);
    arena_fini(&p->arena);
    *p = PLACE_CLOSED;
}

// ---- walking ----------------------------------------------------------------------------------

// Opens one component as a folder. With `make`, creates it, and replaces anything else of that
// name.
static int enter(int fd, const char *name, bool make) {
    int next = openat(fd, name, OPEN_FOLDER);
    if (next >= 0 || !make)
        return next;
    if (errno == ENOTDIR || errno == ELOOP)
        (void)unlinkat(fd, name, 0);
    if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
        return -1;
    return openat(fd, name, OPEN_FOLDER);
}

// Opens the parent folder of path below base; *name is the last component. -1 with errno.
static int walk(int base, const char *path, bool make, const char **name) {
    int fd = fcntl(base, F_DUPFD_CLOEXEC, 3);
    const char *p = path;
    for (const char *slash; fd >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
        char part[256];
        size_t len = (size_t)(slash - p);
        int saved, next;
        if (len >= sizeof part) {
            close(fd);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, p, len);
        part[len] = '\0';
        next = enter(fd, part, make);
        saved = errno;
        close(fd);
        errno = saved;
        fd = next;
    }
    *name = p;
    return fd;
}

// The same with a cache of the last folder. The cache owns the returned fd.
static int remembered(struct place_parent *m, int base, const char *path, bool make,
                      const char **name) {
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (m->fd >= 0 && strlen(m->path) == len && memcmp(m->path, path, len) == 0)
        return m->fd;
    int fd = walk(base, path, make, name);
    if (fd < 0)
        return -1;
    forget(m);
    m->fd = fd;
    memcpy(m->path, path, len);
    m->path[len] = '\0';
    return fd;
}

// The parent in the staging folder, created if necessary.
int tree_parent(struct place *p, const char *path, const char **name, struct err *e) {
    if (get_ready(p, e) < 0)
        return -1;
    int fd = remembered(&p->last, p->fd, path, true, name);
    return fd < 0 ? err_errno(e, ERR_SYS, "cannot make the folder of '%s/%s'", p->dest, path) : fd;
}

// The parent in the existing destination; -1 with errno.
static int dest_parent(struct place *p, const char *path, const char **name) {
    errno = ENOENT;
    return p->dest_fd < 0 ? -1 : remembered(&p->dest_last, p->dest_fd, path, false, name);
}

int tree_stat(struct place *p, const char *path, struct stat *st) {
    const char *name;
    int fd = dest_parent(p, path, &name);
    return fd < 0 ? -1 : fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW);
}

int tree_open_existing(struct place *p, const char *path) {
    const char *name;
    int fd = dest_parent(p, path, &name);
    return fd < 0 ? -1 : openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

ssize_t tree_read_link(struct place *p, const char *path, char *buf, size_t room) {
    const char *name;
    int fd = dest_parent(p, path, &name);
    return fd < 0 ? -1 : readlinkat(fd, name, buf, room);
}

// ---- files ------------------------------------------------------------------------------------

void tree_temporary_name(struct place *p, char name[TREE_TEMPORARY_BYTES]) {
    snprintf(name, TREE_TEMPORARY_BYTES, PLACE_UNFINISHED "%s-%lu", p->token, p->serial++);
}

int tree_fail(struct place *p, int dir, const char *temporary, const char *path, struct err *e) {
    int error = errno;
    (void)unlinkat(dir, temporary, 0);
    errno = error;
    return err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, path);
}

// Fills the times for utimensat: the mtime of the entry, atime unchanged.
void tree_times(struct timespec times[2], const struct manifest_entry *n) {
    times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    times[1] = (struct timespec){n->mtime_ns / 1000000000, n->mtime_ns % 1000000000};
}

// Sets mode and time, then renames to the final name. Closes fd. A file created under its final
// name usually has the right mode, unless a umask or default ACL changed it.
int tree_finish(struct place *p, int dir, int fd, const char *temporary, const char *name,
                const struct manifest_entry *n, struct stat *st, struct err *e) {
    struct timespec times[2];
    bool renamed = temporary != name;
    int rc = 0;
    tree_times(times, n);
    if ((renamed && fchmod(fd, n->mode) < 0) || (n->mtime_ns > 0 && futimens(fd, times) < 0) ||
        (renamed && renameat(dir, temporary, dir, name) < 0) || fstat(fd, st) < 0 ||
        ((st->st_mode & 07777) != n->mode && (fchmod(fd, n->mode) < 0 || fstat(fd, st) < 0)))
        rc = tree_fail(p, dir, temporary, n->path, e);
    close(fd);
    return rc;
}

// A private staging folder allows the final name at once.
int tree_create(struct place *p, int dir, const struct manifest_entry *n, const char *name,
                char temporary[TREE_TEMPORARY_BYTES], const char **used) {
    if (p->replace) {
        *used = name;
    } else {
        tree_temporary_name(p, temporary);
        *used = temporary;
    }
    return openat(dir, *used, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, n->mode);
}

int tree_write(struct place *p, const struct manifest_entry *n, tree_fill *fill, void *ctx,
               struct stat *st, struct err *e) {
    char temporary[TREE_TEMPORARY_BYTES];
    const char *name, *used;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    int fd = tree_create(p, dir, n, name, temporary, &used);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, n->path);
    if (fill(ctx, fd, e) < 0) {
        close(fd);
        (void)unlinkat(dir, used, 0);
        return err_wrap(e, "'%s/%s'", p->dest, n->path);
    }
    return tree_finish(p, dir, fd, used, name, n, st, e);
}

struct piece {
    const void *data;
    size_t len;
};

static int fill_piece(void *ctx, int fd, struct err *e) {
    const struct piece *piece = ctx;
    return piece->len ? file_write_all(fd, piece->data, piece->len, e) : 0;
}

int tree_bytes(struct place *p, const struct manifest_entry *n, const void *data, size_t len,
               struct stat *st, struct err *e) {
    struct piece piece = {data, len};
    return tree_write(p, n, fill_piece, &piece, st, e);
}

int tree_keep(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e) {
    const char *name, *old_name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    int old = dest_parent(p, n->path, &old_name);
    int rc = old < 0 ? -1 : linkat(old, old_name, dir, name, 0);
    if (rc == 0)
        rc = fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW);
    if (rc < 0)
        (void)err_errno(e, ERR_SYS, "cannot take over '%s/%s'", p->dest, n->path);
    return rc;
}

int tree_mode(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e) {
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, n->mode) < 0 || fstat(fd, st) < 0)
        return err_errno(e, ERR_SYS, "cannot set the mode of '%s/%s'", p->dest, n->path);
    return 0;
}

int tree_remove(struct place *p, const struct manifest_entry *n, struct err *e) {
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot replace '%s/%s'", p->dest, n->path);
    return 0;
}

int tree_folder(struct place *p, const struct manifest_entry *n, struct err *e) {
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    int fd = dir < 0 ? -1 : enter(dir, name, true);
    if (dir >= 0 && fd < 0)
        return err_errno(e, ERR_SYS, "cannot make the folder '%s/%s'", p->dest, n->path);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

int tree_folder_mode(struct place *p, const struct manifest_entry *n, struct err *e) {
    struct stat st;
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & 07777) == n->mode)
        return 0;
    // Keep the folder accessible for the owner, or it could not be replaced later.
    if (fchmodat(dir, name, n->mode | 0700, 0) < 0)
        return err_errno(e, ERR_SYS, "cannot set the mode of '%s/%s'", p->dest, n->path);
    return 0;
}

int tree_link(struct place *p, const struct manifest_entry *n, struct err *e) {
    char temporary[TREE_TEMPORARY_BYTES];
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    tree_temporary_name(p, temporary);
    if (symlinkat(n->target, dir, temporary) < 0 || renameat(dir, temporary, dir, name) < 0)
        return tree_fail(p, dir, temporary, n->path, e);
    return 0;
}

int tree_hard_link(struct place *p, const struct manifest_entry *n, const char *first,
                   struct err *e) {
    char temporary[TREE_TEMPORARY_BYTES];
    const char *name, *first_name;
    struct stat st;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    auto_close int from = walk(p->fd, first, false, &first_name);
    if (from < 0 || fstatat(from, first_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "'%s' is a link to '%s', which is no file before it",
                       n->path, first);
    tree_temporary_name(p, temporary);
    if (linkat(from, first_name, dir, temporary, 0) < 0 || renameat(dir, temporary, dir, name) < 0)
        return tree_fail(p, dir, temporary, n->path, e);
    (void)unlinkat(dir, temporary, 0); // rename() is a no-op between two links to one file
    return 0;
}
