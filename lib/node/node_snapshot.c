// SPDX-License-Identifier: Apache-2.0
// `dtrun --node snapshot`: one generation of a run's state, as a whole. The files of the state are
// linked, not copied, into the folder `snapshot` of the run, once nothing has changed for a while
// and no process has one of them open for writing. A program that writes into a finished file later
// changes the snapshot, too: size and time show it.
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "node/node_verb.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

struct look {
    struct arena arena;
    const char *dir;
    const char **names; // of files and links, below dir
    size_t count, room;
    int64_t bytes;
    char digest[HASH_HEX_BYTES]; // of names, sizes, times and inodes
};

// ---- looking ------------------------------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static int walk(struct look *l, const char *below, int depth, struct err *e) {
    DIR *d = opendir(*below ? file_join(&l->arena, l->dir, below) : l->dir);
    int rc = 0;
    if (!d)
        return errno == ENOENT ? 0 : err_errno(e, ERR_SYS, "cannot read '%s/%s'", l->dir, below);
    for (struct dirent *entry; rc == 0 && (entry = readdir(d));) {
        struct stat st;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
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
                rc = err_set(e, ERR_LIMIT, "the state has more than %d files", FILES_MAX);
        }
    }
    closedir(d);
    return rc;
}

// A file that goes away meanwhile is a change, which the digest shows.
static void add_file(struct look *l, struct hash *h, const char *name) {
    struct stat st = {0};
    if (lstat(file_join(&l->arena, l->dir, name), &st) < 0)
        st = (struct stat){0};
    int64_t facts[] = {(int64_t)st.st_ino, (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
                       (int64_t)st.st_mtim.tv_nsec};
    hash_add(h, name, strlen(name) + 1);
    hash_add(h, facts, sizeof facts);
    l->bytes += (int64_t)st.st_size;
}

static int look(struct look *l, const char *dir, struct err *e) {
    struct hash h;
    unsigned char digest[HASH_BYTES];
    *l = (struct look){.dir = dir};
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
static bool is_open_for_writing(const char *path) {
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

static int link_all(struct look *l, const char *to, struct err *e) {
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
static const char *settle(struct look *l, struct err *e) {
    int64_t begin = clock_mono_ms(), quiet_since = begin;
    for (;;) {
        struct look now;
        int64_t before = clock_mono_ms();
        int rc = look(&now, l->dir, e);
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

// The reason why there is no whole generation now; NULL: it is in the folder `to`.
static const char *take(struct look *l, const char *to, struct err *e) {
    struct look copy = {0};
    const char *why = settle(l, e);
    if (!why && file_remove_tree(to, e) < 0)
        why = e->text;
    for (size_t i = 0; !why && i < l->count; i++)
        if (is_open_for_writing(file_join(&l->arena, l->dir, l->names[i])))
            why = arena_printf(&l->arena, "'%s' is being written", l->names[i]);
    if (!why &&
        (file_make_dirs(to, 0700, e) < 0 || link_all(l, to, e) < 0 || look(&copy, to, e) < 0))
        why = e->text;
    else if (!why && strcmp(copy.digest, l->digest) != 0)
        why = "its files change";
    arena_fini(&copy.arena);
    return why;
}

// ---- the verb -----------------------------------------------------------------------------------

static int answer(const struct look *l, bool is_new, const char *why) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "snapshot");
    json_bool(&j, "new", is_new);
    json_bool(&j, "whole", !why);
    json_str(&j, "reason", why);
    json_str(&j, "digest", l->digest);
    json_int(&j, "files", (int64_t)l->count);
    json_int(&j, "bytes", l->bytes);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc < 0;
}

// *is_new: the state is not the one that dtctl has. *why: as in `take`.
static int snapshot(struct look *l, const struct node_args *args, struct arena *a, bool *is_new,
                    const char **why, struct err *e) {
    const char *dir = node_run_dir(a, args, args->run);
    const char *to = file_join(a, dir, "snapshot");
    if (!node_is_run(a, args, args->run))
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
    if (look(l, args->again ? to : file_join(a, dir, "state"), e) < 0)
        return -1;
    if (args->again) {
        *why = str_eq(l->digest, args->known) ? NULL : "a finished file was written again";
        return file_remove_tree(to, e);
    }
    *is_new = l->count && !str_eq(l->digest, args->known);
    if (*is_new)
        *why = take(l, to, e);
    return 0;
}

int node_snapshot(const struct node_call *c) {
    struct arena a = {0};
    struct look l = {0};
    struct node_args args;
    struct err e = {0};
    bool is_new = false;
    const char *why = NULL;
    // A lease that another process breaks sends this signal, which would end the program.
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    int rc = node_args(&a, c, true, &args, &e);
    if (rc == 0)
        rc = snapshot(&l, &args, &a, &is_new, &why, &e);
    rc = rc < 0 ? node_fail(&e) : answer(&l, is_new, why);
    arena_fini(&l.arena);
    arena_fini(&a);
    return rc;
}
