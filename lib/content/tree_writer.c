// SPDX-License-Identifier: Apache-2.0
// Writes files, folders and links below one destination folder.
#include "content/tree_writer.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
enum { COPY_BYTES = 1 << 20 };

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
static int parent(struct place *p, const char *path, const char **name, struct err *e) {
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

static void temporary_name(struct place *p, char name[64]) {
    snprintf(name, 64, PLACE_UNFINISHED "%s-%lu", p->token, p->serial++);
}

static int fail(struct place *p, int dir, const char *temporary, const char *path, struct err *e) {
    int error = errno;
    (void)unlinkat(dir, temporary, 0);
    errno = error;
    return err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, path);
}

// Fills the times for utimensat: the mtime of the entry, atime unchanged.
static void get_times(struct timespec times[2], const struct manifest_entry *n) {
    times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    times[1] = (struct timespec){n->mtime_ns / 1000000000, n->mtime_ns % 1000000000};
}

// Sets mode and time, then renames to the final name. Closes fd. A file created under its final
// name usually has the right mode, unless a umask or default ACL changed it.
static int finish(struct place *p, int dir, int fd, const char *temporary, const char *name,
                  const struct manifest_entry *n, struct stat *st, struct err *e) {
    struct timespec times[2];
    bool renamed = temporary != name;
    int rc = 0;
    get_times(times, n);
    if ((renamed && fchmod(fd, n->mode) < 0) || (n->mtime_ns > 0 && futimens(fd, times) < 0) ||
        (renamed && renameat(dir, temporary, dir, name) < 0) || fstat(fd, st) < 0 ||
        ((st->st_mode & 07777) != n->mode && (fchmod(fd, n->mode) < 0 || fstat(fd, st) < 0)))
        rc = fail(p, dir, temporary, n->path, e);
    close(fd);
    return rc;
}

// A private staging folder allows the final name at once.
static int create(struct place *p, int dir, const struct manifest_entry *n, const char *name,
                  char temporary[64], const char **used) {
    if (p->replace) {
        *used = name;
    } else {
        temporary_name(p, temporary);
        *used = temporary;
    }
    return openat(dir, *used, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, n->mode);
}

int tree_write(struct place *p, const struct manifest_entry *n, tree_fill *fill, void *ctx,
               struct stat *st, struct err *e) {
    char temporary[64];
    const char *name, *used;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    int fd = create(p, dir, n, name, temporary, &used);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, n->path);
    if (fill(ctx, fd, e) < 0) {
        close(fd);
        (void)unlinkat(dir, used, 0);
        return err_wrap(e, "'%s/%s'", p->dest, n->path);
    }
    return finish(p, dir, fd, used, name, n, st, e);
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

// For file systems that cannot copy in the kernel.
static int copy_by_hand(int from, int to) {
    char *buf = heap_alloc(COPY_BYTES);
    struct err ignored;
    ssize_t n;
    while ((n = read(from, buf, COPY_BYTES)) > 0)
        if (file_write_all(to, buf, (size_t)n, &ignored) < 0)
            break;
    free(buf);
    return n == 0 ? 0 : -1;
}

static int copy_content(int from, int to) {
    ssize_t n;
    while ((n = copy_file_range(from, NULL, to, NULL, COPY_BYTES, 0)) > 0)
        ;
    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
        return copy_by_hand(from, to);
    return n < 0 ? -1 : 0;
}

// Hard links share one mode and time, which must not change for other users of the file.
static bool may_share(const char *from, const struct manifest_entry *n,
                      const struct timespec times[2]) {
    struct stat now;
    if (lstat(from, &now) < 0)
        return false;
    return now.st_nlink == 1 ||
           ((now.st_mode & 07777) == (n->mode & 0555) && now.st_mtim.tv_sec == times[1].tv_sec &&
            now.st_mtim.tv_nsec == times[1].tv_nsec);
}

