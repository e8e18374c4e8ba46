// SPDX-License-Identifier: Apache-2.0
// The record of one run on the operator's side.
#include "cluster/run_record.h"

#include "base/clock.h"
#include "base/hash.h"
#include "conf/toml.h"
#include "protocol/node_protocol.h"
#include "sys/file.h"

#include <string.h>
#include <time.h>

static const char *const ARCHIVES[] = {"none", "begun", "whole", NULL}; // enum run_archives

char *run_make_id(struct arena *a, const char *name, int64_t wall_ms) {
    uint16_t random;
    char stamp[32];
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    hash_random(&random, sizeof random);
    gmtime_r(&seconds, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    // The milliseconds come first, so that runs of one second also sort by age.
    return arena_printf(a, "%s-%s-%03x%03x", name, stamp, (unsigned)(wall_ms % 1000),
                        random & 0xfffu);
}

char *run_make_name(struct arena *a, const char *text) {
    char *name = arena_strndup(a, text, strnlen(text, RUN_TASK_BYTES_MAX));
    for (char *p = name; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p))
            *p = '-';
    while (*name && strchr("._-", *name))
        name++;
    return *name ? name : arena_strdup(a, "run");
}

char *run_path(const struct cluster *c, const struct run *r, const char *name) {
    return file_join(c->arena, cluster_run_dir(c, r->id), name);
}

