// SPDX-License-Identifier: Apache-2.0
// Fetches the results of a run.
#include "run/results.h"

#include "base/log.h"
#include "content/tree_merge.h"
#include "run/results_owner.h"
#include "run/run_start.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

struct collect {
    const struct run *run;
    const size_t *order;
    const struct story *story;
    const bool *gone;
    struct collect_result *result;
};

// The folder in which a node's part arrives.
static const char *part_path(struct context *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "incoming"), node);
}

const char *results_mark_path(struct context *s, const struct run *run, const char *node) {
    return file_join(s->arena, run_path(&s->cluster, run, "left"), node);
}

struct xfer *results_collect_start(struct fleet_node *n, const struct run *run,
                                   const struct xfer_events *events, void *ctx, struct err *e) {
    struct context *s = n->fleet->context;
    static const char *const folders[] = {"gathered/", "output/", "model", "state"};
    const char *paths[sizeof folders / sizeof folders[0] + 1] = {0};
    size_t first = run->bring_work ? 0 : 1, end = run->work_only ? 1 : 4, count = 0;
    for (size_t i = first; i < end; i++)
        paths[count++] = run_node_dir(s->arena, run->id, folders[i]);
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
    return results_collect_start(n, c->run, events, n, e);
}

// ---- one folder of several ----------------------------------------------------------------------

struct parts {
    const char **folders, **names; // of nodes with a part, NULL-terminated
    size_t count;
};

// A run may continue in the results folder of the run that it resumed. It replaces the trainer's
// files, which always belong to one run.
static int take_over(struct context *s, const struct run *run, struct err *e) {
    static const char *const set[] = {"model", "state", "summary.json", "metrics.jsonl"};
    for (size_t i = 0; run->native && i < sizeof set / sizeof set[0]; i++)
        if (file_remove_tree(file_join(s->arena, run->output_dir, set[i]), e) < 0)
            return -1;
    return 0;
}

// Marks the results folder as the run's. If another run owns the folder, this run gets a folder of
// its own in it.
static int claim(struct context *s, struct run *run, struct err *e) {
    const char *owner = results_owner_of(s->arena, run->output_dir);
    if (owner[0] && str_eq(owner, run->resumes) && take_over(s, run, e) < 0)
        return -1;
    if (owner[0] && !str_eq(owner, run->id) && !str_eq(owner, run->resumes)) {
        screen_note(s->screen, "'%s' holds the results of run %s by now; those of %s go to %s/%s",
                    run->output_dir, owner, run->id, run->output_dir, run->id);
        run->output_dir = file_join(s->arena, run->output_dir, run->id);
    }
    return results_owner_set(run->output_dir, run->id, e);
}

// Merges the trainer's files. A later merge overwrites an earlier one.
static int overlay(struct run *run, const struct parts *p, struct err *e) {
    for (size_t i = p->count; i-- > 0;) {
        const char *const folder[] = {p->folders[i], NULL}, *const name[] = {p->names[i], NULL};
        if (tree_merge(run->output_dir, folder, name, e) < 0)
            return -1;
    }
    return 0;
}

static int move_folder(const char *from, const char *to, const char *node, struct err *e) {
    const char *const folder[] = {from, NULL}, *const name[] = {node, NULL};
    return tree_merge(to, folder, name, e);
}

// Moves each state to state/NODE, from where a resumed run returns it to the same node.
static int move_states(struct context *s, struct run *run, const struct parts *p, struct err *e) {
    struct arena *a = s->arena;
    for (size_t i = 0; i < p->count; i++) {
        const char *from = file_join(a, p->folders[i], "state");
        const char *to = file_join(a, file_join(a, run->output_dir, "state"), p->names[i]);
        if (rmdir(from) == 0 || !file_exists(from)) // an empty folder is no state
            continue;
        if (file_remove_tree(to, e) < 0 || move_folder(from, to, p->names[i], e) < 0)
            return -1;
    }
    return 0;
}

