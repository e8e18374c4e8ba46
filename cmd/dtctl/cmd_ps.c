// SPDX-License-Identifier: Apache-2.0
// dtctl ps: the runs of the cluster; dtctl status: its nodes.
#include "command.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "fleet/fleet_runs.h"
#include "provider/provider.h"

#include <string.h>

// ---- looking again ------------------------------------------------------------------------------

struct look_flags {
    bool all, watch;
    int64_t every_ms;
};

#define LOOK_ROWS(verb)                                                                            \
    {.flag = "watch",                                                                              \
     .verbs = verb,                                                                                \
     .type = OPTION_BOOL,                                                                          \
     .text = "false",                                                                              \
     .offset = offsetof(struct look_flags, watch),                                                 \
     .marks = OPTION_NO_ENV,                                                                       \
     .help = "Look again and again, until Ctrl-C; a terminal shows the newest look alone."},       \
    {                                                                                              \
        .flag = "every", .verbs = verb, .type = OPTION_DURATION, .text = "2s", .min = 100,         \
        .max = 86400000, .offset = offsetof(struct look_flags, every_ms), .marks = OPTION_NO_ENV,  \
        .arg = "TIME", .help = "With --watch: time between two looks."                             \
    }

typedef int look(struct context *s, const struct cli_rest *rest, const struct look_flags *f,
                 struct err *e);

// On a terminal a look replaces the last one; elsewhere an empty line parts them.
static void begin_look(struct context *s, const struct look_flags *f) {
    static const char home[] = "\033[H\033[J";
    if (f->watch && s->screen->style == SCREEN_TERMINAL && s->screen->out_is_terminal)
        screen_write(s->screen, home, sizeof home - 1);
    else if (f->watch)
        screen_out(s->screen, "\n");
}

// Each look has memory of its own, as there may be many.
static int look_once(struct context *s, look *fn, const struct cli_rest *rest,
                     const struct look_flags *f, struct err *e) {
    struct arena *kept = s->arena, own = {0};
    s->arena = s->cluster.arena = &own;
    int result = fn(s, rest, f, e);
    s->arena = s->cluster.arena = kept;
    arena_fini(&own);
    return result;
}

static int look_again(struct context *s, look *fn, const struct cli_rest *rest,
                      const struct look_flags *f, struct err *e) {
    if (!f->watch)
        return fn(s, rest, f, e);
    while (!s->screen->broken) {
        // Nodes that do not answer may do so at the next look.
        if (look_once(s, fn, rest, f, e) < 0 && e->code != ERR_SOME_FAILED &&
            e->code != ERR_NO_STATUS)
            return -1;
        err_clear(e);
        if (context_pause(s, f->every_ms, e) < 0)
            return -1;
    }
    return 0;
}

// ---- ps ----------------------------------------------------------------------------------------

static const struct option_row PS_ROWS[] = {
    {.flag = "all",
     .letter = 'a',
     .verbs = "ps",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct look_flags, all),
     .marks = OPTION_NO_ENV,
     .help = "Runs that are over, too."},
    LOOK_ROWS("ps"),
};
static const struct option_table PS_TABLE = {"Ps", PS_ROWS, sizeof PS_ROWS / sizeof PS_ROWS[0]};

// Facts about one run, from its record and from every node.
struct ps_line {
    struct run run;
    const char *state, *reason; // of a node that is still going, where there is one
    const char *why;            // there was another round
    int nodes_seen, ranks_running, restarts, round;
    int agent_starts;        // agents that vanished and were started again
    const char *coordinator; // NULL: none was seen
    bool unasked;            // of a node that did not answer
};

// Where the results are.
static const char *results_of(const struct ps_line *l) {
    const struct run *r = &l->run;
    if (!r->fetched) // a run that no node has any more has none
        return l->nodes_seen ? "on nodes" : l->unasked ? "not known" : "lost";
    if (r->lost_count == 0)
        return "here";
    return r->lost_count < r->node_count ? "part lost" : "lost";
}

static bool was_unasked(const struct fleet *f, const struct run *r) {
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; f->nodes[i].failed && k < r->node_count; k++)
            if (strcmp(r->nodes[k], f->nodes[i].info->name) == 0)
                return true;
    return false;
}

