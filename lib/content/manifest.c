// SPDX-License-Identifier: Apache-2.0
// Builds manifests from local paths and from memory.
#include "content/manifest.h"

#include "base/array.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "content/ignore.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_BYTES_MAX = 200 }; // of a path, in messages

static const char own_folder[] = ".dtctl";

struct manifest *manifest_new(void) {
    return heap_alloc(sizeof(struct manifest));
}

void manifest_free(struct manifest *m) {
    if (!m)
        return;
    free(m->entries);
    arena_fini(&m->arena);
    free(m);
}

bool manifest_names_own(const char *path) {
    size_t len = sizeof own_folder - 1;
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, own_folder, len) == 0 && (p[len] == '/' || p[len] == '\0'))
            return true;
    }
    return false;
}

bool manifest_link_stays(const char *path, const char *target) {
    size_t above = 0, named = 0;
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
        above++;
    if (*target == '/')
        return false;
    for (const char *p = target; *p;) {
        size_t len = strcspn(p, "/");
        bool up = len == 2 && p[0] == '.' && p[1] == '.';
        if (up && (named > 0 || above-- == 0))
            return false;
        named += !up && len > 0 && !(len == 1 && *p == '.');
        p += len + (p[len] == '/');
    }
    return true;
}

static size_t depth(const char *path) {
    size_t slashes = 0;
    for (; *path; path++)
        slashes += *path == '/';
    return slashes;
}

static const char *shown(struct manifest *m, const struct manifest_entry *n) {
    return str_printable(&m->arena, n->path, strnlen(n->path, SHOWN_BYTES_MAX));
}

// Checks the limits of a list, both of received lists and of local ones.
static int check_limits(struct manifest *m, const struct manifest_entry *n, size_t names,
                        struct err *e) {
    char size[STR_HUMAN_BYTES_MAX], limit[STR_HUMAN_BYTES_MAX];
    if (m->count == MANIFEST_ENTRIES_MAX || names > MANIFEST_NAMES_BYTES_MAX - m->names_bytes)
        return err_set(e, ERR_LIMIT,
                       "more than %d files and folders, or %d MiB of names; pack them into an "
                       "archive, or leave some out with .dtctlignore",
                       MANIFEST_ENTRIES_MAX, MANIFEST_NAMES_BYTES_MAX >> 20);
    if (depth(n->path) > MANIFEST_DEPTH_MAX)
        return err_set(e, ERR_LIMIT, "'%s…' is deeper than %d folders", shown(m, n),
                       MANIFEST_DEPTH_MAX);
    if (n->kind != MANIFEST_FILE)
        return 0;
    if (n->size > MANIFEST_FILE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "'%s' has %s, the limit is %s", shown(m, n),
                       str_human_bytes(size, n->size),
                       str_human_bytes(limit, MANIFEST_FILE_BYTES_MAX));
    return n->size > MANIFEST_BYTES_MAX - m->bytes
               ? err_set(e, ERR_LIMIT, "more than %s in all files",
                         str_human_bytes(limit, MANIFEST_BYTES_MAX))
               : 0;
}

int manifest_append(struct manifest *m, const struct manifest_entry *entry, struct err *e) {
    size_t len = strlen(entry->path), names = len + (entry->target ? strlen(entry->target) : 0);
    if (!file_is_safe_relative(entry->path, len) || len >= FILE_PATH_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "'%s' is not a path below a folder", shown(m, entry));
    if (check_limits(m, entry, names, e) < 0)
        return -1;
    array_grow(m->entries, &m->room, m->count + 1);
    struct manifest_entry *n = &m->entries[m->count++];
    *n = *entry;
    n->path = arena_strdup(&m->arena, entry->path);
    n->source = entry->source ? arena_strdup(&m->arena, entry->source) : NULL;
    n->target = entry->target ? arena_strdup(&m->arena, entry->target) : NULL;
    n->mode &= 0777;
    m->names_bytes += names;
    if (n->kind == MANIFEST_FILE) {
        m->bytes += n->size;
        m->files++;
    }
    m->sorted = false;
    return 0;
}

int manifest_add_bytes(struct manifest *m, const char *path, const void *bytes, size_t len,
                       uint32_t mode, struct err *e) {
    struct manifest_entry n = {.path = path,
                               .bytes = bytes ? bytes : "",
                               .size = len,
                               .mode = mode,
                               .kind = MANIFEST_FILE};
    return manifest_append(m, &n, e);
}

// ---- local folders ----------------------------------------------------------------------------

