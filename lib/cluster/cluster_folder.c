// SPDX-License-Identifier: Apache-2.0
// The operator's folder of one cluster.
#include "cluster/cluster_folder.h"

#include "base/array.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAMP_BYTES = 16, RUN_TAIL_BYTES = 6, FOLDERS_ABOVE_MAX = 64 };

int cluster_open(struct cluster *c, struct arena *a, const char *base, const char *name,
                 struct err *e) {
    *c = (struct cluster){.arena = a, .lock_fd = -1};
    if (!str_is_name(name, INVENTORY_NAME_BYTES_MAX))
        return err_set(e, ERR_CONFIG,
                       "cluster name '%.80s': use letters, digits, '.', '_', '-', at most %d bytes",
                       name, INVENTORY_NAME_BYTES_MAX);
    c->name = arena_strdup(a, name);
    c->base = file_absolute(a, base, e);
    if (!c->base)
        return -1;
    c->dir = arena_printf(a, "%s/.dtctl/%s", c->base, name);
    if (strlen(c->dir) > FILE_PATH_BYTES_MAX - 1024)
        return err_set(e, ERR_LIMIT, "the path '%.60s…' is too long", c->dir);
    c->inventory_path = file_join(a, c->dir, "cluster.toml");
    c->known_hosts_path = file_join(a, c->dir, "known_hosts");
    c->key_path = file_join(a, c->dir, "id_ed25519");
    c->runs_dir = file_join(a, c->dir, "runs");
    c->nodes_dir = file_join(a, c->dir, "nodes");
    c->lock_path = file_join(a, c->dir, "lock");
    c->reached_path = file_join(a, c->dir, "reached");
    return 0;
}

void cluster_close(struct cluster *c) {
    cluster_unlock(c);
}

int cluster_create(struct cluster *c, struct err *e) {
    if (!str_is_utf8(c->dir)) // the records of nodes and runs have paths
        return err_set(e, ERR_CONFIG, "the path of this folder is not UTF-8: '%s' (try: rename it)",
                       str_printable(c->arena, c->dir, strlen(c->dir)));
    c->made |= file_is_absent(c->dir);
    if (file_make_dirs(c->dir, 0700, e) < 0 || file_make_dirs(c->runs_dir, 0700, e) < 0)
        return -1;
    // The folder holds keys and results, which must not enter a repository.
    char *ignore = arena_printf(c->arena, "%s/.dtctl/.gitignore", c->base);
    return file_exists(ignore) ? 0 : file_write_atomic(ignore, "*\n", 2, 0644, e);
}

void cluster_discard(struct cluster *c) {
    static const char *const WORTHLESS[] = {"lock", "owner", "runs"};
    if (!c->made || c->lock_fd < 0)
        return;
    struct file_entries in = file_entries_open(c->dir);
    bool worthless = !in.is_missing;
    while (worthless && file_entries_next(&in)) {
        bool listed = false;
        for (size_t i = 0; i < sizeof WORTHLESS / sizeof WORTHLESS[0]; i++)
            listed |= str_eq(in.name, WORTHLESS[i]);
        worthless = listed;
    }
    if (file_entries_close(&in, 0, NULL) < 0 || !worthless || rmdir(c->runs_dir) < 0)
        return;
    unlink(file_join(c->arena, c->dir, "owner"));
    unlink(c->lock_path); // last, since the lock excludes others until then
    rmdir(c->dir);
}

// Locks again when the previous holder has removed the folder (cluster_discard).
static int take_lock(struct cluster *c, const char *purpose, int wait_ms, struct err *e) {
    do {
        err_clear(e);
        if (cluster_create(c, e) < 0)
            return -1;
        if (file_lock(c->lock_path, purpose, wait_ms, &c->lock_fd, e) == 0)
            return 0;
        c->lock_fd = -1;
    } while (e->code == ERR_NOT_FOUND);
    return -1;
}

int cluster_lock(struct cluster *c, const char *purpose, int wait_ms, struct err *e) {
    if (c->lock_fd >= 0 || take_lock(c, purpose, 0, e) == 0)
        return 0;
    if (e->code != ERR_BUSY || wait_ms == 0)
        return err_wrap(e, "cluster '%s'", c->name);
    log_warn("waiting for another dtctl on this cluster", "cluster=%s reason=\"%s\"", c->name,
             e->text);
    err_clear(e);
    if (take_lock(c, purpose, wait_ms, e) == 0)
        return 0;
    return err_wrap(e, "cluster '%s', after %d s", c->name, wait_ms / 1000);
}

void cluster_unlock(struct cluster *c) {
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    c->lock_fd = -1;
}

bool cluster_exists(const struct cluster *c) {
    return !file_is_absent(c->inventory_path);
}

// The parent folder that has a cluster of this name; NULL: none.
static const char *find_above(const struct cluster *c) {
    const char *dir = c->base;
    for (int i = 0; i < FOLDERS_ABOVE_MAX && !str_eq(dir, "/"); i++) {
        dir = file_dir(c->arena, dir);
        if (!file_is_absent(arena_printf(c->arena, "%s/.dtctl/%s/cluster.toml", dir, c->name)))
            return dir;
    }
    return NULL;
}