static void look_up(struct ps_line *line, const struct node_runs *runs) {
    bool going = false;
    for (size_t i = 0; i < runs->count; i++)
        if (strcmp(runs->items[i].run, line->run.id) == 0 && runs->items[i].round > line->round)
            line->round = runs->items[i].round;
    for (size_t i = 0; i < runs->count; i++) {
        const struct node_run *r = &runs->items[i];
        if (strcmp(r->run, line->run.id) != 0)
            continue;
        line->nodes_seen++;
        line->restarts = r->restarts > line->restarts ? r->restarts : line->restarts;
        line->agent_starts += r->agent_starts;
        if (r->coordinator && !r->over)
            line->coordinator = r->node;
        // A node that is cut off or frozen still reports a round that the others have left.
        if (r->round == line->round && !r->over) {
            line->ranks_running += r->ranks_running;
            line->why = line->why[0] ? line->why : r->reason;
        }
        if (!going && !run_is_over(&line->run) &&
            (!r->over || r->coordinator || line->nodes_seen == 1)) {
            line->state = r->state;
            line->reason = r->reason;
        }
        going |= !r->over;
    }
}

static void show_run(struct context *s, const struct ps_line *l) {
    char age[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "run");
    json_str(&j, "run", l->run.id);
    json_str(&j, "name", l->run.name);
    json_str(&j, "state", l->state);
    json_str(&j, "reason", l->reason);
    json_int(&j, "nodes", (int64_t)l->run.node_count);
    json_int(&j, "nodes_seen", l->nodes_seen);
    json_int(&j, "ranks_running", l->ranks_running);
    json_int(&j, "round", l->round);
    json_int(&j, "restarts", l->restarts);
    json_int(&j, "max_restarts", l->run.max_restarts);
    json_str(&j, "round_reason", l->why);
    json_int(&j, "agent_starts", l->agent_starts);
    json_str(&j, "coordinator", l->coordinator);
    json_bool(&j, "fetched", l->run.fetched);
    json_array(&j, "lost");
    for (size_t i = 0; i < l->run.lost_count; i++)
        json_str(&j, NULL, l->run.lost[i]);
    json_end(&j);
    json_int(&j, "work_left", l->run.work_left);
    json_str(&j, "results", results_of(l));
    json_int(&j, "created_ms", l->run.created_ms);
    screen_event_end(s->screen, &text, &j);
    // Of a run that is over none run, however many it had.
    bool over = run_is_over(&l->run) || l->nodes_seen == 0;
    const char *ranks = over ? "-" : arena_printf(s->arena, "%d", l->ranks_running);
    screen_out(s->screen, "%-44s %-9s %5zu %7s %8d %8s %s\n", l->run.id, l->state,
               l->run.node_count, ranks, l->restarts,
               str_human_ms(age, clock_wall_ms() - l->run.created_ms), results_of(l));
    if (l->round > 0)
        screen_out(s->screen, "  round %d, %d of %d restarts%s%s%s%s\n", l->round, l->restarts,
                   l->run.max_restarts, l->why[0] ? ": " : "", l->why,
                   l->coordinator ? "; coordinator " : "", l->coordinator ? l->coordinator : "");
    if (l->agent_starts > 0)
        screen_out(s->screen, "  agents started again: %d\n", l->agent_starts);
}