static int share(struct place *p, int dir, const char *name, const struct manifest_entry *n,
                 const char *from, struct stat *st) {
    char temporary[64];
    struct timespec times[2];
    get_times(times, n);
    if (!may_share(from, n, times))
        return -1;
    temporary_name(p, temporary);
    if (linkat(AT_FDCWD, from, dir, temporary, 0) < 0)
        return -1;
    if (utimensat(dir, temporary, times, AT_SYMLINK_NOFOLLOW) == 0 &&
        fchmodat(dir, temporary, n->mode & 0555, 0) == 0 &&
        renameat(dir, temporary, dir, name) == 0 &&
        fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)unlinkat(dir, temporary, 0); // rename() is a no-op between two links to one file
        return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW);
    }
    (void)unlinkat(dir, temporary, 0);
    return -1;
}

int tree_file(struct place *p, const struct manifest_entry *n, const char *from, bool take,
              struct stat *st, struct err *e) {
    char temporary[64];
    const char *name, *used;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (take) {
        temporary_name(p, temporary);
        if (renameat(AT_FDCWD, from, dir, temporary) < 0)
            return err_errno(e, ERR_SYS, "cannot move '%s' to '%s/%s'", from, p->dest, n->path);
        int fd = openat(dir, temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? fail(p, dir, temporary, n->path, e)
                      : finish(p, dir, fd, temporary, name, n, st, e);
    }
    auto_close int source = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", from);
    int fd = create(p, dir, n, name, temporary, &used);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, n->path);
    if (ioctl(fd, FICLONE, source) < 0) {
        if (n->size >= PLACE_LINK_BYTES_MIN) {
            close(fd);
            (void)unlinkat(dir, used, 0);
            if (share(p, dir, name, n, from, st) == 0)
                return 0;
            fd = create(p, dir, n, name, temporary, &used);
        }
        if (fd < 0 || copy_content(source, fd) < 0) {
            if (fd >= 0)
                close(fd);
            return fail(p, dir, used, n->path, e);
        }
        file_write_back(fd, 0, 0);
    }
    return finish(p, dir, fd, used, name, n, st, e);
}

int tree_move(struct place *p, const struct manifest_entry *n, const char *from, bool *copied,
              struct err *e) {
    struct stat st;
    const char *name;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (renameat(AT_FDCWD, from, dir, name) == 0)
        return 0;
    if (errno != EXDEV)
        return err_errno(e, ERR_SYS, "cannot move '%s' to '%s/%s'", from, p->dest, n->path);
    *copied = true;
    return n->kind == MANIFEST_LINK ? tree_link(p, n, e) : tree_file(p, n, from, false, &st, e);
}

int tree_keep(struct place *p, const struct manifest_entry *n, struct stat *st, struct err *e) {
    const char *name, *old_name;
    int dir = parent(p, n->path, &name, e);
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
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, n->mode) < 0 || fstat(fd, st) < 0)
        return err_errno(e, ERR_SYS, "cannot set the mode of '%s/%s'", p->dest, n->path);
    return 0;
}

int tree_remove(struct place *p, const struct manifest_entry *n, struct err *e) {
    const char *name;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot replace '%s/%s'", p->dest, n->path);
    return 0;
}

int tree_folder(struct place *p, const struct manifest_entry *n, struct err *e) {
    const char *name;
    int dir = parent(p, n->path, &name, e);
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
    int dir = parent(p, n->path, &name, e);
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
    char temporary[64];
    const char *name;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    temporary_name(p, temporary);
    if (symlinkat(n->target, dir, temporary) < 0 || renameat(dir, temporary, dir, name) < 0)
        return fail(p, dir, temporary, n->path, e);
    return 0;
}

int tree_hard_link(struct place *p, const struct manifest_entry *n, const char *first,
                   struct err *e) {
    char temporary[64];
    const char *name, *first_name;
    struct stat st;
    int dir = parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    auto_close int from = walk(p->fd, first, false, &first_name);
    if (from < 0 || fstatat(from, first_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "'%s' is a link to '%s', which is no file before it",
                       n->path, first);
    temporary_name(p, temporary);
    if (linkat(from, first_name, dir, temporary, 0) < 0 || renameat(dir, temporary, dir, name) < 0)
        return fail(p, dir, temporary, n->path, e);
    (void)unlinkat(dir, temporary, 0); // rename() is a no-op between two links to one file
    return 0;
}