int cluster_load(const struct cluster *c, struct inventory *out, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    if (file_read(c->arena, c->inventory_path, INVENTORY_BYTES_MAX, &text, &len, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        const char *above = find_above(c);
        if (above)
            return err_set(e, ERR_NOT_FOUND,
                           "cluster '%s' is not up in this folder; there is one in '%s/.dtctl' "
                           "(try: cd %s, or dtctl up)",
                           c->name, above, above);
        return err_set(e, ERR_NOT_FOUND, "cluster '%s' is not up (try: dtctl up)", c->name);
    }
    if (inventory_parse(c->arena, text, len, c->inventory_path, out, e) == 0)
        return 0;
    const char *all = arena_printf(c->arena,
                                   "%s\n'%s' is damaged or of another version (try: move it away, "
                                   "then dtctl up, which writes it again)",
                                   e->text, c->inventory_path);
    return err_set_lines(e, e->code, all);
}

int cluster_save(const struct cluster *c, const struct inventory *inv, struct err *e) {
    struct strbuf out = {0};
    inventory_format(inv, &out);
    int result = file_write_atomic(c->inventory_path, strbuf_cstr(&out), out.len, 0600, e);
    strbuf_fini(&out);
    return result;
}

int cluster_forget(const struct cluster *c, struct err *e) {
    unlink(c->reached_path);
    if (unlink(c->inventory_path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot remove '%s'", c->inventory_path);
    return file_sync_dir(c->dir, e);
}

static int compare_names(const void *x, const void *y) {
    return str_natural_cmp(*(const char *const *)x, *(const char *const *)y);
}

// Orders runs newest first: by the stamp in the name, then by name.
static int compare_runs(const void *x, const void *y) {
    const char *a = *(const char *const *)x, *b = *(const char *const *)y;
    // Compare the stamp and the rest, which differs for runs of one second.
    const char *sa = cluster_run_stamp(a), *sb = cluster_run_stamp(b);
    int c = strcmp(sb ? sb : "", sa ? sa : "");
    return c ? c : strcmp(b, a);
}

// Lists the folders in dir with valid names; an absent dir has none.
static int list_dirs(struct arena *a, const char *dir, char ***names, size_t *count,
                     struct err *e) {
    size_t room = 0;
    *count = 0;
    *names = NULL;
    array_grow_in(a, *names, &room, 1); // ends with NULL
    struct file_entries in = file_entries_open(dir);
    while (*count < CLUSTER_RUNS_MAX && file_entries_next(&in)) {
        if ((in.type != DT_DIR && in.type != DT_UNKNOWN) ||
            !str_is_name(in.name, CLUSTER_RUN_NAME_BYTES_MAX))
            continue;
        array_grow_in(a, *names, &room, *count + 2);
        (*names)[(*count)++] = arena_strdup(a, in.name);
    }
    return file_entries_close(&in, 0, e);
}

int cluster_list(struct arena *a, const char *base, char ***names, struct err *e) {
    size_t count = 0;
    if (list_dirs(a, file_join(a, base, ".dtctl"), names, &count, e) < 0)
        return -1;
    qsort(*names, count, sizeof **names, compare_names);
    return 0;
}

int cluster_runs(const struct cluster *c, char ***runs, size_t *count, struct err *e) {
    if (list_dirs(c->arena, c->runs_dir, runs, count, e) < 0)
        return -1;
    qsort(*runs, *count, sizeof **runs, compare_runs);
    return 0;
}

char *cluster_run_dir(const struct cluster *c, const char *run) {
    return file_join(c->arena, c->runs_dir, run);
}

const char *cluster_run_stamp(const char *run) {
    size_t len = strlen(run);
    if (len < STAMP_BYTES + 1 + RUN_TAIL_BYTES)
        return NULL;
    const char *s = run + len - RUN_TAIL_BYTES - 1 - STAMP_BYTES;
    for (int i = 0; i < STAMP_BYTES; i++) {
        const char *shape = "ddddddddTddddddZ";
        if (shape[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != shape[i])
            return NULL;
    }
    return s[STAMP_BYTES] == '-' ? s : NULL;
}

bool cluster_run_is_of(const char *run, const char *task) {
    const char *stamp = cluster_run_stamp(run);
    size_t len = strlen(task);
    return stamp && len > 0 && run + len + 1 == stamp && strncmp(run, task, len) == 0;
}

size_t cluster_task_runs(const struct cluster *c, const char *run, const char *task) {
    char **runs = NULL;
    size_t count = 0, found = 0;
    struct err ignored = {0};
    if (!cluster_run_is_of(run, task) || cluster_runs(c, &runs, &count, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        found += cluster_run_is_of(runs[i], task);
    return found;
}

int cluster_find_run(const struct cluster *c, const char *text, const char **run, struct err *e) {
    char **runs = NULL;
    size_t count = 0;
    if (cluster_runs(c, &runs, &count, e) < 0)
        return -1;
    if (count == 0)
        return err_set(e, ERR_NOT_FOUND, "cluster '%s' has no runs yet (try: dtctl train)",
                       c->name);
    if (!text || !*text) {
        *run = runs[0];
        return 0;
    }
    const char *found = NULL, *of_task = NULL;
    size_t matches = 0;
    for (size_t i = 0; i < count; i++) { // newest first
        if (strcmp(runs[i], text) == 0) {
            *run = runs[i];
            return 0;
        }
        if (!of_task && cluster_run_is_of(runs[i], text))
            of_task = runs[i];
        if (str_starts(runs[i], text)) {
            found = found ? found : runs[i];
            matches++;
        }
    }
    if (of_task || matches == 1) {
        *run = of_task ? of_task : found;
        return 0;
    }
    if (matches > 1)
        return err_set(e, ERR_NOT_FOUND, "%zu runs begin with '%.80s'; the newest is '%s'", matches,
                       text, found);
    const char *near = str_nearest(text, (const char *const *)runs);
    return err_set(e, ERR_NOT_FOUND, "there is no run '%.80s'%s%s (try: dtctl ps --all)", text,
                   near ? "; did you mean " : "", near ? near : "");
}
