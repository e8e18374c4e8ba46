// SPDX-License-Identifier: Apache-2.0
// dtctl state: the states of runs, on the nodes and here.
#include "command.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_kept.h"
#include "fleet/fleet_runs.h"
#include "fleet/fleet_transfer.h"
#include "run/results/results_owner.h"
#include "run/results/state_published.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "sys/file_measure.h"

#include <string.h>

struct state_flags {
    const char *to;
};

static const struct option_row ROWS[] = {
    {.flag = "to",
     .verbs = "state",
     .type = OPTION_STRING,
     .text = "state",
     .arg = "DIR",
     .offset = offsetof(struct state_flags, to),
     .marks = OPTION_NO_ENV,
     .help = "pull: destination folder on this computer; it gets one folder per node."},
};
static const struct option_table TABLE = {"State", ROWS, sizeof ROWS / sizeof ROWS[0]};

struct states {
    struct context *context;
    const char *filter; // a task, or the begin of a run's name; NULL: all runs
    struct inventory inventory;
    struct fleet fleet;
    struct kept on_nodes; // states of the chosen runs
    struct run *runs;     // the chosen runs with a state, newest first
    size_t count, room;
};

// ---- finding ------------------------------------------------------------------------------------

// The state of a run that is here; NULL: there is none.
static const char *path_here(struct context *s, const struct run *r) {
    const char *path = file_join(s->arena, r->output_dir, "state");
    return str_eq(results_owner_of(s->arena, r->output_dir), r->id) && file_exists(path) ? path
                                                                                         : NULL;
}

// Whether generations of a state came here while the run was active (state.every).
static bool is_published(struct context *s, const struct run *r) {
    return file_exists(run_path(&s->cluster, r, "published"));
}

static bool is_chosen(const struct states *t, const struct run *r) {
    return !t->filter || strcmp(r->name, t->filter) == 0 || str_starts(r->id, t->filter);
}

static void add_run(struct states *t, const struct kept *all, const struct run *r) {
    struct arena *a = t->context->arena;
    size_t before = t->on_nodes.count;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].kind == KEPT_STATE && strcmp(all->items[i].name, r->id) == 0) {
            array_grow_in(a, t->on_nodes.items, &t->on_nodes.room, t->on_nodes.count + 1);
            t->on_nodes.items[t->on_nodes.count++] = all->items[i];
        }
    if (t->on_nodes.count == before && !path_here(t->context, r) && !is_published(t->context, r))
        return;
    array_grow_in(a, t->runs, &t->room, t->count + 1);
    t->runs[t->count++] = *r;
}

static int find(struct states *t, struct err *e) {
    struct context *s = t->context;
    struct kept all = {0};
    struct run_walk walk;
    struct run r;
    if (cluster_exists(&s->cluster)) {
        if (cluster_load(&s->cluster, &t->inventory, e) < 0)
            return -1;
        fleet_open(&t->fleet, s, &t->inventory, NULL, 0);
        if (fleet_connect(&t->fleet, true, e) < 0 || fleet_kept_ask(&t->fleet, &all, e) < 0)
            return -1;
    }
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, &r))
        if (is_chosen(t, &r))
            add_run(t, &all, &r);
    return 0;
}

// ---- ls -----------------------------------------------------------------------------------------

// node NULL: here, of all nodes, or the copy of one node's.
static void show(struct context *s, const struct run *r, const char *node, const char *copy_of,
                 const struct kept_item *m) {
    char size[STR_HUMAN_BYTES_MAX], age[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "state");
    json_str(&j, "run", r->id);
    json_str(&j, "name", r->name);
    json_str(&j, "node", node);
    json_str(&j, "copy_of", copy_of);
    json_int(&j, "files", (int64_t)m->files);
    json_int(&j, "bytes", (int64_t)m->bytes);
    json_int(&j, "changed_ms", m->changed_ms);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%-44s %-16s %7llu %10s %8s\n", r->id,
               node      ? node
               : copy_of ? arena_printf(s->arena, "here, of %s", copy_of)
                         : "here",
               (unsigned long long)m->files, str_human_bytes(size, m->bytes),
               str_human_ms(age, clock_wall_ms() - m->changed_ms));
}

static void show_here(struct context *s, const struct run *r, const char *copy_of,
                      const char *path) {
    struct file_measure m;
    file_measure(path, &m);
    show(s, r, NULL, copy_of,
         &(struct kept_item){.files = m.files, .bytes = m.bytes, .changed_ms = m.changed_ms});
}

