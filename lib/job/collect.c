// SPDX-License-Identifier: Apache-2.0
// Bringing the results of a run to this side.
#include "job/collect.h"

#include "base/log.h"
#include "job/launch.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct collect {
    const struct run *run;
    const size_t *order;
    const struct story *story;
    struct collect_result *result;
};

// Where a node's part arrives.
static const char *part_path(struct session *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "incoming"), node);
}

const char *collect_mark_path(struct session *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "left"), node);
}

struct xfer *collect_start(struct fleet_node *n, const struct run *run,
                           const struct xfer_events *events, void *ctx, struct err *e) {
    struct session *s = n->fleet->session;
    const char *const paths[] = {launch_node_dir(s->arena, run->id, "output/"),
                                 launch_node_dir(s->arena, run->id, "model"),
                                 launch_node_dir(s->arena, run->id, "state"), NULL};
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = paths,
        .dest = part_path(s, run, n->info->name),
        .hash_cache_path = file_join(s->arena, s->cluster.dir, "hashes"),
        .missing_ok = true,
    };
    return xfer_fetch(n->link, &spec, events, ctx, e);
}

static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    const struct collect *c = ctx;
    return collect_start(n, c->run, events, n, e);
}

// ---- one folder of several ----------------------------------------------------------------------

struct parts {
    const char **folders, **names; // that have something, NULL-terminated
    size_t count;
};

static int split_by_node(struct session *s, const struct run *run, const struct parts *p,
                         struct err *e) {
    for (size_t i = 0; i < p->count; i++) {
        const char *to = file_join(s->arena, run->output_dir, p->names[i]);
        if (file_remove_tree(to, e) < 0)
            return -1;
        if (rename(p->folders[i], to) == 0)
            continue;
        // Another file system: the folder is a copy of one node, so merging moves it.
        const char *const folder[] = {p->folders[i], NULL}, *const name[] = {p->names[i], NULL};
        if (file_make_dirs(to, 0755, e) < 0 || xfer_merge_folders(to, folder, name, e) < 0)
            return -1;
    }
    return 0;
}

// One folder for all, or one per node when their files contradict each other.
static int merge(struct session *s, struct run *run, const struct parts *p,
                 struct collect_result *out, struct err *e) {
    if (xfer_merge_folders(run->output_dir, p->folders, p->names, e) == 0)
        return 0;
    if (e->code != ERR_EXISTS)
        return -1;
    out->by_node = true;
    out->conflict = arena_strdup(s->arena, e->text);
    err_clear(e);
    return split_by_node(s, run, p, e);
}

// The last one put in counts.
static int overlay(struct run *run, const struct parts *p, struct err *e) {
    for (size_t i = p->count; i-- > 0;) {
        const char *const folder[] = {p->folders[i], NULL}, *const name[] = {p->names[i], NULL};
        if (xfer_merge_folders(run->output_dir, folder, name, e) < 0)
            return -1;
    }
    return 0;
}

static int put_together(struct fleet *f, struct run *run, const struct collect *c, struct err *e) {
    struct arena *a = f->session->arena;
    struct parts p = {arena_new(a, const char *, f->count + 1),
                      arena_new(a, const char *, f->count + 1), 0};
    for (size_t k = 0; k < f->count; k++) {
        size_t i = c->order[k];
        const char *name = f->nodes[i].info->name, *from = part_path(f->session, run, name);
        bool whole = !f->nodes[i].failed || file_exists(collect_mark_path(f->session, run, name));
        if (!whole || !file_exists(from))
            continue;
        p.folders[p.count] = from;
        p.names[p.count++] = name;
    }
    if (p.count == 0)
        return 0;
    if (file_make_dirs(run->output_dir, 0755, e) < 0)
        return -1;
    return run->native ? overlay(run, &p, e) : merge(f->session, run, &p, c->result, e);
}

// ---- fetching -----------------------------------------------------------------------------------

// Nodes of the last round by rank, then the others.
static const size_t *order_nodes(struct fleet *f, const struct story *story) {
    size_t *order = arena_new(f->session->arena, size_t, f->count + 1), count = 0;
    for (int last = 1; last >= 0; last--)
        for (size_t i = 0; i < f->count; i++)
            if ((story->nodes[i].round == story->round) == last)
                order[count++] = i;
    for (size_t k = 1; k < count; k++) // nearly always in order: ranks follow the nodes'
        for (size_t j = k;
             j > 0 && story->nodes[order[j]].round == story->round &&
             story->nodes[order[j]].first_rank < story->nodes[order[j - 1]].first_rank;
             j--) {
            size_t moved = order[j];
            order[j] = order[j - 1];
            order[j - 1] = moved;
        }
    return order;
}

static int fetch_all(struct fleet *f, struct collect *c, struct err *e) {
    int result = transfer_each(f, "fetch", start, c, &c->result->totals, e);
    c->result->complete = true;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed && c->story->nodes[i].round == c->story->round)
            c->result->complete = false;
    return result;
}

// The first in order that can give it.
static int fetch_one(struct fleet *f, struct collect *c, struct err *e) {
    bool *complete = &c->result->complete;
    int result = 0;
    for (size_t k = 0; k < f->count && result == 0 && !*complete; k++) {
        struct fleet_node *n = &f->nodes[c->order[k]];
        if (n->failed || c->story->nodes[c->order[k]].round != c->story->round)
            continue;
        for (size_t i = 0; i < f->count; i++)
            f->nodes[i].left_out = &f->nodes[i] != n;
        result = transfer_each(f, "fetch", start, c, &c->result->totals, e);
        *complete = result == 0 && !n->failed;
    }
    return result;
}

int collect_results(struct fleet *f, struct run *run, const struct story *story,
                    struct collect_result *out, struct err *e) {
    struct session *s = f->session;
    const char *incoming = run_path(&s->cluster, run, "incoming");
    struct collect c = {
        .run = run,
        .order = order_nodes(f, story),
        .story = story,
        .result = out,
    };
    *out = (struct collect_result){0};
    if (file_make_dirs(incoming, 0700, e) < 0)
        return -1;
    bool one_is_enough = run->native && str_eq(run->state, "finished");
    int result = one_is_enough ? fetch_one(f, &c, e) : fetch_all(f, &c, e);
    if (result == 0)
        result = put_together(f, run, &c, e);
    if (result == 0 && out->complete)
        result = file_remove_tree(incoming, e);
    if (result == 0 && out->complete)
        result = file_remove_tree(run_path(&s->cluster, run, "left"), e);
    return result;
}
