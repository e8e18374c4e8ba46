// SPDX-License-Identifier: Apache-2.0
// Whole generations of a folder that programs write to. Size and time of a linked file show a
// program that writes into a finished file later.
#include "content/snapshot.h"

#include "base/array.h"
#include "base/clock.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "sys/file_writers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    QUIET_MS = 1000,      // in which nothing may change
    QUIET_WAIT_MS = 5000, // for a quiet time, from the first look
    LOOK_PAUSE_MS = 50,   // between two looks, and LOOK_PAUSES times what the last one took
    LOOK_PAUSES = 4,
    DEPTH_MAX = 64,
    FILES_MAX = 100000,
    NAME_BYTES = 256,         // of a name in a message
    COPY_BYTES_MAX = 1 << 20, // of a file that is no log
};

// ---- looking ------------------------------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return strcmp(((const struct snapshot_file *)x)->name, ((const struct snapshot_file *)y)->name);
}

static int walk(struct snapshot *l, const char *below, int depth, struct err *e) {
    struct file_entries in =
        file_entries_open(*below ? file_join(&l->arena, l->dir, below) : l->dir);
    int rc = 0;
    while (rc == 0 && file_entries_next(&in)) {
        struct stat st;
        const char *name = in.name;
        if (!file_entries_stat(&in, &st))
            continue;
        name = *below ? file_join(&l->arena, below, name) : arena_strdup(&l->arena, name);
        if (S_ISDIR(st.st_mode)) {
            rc = depth < DEPTH_MAX
                     ? walk(l, name, depth + 1, e)
                     : err_set(e, ERR_LIMIT, "'%s' lies in more than %d folders", name, DEPTH_MAX);
        } else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
            array_grow_in(&l->arena, l->files, &l->room, l->count + 1);
            l->files[l->count++] =
                (struct snapshot_file){.name = name, .regular = S_ISREG(st.st_mode), .size = -1};
            if (l->count > FILES_MAX)
                rc = err_set(e, ERR_LIMIT, "'%s' has more than %d files", l->dir, FILES_MAX);
        }
    }
    return file_entries_close(&in, rc, e);
}

static void set_facts(struct snapshot_file *f, const struct stat *st) {
    f->inode = (uint64_t)st->st_ino;
    f->size = (int64_t)st->st_size;
    f->mtime = st->st_mtim;
    f->regular = S_ISREG(st->st_mode);
}

static void add_file(struct snapshot *l, struct hash *h, struct snapshot_file *f) {
    struct stat st;
    if (lstat(file_join(&l->arena, l->dir, f->name), &st) == 0) {
        set_facts(f, &st);
        l->bytes += f->size;
    }
    int64_t facts[] = {f->size, (int64_t)f->mtime.tv_sec, (int64_t)f->mtime.tv_nsec};
    hash_add(h, f->name, strlen(f->name) + 1);
    hash_add(h, facts, sizeof facts);
}

int snapshot_scan(struct snapshot *l, const char *dir, struct err *e) {
    struct hash h;
    unsigned char digest[HASH_BYTES];
    *l = (struct snapshot){.dir = dir};
    if (walk(l, "", 0, e) < 0)
        return -1;
    if (l->count)
        qsort(l->files, l->count, sizeof *l->files, compare);
    hash_init(&h);
    for (size_t i = 0; i < l->count; i++)
        add_file(l, &h, &l->files[i]);
    hash_final(&h, digest);
    hash_hex(l->digest, digest);
    return 0;
}

// ---- taking -------------------------------------------------------------------------------------

static const char *path_of(struct snapshot *l, const struct snapshot_file *f) {
    return file_join(&l->arena, l->dir, f->name);
}

static bool is_same(const struct snapshot_file *x, const struct snapshot_file *y) {
    return x->inode == y->inode && x->size == y->size && x->mtime.tv_sec == y->mtime.tv_sec &&
           x->mtime.tv_nsec == y->mtime.tv_nsec && strcmp(x->name, y->name) == 0;
}

// A program that writes a checkpoint into a file makes it grow as well: it may write anywhere.
static bool has_grown(struct snapshot *now, const struct snapshot_file *f,
                      const struct snapshot_file *before) {
    return f->regular && f->inode == before->inode && f->size > before->size && before->size >= 0 &&
           strcmp(f->name, before->name) == 0 && file_writers(path_of(now, f)) != FILE_WRITERS_ANY;
}

