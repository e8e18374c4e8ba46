// SPDX-License-Identifier: Apache-2.0
// Publishes the state of this node as a generation, and makes a generation the state again. Runs
// in a process of its own, or in the keeper before any worker.
#include "base/log.h"
#include "content/snapshot.h"
#include "copies/keeper_impl.h"
#include "sys/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- publishing ---------------------------------------------------------------------------------

static int64_t time_of(const struct timespec *t) {
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

// A file that is the same inode as in the generation before, and as it was then, keeps its hash.
static void keep_hashes(struct manifest *m, const struct manifest *last, const char *folder) {
    struct arena a = {0};
    for (size_t i = 0, k = 0; i < m->count && k < last->count;) {
        struct manifest_entry *n = &m->entries[i];
        const struct manifest_entry *o = &last->entries[k];
        int order = manifest_order(n->path, o->path);
        struct stat now, then;
        if (order == 0 && n->kind == MANIFEST_FILE && o->kind == MANIFEST_FILE &&
            n->size == o->size && stat(n->source, &now) == 0 &&
            stat(file_join(&a, folder, o->path), &then) == 0 && now.st_ino == then.st_ino &&
            now.st_dev == then.st_dev && time_of(&now.st_mtim) == o->mtime_ns) {
            memcpy(n->hash, o->hash, HASH_BYTES);
            n->mtime_ns = o->mtime_ns;
            n->hashed = true;
        }
        i += order <= 0;
        k += order >= 0;
    }
    arena_fini(&a);
}

static int hash_all(struct manifest *m, const char *own, struct err *e) {
    struct arena a = {0};
    struct manifest *last = NULL;
    struct err ignored;
    char *list;
    size_t len;
    int64_t number = generation_newest(own);
    if (manifest_sort(m, e) < 0)
        return -1;
    if (number > 0 && generation_list(&a, own, number, &list, &len, &ignored) == 0 &&
        generation_decode(list, len, &last, &ignored) == 0)
        keep_hashes(m, last, generation_path(&a, own, number));
    manifest_free(last);
    arena_fini(&a);
    return manifest_hash(m, NULL, NULL, NULL, e);
}

static int publish(struct arena *a, const char *own, struct err *e) {
    struct strbuf list = {0};
    struct manifest *m = manifest_new();
    const char *new = generation_new(a, own);
    int rc = manifest_add_path(m, new, "", &(struct manifest_rules){.own_too = true}, e);
    if (rc == 0)
        rc = hash_all(m, own, e);
    if (rc == 0 && m->count > GENERATION_FILES_MAX)
        rc = err_set(e, ERR_LIMIT, "the state has more than %d entries", GENERATION_FILES_MAX);
    if (rc == 0) {
        generation_encode(m, &list);
        rc = list.len > GENERATION_LIST_BYTES_MAX
                 ? err_set(e, ERR_LIMIT, "the names in the state have more than %d MiB",
                           GENERATION_LIST_BYTES_MAX >> 20)
                 : generation_publish(own, generation_next(own), list.data, list.len, e);
    }
    strbuf_fini(&list);
    manifest_free(m);
    return rc;
}

// The file `known` has the digest of the state that the newest generation was made of.
// *why: of KEEPER_NOT_WHOLE.
static enum keeper_published try(struct arena *a, struct snapshot *l, const char *own,
                                 const char **why, struct err *e) {
    const char *known = file_join(a, own, "known");
    char *text = NULL;
    size_t len;
    struct err ignored;
    if (generation_newest(own) > 0)
        (void)file_read(a, known, HASH_HEX_BYTES, &text, &len, &ignored);
    if (l->count == 0 || str_eq(text, l->digest))
        return KEEPER_SAME;
    if (generation_begin(own, e) < 0)
        return KEEPER_FAILED;
    if ((*why = snapshot_take(l, generation_new(a, own), e)))
        return KEEPER_NOT_WHOLE;
    if (publish(a, own, e) < 0 ||
        file_write_atomic(known, l->digest, strlen(l->digest), 0600, e) < 0)
        return KEEPER_FAILED;
    return KEEPER_NEW;
}

enum keeper_published keeper_publish(const struct keeper_spec *spec, const char *own,
                                     int64_t late_ms) {
    const char *why = NULL;
    struct arena a = {0};
    struct snapshot l = {0};
    struct err e = {0};
    enum keeper_published what = KEEPER_FAILED;
    if (snapshot_scan(&l, file_join(&a, spec->run_dir, "state"), &e) == 0)
        what = try(&a, &l, own, &why, &e);
    if (what == KEEPER_FAILED)
        log_warn("the state of this node cannot be published", "reason=\"%s\"", e.text);
    if (what == KEEPER_NOT_WHOLE && late_ms)
        log_warn("the state is never whole for a second, so no other node has a copy",
                 "seconds=%lld reason=\"%s\"", (long long)late_ms / 1000, why);
    snapshot_close(&l);
    arena_fini(&a);
    return what;
}

// ---- restoring ----------------------------------------------------------------------------------

// Of the files: a link that was sent has the time at which it came.
static int64_t newest_time(const struct snapshot *l) {
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < l->count; i++) {
        const struct snapshot_file *f = &l->files[i];
        if (f->regular && f->size >= 0 && time_of(&f->mtime) > newest)
            newest = time_of(&f->mtime);
    }
    return newest;
}