static int look_at_runs(struct context *s, const struct cli_rest *rest, const struct look_flags *f,
                        struct err *e) {
    (void)rest;
    struct inventory inv;
    struct fleet fleet = {0};
    struct node_runs runs = {0};
    char **ids = NULL;
    size_t count = 0, shown = 0;
    if (cluster_runs(&s->cluster, &ids, &count, e) < 0)
        return -1;
    bool up = cluster_exists(&s->cluster);
    if (up) {
        if (cluster_load(&s->cluster, &inv, e) < 0)
            return -1;
        fleet_open(&fleet, s, &inv, NULL, 0);
        if (fleet_connect(&fleet, true, e) < 0 || node_runs_ask(&fleet, NULL, &runs, e) < 0) {
            fleet_close(&fleet);
            return -1;
        }
    }
    begin_look(s, f);
    fleet_report(&fleet);
    for (size_t i = 0; i < count; i++) {
        struct ps_line line = {0};
        struct err ignored = {0};
        if (run_load(&s->cluster, ids[i], &line.run, &ignored) < 0)
            continue;
        line.state = line.run.state;
        line.why = "";
        line.round = -1;
        look_up(&line, &runs);
        line.unasked = was_unasked(&fleet, &line.run);
        // A run that no node has any more does not go on, and its results cannot be fetched.
        bool gone = line.nodes_seen == 0 && !line.unasked;
        if (gone && !run_is_over(&line.run))
            line.state = "lost";
        // A run that still needs attention: it is going, or its results are not here.
        if (!f->all && (gone || (run_is_over(&line.run) && line.run.fetched)))
            continue;
        if (shown++ == 0)
            screen_out(s->screen, "%-44s %-9s %5s %7s %8s %8s %s\n", "RUN", "STATE", "NODES",
                       "RUNNING", "RESTARTS", "AGE", "RESULTS");
        show_run(s, &line);
    }
    if (shown == 0 && (f->all || count == 0))
        screen_note(s->screen, "no runs yet (try: dtctl train)");
    else if (shown == 0)
        screen_note(s->screen, "no run is going (ps --all shows %zu)", count);
    int result = up ? fleet_verdict(&fleet, "ps", e) : 0;
    fleet_close(&fleet);
    return result;
}

static int run_ps(struct context *s, const struct cli_rest *rest, const void *flags,
                  struct err *e) {
    return look_again(s, look_at_runs, rest, flags, e);
}

const struct command cmd_ps = {
    .verb = {.name = "ps",
             .summary = "list runs and their state",
             .text = "Lists the runs that are going or whose results are still on the nodes.",
             .examples = "dtctl ps --watch   # looks again every two seconds\n"},
    .rows = &PS_TABLE,
    .flags_bytes = sizeof(struct look_flags),
    .run = run_ps,
};

// ---- status ------------------------------------------------------------------------------------

// Prints the end of the nodes' lease, and their cost.
static int show_lease(struct context *s, struct fleet *f, const struct inventory *inv,
                      struct err *e) {
    const struct provider *p = provider_named(inv->provider);
    struct strbuf text = {0};
    struct json_out j;
    int64_t until = 0, now = clock_wall_ms();
    char left[STR_HUMAN_BYTES_MAX], cost[STR_MONEY_BYTES_MAX], rest[STR_MONEY_BYTES_MAX];
    if (!p || !p->lease)
        return 0;
    if (p->lease->get(f, &until, e) < 0)
        return -1;
    int64_t left_ms = until > now ? until - now : 0, spent = -1, most = -1;
    if (p->cost_mils) {
        spent = p->spent_mils(s, inv);
        most = p->cost_mils(s, inv->count, left_ms);
    }
    screen_event(&text, &j, "lease");
    json_int(&j, "until_ms", until);
    json_int(&j, "left_ms", left_ms);
    if (spent >= 0)
        json_num(&j, "spent_usd", (double)spent / 1000);
    screen_event_end(s->screen, &text, &j);
    if (until)
        screen_out(s->screen, "lease: ends in %s", str_human_ms(left, left_ms));
    else
        screen_out(s->screen, "lease: not known");
    if (spent >= 0)
        screen_out(s->screen, "; spent about %s", str_money(cost, spent));
    if (most >= 0 && spent >= 0 && until)
        screen_out(s->screen, ", at most %s more until then", str_money(rest, most));
    screen_out(s->screen, "\n");
    return 0;
}