// The first file that has changed between two looks in another way than a log does; NULL: none.
// Marks logs in `now`.
static const char *who_changes(struct snapshot *now, const struct snapshot *before) {
    size_t count = now->count < before->count ? now->count : before->count;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_file *f = &now->files[i];
        const struct snapshot_file *b = &before->files[i];
        int order = strcmp(f->name, b->name);
        bool same = is_same(f, b);
        if (order || (!same && !has_grown(now, f, b)))
            return order > 0 ? b->name : f->name;
        f->log = b->log || !same;
    }
    if (now->count == before->count)
        return NULL;
    return now->count > count ? now->files[count].name : before->files[count].name;
}

// Looks again and again, until two looks QUIET_MS apart and all between them are quiet; *l is then
// the last one. A program that writes at a fixed interval is met in its pause, however the two
// intervals fall.
static const char *settle(struct snapshot *l, struct err *e) {
    int64_t begin = clock_mono_ms(), quiet_since = begin;
    char last[NAME_BYTES] = ""; // file that has changed
    for (;;) {
        struct snapshot now;
        int64_t before = clock_mono_ms();
        int rc = snapshot_scan(&now, l->dir, e);
        int64_t after = clock_mono_ms();
        const char *changes = rc == 0 ? who_changes(&now, l) : NULL;
        if (changes)
            snprintf(last, sizeof last, "%s", changes);
        arena_fini(&l->arena);
        *l = now;
        if (rc < 0)
            return e->text;
        if (changes)
            quiet_since = after;
        else if (before - quiet_since >= QUIET_MS)
            return NULL;
        if (*last && after - begin >= QUIET_WAIT_MS)
            return arena_printf(&l->arena, "'%s' changes again and again", last);
        poll(NULL, 0, (int)(LOOK_PAUSE_MS + LOOK_PAUSES * (after - before)));
    }
}

// The first `size` bytes of a file, with its times. A file that is not the same any more, but for
// what is appended to it, has changed.
static int copy(struct snapshot *l, const struct snapshot_file *f, const char *to, struct err *e) {
    const char *from = path_of(l, f);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, f->mtime};
    struct stat st;
    auto_close int in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0 || fstat(in, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", from);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0 || fchmod(out, st.st_mode & 0777) < 0)
        return err_errno(e, ERR_SYS, "cannot make '%s'", to);
    for (off_t at = 0; at < f->size;) {
        ssize_t n = sendfile(out, in, &at, (size_t)(f->size - at));
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_SYS, "cannot copy '%s' to '%s'", from, to);
        if (n == 0)
            break;
    }
    struct snapshot_file now = {.name = f->name, .regular = true};
    if (fstat(in, &st) == 0)
        set_facts(&now, &st);
    if (!is_same(&now, f) && !has_grown(l, &now, f))
        return err_set(e, ERR_BUSY, "'%s' changes", f->name);
    return futimens(out, times) < 0 ? err_errno(e, ERR_SYS, "cannot set the times of '%s'", to) : 0;
}

static int link_file(struct snapshot *l, const struct snapshot_file *f, const char *to,
                     struct err *e) {
    return linkat(AT_FDCWD, path_of(l, f), AT_FDCWD, to, 0) < 0 && errno != ENOENT
               ? err_errno(e, ERR_SYS, "cannot link '%s'", to)
               : 0;
}

static int place_all(struct snapshot *l, const char *to, struct err *e) {
    int rc = file_make_dirs(to, 0700, e);
    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        const struct snapshot_file *f = &l->files[i];
        const char *path = file_join(&l->arena, to, f->name);
        bool small = f->regular && f->size <= COPY_BYTES_MAX;
        rc = file_make_dirs(file_dir(&l->arena, path), 0755, e);
        if (rc == 0)
            rc = f->log || small ? copy(l, f, path, e) : link_file(l, f, path, e);
    }
    return rc;
}

// The first file that is being written anywhere but at its end; marks those that are logs.
static const char *who_is_written(struct snapshot *l) {
    for (size_t i = 0; i < l->count; i++) {
        struct snapshot_file *f = &l->files[i];
        enum file_writers w = f->regular ? file_writers(path_of(l, f)) : FILE_WRITERS_NONE;
        if (w == FILE_WRITERS_ANY)
            return arena_printf(&l->arena, "'%s' is being written", f->name);
        f->log |= w == FILE_WRITERS_APPEND;
    }
    return NULL;
}

const char *snapshot_take(struct snapshot *l, const char *to, struct err *e) {
    struct snapshot there = {0};
    const char *why = settle(l, e);
    if (!why && file_remove_tree(to, e) < 0)
        why = e->text;
    if (!why)
        why = who_is_written(l);
    if (!why && (place_all(l, to, e) < 0 || snapshot_scan(&there, to, e) < 0))
        why = e->text;
    else if (!why && strcmp(there.digest, l->digest) != 0)
        why = "its files change";
    arena_fini(&there.arena);
    return why;
}

void snapshot_close(struct snapshot *l) {
    arena_fini(&l->arena);
}
