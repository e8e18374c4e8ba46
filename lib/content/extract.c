// SPDX-License-Identifier: Apache-2.0
// Checks all archives of a folder as if they were one, then unpacks them.
#include "content/extract.h"

#include "base/arena.h"
#include "base/str.h"
#include "content/manifest.h"
#include "content/member_names.h"
#include "sys/file_entries.h"

#include <string.h>

enum { LOCK_WAIT_MS = 24 * 3600 * 1000 }; // for another run with the same input

struct extract {
    const char *from, *dest;
    struct content_ticks ticks;
    struct arena arena;
    struct manifest *files;
    struct member_names names;  // the owner is the number of the archive in files, and 1
    struct archive_total total; // of the archives so far
    uint64_t free_bytes;        // of the disk
    struct place place;
};

// ---- names --------------------------------------------------------------------------------------

bool extract_is_archive(const char *path) {
    return str_ends(path, ".tar") || str_ends(path, ".tar.zst");
}

int extract_check_name(const char *path, struct err *e) {
    static const struct {
        const char *end, *how;
    } others[] = {
        {".tar.gz", "gzip -dc A.tar.gz | zstd -o A.tar.zst"},
        {".tgz", "gzip -dc A.tgz | zstd -o A.tar.zst"},
        {".tar.bz2", "bzip2 -dc A.tar.bz2 | zstd -o A.tar.zst"},
        {".tar.xz", "xz -dc A.tar.xz | zstd -o A.tar.zst"},
        {".zip", "unzip A.zip -d A && tar --zstd -C A -cf A.tar.zst ."},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (str_ends(path, others[i].end))
            return err_set(e, ERR_CONFIG,
                           "'%s': deliver = extract unpacks .tar and .tar.zst, not %s (try: %s, or "
                           "exclude)",
                           path, others[i].end, others[i].how);
    return 0;
}

// The folder of an archive: "" or "a/b/".
static const char *folder_of(struct extract *x, const char *path) {
    return arena_strndup(&x->arena, path, (size_t)(file_base(path) - path));
}

// ---- checking -----------------------------------------------------------------------------------

static int collides(const struct extract *x, const char *name, struct err *e) {
    const char *other = x->files->entries[x->names.other - 1].path;
    return extract_is_archive(other)
               ? err_set(e, ERR_EXISTS,
                         "member '%s' is in '%s' as well (try: archives in folders of their own)",
                         name, other)
               : err_set(e, ERR_EXISTS, "member '%s' collides with '%s' of the input", name, other);
}

static int check_links(struct archive_pass *p, struct err *e) {
    static const char out[] = "is a link that leads out of its folder";
    const char *target = p->entry.link;
    if (p->entry.type == TAR_SYMLINK && (!target[0] || !manifest_link_stays(p->name, target)))
        return archive_pass_refuse(p, e, target[0] ? out : "is a link to nothing");
    if (p->entry.type == TAR_HARD_LINK) {
        target = archive_pass_plain(p->entry.link);
        if (!file_is_safe_relative(target, strlen(target)))
            return archive_pass_refuse(p, e, out);
    }
    return 0;
}

// Makes the text fit for a message.
static bool has_control(char *text) {
    bool has = false;
    for (char *c = text; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
            has = true;
        }
    return has;
}

static int check_text(struct archive_pass *p, struct err *e) {
    if (has_control(p->entry.path))
        return archive_pass_refuse(p, e, "has control characters in its name");
    if (has_control(p->entry.link))
        return archive_pass_refuse(p, e, "is a link with control characters");
    return 0;
}

static int check_room(const struct extract *x, const struct archive_pass *p, struct err *e) {
    char need[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    return p->total.disk_bytes <= x->free_bytes
               ? 0
               : err_set(e, ERR_LIMIT,
                         "member '%s': the archives up to it need %s on the disk of '%s', where %s "
                         "are free (try: dtctl data ls, dtctl gc)",
                         p->name, str_human_bytes(need, p->total.disk_bytes), x->dest,
                         str_human_bytes(have, x->free_bytes));
}

static int check_member(struct extract *x, struct archive_pass *p, const char *below,
                        struct err *e) {
    struct strbuf name = {0}, target = {0};
    if (!p->name[0])
        return 0;
    strbuf_addf(&name, "%s%s", below, p->name);
    int rc = check_text(p, e) < 0 || check_links(p, e) < 0 ? -1 : 0;
    if (rc == 0 && p->entry.type == TAR_HARD_LINK)
        strbuf_addf(&target, "%s%s", below, archive_pass_plain(p->entry.link));
    if (rc == 0 && !file_is_safe_relative(strbuf_cstr(&name), name.len))
        rc = archive_pass_refuse(p, e, "has a path that is too long");
    if (rc == 0 &&
        (rc = member_names_add(&x->names, strbuf_cstr(&name), p->entry.type, strbuf_cstr(&target),
                               e)) < 0 &&
        e->code == ERR_EXISTS)
        rc = collides(x, p->name, e);
    strbuf_fini(&name);
    strbuf_fini(&target);
    return rc < 0 || archive_pass_count(p, e) < 0 ? -1 : check_room(x, p, e);
}

typedef int on_member(struct extract *x, struct archive_pass *p, const char *below, struct err *e);

static int each_member(struct extract *x, const char *path, on_member *f, struct err *e) {
    struct archive_pass p = {.ticks = x->ticks, .total = x->total};
    const char *below = folder_of(x, path);
    int r = tar_open(&p.tar, file_join(&x->arena, x->from, path), e);
    if (r == 0)
        while ((r = archive_pass_next(&p, e)) > 0)
            if ((r = f(x, &p, below, e)) < 0)
                break;
    tar_close(&p.tar);
    x->total = p.total;
    return r < 0 ? err_wrap(e, "archive '%s'", path) : 0;
}

static int check_entry(struct extract *x, const struct manifest_entry *n, struct err *e) {
    bool archive = extract_is_archive(n->path);
    enum tar_type type = n->kind == MANIFEST_FOLDER ? TAR_FOLDER
                         : n->kind == MANIFEST_LINK ? TAR_SYMLINK
                                                    : TAR_FILE;
    if (n->kind == MANIFEST_LINK && archive)
        return err_set(e, ERR_FORMAT,
                       "'%s' is a symbolic link, and archives are unpacked where they are (try: a "
                       "copy, or exclude)",
                       n->path);
    if (n->kind == MANIFEST_FILE && archive)
        return each_member(x, n->path, check_member, e);
    if (member_names_add(&x->names, n->path, type, "", e) == 0)
        return 0;
    return e->code == ERR_EXISTS
               ? err_set(e, ERR_EXISTS, "file '%s' of the input is in archive '%s' as well",
                         n->path, x->files->entries[x->names.other - 1].path)
               : -1;
}

// ---- writing ------------------------------------------------------------------------------------

static int write_member(struct extract *x, struct archive_pass *p, const char *below,
                        struct err *e) {
    return archive_pass_write(p, &x->place, 0, below, e);
}

static int write_entry(struct extract *x, const struct manifest_entry *n, struct err *e) {
    struct stat st;
    if (n->kind == MANIFEST_FOLDER)
        return tree_folder(&x->place, n, e);
    if (n->kind == MANIFEST_LINK)
        return tree_link(&x->place, n, e);
    if (extract_is_archive(n->path))
        return each_member(x, n->path, write_member, e);
    return content_tick_call(&x->ticks, 0, e) < 0
               ? -1
               : tree_file(&x->place, n, n->source, TREE_SHARE, &st, e);
}

static int each_entry(struct extract *x,
                      int (*f)(struct extract *, const struct manifest_entry *, struct err *),
                      struct err *e) {
    for (size_t i = 0; i < x->files->count; i++) {
        const struct manifest_entry *n = &x->files->entries[i];
        x->names.owner = (uint32_t)i + 1;
        if (!str_starts(file_base(n->path), PLACE_UNFINISHED) && f(x, n, e) < 0)
            return -1;
    }
    return 0;
}

static int cannot_write(const struct extract *x, struct err *e) {
    char need[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    struct err why = *e;
    return err_set(e, why.code,
                   "%s (%llu members of %s; %s were free; try: dtctl data ls, dtctl gc)", why.text,
                   (unsigned long long)x->total.entries, str_human_bytes(need, x->total.bytes),
                   str_human_bytes(have, x->free_bytes));
}

static int extract(struct extract *x, struct err *e) {
    const struct manifest_rules all = {.own_too = true};
    if (manifest_add_path(x->files, x->from, "", &all, e) < 0 || manifest_sort(x->files, e) < 0 ||
        file_disk_free(x->from, &x->free_bytes, e) < 0 || each_entry(x, check_entry, e) < 0 ||
        tree_open(&x->place, x->dest, true, e) < 0)
        return -1;
    x->place.ticks = x->ticks;
    if (each_entry(x, write_entry, e) < 0)
        return e->code == ERR_SYS ? cannot_write(x, e) : -1;
    if (!x->place.ready)
        return err_set(e, ERR_FORMAT, "its archives have no members");
    return file_sync_disk(x->place.staging, e) < 0 ? -1 : tree_switch(&x->place, e);
}

int extract_tree(const char *from, const char *dest, content_tick *tick, void *ctx, struct err *e) {
    struct extract x = {.from = from,
                        .dest = dest,
                        .ticks = {tick, ctx},
                        .files = manifest_new(),
                        .place = PLACE_CLOSED};
    int rc = extract(&x, e);
    tree_close(&x.place);
    member_names_fini(&x.names);
    manifest_free(x.files);
    arena_fini(&x.arena);
    return rc;
}

static int sweep(struct arena *a, const char *dest, struct err *e) {
    const char *begin = arena_printf(a, "%s%s", file_base(dest), PLACE_NEW);
    const char *dir = file_dir(a, dest);
    int rc = 0;
    struct file_entries in = file_entries_open(dir);
    while (rc == 0 && file_entries_next(&in))
        if (str_starts(in.name, begin))
            rc = file_remove_tree(file_join(a, dir, in.name), e);
    return file_entries_close(&in, rc, e);
}

int extract_once(const char *from, const char *dest, const char *locks, content_tick *tick,
                 void *ctx, bool *made, struct err *e) {
    struct arena a = {0};
    auto_close int lock_fd = -1;
    const char *lock = arena_printf(&a, "%s/%s.lock", locks, file_base(dest));
    int rc = file_make_dirs(locks, 0755, e);
    if (rc == 0)
        rc = file_lock(lock, "extract", LOCK_WAIT_MS, &lock_fd, e);
    if (rc == 0 && !file_exists(dest)) {
        *made = true;
        rc = sweep(&a, dest, e) < 0 ? -1 : extract_tree(from, dest, tick, ctx, e);
    }
    arena_fini(&a);
    return rc;
}