static void show_node(struct context *s, const struct fleet_node *n, const struct node_runs *runs,
                      bool gone) {
    char memory[STR_HUMAN_BYTES_MAX], disk[STR_HUMAN_BYTES_MAX];
    const struct node_run *going = NULL;
    int ranks = 0, others = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (runs->items[i].node_index == n->index && !runs->items[i].over) {
            others += going != NULL;
            going = &runs->items[i];
            ranks += runs->items[i].ranks_running;
        }
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "node");
    json_str(&j, "node", n->info->name);
    json_str(&j, "address", n->info->address);
    json_str(&j, "state", gone ? "gone" : n->failed ? "unreachable" : going ? "busy" : "idle");
    json_str(&j, "error", n->failed ? n->err.text : NULL);
    json_str(&j, "run", going ? going->run : NULL);
    json_int(&j, "ranks_running", ranks);
    if (going) {
        json_str(&j, "run_state", going->state);
        json_int(&j, "round", going->round);
        json_int(&j, "restarts", going->restarts);
        json_int(&j, "max_restarts", going->max_restarts);
        json_str(&j, "reason", going->reason);
        json_bool(&j, "coordinator", going->coordinator);
    }
    if (n->ready) {
        json_str(&j, "version", n->facts.version);
        json_str(&j, "arch", n->facts.arch);
        json_int(&j, "cpus", n->facts.cpus);
        json_int(&j, "gpus", n->facts.gpus);
        json_int(&j, "memory_bytes", (int64_t)n->facts.memory_bytes);
        json_int(&j, "disk_free_bytes", (int64_t)n->facts.disk_free_bytes);
        json_int(&j, "clock_skew_ms", n->facts.clock_skew_ms);
    }
    screen_event_end(s->screen, &text, &j);
    if (n->failed) {
        screen_out(s->screen, "%-16s %-18s %-11s %s\n", n->info->name, n->info->address,
                   gone ? "gone" : "unreachable", n->err.text);
        return;
    }
    screen_out(s->screen, "%-16s %-18s %-11s %4d %4d %9s %9s  %s%s\n", n->info->name,
               n->info->address, going ? "busy" : "idle", n->facts.cpus, n->facts.gpus,
               str_human_bytes(memory, n->facts.memory_bytes),
               str_human_bytes(disk, n->facts.disk_free_bytes), going ? going->run : "",
               others ? " and more" : "");
    if (going && (going->round > 0 || going->coordinator))
        screen_out(s->screen, "  %s%s, round %d, %d of %d restarts%s%s\n", going->state,
                   going->coordinator ? ", coordinator" : "", going->round, going->restarts,
                   going->max_restarts, going->reason[0] ? ": " : "", going->reason);
}

static const struct option_row STATUS_ROWS[] = {LOOK_ROWS("status")};
static const struct option_table STATUS_TABLE = {"Status", STATUS_ROWS,
                                                 sizeof STATUS_ROWS / sizeof STATUS_ROWS[0]};

static int look_at_nodes(struct context *s, const struct cli_rest *rest, const struct look_flags *f,
                         struct err *e) {
    struct inventory inv;
    struct fleet fleet;
    struct node_runs runs;
    size_t *indices = NULL, count = 0;
    if (cluster_load(&s->cluster, &inv, e) < 0 ||
        inventory_select(s->arena, &inv, rest->count ? rest->args[0] : NULL, &indices, &count, e) <
            0)
        return -1;
    fleet_open(&fleet, s, &inv, indices, count);
    if (fleet_connect(&fleet, true, e) < 0 || node_runs_ask(&fleet, NULL, &runs, e) < 0) {
        fleet_close(&fleet);
        return -1;
    }
    begin_look(s, f);
    screen_out(s->screen, "cluster %s, provider %s, %zu node%s, up since %s\n", inv.name,
               inv.provider, inv.count, inv.count == 1 ? "" : "s", inv.created);
    screen_out(s->screen, "%-16s %-18s %-11s %4s %4s %9s %9s  %s\n", "NODE", "ADDRESS", "STATE",
               "CPUS", "GPUS", "MEMORY", "DISK FREE", "RUN");
    // A machine that does not answer may be gone for good; its provider knows.
    const bool *gone = provider_gone(&fleet, &inv);
    for (size_t i = 0; i < fleet.count; i++)
        show_node(s, &fleet.nodes[i], &runs, gone[fleet.nodes[i].info - inv.nodes]);
    int result = show_lease(s, &fleet, &inv, e);
    if (result == 0)
        result = fleet_verdict(&fleet, "status", e);
    fleet_close(&fleet);
    return result;
}

static int run_status(struct context *s, const struct cli_rest *rest, const void *flags,
                      struct err *e) {
    return look_again(s, look_at_nodes, rest, flags, e);
}

const struct command cmd_status = {
    .verb = {.name = "status",
             .summary = "show the nodes, whether they answer, and their runs",
             .args = "[NODES]"},
    .rows = &STATUS_TABLE,
    .flags_bytes = sizeof(struct look_flags),
    .args_max = 1,
    .run = run_status,
};
