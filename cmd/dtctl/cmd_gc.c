// SPDX-License-Identifier: Apache-2.0
// dtctl gc: removes old runs and unused stored content from the nodes, folders of local nodes that
// belong to no cluster, and leftovers of broken fetches on this side. Results here are never
// touched.
#include "command.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cluster/run_record.h"
#include "fleet/cluster_owner.h"
#include "fleet/fleet_runs.h"
#include "provider/provider.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODE_RUNS_CLEANED_MAX = 1000 }; // in one go

struct gc_flags {
    int64_t older_than_ms, keep;
    bool unfetched, all_regions, in_use;
};

static const struct option_row ROWS[] = {
    {.flag = "older-than",
     .verbs = "gc",
     .type = OPTION_DURATION,
     .text = "7d",
     .max = 315360000000.0,
     .offset = offsetof(struct gc_flags, older_than_ms),
     .marks = OPTION_NO_ENV,
     .arg = "TIME",
     .help = "Minimum age of runs, since their end, and of unused stored content."},
    {.flag = "keep",
     .verbs = "gc",
     .type = OPTION_INT,
     .text = "3",
     .max = 100000,
     .offset = offsetof(struct gc_flags, keep),
     .marks = OPTION_NO_ENV,
     .help = "Number of newest runs that each node keeps at any age."},
    {.flag = "unfetched",
     .verbs = "gc",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct gc_flags, unfetched),
     .marks = OPTION_NO_ENV,
     .help = "Also remove runs whose results were not fetched. The results are lost."},
    {.flag = "all-regions",
     .verbs = "gc",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct gc_flags, all_regions),
     .marks = OPTION_NO_ENV,
     .help = "Search every AWS region for leftovers, not only the configured one."},
    {.flag = "in-use",
     .verbs = "gc",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct gc_flags, in_use),
     .marks = OPTION_NO_ENV,
     .help = "Also count AWS clusters of other folders as leftovers before their lease has ended. "
             "They may be in use."},
};
static const struct option_table TABLE = {"Gc", ROWS, sizeof ROWS / sizeof ROWS[0]};

struct gc_node {
    struct gc *gc;
    const char **runs; // to remove
    size_t count, next;
    size_t contents; // of the store, removed
    uint64_t bytes;
};

// A run that is to be removed, held so that no other program fetches its results meanwhile.
struct gc_run {
    const char *id;
    int lock_fd; // -1: not locked, since this side has no record of the run
    bool busy;   // another program has the lock
    bool chosen;
};

struct gc {
    struct context *context;
    const struct gc_flags *flags;
    struct fleet fleet;
    struct gc_node *nodes;
    const char *owner; // id of this cluster
    const struct node_runs *all;
    struct gc_run *runs; // in the arena
    size_t run_count, run_room, contents;
    uint64_t bytes;
};

// Whether a node has the run although its part was recorded as lost. All parts are kept then.
static bool run_is_back(const struct gc *g, const struct run *record) {
    for (size_t i = 0; record->lost_count && i < g->all->count; i++)
        if (strcmp(g->all->items[i].run, record->id) == 0 &&
            run_has_lost(record, g->fleet.nodes[g->all->items[i].node_index].info->name))
            return true;
    return false;
}

// Whether a run may go: it is over, and its results are here or not wanted.
static bool may_go(struct gc *g, const struct node_run *r) {
    struct run record;
    struct err ignored = {0};
    if (r->owner[0] && strcmp(r->owner, g->owner) != 0)
        return false; // of another cluster on that machine
    if (!r->over || clock_wall_ms() - r->updated_ms < g->flags->older_than_ms)
        return false;
    if (g->flags->unfetched)
        return true;
    return run_load(&g->context->cluster, r->run, &record, &ignored) == 0 && record.fetched &&
           !record.left && !run_is_back(g, &record);
}

// Locks a run until release(). NULL: another program fetches its results.
static struct gc_run *hold(struct gc *g, const char *id) {
    struct context *s = g->context;
    struct err e = {0};
    for (size_t i = 0; i < g->run_count; i++)
        if (strcmp(g->runs[i].id, id) == 0)
            return g->runs[i].busy ? NULL : &g->runs[i];
    struct gc_run r = {.id = id, .lock_fd = -1};
    if (file_exists(cluster_run_dir(&s->cluster, id)) &&
        run_lock(&s->cluster, id, "removing the run from the nodes", &r.lock_fd, &e) < 0) {
        screen_note(s->screen, "run %s is left alone: %s", id, e.text);
        r.busy = true;
    }
    array_grow_in(s->arena, g->runs, &g->run_room, g->run_count + 1);
    g->runs[g->run_count++] = r;
    return r.busy ? NULL : &g->runs[g->run_count - 1];
}

static void release(struct gc *g) {
    for (size_t i = 0; i < g->run_count; i++)
        if (g->runs[i].lock_fd >= 0)
            close(g->runs[i].lock_fd);
}

