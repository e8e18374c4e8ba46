// SPDX-License-Identifier: Apache-2.0
// dtctl top: what a run does on its nodes, again and again until it is over.
#include "command.h"

#include "base/clock.h"
#include "provider/provider.h"
#include "sys/loop.h"
#include "top_show.h"
#include "watch.h"

#include <string.h>

struct top_flags {
    struct watch_flags watch;
    bool once;
};

// Lives through all looks: connections stay open, and metrics that are printed no more are kept.
struct top {
    struct top_flags flags;
    struct arena *arena; // of the command; looks have arenas of their own
    struct run_fleet on;
    struct newest_metrics metrics;
    bool connected; // once
    bool seen;      // a look has found the run active
};

static const struct option_row ROWS[] = {
    {.flag = "once",
     .verbs = "top",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct top_flags, once),
     .marks = OPTION_NO_ENV,
     .help = "Print one table and end."},
    {.flag = "every",
     .verbs = "top",
     .type = OPTION_DURATION,
     .text = "500ms",
     .min = 100,
     .max = 86400000,
     .offset = offsetof(struct top_flags, watch.every_ms),
     .marks = OPTION_NO_ENV,
     .arg = "TIME",
     .help = "Time between two looks. Nodes are sampled at monitor.interval."},
};
static const struct option_table TABLE = {"Top", ROWS, sizeof ROWS / sizeof ROWS[0]};

// The newest run that is not known to be over.
static int find_active(struct context *s, const char **id, struct err *e) {
    struct run_walk w;
    struct run r;
    if (run_walk_open(&w, &s->cluster, e) < 0)
        return -1;
    while (run_walk_next(&w, &r))
        if (!run_is_over(&r)) {
            *id = r.id;
            return 0;
        }
    return err_set(e, ERR_NOT_FOUND, "no run of cluster '%s' is active (try: dtctl ps --all)",
                   s->cluster.name);
}

static int not_active(const struct run *r, const char *state, struct err *e) {
    return err_set(e, ERR_NOT_FOUND,
                   "run '%s' is not active: its state is '%s' (try: dtctl logs %s)", r->id, state,
                   r->id);
}

// Connects the nodes that did not answer the last time. A connection's memory stays for all looks.
static int connect_again(struct context *s, struct top *t, struct err *e) {
    struct arena *own = s->arena;
    bool any = !t->connected;
    for (size_t i = 0; i < t->on.fleet.count; i++) {
        struct fleet_node *n = &t->on.fleet.nodes[i];
        if (n->absent)
            continue;
        any |= n->failed;
        n->failed = false;
        err_clear(&n->err);
    }
    if (!any)
        return 0;
    t->connected = true;
    s->arena = s->cluster.arena = t->arena;
    int result = fleet_connect(&t->on.fleet, true, e);
    s->arena = s->cluster.arena = own;
    return result;
}

// The cost of the run's machines since its start, by list price.
static int64_t cost_of(struct context *s, const struct top *t, int64_t ms) {
    struct inventory nodes = t->on.inventory;
    nodes.count = t->on.fleet.count;
    nodes.nodes = arena_new(s->arena, struct inventory_node, nodes.count + 1);
    for (size_t i = 0; i < nodes.count; i++)
        nodes.nodes[i] = *t->on.fleet.nodes[i].info;
    return provider_cost_mils(s, &nodes, ms);
}

static void sum_up(struct top_look *l) {
    l->state = l->reason = "";
    l->round = -1;
    for (size_t i = 0; i < l->fleet->count; i++) {
        const struct node_run *r = l->looks[i].run;
        if (r && r->round > l->round)
            l->round = r->round;
    }
    for (size_t i = 0; i < l->fleet->count; i++) {
        const struct node_run *r = l->looks[i].run;
        if (!r)
            continue;
        bool silent = !r->over && l->looks[i].silent;
        l->restarts = r->restarts > l->restarts ? r->restarts : l->restarts;
        l->silent += silent;
        l->ranks_running += !r->over && !silent && r->round == l->round ? r->ranks_running : 0;
        // Of a run that is over, the state that is not the best; of another, the coordinator's.
        bool better = r->over ? !l->going && (!l->state[0] || strcmp(l->state, "finished") == 0)
                              : !l->going || r->coordinator;
        l->going += !r->over;
        if (better) {
            l->state = r->state;
            l->reason = r->reason;
        }
    }
    l->state = l->state[0] ? l->state : "not known";
}

static void take_metrics(struct top *t, const struct node_look *looks) {
    for (size_t i = 0; i < t->on.fleet.count; i++) {
        if (!looks[i].run || looks[i].run->over)
            continue;
        newest_metrics_lines(&t->metrics, looks[i].out.text, looks[i].out.len);
        newest_metrics_lines(&t->metrics, looks[i].err.text, looks[i].err.len);
        newest_metrics_records(&t->metrics, looks[i].metrics.text, looks[i].metrics.len);
    }
}

static int look(struct context *s, const struct cli_rest *rest, const struct watch_flags *f,
                struct err *e) {
    struct top *t = (struct top *)container_of(f, struct top, flags.watch);
    struct fleet *fleet = &t->on.fleet;
    const struct run *run = &t->on.run;
    (void)rest;
    struct node_look *looks = arena_new(s->arena, struct node_look, fleet->count + 1);
    int64_t began_ms = clock_wall_ms(); // the answer of a frozen agent is awaited for a while
    if (connect_again(s, t, e) < 0 || fleet_samples_ask(fleet, run->id, looks, e) < 0)
        return -1;
    struct top_look l = {
        .run = run, .fleet = fleet, .looks = looks, .metrics = &t->metrics, .cost_mils = -1};
    l.elapsed_ms = began_ms - run->created_ms;
    l.cost_mils = cost_of(s, t, l.elapsed_ms);
    take_metrics(t, looks);
    sum_up(&l);
    bool over = !l.going && fleet_failures(fleet) == 0;
    if (over && !t->seen)
        return not_active(run, l.state, e);
    t->seen |= l.going > 0;
    watch_begin(s, f);
    top_show(s, &l);
    return over ? WATCH_OVER : fleet_verdict(fleet, "top", e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    struct top t = {.flags = *(const struct top_flags *)flags, .arena = s->arena};
    const char *id = rest->count ? rest->args[0] : NULL;
    t.flags.watch.watch = !t.flags.once;
    if (!id && find_active(s, &id, e) < 0)
        return -1;
    if (fleet_runs_open(&t.on, s, id, e) < 0)
        return -1;
    if (run_is_over(&t.on.run))
        return not_active(&t.on.run, t.on.run.state, e);
    newest_metrics_open(&t.metrics, s->arena, &t.on.run.metrics);
    int result = watch_again(s, look, rest, &t.flags.watch, e);
    newest_metrics_close(&t.metrics);
    fleet_close(&t.on.fleet);
    return result;
}

const struct command cmd_top = {
    .verb = {.name = "top",
             .summary = "show what a run does on its nodes, until it is over",
             .args = "[RUN]",
             .text = "Shows processors, memory, GPUs, network and disks of each node, the newest "
                     "metrics, and the cost so far. Of the native trainer also the time of a step, "
                     "the least and the greatest of late, and how long rank 0 waits for data and "
                     "for other ranks. Without RUN: the newest active run. A terminal shows only "
                     "the newest table. With --json each look is one object.",
             .examples = "dtctl top --once   # one table\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct top_flags),
    .args_max = 1,
    .run = run,
};