static int merge(struct context *s, struct run *run, const struct parts *p,
                 struct collect_result *out, struct err *e) {
    struct arena *a = s->arena;
    if (move_states(s, run, p, e) < 0)
        return -1;
    if (!run->apart)
        return results_layout_split(a, p->folders, p->names, p->count, run->output_dir,
                                    &out->layout, e) < 0
                   ? -1
                   : tree_merge(run->output_dir, p->folders, p->names, e);
    for (size_t i = 0; i < p->count; i++)
        if (move_folder(p->folders[i], file_join(a, run->output_dir, p->names[i]), p->names[i], e) <
            0)
            return -1;
    return 0;
}

static int put_together(struct fleet *f, struct run *run, const struct collect *c, struct err *e) {
    struct arena *a = f->context->arena;
    struct parts p = {arena_new(a, const char *, f->count + 1),
                      arena_new(a, const char *, f->count + 1), 0};
    for (size_t k = 0; k < f->count; k++) {
        size_t i = c->order[k];
        const char *name = f->nodes[i].info->name, *from = part_path(f->context, run, name);
        bool whole = !f->nodes[i].failed || file_exists(results_mark_path(f->context, run, name));
        if (!whole || !file_exists(from))
            continue;
        p.folders[p.count] = from;
        p.names[p.count++] = name;
    }
    if (p.count == 0 && !c->result->complete)
        return 0;
    if (claim(f->context, run, e) < 0)
        return -1;
    int result = run->native ? overlay(run, &p, e) : merge(f->context, run, &p, c->result, e);
    // Sync first: the record then says "fetched", which allows nodes to delete their copies.
    return result == 0 && p.count ? file_sync_disk(run->output_dir, e) : result;
}

// ---- fetching -----------------------------------------------------------------------------------

// Nodes of the last round by rank, then the others.
static const size_t *order_nodes(struct fleet *f, const struct story *story) {
    size_t *order = arena_new(f->context->arena, size_t, f->count + 1), count = 0;
    for (int last = 1; last >= 0; last--)
        for (size_t i = 0; i < f->count; i++)
            if ((story->nodes[i].round == story->round) == last)
                order[count++] = i;
    for (size_t k = 1; k < count; k++) // nearly sorted: ranks follow the nodes' order
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

// True when the node may hold results of the end of the run: it was in the last round, or its round
// is unknown while that round lacks a report. Lost and departed nodes are excluded.
static bool is_wanted(const struct fleet *f, const struct collect *c, size_t i) {
    const struct story *t = c->story;
    int reported = 0;
    for (size_t k = 0; k < f->count; k++)
        reported += t->nodes[k].round == t->round;
    if (t->nodes[i].round == t->round)
        return true;
    return !t->nodes[i].lost && !t->nodes[i].left && (t->round < 0 || reported < t->nodes_in_round);
}

static int fetch_all(struct fleet *f, struct collect *c, struct err *e) {
    int result = fleet_transfer_each(f, "fetch", start, c, &c->result->totals, e);
    c->result->complete = true;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed && !c->gone[i] && is_wanted(f, c, i))
            c->result->complete = false;
    return result;
}

// Fetches from the first node in order that succeeds.
static int fetch_one(struct fleet *f, struct collect *c, struct err *e) {
    bool *complete = &c->result->complete;
    int result = 0;
    for (size_t k = 0; k < f->count && result == 0 && !*complete; k++) {
        struct fleet_node *n = &f->nodes[c->order[k]];
        if (n->failed || c->story->nodes[c->order[k]].round != c->story->round)
            continue;
        for (size_t i = 0; i < f->count; i++)
            f->nodes[i].left_out = &f->nodes[i] != n ? "one node's copy is all there is" : NULL;
        result = fleet_transfer_each(f, "fetch", start, c, &c->result->totals, e);
        *complete = result == 0 && !n->failed;
    }
    return result;
}

