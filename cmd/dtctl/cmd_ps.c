// SPDX-License-Identifier: Apache-2.0
// dtctl ps: the runs of the cluster.
#include "command.h"

#include "base/clock.h"
#include "cluster/nodeset.h"
#include "fleet/cluster_owner.h"
#include "fleet/fleet_runs.h"
#include "run/results/results_archive.h"
#include "run/results/results_owner.h"
#include "watch.h"

#include <string.h>

static const struct option_row ROWS[] = {
    {.flag = "all",
     .letter = 'a',
     .verbs = "ps",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct watch_flags, all),
     .marks = OPTION_NO_ENV,
     .help = "Runs that are over, too."},
    WATCH_ROWS("ps"),
};
static const struct option_table TABLE = {"Ps", ROWS, sizeof ROWS / sizeof ROWS[0]};

// Facts about one run, from its record and from every node.
struct ps_line {
    struct run run;
    const char *state, *reason; // of a node that is still going, where there is one
    const char *why;            // there was another round
    int nodes_seen, ranks_running, restarts, round;
    int agent_starts;        // agents that vanished and were started again
    const char *coordinator; // NULL: none was seen
    bool going;              // an agent of the run works on one of the nodes
    bool unasked;            // of a node that did not answer
};

// A dtctl that ended early left results without the archives that are wanted.
static bool is_unarchived(const struct run *r) {
    return results_archive_is_due(r) && results_owner_has_files(r->output_dir);
}

// Where the results are.
static const char *results_of(struct arena *a, const struct ps_line *l) {
    const struct run *r = &l->run;
    const char *there = l->nodes_seen ? "on nodes" : l->unasked ? "not known" : "lost";
    if (!r->fetched) // a run that no node has any more has none
        return there;
    if (r->left)
        return arena_printf(a, "here, but %s %s", result_kinds_words(a, r->left), there);
    if (r->lost_count == 0)
        return is_unarchived(r) ? "here, not archived" : "here";
    return r->lost_count < r->node_count || r->lost_kinds != RESULT_ALL ? "part lost" : "lost";
}

static bool was_unasked(const struct fleet *f, const struct run *r) {
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; f->nodes[i].failed && k < r->node_count; k++)
            if (strcmp(r->nodes[k], f->nodes[i].info->name) == 0)
                return true;
    return false;
}

static void look_up(struct ps_line *line, const struct node_runs *runs) {
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
        if (!line->going && !run_is_over(&line->run) &&
            (!r->over || r->coordinator || line->nodes_seen == 1)) {
            line->state = r->state;
            line->reason = r->reason;
        }
        line->going |= !r->over;
    }
}

static void json_kinds(struct json_out *j, unsigned kinds) {
    const char *names[RESULT_KINDS];
    size_t count = result_kinds_names(kinds, names);
    json_array(j, "left");
    for (size_t i = 0; i < count; i++)
        json_str(j, NULL, names[i]);
    json_end(j);
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
    json_kinds(&j, l->run.left);
    json_int(&j, "work_left", l->run.work_left);
    json_str(&j, "results", results_of(s->arena, l));
    json_int(&j, "created_ms", l->run.created_ms);
    screen_event_end(s->screen, &text, &j);
    // Of a run that is over none run, however many it had.
    bool over = run_is_over(&l->run) || !l->going;
    const char *ranks = over ? "-" : arena_printf(s->arena, "%d", l->ranks_running);
    screen_out(s->screen, "%-44s %-9s %5zu %7s %8d %8s %s\n", l->run.id, l->state,
               l->run.node_count, ranks, l->restarts,
               str_human_ms(age, clock_wall_ms() - l->run.created_ms), results_of(s->arena, l));
    if (l->round > 0)
        screen_out(s->screen, "  round %d, %d of %d restarts%s%s%s%s\n", l->round, l->restarts,
                   l->run.max_restarts, l->why[0] ? ": " : "", l->why,
                   l->coordinator ? "; coordinator " : "", l->coordinator ? l->coordinator : "");
    if (l->agent_starts > 0)
        screen_out(s->screen, "  agents started again: %d\n", l->agent_starts);
}

// Names runs of this cluster that only the nodes know. Returns their number.
static size_t show_unrecorded(struct context *s, const struct node_runs *runs,
                              const char *const *ids, size_t count, const char *mine) {
    const char **reported = arena_new(s->arena, const char *, runs->count + 1);
    size_t reported_count = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const struct node_run *r = &runs->items[i];
        if ((r->owner[0] && strcmp(r->owner, mine) != 0) || str_is_among(r->run, ids, count) ||
            str_is_among(r->run, reported, reported_count))
            continue;
        reported[reported_count++] = r->run;
        screen_note(s->screen,
                    "run %s is on the nodes, and this side has no record of it "
                    "(try: dtctl fetch --path runs/%s)",
                    r->run, r->run);
    }
    return reported_count;
}

static int look_at_runs(struct context *s, const struct cli_rest *rest, const struct watch_flags *f,
                        struct err *e) {
    (void)rest;
    struct inventory inv;
    struct fleet fleet = {0};
    struct node_runs runs = {0};
    const char *mine = "";
    char **ids = NULL;
    size_t count = 0, shown = 0;
    if (cluster_runs(&s->cluster, &ids, &count, e) < 0)
        return -1;
    bool up = cluster_exists(&s->cluster);
    if (up) {
        if (cluster_load(&s->cluster, &inv, e) < 0 || cluster_owner_id(s, &mine, e) < 0)
            return -1;
        fleet_open(&fleet, s, &inv, NULL, 0);
        if (fleet_connect(&fleet, true, e) < 0 || fleet_runs_ask(&fleet, NULL, &runs, e) < 0) {
            fleet_close(&fleet);
            return -1;
        }
    }
    watch_begin(s, f);
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
        // A run unknown to all nodes is not active, and its results cannot be fetched.
        bool gone = line.nodes_seen == 0 && !line.unasked;
        if (gone && !run_is_over(&line.run))
            line.state = "lost";
        // A run that still needs attention: it is going, or its results are not here.
        if (!f->all && (gone || (run_is_over(&line.run) && line.run.fetched && !line.run.left &&
                                 !is_unarchived(&line.run))))
            continue;
        if (shown++ == 0)
            screen_out(s->screen, "%-44s %-9s %5s %7s %8s %8s %s\n", "RUN", "STATE", "NODES",
                       "RUNNING", "RESTARTS", "AGE", "RESULTS");
        show_run(s, &line);
    }
    size_t unrecorded = show_unrecorded(s, &runs, (const char *const *)ids, count, mine);
    if (shown == 0 && unrecorded == 0 && (f->all || count == 0))
        screen_note(s->screen, "no runs yet (try: dtctl train)");
    else if (shown == 0 && count)
        screen_note(s->screen, "no run is going (ps --all shows %zu)", count);
    int result = up ? fleet_verdict(&fleet, "ps", e) : 0;
    fleet_close(&fleet);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    return watch_again(s, look_at_runs, rest, flags, e);
}

const struct command cmd_ps = {
    .verb = {.name = "ps",
             .summary = "list runs and their state",
             .text = "Lists active runs, and runs whose results are still on the nodes.",
             .examples = "dtctl ps --watch   # looks again every two seconds\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct watch_flags),
    .run = run,
};
