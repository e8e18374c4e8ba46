// SPDX-License-Identifier: Apache-2.0
// Generations in a folder, and their list in bytes: a magic number, then of each entry kind, mode,
// time, size and hash, and path and target after their lengths; all little-endian.
#include "content/generation.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = "DTGEN 1\n";

// ---- the folder ---------------------------------------------------------------------------------

// The newest number below `under`; 0: there is none; -1: the folder cannot be read.
static int64_t newest_below(const char *folder, int64_t under) {
    int64_t newest = 0, number;
    struct err ignored;
    struct file_entries in = file_entries_open(folder);
    while (file_entries_next(&in))
        if (str_parse_i64(in.name, 1, INT64_MAX - 1, &number, &ignored) == 0 && number > newest &&
            number < under)
            newest = number;
    return file_entries_close(&in, 0, NULL) < 0 ? -1 : newest;
}

int64_t generation_newest(const char *folder) {
    return newest_below(folder, INT64_MAX);
}

int64_t generation_next(const char *folder) {
    int64_t newest = generation_newest(folder), now = clock_wall_ms();
    return now > newest ? now : newest + 1;
}

static const char *numbered(struct arena *a, const char *folder, int64_t number) {
    return arena_printf(a, "%s/%lld", folder, (long long)number);
}

const char *generation_path(struct arena *a, const char *folder, int64_t number) {
    return file_join(a, numbered(a, folder, number), "state");
}

const char *generation_new(struct arena *a, const char *folder) {
    return file_join(a, folder, "new/state");
}

int generation_begin(const char *folder, struct err *e) {
    struct arena a = {0};
    int rc = file_remove_tree(file_join(&a, folder, "new"), e);
    if (rc == 0)
        rc = file_remove_tree(file_join(&a, folder, "old"), e);
    if (rc == 0)
        rc = file_make_dirs(generation_new(&a, folder), 0700, e);
    arena_fini(&a);
    return rc;
}

// The number goes first: a process that is killed in the removal leaves no half generation.
static int remove_older(struct arena *a, const char *folder, struct err *e) {
    const char *old = file_join(a, folder, "old");
    int64_t number = INT64_MAX;
    for (int i = 0; i < GENERATION_KEPT && number > 0; i++)
        number = newest_below(folder, number);
    while (number > 0 && (number = newest_below(folder, number)) > 0) {
        if (file_remove_tree(old, e) < 0)
            return -1;
        if (rename(numbered(a, folder, number), old) < 0)
            return err_errno(e, ERR_SYS, "cannot rename '%s'", numbered(a, folder, number));
    }
    return file_remove_tree(old, e);
}

int generation_publish(const char *folder, int64_t number, const void *list, size_t len,
                       struct err *e) {
    struct arena a = {0};
    const char *new = file_join(&a, folder, "new"), *to = numbered(&a, folder, number);
    int rc = file_write_atomic(file_join(&a, new, "list"), list, len, 0600, e);
    if (rc == 0)
        rc = file_sync_disk(new, e);
    if (rc == 0 && rename(new, to) < 0)
        rc = err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", new, to);
    if (rc == 0)
        rc = file_sync_dir(folder, e);
    if (rc == 0)
        rc = remove_older(&a, folder, e);
    arena_fini(&a);
    return rc;
}

int generation_list(struct arena *a, const char *folder, int64_t number, char **list, size_t *len,
                    struct err *e) {
    return file_read(a, file_join(a, numbered(a, folder, number), "list"),
                     GENERATION_LIST_BYTES_MAX, list, len, e);
}

// ---- the list -----------------------------------------------------------------------------------

static void put(struct strbuf *out, uint64_t value, size_t width) {
    unsigned char b[8];
    bytes_store(b, value, width);
    strbuf_add(out, b, width);
}

static void put_text(struct strbuf *out, const char *text) {
    size_t len = text ? strlen(text) : 0;
    put(out, len, 2);
    strbuf_add(out, text ? text : "", len);
}

void generation_encode(const struct manifest *m, struct strbuf *out) {
    strbuf_add(out, magic, sizeof magic);
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        put(out, n->kind, 1);
        put(out, n->mode, 2);
        put(out, (uint64_t)n->mtime_ns, 8);
        put(out, n->kind == MANIFEST_FILE ? n->size : 0, 8);
        strbuf_add(out, n->hash, HASH_BYTES);
        put_text(out, n->path);
        put_text(out, n->kind == MANIFEST_LINK ? n->target : NULL);
    }
}

static const char *take_text(struct arena *a, struct bytes_reader *r) {
    size_t len = bytes_u16(r);
    const char *p = bytes_get(r, len);
    if (!p || memchr(p, '\0', len)) {
        r->bad = true;
        return "";
    }
    return arena_strndup(a, p, len);
}

static int take_entry(struct manifest *m, struct bytes_reader *r, struct err *e) {
    struct manifest_entry n = {0};
    unsigned kind = bytes_u8(r);
    n.mode = bytes_u16(r);
    n.mtime_ns = (int64_t)bytes_u64(r);
    n.size = bytes_u64(r);
    const void *hash = bytes_get(r, HASH_BYTES);
    n.path = take_text(&m->arena, r);
    n.target = take_text(&m->arena, r);
    if (r->bad || kind < MANIFEST_FILE || kind > MANIFEST_LINK)
        return err_set(e, ERR_FORMAT, "the list of a generation is damaged");
    n.kind = (enum manifest_kind)kind;
    if ((n.kind == MANIFEST_LINK) != (n.target[0] != '\0') ||
        (n.kind != MANIFEST_FILE && n.size != 0))
        return err_set(e, ERR_FORMAT, "the list of a generation has a wrong entry '%.200s'",
                       n.path);
    memcpy(n.hash, hash, HASH_BYTES);
    n.hashed = true;
    if (n.kind != MANIFEST_LINK)
        n.target = NULL;
    return manifest_append(m, &n, e);
}

int generation_decode(const void *list, size_t len, struct manifest **out, struct err *e) {
    struct bytes_reader r = bytes_reader(list, len);
    const void *head = bytes_get(&r, sizeof magic);
    struct manifest *m = manifest_new();
    int rc = head && memcmp(head, magic, sizeof magic) == 0
                 ? 0
                 : err_set(e, ERR_FORMAT, "the list of a generation has another format");
    while (rc == 0 && bytes_left(&r)) {
        rc = take_entry(m, &r, e);
        if (rc == 0 && m->count > GENERATION_FILES_MAX)
            rc = err_set(e, ERR_LIMIT, "a generation has more than %d entries",
                         GENERATION_FILES_MAX);
    }
    if (rc == 0)
        rc = manifest_sort(m, e);
    if (rc < 0)
        manifest_free(m);
    else
        *out = m;
    return rc;
}