// Lists nodes whose files are lost. Every node has all files of the native trainer.
static void find_lost(const struct fleet *f, struct run *run, struct collect *c) {
    size_t given = 0, waiting = 0;
    if (run->work_only) { // files that are already here are not lost
        c->result->complete = fleet_failures(f) == 0;
        return;
    }
    run->lost = arena_new(f->context->arena, const char *, f->count + 1);
    run->lost_count = 0;
    for (size_t i = 0; i < f->count; i++) {
        given += !f->nodes[i].failed && !f->nodes[i].left_out;
        waiting += f->nodes[i].failed && !c->gone[i] && is_wanted(f, c, i);
        if (c->gone[i] && is_wanted(f, c, i))
            run->lost[run->lost_count++] = f->nodes[i].info->name;
    }
    if (run->native && given)
        run->lost_count = 0;
    c->result->complete |= run->lost_count && !waiting;
}

int results_collect(struct fleet *f, struct run *run, const struct story *story, const bool *gone,
                    struct collect_result *out, struct err *e) {
    struct context *s = f->context;
    const char *incoming = run_path(&s->cluster, run, "incoming");
    struct collect c = {
        .run = run,
        .order = order_nodes(f, story),
        .story = story,
        .gone = gone,
        .result = out,
    };
    *out = (struct collect_result){0};
    if (!run->native && work_left_ask(f, run, &out->work_left, e) < 0)
        return -1;
    if (file_make_dirs(incoming, 0700, e) < 0)
        return -1;
    bool one_is_enough = run->native && str_eq(run->state, "finished");
    int result = one_is_enough ? fetch_one(f, &c, e) : fetch_all(f, &c, e);
    if (result == 0)
        find_lost(f, run, &c);
    if (result == 0)
        result = put_together(f, run, &c, e);
    // Keep the incoming part of a lost node: no other copy exists.
    if (result == 0 && out->complete && run->lost_count == 0)
        result = file_remove_tree(incoming, e);
    if (result == 0 && out->complete)
        result = file_remove_tree(run_path(&s->cluster, run, "left"), e);
    run->work_left = run->bring_work && out->complete ? 0 : out->work_left.files;
    return result;
}

// ---- results of a node that will be preempted ---------------------------------------------------
// An empty file left/<node> marks the node's part as complete, for later dtctl processes too.

void results_drain_open(struct rescue *r, struct follow *f) {
    *r = (struct rescue){.follow = f};
    r->nodes = arena_new(f->context->arena, struct results_drain_node, f->count + 1);
}

static void warn_failed(const struct results_drain_node *w, const struct err *e) {
    log_warn("cannot fetch the results of a departing node", "node=%s reason=\"%s\"",
             w->node->node->info->name, e->text);
}

static void on_end(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p) {
    (void)x;
    struct results_drain_node *w = ctx;
    struct follow *f = w->rescue->follow;
    struct err why = *e;
    char bytes[STR_HUMAN_BYTES_MAX];
    w->xfer = NULL;
    f->held--;
    const char *mark = results_mark_path(f->context, f->run, w->node->node->info->name);
    // The machine may end now: sync the part before the mark is written.
    if (why.code || file_sync_disk(run_path(&f->context->cluster, f->run, "left"), &why) < 0 ||
        file_write_atomic(mark, "", 0, 0600, &why) < 0)
        warn_failed(w, &why);
    else
        screen_note(f->context->screen, "node %s has left; its results are here (%s)",
                    w->node->node->info->name, str_human_bytes(bytes, p->bytes_all));
}

void results_drain_node(struct rescue *r, const struct follow_node *n) {
    static const struct xfer_events events = {.on_end = on_end};
    struct follow *f = r->follow;
    struct results_drain_node *w = &r->nodes[n->index];
    struct err e = {0};
    if (f->run->native || f->until_now || f->leave || n->no_status || !n->node->up || w->xfer ||
        !f->story.nodes[n->index].announced)
        return;
    *w = (struct results_drain_node){.rescue = r, .node = n};
    if (file_make_dirs(run_path(&f->context->cluster, f->run, "left"), 0700, &e) == 0)
        w->xfer = results_collect_start(n->node, f->run, &events, w, &e);
    if (w->xfer)
        f->held++;
    else
        warn_failed(w, &e);
}

void results_drain_close(struct rescue *r) {
    for (size_t i = 0; i < r->follow->count; i++)
        if (r->nodes[i].xfer) {
            xfer_cancel(r->nodes[i].xfer);
            r->nodes[i].xfer = NULL;
            r->follow->held--;
        }
}