// The newest generation of each node.
static void show_published(struct context *s, const struct run *r) {
    struct file_entries in = file_entries_open(run_path(&s->cluster, r, "published"));
    while (file_entries_next(&in)) {
        const char *newest = in.name[0] == '.' ? NULL : state_published_newest(s, r, in.name);
        if (newest)
            show_here(s, r, in.name, newest);
    }
    (void)file_entries_close(&in, 0, NULL);
}

static void show_run(struct states *t, const struct run *r) {
    struct context *s = t->context;
    const char *path = path_here(s, r);
    for (size_t i = 0; i < t->on_nodes.count; i++) {
        const struct kept_item *item = &t->on_nodes.items[i];
        if (strcmp(item->name, r->id) == 0)
            show(s, r, t->fleet.nodes[item->node_index].info->name, NULL, item);
    }
    show_published(s, r);
    if (path)
        show_here(s, r, NULL, path);
}

static int list(struct states *t, struct err *e) {
    struct context *s = t->context;
    if (find(t, e) < 0)
        return -1;
    fleet_report(&t->fleet);
    if (t->count)
        screen_out(s->screen, "%-44s %-16s %7s %10s %8s\n", "RUN", "NODE", "FILES", "SIZE", "AGE");
    else
        screen_note(s->screen, "no run has left a state%s%s", t->filter ? " for " : "",
                    t->filter ? t->filter : "");
    for (size_t i = 0; i < t->count; i++)
        show_run(t, &t->runs[i]);
    return fleet_verdict(&t->fleet, "state ls", e);
}

// ---- rm -----------------------------------------------------------------------------------------

static bool is_on_nodes(const struct states *t, const struct run *r) {
    for (size_t i = 0; i < t->on_nodes.count; i++)
        if (strcmp(t->on_nodes.items[i].name, r->id) == 0)
            return true;
    return false;
}

static int check_over(struct states *t, struct err *e) {
    struct node_runs all;
    if (t->fleet.count == 0)
        return 0;
    if (fleet_runs_ask(&t->fleet, NULL, &all, e) < 0)
        return -1;
    for (size_t i = 0; i < all.count; i++)
        for (size_t k = 0; k < t->count && !all.items[i].over; k++)
            if (strcmp(all.items[i].run, t->runs[k].id) == 0)
                return err_set(e, ERR_BUSY, "run '%s' is %s (try: dtctl stop %s)", all.items[i].run,
                               all.items[i].state, all.items[i].run);
    return 0;
}

static int ask(struct states *t, struct err *e) {
    struct context *s = t->context;
    size_t only = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool here = path_here(s, &t->runs[i]) || is_published(s, &t->runs[i]);
        only += !here;
        screen_note(s->screen, "  %s%s%s", t->runs[i].id,
                    is_on_nodes(t, &t->runs[i]) ? ", on its nodes" : "",
                    here ? ", here" : ", and not here");
    }
    const char *more =
        only ? arena_printf(s->arena, ", %zu of them without a copy here", only) : "";
    int yes = context_ask(s,
                          arena_printf(s->arena, "remove the state of %zu run%s%s?", t->count,
                                       str_plural(t->count), more),
                          e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was removed");
}

static int drop(struct states *t, struct err *e) {
    struct context *s = t->context;
    if (t->on_nodes.count && fleet_kept_drop(&t->fleet, &t->on_nodes, e) < 0)
        return -1;
    for (size_t i = 0; i < t->count; i++) {
        const char *path = path_here(s, &t->runs[i]);
        if ((path && file_remove_tree(path, e) < 0) ||
            state_published_remove(s, &t->runs[i], NULL, e) < 0)
            return -1;
        // No state is left on the nodes, unless one could not be asked.
        if (!fleet_failures(&t->fleet) && (t->runs[i].left & RESULT_STATE)) {
            t->runs[i].left &= ~(unsigned)RESULT_STATE;
            if (run_save(&s->cluster, &t->runs[i], e) < 0)
                return -1;
        }
    }
    fleet_report(&t->fleet);
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "state-removed");
    json_array(&j, "runs");
    for (size_t i = 0; i < t->count; i++)
        json_str(&j, NULL, t->runs[i].id);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "removed the state of %zu run%s\n", t->count, str_plural(t->count));
    return fleet_verdict(&t->fleet, "state rm", e);
}

