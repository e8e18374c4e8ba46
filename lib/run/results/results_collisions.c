// SPDX-License-Identifier: Apache-2.0
// Where a file goes whose name several nodes have written.
//
// Walks the sorted lists of all parts at once, like a merge. A path that moves inside a part may
// collide with a path of another node, so the walk is repeated until no path differs.
#include "run/results/results_collisions.h"

#include "content/manifest.h"
#include "content/same_content.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS_MAX = 8 };

struct node_part {
    const char *folder, *name;
    struct manifest *m;
    size_t at; // offset of the walk
};

struct split {
    struct arena *a;
    struct node_part *parts;
    size_t count;
    const char *dest;
    const struct content_ticks *ticks;
    struct results_collisions *out;
};

// Creates the parent folders of a path in a part. *free_way: no file is in the way.
static int make_way(struct arena *a, const char *folder, const char *path, bool *free_way,
                    struct err *e) {
    struct stat st;
    *free_way = true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *dir = file_join(a, folder, arena_strndup(a, path, (size_t)(slash - path)));
        if (mkdir(dir, 0755) == 0)
            continue;
        if (errno != EEXIST || lstat(dir, &st) < 0)
            return err_errno(e, ERR_SYS, "cannot create folder '%s'", dir);
        if (!S_ISDIR(st.st_mode)) {
            *free_way = false;
            return 0;
        }
    }
    return 0;
}

// Renames PATH of the part to NODE/PATH. Underscores are appended to NODE while that path is taken.
static int set_apart(struct arena *a, const struct node_part *p, const char *path, const char **to,
                     struct err *e) {
    const char *node = p->name, *from = file_join(a, p->folder, path);
    struct stat st;
    for (;;) {
        bool free_way = false;
        *to = file_join(a, node, path);
        const char *target = file_join(a, p->folder, *to);
        if (make_way(a, p->folder, *to, &free_way, e) < 0)
            return -1;
        if (free_way && lstat(target, &st) < 0)
            return errno != ENOENT || rename(from, target) < 0
                       ? err_errno(e, ERR_SYS, "cannot move '%s' to '%s'", from, target)
                       : 0;
        node = arena_printf(a, "%s_", node);
    }
}

// An earlier merge of fewer nodes may have put a file at PATH. It is removed if it equals the file
// that is now at NODE/PATH, so that the layout does not depend on the order of arrival.
static int drop_copy(const struct split *s, const char *path, const char *now, struct err *e) {
    struct arena *a = s->a;
    const char *dest = s->dest, *earlier = file_join(a, dest, path);
    struct stat x, y;
    bool equal = false;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (lstat(file_join(a, dest, arena_strndup(a, path, (size_t)(slash - path))), &x) < 0 ||
            !S_ISDIR(x.st_mode)) // never remove through a link
            return 0;
    if (lstat(earlier, &x) < 0 || lstat(now, &y) < 0 || !S_ISREG(x.st_mode) ||
        !S_ISREG(y.st_mode) || x.st_size != y.st_size)
        return 0;
    if (same_content(earlier, now, s->ticks, &equal, e) < 0)
        return -1;
    if (equal && unlink(earlier) < 0)
        return err_errno(e, ERR_SYS, "cannot remove '%s'", earlier);
    return 0;
}

// Removes the folders above a path that moved out of them, as far as they are empty.
static void drop_empty(struct arena *a, const char *folder, const char *path) {
    for (const char *dir = path; (dir = file_dir(a, dir)) && strcmp(dir, ".") != 0;)
        if (rmdir(file_join(a, folder, dir)) < 0)
            return;
}

static bool is_below(const char *path, const char *folder) {
    size_t len = folder ? strlen(folder) : 0;
    return len && strncmp(path, folder, len) == 0 && path[len] == '/';
}

// The lowest next path of all parts; NULL at the end.
static const char *next_path(const struct node_part *parts, size_t count) {
    const char *low = NULL;
    for (size_t i = 0; i < count; i++)
        if (parts[i].at < parts[i].m->count) {
            const char *path = parts[i].m->entries[parts[i].at].path;
            if (!low || manifest_order(path, low) < 0)
                low = path;
        }
    return low;
}

static bool has(const struct node_part *p, const char *path) {
    return p->at < p->m->count && strcmp(p->m->entries[p->at].path, path) == 0;
}

static int differs(const struct split *s, const char *path, bool *out, struct err *e) {
    const struct manifest_entry *first = NULL;
    *out = false;
    for (size_t i = 0; i < s->count && !*out; i++) {
        bool equal = true;
        if (!has(&s->parts[i], path))
            continue;
        const struct manifest_entry *entry = &s->parts[i].m->entries[s->parts[i].at];
        if (first && same_entry(first, entry, s->ticks, &equal, e) < 0)
            return -1;
        first = first ? first : entry;
        *out = !equal;
    }
    return 0;
}

static int walk(struct split *s, struct err *e) {
    struct arena *a = s->a;
    struct node_part *parts = s->parts;
    struct results_collisions *out = s->out;
    const char *moved = NULL; // the folder moved last; its contents moved with it
    for (const char *path; (path = next_path(parts, s->count));) {
        bool apart = false;
        if (content_tick_call(s->ticks, 0, e) < 0 ||
            (!is_below(path, moved) && differs(s, path, &apart, e) < 0))
            return -1;
        if (apart)
            moved = path;
        for (size_t i = 0; i < s->count; i++) {
            const char *to = NULL;
            if (!has(&parts[i], path))
                continue;
            // A path below the node's own name is apart from those of the other nodes already.
            const char *node = parts[i].name, *folder = parts[i].folder;
            if (strcmp(path, node) == 0 || is_below(path, node))
                to = path;
            else if (apart && (set_apart(a, &parts[i], path, &to, e) < 0 ||
                               drop_copy(s, path, file_join(a, folder, to), e) < 0))
                return -1;
            else if (apart)
                drop_empty(a, folder, path);
            if (apart && !out->first)
                out->first = arena_strdup(a, to);
            parts[i].at++;
        }
        out->apart += apart;
    }
    return 0;
}

static int split_once(struct split *s, struct err *e) {
    const struct manifest_rules rules = {.ticks = *s->ticks};
    struct node_part *parts = s->parts;
    int result = 0;
    for (size_t i = 0; i < s->count; i++) {
        parts[i].m = manifest_new();
        parts[i].at = 0;
        if (result == 0 && (manifest_add_path(parts[i].m, parts[i].folder, "", &rules, e) < 0 ||
                            manifest_sort(parts[i].m, e) < 0))
            result = -1;
    }
    if (result == 0)
        result = walk(s, e);
    for (size_t i = 0; i < s->count; i++)
        manifest_free(parts[i].m);
    return result;
}

int results_collisions_split(struct arena *a, const char *const *folders, const char *const *names,
                             size_t count, const char *dest, const struct content_ticks *ticks,
                             struct results_collisions *out, struct err *e) {
    struct node_part *parts = arena_new(a, struct node_part, count + 1);
    struct split s = {
        .a = a, .parts = parts, .count = count, .dest = dest, .ticks = ticks, .out = out};
    *out = (struct results_collisions){0};
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct node_part){.folder = folders[i], .name = names[i]};
    for (int round = 0; count > 1 && round < ROUNDS_MAX; round++) {
        size_t before = out->apart;
        if (split_once(&s, e) < 0)
            return -1;
        if (out->apart == before)
            return 0;
    }
    return count < 2 ? 0
                     : err_set(e, ERR_FAILED, "the files of two nodes would have one name: '%s'",
                               out->first ? out->first : "");
}