static size_t count_chosen(const struct gc *g) {
    size_t count = 0;
    for (size_t i = 0; i < g->run_count; i++)
        count += g->runs[i].chosen;
    return count;
}

static int newest_first(const void *x, const void *y) {
    const struct node_run *a = x, *b = y;
    if (a->node_index != b->node_index)
        return a->node_index < b->node_index ? -1 : 1;
    return a->created_ms > b->created_ms ? -1 : a->created_ms < b->created_ms;
}

static void choose(struct gc *g, struct node_runs *all) {
    struct arena *a = g->context->arena;
    size_t rank = 0;
    g->all = all;
    if (all->count)
        qsort(all->items, all->count, sizeof all->items[0], newest_first);
    for (size_t i = 0; i < all->count; i++) {
        const struct node_run *r = &all->items[i];
        struct gc_node *w = &g->nodes[r->node_index];
        rank = i > 0 && all->items[i - 1].node_index == r->node_index ? rank + 1 : 0;
        if ((int64_t)rank < g->flags->keep || w->count == NODE_RUNS_CLEANED_MAX || !may_go(g, r))
            continue;
        struct gc_run *held = hold(g, r->run);
        if (!held || !may_go(g, r)) // its record may be another one by now
            continue;
        held->chosen = true;
        if (!w->runs)
            w->runs = arena_new(a, const char *, NODE_RUNS_CLEANED_MAX);
        w->runs[w->count++] = r->run;
    }
}

static void count_answer(struct gc_node *w, const struct transport_result *r, struct err *e) {
    struct arena a = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    if (fleet_answer(r, e) == 0 && json_parse(&a, r->out, r->out_len, &j, &ignored) == 0) {
        w->bytes += (uint64_t)json_get_int(j, "removed_bytes", 0);
        w->contents += (size_t)json_get_int(j, "removed", 0);
    }
    arena_fini(&a);
}

static void on_pruned(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    count_answer(n->work, r, &e);
    fleet_done(n, &e);
}

// After the runs, whose inputs keep content in the store.
static int prune(struct fleet_node *n, struct err *e) {
    struct gc *g = ((struct gc_node *)n->work)->gc;
    char *rest = arena_printf(g->context->arena, "--older-than-ms %lld%s",
                              (long long)g->flags->older_than_ms,
                              g->context->config->dry_run ? " --dry-run" : "");
    return transport_collect(n->link, fleet_line(n, NODE_VERB_PRUNE, rest), NULL, 0, on_pruned, n,
                             e);
}

static int clean_next(struct fleet_node *n, struct err *e);

// Of the run that was removed last, where its results were not fetched (--unfetched).
static void record_loss(const struct fleet_node *n) {
    const struct gc_node *w = n->work;
    const char *run = w->runs[w->next - 1];
    const struct cluster *c = &n->fleet->context->cluster;
    struct err e = {0};
    if (file_exists(cluster_run_dir(c, run)) && run_lose(c, run, n->info->name, &e) < 0)
        log_warn("cannot record that results were removed", "run=%s reason=\"%s\"", run, e.text);
}

static void on_cleaned(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    count_answer(n->work, r, &e);
    if (!e.code)
        record_loss(n);
    if (e.code || clean_next(n, &e) < 0)
        fleet_done(n, &e);
}

static int clean_next(struct fleet_node *n, struct err *e) {
    struct gc_node *w = n->work;
    if (w->next == w->count || w->gc->context->config->dry_run)
        return prune(n, e);
    // Its results are here, or not wanted.
    char *rest = arena_printf(w->gc->context->arena, "--run %s --discard --owner %s",
                              w->runs[w->next++], w->gc->owner);
    return transport_collect(n->link, fleet_line(n, NODE_VERB_CLEAN, rest), NULL, 0, on_cleaned, n,
                             e);
}

static int clean_nodes(struct gc *g, struct err *e) {
    struct context *s = g->context;
    struct inventory inv;
    struct node_runs all;
    if (!cluster_exists(&s->cluster))
        return 0;
    if (cluster_load(&s->cluster, &inv, e) < 0 || cluster_owner_id(s, &g->owner, e) < 0)
        return -1;
    fleet_open(&g->fleet, s, &inv, NULL, 0);
    g->nodes = arena_new(s->arena, struct gc_node, inv.count);
    if (fleet_connect(&g->fleet, true, e) < 0 || fleet_runs_ask(&g->fleet, NULL, &all, e) < 0)
        return -1;
    choose(g, &all);
    for (size_t i = 0; i < inv.count; i++) {
        g->nodes[i].gc = g;
        g->fleet.nodes[i].work = &g->nodes[i];
        for (size_t k = 0; s->config->dry_run && k < g->nodes[i].count; k++)
            screen_out(s->screen, "would remove run %s from %s\n", g->nodes[i].runs[k],
                       inv.nodes[i].name);
    }
    if (fleet_each(&g->fleet, NULL, clean_next, e) < 0)
        return -1;
    for (size_t i = 0; i < inv.count; i++) {
        g->bytes += g->nodes[i].bytes;
        g->contents += g->nodes[i].contents;
    }
    fleet_report(&g->fleet);
    return 0;
}