static int removal(struct states *t, struct err *e) {
    struct context *s = t->context;
    if (cluster_lock(&s->cluster, "state rm", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 || find(t, e) < 0)
        return -1;
    if (t->count == 0)
        return fleet_failures(&t->fleet)
                   ? fleet_verdict(&t->fleet, "state rm", e)
                   : err_set(e, ERR_NOT_FOUND, "no run '%.80s' has a state (try: dtctl state ls)",
                             t->filter);
    if (check_over(t, e) < 0)
        return -1;
    for (size_t i = 0; s->config->dry_run && i < t->count; i++)
        screen_out(s->screen, "would remove the state of %s\n", t->runs[i].id);
    if (s->config->dry_run)
        return 0;
    return ask(t, e) < 0 ? -1 : drop(t, e);
}

// ---- pull ---------------------------------------------------------------------------------------

struct pull {
    const struct run *run;
    const char *to;
};

static struct xfer *start_pull(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                               struct err *e) {
    const struct pull *p = ctx;
    struct context *s = n->fleet->context;
    const char *paths[] = {run_node_dir(s->arena, p->run->id, "state/"), NULL};
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = paths,
        .dest = file_join(s->arena, p->to, n->info->name),
        .hash_cache_path = file_join(s->arena, s->cluster.dir, "hashes"),
        .missing_ok = true,
    };
    return xfer_fetch(n->link, &spec, events, n, e);
}

static int pull(struct context *s, const char *name, const char *to, struct err *e) {
    struct run_fleet r;
    struct transfer_totals totals = {0};
    char size[STR_HUMAN_BYTES_MAX];
    if (fleet_runs_open(&r, s, name, e) < 0)
        return -1;
    if (s->config->dry_run) {
        screen_out(s->screen, "would pull the state of %s to %s\n", r.run.id, to);
        return 0;
    }
    struct pull p = {&r.run, to};
    r.fleet.transfers = true;
    int result = fleet_connect(&r.fleet, true, e);
    if (result == 0)
        result = fleet_transfer_each(&r.fleet, "fetch", start_pull, &p, &totals, e);
    fleet_report(&r.fleet);
    if (result == 0)
        result = fleet_verdict(&r.fleet, "state pull", e);
    fleet_close(&r.fleet);
    if (result == 0 && totals.files_all == 0)
        return err_set(e, ERR_NOT_FOUND, "no node has a state of run '%s' (try: dtctl state ls)",
                       r.run.id);
    if (result < 0 || file_sync_disk(to, e) < 0)
        return -1;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "fetched");
    json_str(&j, "to", to);
    json_int(&j, "files", (int64_t)totals.files_all);
    json_int(&j, "bytes", (int64_t)totals.bytes_all);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%zu file%s, %s in %s\n", totals.files_all, str_plural(totals.files_all),
               str_human_bytes(size, totals.bytes_all), to);
    return 0;
}

// ---- command ------------------------------------------------------------------------------------

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct state_flags *f = flags;
    const char *verb = rest->args[0], *name = rest->count > 1 ? rest->args[1] : NULL;
    struct states t = {.context = s, .filter = name};
    if (str_eq(verb, "pull"))
        return pull(s, name, f->to, e);
    bool removes = str_eq(verb, "rm");
    if (!removes && !str_eq(verb, "ls"))
        return err_set(e, ERR_USAGE, "state takes ls, pull or rm, not '%.80s'", verb);
    if (removes && (!name || !*name))
        return err_set(e, ERR_USAGE, "state rm takes a run or a task");
    int result = removes ? removal(&t, e) : list(&t, e);
    fleet_close(&t.fleet);
    return result;
}

static const char *const WORDS[] = {"ls", "pull", "rm", NULL};

const struct command cmd_state = {
    .verb = {.name = "state",
             .summary = "list, fetch or remove the states of runs",
             .args = "ls [RUN] | pull [RUN] | rm RUN",
             .words = WORDS,
             .text = "ls lists the state of each run: per node, and the copies here. RUN may be a "
                     "task, for the states of all its runs, or the begin of a run's name. pull "
                     "fetches the state of one run, also of an active one, to --to; a file that "
                     "the run writes at that moment may be incomplete. rm removes states from "
                     "the nodes and here, so that no later run begins with them. It asks first, "
                     "and needs -y without a terminal; it refuses a run that is active.",
             .examples = "dtctl state ls train   # of every run of task train\n"
                         "dtctl state pull --to snapshot   # of the newest run, now\n"
                         "dtctl state rm train   # the next run begins anew\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct state_flags),
    .args_min = 1,
    .args_max = 2,
    .run = run,
};
