// SPDX-License-Identifier: Apache-2.0
// The finished files of folders that programs write to.
#include "content/finished_files.h"

#include "base/clock.h"
#include "base/str.h"
#include "content/snapshot.h"
#include "sys/file.h"
#include "sys/file_writers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUIET_MS = 1000 };

struct closed {
    struct finished_files *out;
    struct arena arena;
    struct strbuf list; // the disk, then every name; each ends with a NUL
    struct hash digest;
    const char *run;
};

// ---- the list -----------------------------------------------------------------------------------

static const char *list_path(struct arena *a, const char *run) {
    return file_join(a, run, "closed/list");
}

static bool is_disk(const char *text) {
    return strlen(text) == FINISHED_FILES_DISK_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == FINISHED_FILES_DISK_BYTES - 1;
}

static int read_list(struct arena *a, const char *path, char **text, size_t *len, struct err *e) {
    if (file_read(a, path, FINISHED_FILES_LIST_BYTES_MAX, text, len, e) < 0)
        return -1;
    return *len >= FINISHED_FILES_DISK_BYTES && (*text)[*len - 1] == 0 && is_disk(*text)
               ? 0
               : err_set(e, ERR_FORMAT, "'%s' is no list of files", path);
}

int finished_files_disk(const char *list, char disk[FINISHED_FILES_DISK_BYTES], struct err *e) {
    struct arena a = {0};
    char *text = NULL;
    size_t len = 0;
    int rc = read_list(&a, list, &text, &len, e);
    if (rc == 0)
        memcpy(disk, text, FINISHED_FILES_DISK_BYTES);
    arena_fini(&a);
    return rc;
}

static void begin_list(struct closed *c) {
    char disk[FINISHED_FILES_DISK_BYTES];
    unsigned char random[FINISHED_FILES_DISK_BYTES / 2];
    struct err ignored = {0};
    if (finished_files_disk(list_path(&c->arena, c->run), disk, &ignored) < 0) {
        hash_random(random, sizeof random);
        for (size_t i = 0; i < sizeof random; i++)
            snprintf(disk + 2 * i, 3, "%02x", random[i]);
    }
    strbuf_add(&c->list, disk, sizeof disk);
}

static void add_name(struct closed *c, const char *name) {
    strbuf_add(&c->list, name, strlen(name) + 1);
    hash_add(&c->digest, name, strlen(name) + 1);
}

static int write_list(struct closed *c, struct err *e) {
    if (c->list.len > FINISHED_FILES_LIST_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the names of the files in '%s' are longer than %d MiB",
                       c->run, FINISHED_FILES_LIST_BYTES_MAX >> 20);
    return file_write_atomic(list_path(&c->arena, c->run), c->list.data, c->list.len, 0600, e);
}

// ---- finished files -----------------------------------------------------------------------------

static int64_t age_ms(const struct timespec *t) {
    return clock_wall_ms() - (int64_t)t->tv_sec * 1000 - t->tv_nsec / 1000000;
}

// A change of the times also shows a file that was moved here. To link a file changes its ctime, so
// of a file that is linked the mtime counts. A time that is still to come says nothing.
static bool is_quiet(const struct stat *st, bool linked) {
    int64_t age = age_ms(linked ? &st->st_mtim : &st->st_ctim);
    return age < 0 || age >= QUIET_MS;
}

static bool is_same_file(const struct stat *x, const struct stat *y) {
    return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

// 1: `from` is finished and linked as `to`; 0: it is being written, or has gone.
static int link_file(struct closed *c, const char *from, const char *to, struct stat *st,
                     struct err *e) {
    struct stat now, old;
    if (lstat(from, st) < 0)
        return 0;
    bool linked = lstat(to, &old) == 0 && is_same_file(st, &old);
    bool regular = S_ISREG(st->st_mode);
    if (regular && (!is_quiet(st, linked) || file_writers(from) != FILE_WRITERS_NONE))
        return unlink(to) == 0 || errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : err_errno(e, ERR_SYS, "cannot remove '%s'", to);
    if (linked)
        return 1;
    if (unlink(to) < 0 && errno != ENOENT && file_remove_tree(to, e) < 0)
        return -1;
    if (file_make_dirs(file_dir(&c->arena, to), 0755, e) < 0)
        return -1;
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) < 0)
        return errno == ENOENT ? 0 : err_errno(e, ERR_SYS, "cannot link '%s' to '%s'", from, to);
    return lstat(to, &now) == 0 && is_same_file(&now, st) ? 1 : 0;
}

