// SPDX-License-Identifier: Apache-2.0
// Checks the names and kinds of an archive's members, and writes members to a folder.
#include "content/archive_pass.h"

#include "base/arena.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20, DISK_BLOCK_BYTES = 4096 };

// ---- reading ------------------------------------------------------------------------------------

int archive_pass_refuse(const struct archive_pass *p, struct err *e, const char *why) {
    return err_set(e, ERR_FORMAT, "member '%s' %s", p->entry.path, why);
}

const char *archive_pass_plain(char *path) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = 0;
    while (str_starts(path, "./"))
        path += 2 + strspn(path + 2, "/");
    return strcmp(path, ".") == 0 ? path + 1 : path;
}

static int check_name(struct archive_pass *p, struct err *e) {
    size_t depth = 0;
    if (!p->name[0] && p->entry.type == TAR_FOLDER)
        return 0;
    if (!file_is_safe_relative(p->name, strlen(p->name)))
        return archive_pass_refuse(p, e, "has a name that leads out of its folder");
    for (const char *c = p->name; *c; c++)
        depth += *c == '/';
    if (depth > ARCHIVE_DEPTH_MAX)
        return err_set(e, ERR_LIMIT, "member '%s' lies in more than %d folders", p->name,
                       ARCHIVE_DEPTH_MAX);
    return p->entry.type == TAR_OTHER
               ? archive_pass_refuse(p, e,
                                     "is neither a file, a folder nor a link (devices, pipes and "
                                     "sparse files are refused)")
               : 0;
}

int archive_pass_next(struct archive_pass *p, struct err *e) {
    int r = tar_next(&p->tar, &p->entry, e);
    if (r <= 0)
        return r;
    p->name = archive_pass_plain(p->entry.path);
    return check_name(p, e) < 0 || content_tick_call(&p->ticks, 0, e) < 0 ? -1 : 1;
}

int archive_pass_count(struct archive_pass *p, struct err *e) {
    struct archive_total *t = &p->total;
    uint64_t size = p->entry.size;
    if (++t->entries > ARCHIVE_ENTRIES_MAX)
        return err_set(e, ERR_LIMIT, "it has more than %d members", ARCHIVE_ENTRIES_MAX);
    if (size > ARCHIVE_BYTES_MAX - t->bytes)
        return err_set(e, ERR_LIMIT, "its files have more than %llu bytes",
                       (unsigned long long)ARCHIVE_BYTES_MAX);
    t->bytes += size;
    t->disk_bytes += (size + DISK_BLOCK_BYTES - 1) / DISK_BLOCK_BYTES * DISK_BLOCK_BYTES;
    t->disk_bytes += p->entry.type == TAR_FOLDER ? DISK_BLOCK_BYTES : 0;
    return 0;
}

// ---- writing ------------------------------------------------------------------------------------

static int fill(void *ctx, int fd, struct err *e) {
    struct archive_pass *p = ctx;
    uint64_t left = p->entry.size;
    size_t room = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    unsigned char *piece = heap_alloc(room + 1);
    int rc = 0;
    while (rc == 0 && left) {
        size_t n = left < room ? (size_t)left : room;
        rc = tar_read(&p->tar, piece, n, e) < 0 || file_write_all(fd, piece, n, e) < 0 ||
                     content_tick_call(&p->ticks, n, e) < 0
                 ? -1
                 : 0;
        left -= n;
    }
    free(piece);
    return rc;
}

int archive_pass_write(struct archive_pass *p, struct place *to, size_t drop, const char *below,
                       struct err *e) {
    const struct tar_entry *entry = &p->entry;
    struct strbuf path = {0}, first = {0};
    struct stat st;
    int rc;
    if (strlen(p->name) <= drop) // the top itself
        return 0;
    strbuf_addf(&path, "%s%s", below, p->name + drop);
    struct manifest_entry n = {.path = strbuf_cstr(&path),
                               .target = entry->link,
                               .size = entry->size,
                               .mtime_ns = entry->mtime_s * 1000000000,
                               .mode = (entry->mode & 0777) | 0600,
                               .kind = MANIFEST_FILE};
    switch (entry->type) {
    case TAR_FILE:
        rc = tree_remove(to, &n, e) < 0 ? -1 : tree_write(to, &n, fill, p, &st, e);
        break;
    case TAR_FOLDER: rc = tree_folder(to, &n, e); break;
    case TAR_SYMLINK: rc = tree_link(to, &n, e); break;
    case TAR_HARD_LINK: {
        const char *target = archive_pass_plain(p->entry.link);
        if (strncmp(target, p->name, drop) == 0)
            strbuf_addf(&first, "%s%s", below, target + drop);
        rc = tree_hard_link(to, &n, strbuf_cstr(&first), e);
        break;
    }
    default: rc = archive_pass_refuse(p, e, "is of no known kind");
    }
    strbuf_fini(&path);
    strbuf_fini(&first);
    return rc;
}