const char *run_near_path(struct arena *a, const char *path) {
    struct err e = {0};
    char *here = file_absolute(a, ".", &e);
    size_t len = here ? strlen(here) : 0;
    return len && strncmp(path, here, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

char *run_node_path(const struct cluster *c, const struct run *r, const char *node,
                    const char *name) {
    return arena_printf(c->arena, "%s/nodes/%s/%s", cluster_run_dir(c, r->id), node, name);
}

bool run_is_over(const struct run *r) {
    for (int i = 0; i <= NODE_LOST; i++)
        if (strcmp(node_state_name((enum node_state)i), r->state) == 0)
            return node_state_is_final((enum node_state)i);
    return false;
}

bool run_is_all_here(const struct run *r) {
    return r->fetched && !r->left && !r->work_left;
}

bool run_has_lost(const struct run *r, const char *node) {
    return str_is_among(node, r->lost, r->lost_count);
}

int run_lose(const struct cluster *c, const char *id, const char *node, struct err *e) {
    struct run r;
    if (run_load(c, id, &r, e) < 0)
        return -1;
    unsigned kinds = r.fetched ? r.left : RESULT_ALL;
    if (!kinds || !str_is_among(node, r.nodes, r.node_count))
        return 0;
    if (!run_has_lost(&r, node)) {
        const char **lost = arena_new(c->arena, const char *, r.node_count);
        size_t count = 0;
        for (size_t i = 0; i < r.node_count; i++) // in the order of the nodes
            if (strcmp(r.nodes[i], node) == 0 || run_has_lost(&r, r.nodes[i]))
                lost[count++] = r.nodes[i];
        r.lost = lost;
        r.lost_count = count;
    }
    r.lost_kinds = (r.lost_count > 1 ? r.lost_kinds : 0) | kinds;
    if (r.lost_count == r.node_count) {
        r.state = run_is_over(&r) ? r.state : node_state_name(NODE_LOST);
        r.fetched = true;
        r.left = 0;
        r.work_left = 0;
    }
    return run_save(c, &r, e);
}

int run_lock(const struct cluster *c, const char *id, const char *purpose, int *fd, struct err *e) {
    return file_lock(file_join(c->arena, cluster_run_dir(c, id), ".finish"), purpose, 0, fd, e);
}

static void write_kinds(struct strbuf *text, const char *key, unsigned kinds) {
    const char *names[RESULT_KINDS];
    size_t count = result_kinds_names(kinds, names);
    toml_write_strs(text, key, names, count);
}

static void write_map(struct strbuf *text, const char *key, const struct option_map *map) {
    if (map->count)
        toml_write_table(text, key, NULL);
    for (size_t i = 0; i < map->count; i++)
        toml_write_str(text, map->items[i].name, map->items[i].value);
}

void run_format(const struct run *r, struct strbuf *text) {
    strbuf_adds(text, "# One run, as dtctl keeps it. Written by dtctl.\n");
    toml_write_str(text, "id", r->id);
    toml_write_str(text, "name", r->name);
    toml_write_str(text, "cluster", r->cluster);
    toml_write_str(text, "provider", r->provider);
    toml_write_int(text, "created_ms", r->created_ms);
    toml_write_strs(text, "command", r->command, r->command_count);
    toml_write_bool(text, "native", r->native);
    toml_write_strs(text, "nodes", r->nodes, r->node_count);
    toml_write_int(text, "nodes_min", r->nodes_min);
    toml_write_int(text, "nodes_max", r->nodes_max);
    toml_write_str(text, "nproc_per_node", r->nproc);
    toml_write_int(text, "max_restarts", r->max_restarts);
    toml_write_str(text, "output_dir", r->output_dir);
    toml_write_str(text, "state", r->state);
    toml_write_bool(text, "fetched", r->fetched);
    if (r->s3 && r->s3[0]) {
        toml_write_str(text, "s3", r->s3);
        toml_write_bool(text, "uploaded", r->uploaded);
    }
    write_kinds(text, "fetch", r->wanted);
    if (r->left)
        write_kinds(text, "left", r->left);
    if (r->lost_count) {
        toml_write_strs(text, "lost", r->lost, r->lost_count);
        write_kinds(text, "lost_kinds", r->lost_kinds);
    }
    toml_write_int(text, "work_left", r->work_left);
    toml_write_bool(text, "bring_work", r->bring_work);
    if (r->output_every_ms)
        toml_write_int(text, "output_every_ms", r->output_every_ms);
    toml_write_str(text, "merge", config_merge_words[r->merge]);
    if (r->archive) {
        toml_write_str(text, "archive", config_archive_words[r->archive]);
        toml_write_str(text, "archives", ARCHIVES[r->archives]);
    }
    if (r->key && r->key[0])
        toml_write_str(text, "task_hash", r->key);
    if (r->resumes && r->resumes[0])
        toml_write_str(text, "resumes", r->resumes);
    toml_write_int(text, "exit_status", r->exit_status);
    toml_write_int(text, "push_ms", r->push_ms);
    toml_write_int(text, "setup_ms", r->setup_ms);
    toml_write_int(text, "start_ms", r->start_ms);
    toml_write_int(text, "train_ms", r->train_ms);
    toml_write_int(text, "fetch_ms", r->fetch_ms);
    toml_write_int(text, "push_bytes", (int64_t)r->push_bytes);
    toml_write_int(text, "fetch_bytes", (int64_t)r->fetch_bytes);
    if (r->version && r->version[0])
        toml_write_str(text, "version", r->version);
    if (r->types && r->types[0])
        toml_write_str(text, "instance_types", r->types);
    write_map(text, "metrics", &r->metrics);
    write_map(text, "tags", &r->tags);
    write_map(text, "settings", &r->settings);
    write_map(text, "env_digests", &r->env);
}

int run_save(const struct cluster *c, const struct run *r, struct err *e) {
    struct strbuf out = {0};
    run_format(r, &out);
    char *dir = cluster_run_dir(c, r->id);
    int result = file_make_dirs(dir, 0700, e);
    if (result == 0)
        result = file_write_atomic(file_join(c->arena, dir, "run.toml"), strbuf_cstr(&out), out.len,
                                   0600, e);
    strbuf_fini(&out);
    return result;
}

static void read_map(struct arena *a, const struct toml *t, const char *key,
                     struct option_map *out) {
    const struct toml *m = toml_member(t, key);
    size_t count = m && m->type == TOML_TABLE ? m->len : 0;
    out->items = arena_new(a, struct option_pair, count + 1);
    for (const struct toml *v = count ? m->child : NULL; v; v = v->next)
        if (v->type == TOML_STRING)
            out->items[out->count++] = (struct option_pair){v->key, v->str};
}

static int read_lists(struct arena *a, const struct toml *t, struct run *r, struct err *e) {
    if (toml_need_strs(a, t, "command", (char ***)&r->command, &r->command_count, e) < 0 ||
        toml_need_strs(a, t, "nodes", (char ***)&r->nodes, &r->node_count, e) < 0)
        return -1;
    if (r->node_count == 0 || r->node_count > RUN_NODES_MAX)
        return err_set(e, ERR_FORMAT, "nodes: expected 1 to %d names", RUN_NODES_MAX);
    if (toml_member(t, "lost") &&
        toml_need_strs(a, t, "lost", (char ***)&r->lost, &r->lost_count, e) < 0)
        return -1;
    for (size_t i = 0; i < r->node_count + r->lost_count; i++) {
        const char *name = i < r->node_count ? r->nodes[i] : r->lost[i - r->node_count];
        if (!str_is_name(name, INVENTORY_NAME_BYTES_MAX))
            return err_set(e, ERR_FORMAT, "nodes: '%.80s' is no node name", name);
    }
    read_map(a, t, "metrics", &r->metrics);
    read_map(a, t, "tags", &r->tags);
    read_map(a, t, "settings", &r->settings);
    read_map(a, t, "env_digests", &r->env);
    return 0;
}

// The bits of a list of kinds; an older dtctl wrote none.
static int read_kinds(struct arena *a, const struct toml *t, const char *key, unsigned otherwise,
                      unsigned *out, struct err *e) {
    struct option_list list = {0};
    *out = otherwise;
    if (!toml_member(t, key))
        return 0;
    if (toml_need_strs(a, t, key, (char ***)&list.items, &list.count, e) < 0)
        return -1;
    for (size_t i = 0; i < list.count; i++)
        if (result_kinds_check(list.items[i], e) < 0)
            return err_wrap(e, "%s", key);
    *out = result_kinds_of(&list);
    return 0;
}

// The index of a key's word; otherwise, where there is none of them.
static int read_word(const struct toml *t, const char *key, const char *const *words,
                     int otherwise) {
    const char *word = toml_get_str(t, key, "");
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return otherwise;
}

int run_parse(struct arena *a, const char *text, size_t len, const char *path, struct run *r,
              struct err *e) {
    struct toml *t = NULL;
    int64_t created = 0;
    *r = (struct run){0};
    if (toml_parse(a, path, text, len, &t, e) < 0)
        return -1;
    if (toml_need_str(t, "id", &r->id, e) < 0 || toml_need_str(t, "name", &r->name, e) < 0 ||
        toml_need_int(t, "created_ms", 0, INT64_MAX, &created, e) < 0 ||
        toml_need_str(t, "output_dir", &r->output_dir, e) < 0 || read_lists(a, t, r, e) < 0)
        return err_wrap(e, "'%s'", path);
    r->created_ms = created;
    r->cluster = toml_get_str(t, "cluster", "");
    r->provider = toml_get_str(t, "provider", "");
    r->native = toml_get_bool(t, "native", false);
    r->nodes_min = (int)toml_get_int(t, "nodes_min", (int64_t)r->node_count);
    r->nodes_max = (int)toml_get_int(t, "nodes_max", (int64_t)r->node_count);
    r->nproc = toml_get_str(t, "nproc_per_node", "auto");
    r->max_restarts = (int)toml_get_int(t, "max_restarts", 0);
    r->state = toml_get_str(t, "state", "made");
    r->fetched = toml_get_bool(t, "fetched", false);
    r->s3 = toml_get_str(t, "s3", "");
    r->uploaded = toml_get_bool(t, "uploaded", false);
    r->work_left = toml_get_int(t, "work_left", 0);
    r->bring_work = toml_get_bool(t, "bring_work", false);
    bool apart = toml_get_bool(t, "apart", false); // of an older dtctl
    r->merge =
        read_word(t, "merge", config_merge_words, apart ? CONFIG_MERGE_BY_NODE : CONFIG_MERGE_AUTO);
    r->output_every_ms = toml_get_int(t, "output_every_ms", 0);
    if (r->output_every_ms < 0 || r->output_every_ms > CONFIG_OUTPUT_EVERY_MS_MAX)
        return err_set(e, ERR_FORMAT, "'%s': output_every_ms is out of range", path);
    r->archive = read_word(t, "archive", config_archive_words, CONFIG_ARCHIVE_NONE);
    r->archives = read_word(t, "archives", ARCHIVES, RUN_ARCHIVES_NONE);
    if (read_kinds(a, t, "fetch", RESULT_ALL, &r->wanted, e) < 0 ||
        read_kinds(a, t, "left", 0, &r->left, e) < 0 ||
        read_kinds(a, t, "lost_kinds", RESULT_ALL, &r->lost_kinds, e) < 0)
        return err_wrap(e, "'%s'", path);
    r->key = toml_get_str(t, "task_hash", "");
    r->resumes = toml_get_str(t, "resumes", "");
    r->version = toml_get_str(t, "version", "");
    r->types = toml_get_str(t, "instance_types", "");
    r->exit_status = (int)toml_get_int(t, "exit_status", 0);
    r->push_ms = toml_get_int(t, "push_ms", 0);
    r->setup_ms = toml_get_int(t, "setup_ms", 0);
    r->start_ms = toml_get_int(t, "start_ms", 0);
    r->train_ms = toml_get_int(t, "train_ms", 0);
    r->fetch_ms = toml_get_int(t, "fetch_ms", 0);
    r->push_bytes = (uint64_t)toml_get_int(t, "push_bytes", 0);
    r->fetch_bytes = (uint64_t)toml_get_int(t, "fetch_bytes", 0);
    return 0;
}

int run_load(const struct cluster *c, const char *id, struct run *r, struct err *e) {
    char *path = file_join(c->arena, cluster_run_dir(c, id), "run.toml"), *text = NULL;
    size_t len = 0;
    if (file_read(c->arena, path, RUN_RECORD_BYTES_MAX, &text, &len, e) < 0 ||
        run_parse(c->arena, text, len, path, r, e) < 0)
        return err_wrap(e, "run '%s'", id);
    if (strcmp(r->id, id) != 0)
        return err_set(e, ERR_FORMAT, "'%s' is the record of another run, '%.80s'", path, r->id);
    if (!r->cluster[0])
        r->cluster = c->name;
    return 0;
}

int run_walk_open(struct run_walk *w, const struct cluster *c, struct err *e) {
    *w = (struct run_walk){.cluster = c};
    return cluster_runs(c, &w->ids, &w->count, e);
}

bool run_walk_next(struct run_walk *w, struct run *r) {
    struct err ignored = {0};
    while (w->next < w->count)
        if (run_load(w->cluster, w->ids[w->next++], r, &ignored) == 0)
            return true;
    return false;
}

char *run_node_dir(struct arena *a, const char *run, const char *name) {
    return arena_printf(a, "runs/%s%s%s", run, *name ? "/" : "", name);
}