struct scan {
    struct manifest *m;
    struct arena arena;
    struct ignore ignore;
    bool ignore_default, own_too;
    struct content_ticks ticks;
    const char *top;    // local
    const char *prefix; // at the destination
};

static const char *join(struct arena *a, const char *dir, const char *name) {
    return *dir ? arena_printf(a, "%s/%s", dir, name) : arena_strdup(a, name);
}

static int read_ignore_file(struct scan *s, int dir_fd, const char *below, struct err *e) {
    auto_close int fd =
        openat(dir_fd, ".dtctlignore", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP
                   ? 0
                   : err_errno(e, ERR_SYS, "cannot read '%s/.dtctlignore'", below);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (st.st_size > IGNORE_FILE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "'%s/.dtctlignore' is larger than %d bytes", below,
                       IGNORE_FILE_BYTES_MAX);
    char *text = arena_new(&s->arena, char, (size_t)st.st_size + 1);
    ssize_t n = read(fd, text, (size_t)st.st_size);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s/.dtctlignore'", below);
    return ignore_add(&s->arena, &s->ignore, below, text, (size_t)n, e);
}

static int add_stat(struct scan *s, int dir_fd, const char *name, const char *below,
                    const struct stat *st, struct err *e) {
    struct manifest_entry n = {
        .path = join(&s->arena, s->prefix, below),
        .source = join(&s->arena, s->top, below),
        .mode = st->st_mode & 0777,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
    };
    if (S_ISREG(st->st_mode)) {
        n.kind = MANIFEST_FILE;
        n.size = (uint64_t)st->st_size;
    } else if (S_ISDIR(st->st_mode)) {
        n.kind = MANIFEST_FOLDER;
    } else if (S_ISLNK(st->st_mode)) {
        char *target = arena_new(&s->arena, char, MANIFEST_LINK_BYTES_MAX + 1);
        ssize_t len = readlinkat(dir_fd, name, target, MANIFEST_LINK_BYTES_MAX);
        if (len <= 0)
            return err_errno(e, ERR_SYS, "cannot read the link '%s'", n.source);
        n.kind = MANIFEST_LINK;
        n.target = target;
    } else {
        log_warn("skipping a special file", "path=%s", n.source);
        return 0;
    }
    return manifest_append(s->m, &n, e);
}

static int scan_folder(struct scan *s, int fd, const char *below, struct err *e);

static int scan_child(struct scan *s, int dir_fd, const char *name, const char *below,
                      struct err *e) {
    struct stat st;
    if (content_tick_call(&s->ticks, 0, e) < 0)
        return -1;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_errno(e, ERR_SYS, "cannot look at '%s'", below);
    if ((!s->own_too && strcmp(name, own_folder) == 0) ||
        ignore_match(&s->ignore, below, S_ISDIR(st.st_mode))) {
        s->m->ignored++;
        return 0;
    }
    if (add_stat(s, dir_fd, name, below, &st, e) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return 0;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot open the folder '%s'", join(&s->arena, s->top, below));
    return scan_folder(s, fd, below, e);
}

// Scans a folder; closes fd. The patterns of a folder apply inside it only. manifest_append limits
// the depth.
static int scan_folder(struct scan *s, int fd, const char *below, struct err *e) {
    int rc = 0;
    size_t patterns = s->ignore.count;
    struct file_entries in = file_entries_at(fd, below);
    if (s->ignore_default)
        rc = read_ignore_file(s, fd, below, e);
    while (rc == 0 && file_entries_next(&in))
        rc = scan_child(s, fd, in.name, join(&s->arena, below, in.name), e);
    rc = file_entries_close(&in, rc, e);
    s->ignore.count = patterns;
    return rc;
}

static int add_rules(struct scan *s, const struct manifest_rules *rules, struct err *e) {
    static const char defaults[] = ".git\n";
    if (rules->ignore_default &&
        ignore_add(&s->arena, &s->ignore, "", defaults, sizeof defaults - 1, e) < 0)
        return -1;
    for (const char *const *p = rules->ignore; p && *p; p++)
        if (ignore_add(&s->arena, &s->ignore, "", *p, strlen(*p), e) < 0)
            return -1;
    return 0;
}

// Refuses paths in dtctl's own folder, except results of runs, which may be inputs of other runs.
static int refuse_own(const char *local_path, struct err *e) {
    struct arena a = {0};
    char *real = realpath(local_path, NULL), **parts;
    size_t own = 0;
    if (!real)
        return err_errno(e, ERR_SYS, "'%s'", local_path);
    size_t count = str_split(&a, real + 1, '/', &parts);
    while (own < count && strcmp(parts[own], own_folder) != 0)
        own++;
    // .dtctl/CLUSTER/runs/RUN/…
    bool fine = own == count || (count - own > 4 && strcmp(parts[own + 2], "runs") == 0);
    free(real);
    arena_fini(&a);
    return fine ? 0
                : err_set(e, ERR_CONFIG,
                          "'%s' belongs to dtctl's own folder '%s', which holds keys and never "
                          "goes to a node",
                          local_path, own_folder);
}

int manifest_add_path(struct manifest *m, const char *local_path, const char *path,
                      const struct manifest_rules *rules, struct err *e) {
    struct scan s = {.m = m, .top = local_path, .prefix = path};
    struct stat st;
    int rc;
    if (stat(local_path, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "'%s'", local_path);
    s.ignore_default = rules && rules->ignore_default;
    s.own_too = rules && rules->own_too;
    if (rules)
        s.ticks = rules->ticks;
    if (!s.own_too && refuse_own(local_path, e) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        if (!S_ISREG(st.st_mode))
            return err_set(e, ERR_FORMAT, "'%s' is neither a file nor a folder", local_path);
        struct manifest_entry n = {.path = path,
                                   .source = local_path,
                                   .size = (uint64_t)st.st_size,
                                   .mode = st.st_mode & 0777,
                                   .mtime_ns =
                                       (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                                   .kind = MANIFEST_FILE};
        return manifest_append(m, &n, e);
    }
    struct manifest_entry top = {.path = path, .mode = st.st_mode & 0777, .kind = MANIFEST_FOLDER};
    if (*path && manifest_append(m, &top, e) < 0)
        return -1;
    int fd = open(local_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot open the folder '%s'", local_path);
    rc = rules ? add_rules(&s, rules, e) : 0;
    if (rc == 0)
        rc = scan_folder(&s, fd, "", e);
    else
        close(fd);
    arena_fini(&s.arena);
    return rc;
}

// ---- order and digest -------------------------------------------------------------------------

static int rank(char c) {
    return c == '/' ? 1 : c ? (unsigned char)c + 1 : 0;
}

int manifest_order(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return rank(*a) - rank(*b);
}

size_t manifest_lower_bound(const struct manifest *m, const char *path) {
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (manifest_order(m->entries[mid].path, path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int compare(const void *x, const void *y) {
    return manifest_order(((const struct manifest_entry *)x)->path,
                          ((const struct manifest_entry *)y)->path);
}

int manifest_sort(struct manifest *m, struct err *e) {
    size_t kept = 0;
    if (m->sorted)
        return 0;
    if (m->count)
        qsort(m->entries, m->count, sizeof *m->entries, compare);
    for (size_t i = 0; i < m->count; i++) {
        struct manifest_entry *n = &m->entries[i], *last = kept ? &m->entries[kept - 1] : NULL;
        if (last && strcmp(last->path, n->path) == 0) {
            if (last->kind == MANIFEST_FOLDER && n->kind == MANIFEST_FOLDER)
                continue;
            return err_set(e, ERR_EXISTS, "'%s' comes from two places", n->path);
        }
        size_t len = last ? strlen(last->path) : 0;
        if (last && last->kind != MANIFEST_FOLDER && strncmp(n->path, last->path, len) == 0 &&
            n->path[len] == '/')
            return err_set(e, ERR_EXISTS, "'%s' is both a %s and a folder", last->path,
                           last->kind == MANIFEST_LINK ? "link" : "file");
        m->entries[kept++] = *n;
    }
    m->count = kept;
    m->sorted = true;
    return 0;
}

void manifest_digest(const struct manifest *m, unsigned char out[HASH_BYTES]) {
    struct hash h;
    hash_init(&h);
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        unsigned char head[16];
        bytes_store(head, n->kind, 4);
        bytes_store(head + 4, n->mode, 4);
        bytes_store(head + 8, n->kind == MANIFEST_FILE ? n->size : 0, 8);
        hash_add(&h, head, sizeof head);
        hash_add(&h, n->path, strlen(n->path) + 1);
        if (n->kind == MANIFEST_FILE)
            hash_add(&h, n->hash, HASH_BYTES);
        else if (n->kind == MANIFEST_LINK)
            hash_add(&h, n->target, strlen(n->target) + 1);
    }
    hash_final(&h, out);
}