// True when what is in the folder was written later than the generation: dtctl has sent it.
static bool is_newer(const char *state, const struct manifest *m) {
    struct snapshot l = {0};
    struct err ignored;
    int64_t newest = INT64_MIN;
    bool newer = false;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE && m->entries[i].mtime_ns > newest)
            newest = m->entries[i].mtime_ns;
    if (snapshot_scan(&l, state, &ignored) == 0)
        newer = l.count && newest_time(&l) > newest;
    snapshot_close(&l);
    return newer;
}

static int link_all(struct arena *a, const struct manifest *m, const char *from, const char *to,
                    struct err *e) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        const char *path = file_join(a, to, n->path);
        if (n->kind == MANIFEST_FOLDER)
            rc = mkdir(path, n->mode | 0700);
        else if (n->kind == MANIFEST_LINK)
            rc = symlink(n->target, path);
        else
            rc = linkat(AT_FDCWD, file_join(a, from, n->path), AT_FDCWD, path, 0);
        if (rc < 0)
            err_errno(e, ERR_SYS, "cannot make '%s'", path);
    }
    return rc;
}

// The state is the old or the new one at any instant.
static int put_in_place(struct arena *a, const char *new, const char *state, struct err *e) {
    if (file_make_dirs(state, 0755, e) < 0 || file_sync_disk(new, e) < 0)
        return -1;
    if (syscall(SYS_renameat2, AT_FDCWD, new, AT_FDCWD, state, RENAME_EXCHANGE) < 0 &&
        (file_remove_tree(state, e) < 0 || rename(new, state) < 0))
        return err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", new, state);
    if (file_sync_dir(file_dir(a, state), e) < 0)
        return -1;
    return file_remove_tree(new, e);
}

int keeper_restore(const struct keeper_spec *spec, const char *own, struct err *e) {
    struct arena a = {0};
    struct manifest *m = NULL;
    char *list;
    size_t len;
    const char *state = file_join(&a, spec->run_dir, "state");
    const char *new = file_join(&a, spec->run_dir, "state.new");
    int64_t number = generation_newest(own);
    int rc = generation_list(&a, own, number, &list, &len, e);
    if (rc == 0)
        rc = generation_decode(list, len, &m, e);
    if (rc == 0 && !is_newer(state, m)) {
        rc = file_remove_tree(new, e);
        if (rc == 0)
            rc = file_make_dirs(new, 0755, e);
        if (rc == 0)
            rc = link_all(&a, m, generation_path(&a, own, number), new, e);
        if (rc == 0)
            rc = put_in_place(&a, new, state, e);
    }
    manifest_free(m);
    arena_fini(&a);
    return rc;
}