static int add_folder(struct closed *c, const char *folder, struct err *e) {
    struct snapshot l = {0};
    const char *dir = file_join(&c->arena, c->run, folder);
    const char *to = file_join(&c->arena, file_join(&c->arena, c->run, "closed"), folder);
    int rc = snapshot_scan(&l, dir, e);
    for (size_t i = 0; rc >= 0 && i < l.count; i++) {
        struct stat st;
        add_name(c, file_join(&c->arena, folder, l.files[i].name));
        rc = link_file(c, file_join(&c->arena, dir, l.files[i].name),
                       file_join(&c->arena, to, l.files[i].name), &st, e);
        if (rc <= 0)
            continue;
        int64_t facts[] = {(int64_t)st.st_ino, (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
                           (int64_t)st.st_mtim.tv_nsec};
        hash_add(&c->digest, facts, sizeof facts);
        c->out->files++;
        c->out->bytes += (int64_t)st.st_size;
    }
    snapshot_close(&l);
    return rc < 0 ? -1 : 0;
}

int finished_files_take(struct finished_files *out, const char *run, const char *const *folders,
                        const char *known, struct err *e) {
    struct closed c = {.out = out, .run = run};
    unsigned char digest[HASH_BYTES];
    *out = (struct finished_files){0};
    const char *to = file_join(&c.arena, run, "closed");
    int rc = file_make_dirs(to, 0700, e);
    hash_init(&c.digest);
    begin_list(&c);
    hash_add(&c.digest, c.list.data, c.list.len);
    for (size_t i = 0; rc == 0 && folders[i]; i++)
        rc = add_folder(&c, folders[i], e);
    if (rc == 0)
        rc = write_list(&c, e);
    if (rc == 0)
        rc = finished_files_drop(to, list_path(&c.arena, run), folders, e);
    hash_final(&c.digest, digest);
    hash_hex(out->digest, digest);
    out->is_new = strcmp(out->digest, known) != 0;
    strbuf_fini(&c.list);
    arena_fini(&c.arena);
    return rc;
}

int finished_files_list(const char *run, const char *const *folders, struct err *e) {
    struct closed c = {.run = run};
    int rc = 0;
    if (file_is_absent(list_path(&c.arena, run))) {
        arena_fini(&c.arena);
        return 0;
    }
    hash_init(&c.digest);
    begin_list(&c);
    for (size_t i = 0; rc == 0 && folders[i]; i++) {
        struct snapshot l = {0};
        rc = snapshot_scan(&l, file_join(&c.arena, run, folders[i]), e);
        for (size_t k = 0; rc == 0 && k < l.count; k++)
            add_name(&c, file_join(&c.arena, folders[i], l.files[k].name));
        snapshot_close(&l);
    }
    if (rc == 0)
        rc = write_list(&c, e);
    strbuf_fini(&c.list);
    arena_fini(&c.arena);
    return rc;
}

// ---- what has gone ------------------------------------------------------------------------------

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static bool has(const char **names, size_t count, const char *name) {
    return count && bsearch(&name, names, count, sizeof *names, compare);
}

// Removes the folders above a removed file, as far as they are empty now.
static void drop_empty(struct arena *a, const char *dir, const char *name) {
    for (const char *at = name; (at = file_dir(a, at)) && strcmp(at, ".") != 0;)
        if (rmdir(file_join(a, dir, at)) < 0)
            return;
}

static int drop_below(struct arena *a, const char *here, const char *folder, const char **names,
                      size_t count, struct err *e) {
    struct snapshot l = {0};
    const char *dir = file_join(a, here, folder);
    int rc = snapshot_scan(&l, dir, e);
    for (size_t i = 0; rc == 0 && i < l.count; i++) {
        const char *path = file_join(a, dir, l.files[i].name);
        if (has(names, count, file_join(a, folder, l.files[i].name)))
            continue;
        if (unlink(path) < 0)
            rc = err_errno(e, ERR_SYS, "cannot remove '%s'", path);
        else
            drop_empty(a, dir, l.files[i].name);
    }
    snapshot_close(&l);
    return rc;
}

int finished_files_drop(const char *here, const char *list, const char *const *folders,
                        struct err *e) {
    struct arena a = {0};
    char *text = NULL;
    size_t len = 0, count = 0, lines = 0;
    int rc = read_list(&a, list, &text, &len, e);
    for (size_t i = 0; rc == 0 && i < len; i++)
        lines += !text[i];
    const char **names = arena_new(&a, const char *, lines + 1);
    for (size_t i = FINISHED_FILES_DISK_BYTES; rc == 0 && i < len; i += strlen(text + i) + 1)
        names[count++] = text + i;
    if (count)
        qsort(names, count, sizeof *names, compare);
    for (size_t i = 0; rc == 0 && folders[i]; i++)
        rc = drop_below(&a, here, folders[i], names, count, e);
    arena_fini(&a);
    return rc;
}
