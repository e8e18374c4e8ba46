// SPDX-License-Identifier: Apache-2.0
// Whole generations of a folder that programs write to. Size and time of a linked file show a
// program that writes into a finished file later.
#include "content/snapshot.h"

#include "base/array.h"
#include "base/clock.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    QUIET_MS = 1000,      // in which nothing may change
    QUIET_WAIT_MS = 5000, // for a quiet time, from the first look
    LOOK_PAUSE_MS = 50,   // between two looks, and LOOK_PAUSES times what the last one took
    LOOK_PAUSES = 4,
    DEPTH_MAX = 64,
    FILES_MAX = 100000,
};

// ---- looking ------------------------------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
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
            array_grow_in(&l->arena, l->names, &l->room, l->count + 1);
            l->names[l->count++] = name;
            if (l->count > FILES_MAX)
                rc = err_set(e, ERR_LIMIT, "'%s' has more than %d files", l->dir, FILES_MAX);
        }
    }
    return file_entries_close(&in, rc, e);
}

// A file that goes away meanwhile is a change, which the digest shows.
static void add_file(struct snapshot *l, struct hash *h, const char *name) {
    struct stat st = {0};
    if (lstat(file_join(&l->arena, l->dir, name), &st) < 0)
        st = (struct stat){0};
    int64_t facts[] = {(int64_t)st.st_ino, (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
                       (int64_t)st.st_mtim.tv_nsec};
    hash_add(h, name, strlen(name) + 1);
    hash_add(h, facts, sizeof facts);
    l->bytes += (int64_t)st.st_size;
}

int snapshot_look(struct snapshot *l, const char *dir, struct err *e) {
    struct hash h;
    unsigned char digest[HASH_BYTES];
    *l = (struct snapshot){.dir = dir};
    if (walk(l, "", 0, e) < 0)
        return -1;
    if (l->count)
        qsort(l->names, l->count, sizeof *l->names, compare);
    hash_init(&h);
    for (size_t i = 0; i < l->count; i++)
        add_file(l, &h, l->names[i]);
    hash_final(&h, digest);
    hash_hex(l->digest, digest);
    return 0;
}

// ---- taking -------------------------------------------------------------------------------------

// The kernel grants a lease for reading only while no process can write. Where it has no leases for
// this file, the quiet time alone counts.
bool snapshot_is_written(const char *path) {
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

static int link_all(struct snapshot *l, const char *to, struct err *e) {
    for (size_t i = 0; i < l->count; i++) {
        const char *path = file_join(&l->arena, to, l->names[i]);
        if (file_make_dirs(file_dir(&l->arena, path), 0755, e) < 0)
            return -1;
        if (linkat(AT_FDCWD, file_join(&l->arena, l->dir, l->names[i]), AT_FDCWD, path, 0) < 0 &&
            errno != ENOENT)
            return err_errno(e, ERR_SYS, "cannot link '%s'", path);
    }
    return 0;
}

// Looks again and again, until two looks QUIET_MS apart and all between them are the same; *l is
// then the last one. A program that writes at a fixed interval is met in its pause, however the two
// intervals fall.
static const char *settle(struct snapshot *l, struct err *e) {
    int64_t begin = clock_mono_ms(), quiet_since = begin;
    for (;;) {
        struct snapshot now;
        int64_t before = clock_mono_ms();
        int rc = snapshot_look(&now, l->dir, e);
        int64_t after = clock_mono_ms();
        bool same = rc == 0 && strcmp(now.digest, l->digest) == 0;
        arena_fini(&l->arena);
        *l = now;
        if (rc < 0)
            return e->text;
        if (!same)
            quiet_since = after;
        else if (before - quiet_since >= QUIET_MS)
            return NULL;
        if (after - begin >= QUIET_WAIT_MS)
            return "its files change";
        poll(NULL, 0, (int)(LOOK_PAUSE_MS + LOOK_PAUSES * (after - before)));
    }
}

const char *snapshot_take(struct snapshot *l, const char *to, struct err *e) {
    struct snapshot copy = {0};
    const char *why = settle(l, e);
    if (!why && file_remove_tree(to, e) < 0)
        why = e->text;
    for (size_t i = 0; !why && i < l->count; i++)
        if (snapshot_is_written(file_join(&l->arena, l->dir, l->names[i])))
            why = arena_printf(&l->arena, "'%s' is being written", l->names[i]);
    if (!why && (file_make_dirs(to, 0700, e) < 0 || link_all(l, to, e) < 0 ||
                 snapshot_look(&copy, to, e) < 0))
        why = e->text;
    else if (!why && strcmp(copy.digest, l->digest) != 0)
        why = "its files change";
    arena_fini(&copy.arena);
    return why;
}

void snapshot_close(struct snapshot *l) {
    arena_fini(&l->arena);
}
