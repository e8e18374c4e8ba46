// SPDX-License-Identifier: Apache-2.0
// Places the content of other files: moved, cloned, linked or copied.
#include "content/tree_writer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20 };

// For file systems that cannot copy in the kernel.
static ssize_t copy_by_hand(int from, int to, size_t len) {
    char *buf = heap_alloc(len);
    struct err ignored;
    ssize_t n = read(from, buf, len);
    if (n > 0 && file_write_all(to, buf, (size_t)n, &ignored) < 0)
        n = -1;
    free(buf);
    return n;
}

// 0: there is no more.
static ssize_t copy_piece(int from, int to, size_t len) {
    ssize_t n = copy_file_range(from, NULL, to, NULL, len, 0);
    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
        return copy_by_hand(from, to, len);
    return n;
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
    char temporary[TREE_TEMPORARY_BYTES];
    struct timespec times[2];
    tree_times(times, n);
    if (!may_share(from, n, times))
        return -1;
    tree_temporary_name(p, temporary);
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

static int take(struct place *p, int dir, const char *name, const struct manifest_entry *n,
                const char *from, struct stat *st, struct err *e) {
    char temporary[TREE_TEMPORARY_BYTES];
    tree_temporary_name(p, temporary);
    if (renameat(AT_FDCWD, from, dir, temporary) < 0)
        return err_errno(e, ERR_SYS, "cannot move '%s' to '%s/%s'", from, p->dest, n->path);
    int fd = openat(dir, temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? tree_fail(p, dir, temporary, n->path, e)
                  : tree_finish(p, dir, fd, temporary, name, n, st, e);
}

// Creates the file. 1: it is a clone, 0: its content is still to be copied.
static int copy_begin(struct place *p, int dir, const char *name, const struct manifest_entry *n,
                      const char *from, struct tree_copy *c, struct err *e) {
    const char *used;
    *c = (struct tree_copy){.from = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), .path = n->path};
    if (c->from < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", from);
    c->to = tree_create(p, dir, n, name, c->temporary, &used);
    if (c->to < 0) {
        (void)err_errno(e, ERR_SYS, "cannot write '%s/%s'", p->dest, n->path);
        close(c->from);
        return -1;
    }
    c->open = true;
    return ioctl(c->to, FICLONE, c->from) == 0;
}

static const char *used_name(const struct tree_copy *c, const char *name) {
    return c->temporary[0] ? c->temporary : name;
}

// 1: all is there, 0: not yet.
static int copy_on(struct place *p, int dir, const char *name, struct tree_copy *c, uint64_t *most,
                   struct err *e) {
    while (*most > 0) {
        size_t len = *most < COPY_BYTES ? (size_t)*most : COPY_BYTES;
        ssize_t got = copy_piece(c->from, c->to, len);
        if (got < 0)
            return tree_fail(p, dir, used_name(c, name), c->path, e);
        if (got == 0)
            file_write_back(c->to, 0, 0);
        if (got == 0)
            return 1;
        *most -= (uint64_t)got;
    }
    return 0;
}

static void copy_end(struct tree_copy *c, int dir, const char *name) {
    if (dir >= 0 && name[0])
        (void)unlinkat(dir, name, 0);
    close(c->from);
    close(c->to);
    c->open = false;
}

void tree_copy_close(struct place *p, struct tree_copy *c) {
    struct err ignored;
    const char *name;
    if (!c->open)
        return;
    int dir = tree_parent(p, c->path, &name, &ignored);
    copy_end(c, dir, used_name(c, name));
}

int tree_file_step(struct place *p, struct tree_copy *c, const struct manifest_entry *n,
                   const char *from, enum tree_from how, uint64_t *most, struct stat *st,
                   struct err *e) {
    const char *name;
    int dir = tree_parent(p, n->path, &name, e), rc = 0;
    if (dir < 0)
        return -1;
    if (how == TREE_TAKE)
        return take(p, dir, name, n, from, st, e) < 0 ? -1 : 1;
    if (!c->open) {
        if ((rc = copy_begin(p, dir, name, n, from, c, e)) < 0)
            return -1;
        if (rc == 0 && how == TREE_SHARE && n->size >= PLACE_LINK_BYTES_MIN &&
            share(p, dir, name, n, from, st) == 0) {
            copy_end(c, dir, c->temporary);
            return 1;
        }
    }
    if (rc == 0 && (rc = copy_on(p, dir, name, c, most, e)) == 0)
        return 0;
    close(c->from);
    c->open = false;
    if (rc > 0)
        return tree_finish(p, dir, c->to, used_name(c, name), name, n, st, e) < 0 ? -1 : 1;
    close(c->to);
    return -1;
}

int tree_file(struct place *p, const struct manifest_entry *n, const char *from, enum tree_from how,
              struct stat *st, struct err *e) {
    struct tree_copy c = {0};
    uint64_t most;
    int rc;
    do {
        most = CONTENT_TICK_BYTES;
        rc = tree_file_step(p, &c, n, from, how, &most, st, e);
    } while (rc == 0 && (rc = content_tick_call(&p->ticks, CONTENT_TICK_BYTES - most, e)) == 0);
    tree_copy_close(p, &c);
    return rc < 0 ? -1 : 0;
}

int tree_move(struct place *p, const struct manifest_entry *n, const char *from, bool *copied,
              struct err *e) {
    struct stat st;
    const char *name;
    int dir = tree_parent(p, n->path, &name, e);
    if (dir < 0)
        return -1;
    if (renameat(AT_FDCWD, from, dir, name) == 0)
        return 0;
    if (errno != EXDEV)
        return err_errno(e, ERR_SYS, "cannot move '%s' to '%s/%s'", from, p->dest, n->path);
    *copied = true;
    return n->kind == MANIFEST_LINK ? tree_link(p, n, e) : tree_file(p, n, from, TREE_COPY, &st, e);
}