// Folders below nodes/ that the inventory does not have: an `up` that was killed, a lost inventory.
static int clean_orphans(struct gc *g, size_t *removed, struct err *e) {
    struct context *s = g->context;
    struct inventory inv = {0};
    struct file_entries in = file_entries_open(s->cluster.nodes_dir);
    int result = 0;
    if (cluster_exists(&s->cluster) && cluster_load(&s->cluster, &inv, e) < 0)
        result = -1;
    while (result == 0 && file_entries_next(&in)) {
        if (!str_is_name(in.name, INVENTORY_NAME_BYTES_MAX) || inventory_find(&inv, in.name) >= 0)
            continue;
        const char *path = file_join(s->arena, s->cluster.nodes_dir, in.name);
        (*removed)++;
        if (s->config->dry_run)
            screen_out(s->screen, "would remove the folder %s\n", path);
        else
            result = file_remove_tree(path, e);
    }
    return file_entries_close(&in, result, e);
}

// Leftovers of broken fetches of runs whose results have all come since, and of what came while a
// run went on. Of lost results, nothing else may be left.
static int clean_incoming(struct gc *g, size_t *removed, struct err *e) {
    struct context *s = g->context;
    struct run_walk walk;
    struct run r;
    struct err busy = {0};
    static const char *const folders[] = {"incoming", "live"};
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, &r)) {
        auto_close int lock = -1;
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
            const char *path = run_path(&s->cluster, &r, folders[i]);
            if (!r.fetched || r.lost_count || file_is_absent(path) ||
                (lock < 0 && run_lock(&s->cluster, r.id, "removing leftovers", &lock, &busy) < 0))
                continue;
            (*removed)++;
            if (s->config->dry_run)
                screen_out(s->screen, "would remove the folder %s\n", path);
            else if (file_remove_tree(path, e) < 0)
                return -1;
        }
    }
    return 0;
}

static int clean_leftovers(struct gc *g, struct provider_leftovers *left, struct err *e) {
    struct context *s = g->context;
    const struct provider *p;
    for (size_t i = 0; (p = provider_at(i)); i++)
        if (p->leftovers && (g->flags->all_regions || p->leftovers_wanted(s)) &&
            p->leftovers(s, g->flags->all_regions, g->flags->in_use, left, e) < 0)
            return -1;
    return 0;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    struct gc g = {.context = s, .flags = flags};
    struct provider_leftovers left = {0};
    size_t folders = 0;
    size_t runs = 0;
    char freed[STR_HUMAN_BYTES_MAX];
    if (cluster_lock(&s->cluster, "gc", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = clean_nodes(&g, e);
    release(&g);
    if (result == 0)
        result = clean_orphans(&g, &folders, e);
    if (result == 0)
        result = clean_incoming(&g, &folders, e);
    if (result == 0)
        result = fleet_verdict(&g.fleet, "gc", e);
    fleet_close(&g.fleet);
    if (result == 0)
        result = clean_leftovers(&g, &left, e);
    struct strbuf text = {0};
    struct json_out j;
    runs = count_chosen(&g);
    screen_event(&text, &j, "gc");
    json_bool(&j, "dry_run", s->config->dry_run);
    json_int(&j, "runs", (int64_t)runs);
    json_int(&j, "contents", (int64_t)g.contents);
    json_int(&j, "folders", (int64_t)folders);
    json_int(&j, "freed_bytes", (int64_t)g.bytes);
    json_int(&j, "regions", (int64_t)left.regions);
    json_int(&j, "leftovers", (int64_t)left.found);
    json_int(&j, "ended", (int64_t)left.removed);
    json_int(&j, "in_use", (int64_t)left.in_use);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen,
               "%s %zu run%s and %zu stored content%s on nodes (%s%s) and %zu folder%s here\n",
               s->config->dry_run ? "would remove" : "removed", runs, str_plural(runs), g.contents,
               str_plural(g.contents), str_human_bytes(freed, g.bytes),
               s->config->dry_run ? " of content" : "", folders, str_plural(folders));
    if (left.regions)
        screen_out(s->screen, "AWS: %zu left over in %zu region%s, %zu ended\n", left.found,
                   left.regions, str_plural(left.regions), left.removed);
    if (left.in_use)
        screen_note(s->screen,
                    "AWS: %zu instance%s of clusters that other folders made are in use and left "
                    "alone (--in-use ends them, too)",
                    left.in_use, str_plural(left.in_use));
    return result;
}

const struct command cmd_gc = {
    .verb = {.name = "gc",
             .summary = "remove old runs from the nodes, and leftovers",
             .text =
                 "Removes three things: on the nodes, old runs that are over and fetched, and "
                 "stored content that no run uses; on this computer, leftovers of killed commands. "
                 "Fetched results stay. Provider aws: gc also lists resources with your owner tag "
                 "that belong to no cluster in this folder; with -y it ends them."},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct gc_flags),
    .run = run,
};
