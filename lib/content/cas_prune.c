// SPDX-License-Identifier: Apache-2.0
// Removes old content from the store.
#include "content/cas.h"

#include "base/str.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int compare(const void *x, const void *y) {
    return memcmp(x, y, HASH_BYTES);
}

static bool is_kept(const struct cas_prune *p, const unsigned char hash[HASH_BYTES]) {
    return p->keep_count && bsearch(hash, p->keep, p->keep_count, HASH_BYTES, compare);
}

static bool is_old(const struct cas_prune *p, struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec < p->before_ns;
}

// ---- packs ------------------------------------------------------------------------------------

static bool is_wanted(void *ctx, const struct cas_pack *pack, const struct cas_slot *s) {
    const struct cas_prune *p = ctx;
    struct stat st;
    return is_kept(p, s->hash) || fstat(pack->fd, &st) < 0 || !is_old(p, st.st_mtim);
}

static int prune_packs(struct cas *c, struct cas_prune *p, struct err *e) {
    size_t unwanted = 0;
    for (size_t i = 0; i < c->slot_room; i++) {
        const struct cas_slot *s = &c->slots[i];
        if (!s->pack || is_wanted(p, &c->packs[s->pack - 1], s))
            continue;
        unwanted++;
        p->bytes += s->size;
    }
    p->removed += unwanted;
    return unwanted && !p->dry_run ? cas_rewrite(c, is_wanted, p, e) : 0;
}

// ---- objects and parts ------------------------------------------------------------------------

// A change of the link count updates ctime and thus counts as use.
static bool may_go(const struct cas_prune *p, const char *name, bool is_part,
                   const struct stat *st) {
    unsigned char hash[HASH_BYTES];
    struct err ignored;
    if (!S_ISREG(st->st_mode))
        return false;
    if (is_part)
        return is_old(p, st->st_mtim);
    return hash_is_hex(name) && str_unhex(hash, HASH_BYTES, name, &ignored) == 0 &&
           st->st_nlink == 1 && is_old(p, st->st_ctim) && !is_kept(p, hash);
}

// Prunes one folder. Closes fd.
static int prune_folder(struct cas_prune *p, int fd, const char *name, bool are_parts,
                        struct err *e) {
    int rc = 0;
    struct file_entries in = file_entries_at(fd, name);
    while (rc == 0 && file_entries_next(&in)) {
        struct stat st;
        if (!file_entries_stat(&in, &st) || !may_go(p, in.name, are_parts, &st))
            continue;
        p->removed++;
        p->bytes += (uint64_t)st.st_blocks * 512;
        if (!p->dry_run && unlinkat(in.fd, in.name, 0) < 0 && errno != ENOENT)
            rc = err_errno(e, ERR_SYS, "cannot remove '%s' from the store", in.name);
    }
    return file_entries_close(&in, rc, e);
}

static int prune_folders(struct cas *c, struct cas_prune *p, struct err *e) {
    enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int rc = 0;
    struct file_entries in = file_entries_open(c->dir);
    while (rc == 0 && file_entries_next(&in)) {
        bool are_parts = str_eq(in.name, "tmp");
        bool are_objects = strlen(in.name) == 2 && strspn(in.name, "0123456789abcdef") == 2;
        if (!are_parts && !are_objects)
            continue;
        rc = prune_folder(p, openat(in.fd, in.name, OPEN_FOLDER), in.name, are_parts, e);
        if (are_objects && !p->dry_run)
            (void)unlinkat(in.fd, in.name, AT_REMOVEDIR); // removed only when empty
    }
    return file_entries_close(&in, rc, e);
}

int cas_prune(struct cas *c, struct cas_prune *p, struct err *e) {
    if (cas_load(c, e) < 0)
        return -1;
    if (!cas_alone(c))
        return err_set(e, ERR_BUSY, "'%s' is in use by a transfer; try again later", c->dir);
    return prune_packs(c, p, e) < 0 || prune_folders(c, p, e) < 0 ? -1 : 0;
}
