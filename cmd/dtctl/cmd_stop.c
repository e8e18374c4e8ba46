// SPDX-License-Identifier: Apache-2.0
// dtctl stop: end a run on all its nodes.
#include "command.h"

#include "base/str.h"
#include "fleet/fleet_runs.h"
#include "run/monitor.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <string.h>

struct stop_flags {
    int64_t grace_ms;
    const char *signal;
};

static int check_signal(const char *name, struct err *e) {
    return proc_signal_parse(name, e) < 0 ? -1 : 0;
}

static const struct option_row ROWS[] = {
    {.flag = "grace",
     .verbs = "stop",
     .type = OPTION_DURATION,
     .text = "30s",
     .max = 86400000,
     .offset = offsetof(struct stop_flags, grace_ms),
     .marks = OPTION_NO_ENV,
     .arg = "TIME",
     .help = "Time from the signal to SIGKILL."},
    {.flag = "signal",
     .verbs = "stop",
     .type = OPTION_STRING,
     .text = "SIGTERM",
     .offset = offsetof(struct stop_flags, signal),
     .marks = OPTION_NO_ENV,
     .arg = "SIGNAL",
     .check = check_signal,
     .help = "First signal to the workers."},
};
static const struct option_table TABLE = {"Stop", ROWS, sizeof ROWS / sizeof ROWS[0]};

struct stop_node {
    const char *rest; // arguments of the verb `stop`
    bool was_going;
};

static void on_stopped(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct stop_node *w = n->work;
    struct err e = {0};
    fleet_answer(r, &e);
    w->was_going = strstr(r->out, "\"stopping\"") != NULL;
    if (e.code == ERR_NOT_FOUND) // nothing of the run is on this node
        err_clear(&e);
    fleet_done(n, &e);
}

static int start_stop(struct fleet_node *n, struct err *e) {
    const struct stop_node *w = n->work;
    fleet_state(n, "stopping");
    return transport_collect(n->link, fleet_line(n, NODE_VERB_STOP, w->rest), NULL, 0, on_stopped,
                             n, e);
}

static void show(struct context *s, const struct run *run, bool was_going) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "stopped");
    json_str(&j, "run", run->id);
    screen_event_end(s->screen, &text, &j);
    if (run_is_over(run) && !was_going)
        screen_out(s->screen, "run %s is over already: %s\n", run->id, run->state);
    else
        screen_out(s->screen, "run %s: nothing of it is left running\n", run->id);
    if (!run->fetched)
        screen_note(s->screen, "its results are on the nodes: dtctl fetch %s", run->id);
}

// The nodes are asked even if the record says that the run is over: the record may be old.
static int stop(struct context *s, struct run_fleet *r, const struct stop_flags *f, bool *was_going,
                struct err *e) {
    size_t count = r->fleet.count;
    struct stop_node *work = arena_new(s->arena, struct stop_node, count);
    for (size_t i = 0; i < count; i++) {
        work[i].rest = arena_printf(s->arena, "--run %s --grace-ms %lld --signal %s", r->run.id,
                                    (long long)f->grace_ms, f->signal);
        r->fleet.nodes[i].work = &work[i];
    }
    if (!run_is_over(&r->run))
        monitor_note(s, &r->run, "stop-asked", "by", "dtctl stop", NULL);
    if (fleet_connect(&r->fleet, true, e) < 0 || fleet_each(&r->fleet, "stop", start_stop, e) < 0)
        return -1;
    fleet_report(&r->fleet);
    if (fleet_verdict(&r->fleet, "stop", e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        *was_going |= work[i].was_going;
    return 0;
}

static int choose_of_several(struct context *s, const char *task, size_t going, const char *run,
                             struct err *e) {
    bool asks = context_can_ask(s) && !s->config->dry_run;
    if (!asks && !task)
        return 0;
    if (!asks)
        return err_set(e, ERR_USAGE,
                       "%zu runs of task '%s' are active; the newest is '%s' (try: dtctl stop %s)",
                       going, task, run, run);
    int yes = context_ask(
        s, arena_printf(s->arena, "%zu runs are active; stop the newest, %s?", going, run), e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was stopped");
}

// The newest active run known here, of the task if it is not NULL; *run remains if there is none.
// With several active runs the user confirms the choice on a terminal. newest: the newest of all
// these runs, if its record says that it is over.
static int choose(struct context *s, const char *task, const char **run, const char **newest,
                  struct err *e) {
    struct run_walk walk;
    struct run r;
    const char *found = NULL;
    size_t going = 0;
    *newest = NULL;
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    for (size_t i = walk.count; i-- > 0;)
        if (!task || cluster_run_is_of(walk.ids[i], task))
            *newest = walk.ids[i];
    while (run_walk_next(&walk, &r)) {
        if (run_is_over(&r) || (task && !cluster_run_is_of(r.id, task)))
            continue;
        going++;
        found = found ? found : r.id;
    }
    if (!found || str_eq(found, *newest))
        *newest = NULL;
    *run = found ? found : *run;
    return going < 2 ? 0 : choose_of_several(s, task, going, found, e);
}

// only_going: prints nothing if the run had already ended.
static int stop_run(struct context *s, const char *name, const struct stop_flags *f,
                    bool only_going, bool *was_going, struct err *e) {
    struct run_fleet r;
    if (fleet_runs_open(&r, s, name, e) < 0)
        return -1;
    int result = stop(s, &r, f, was_going, e);
    if (result == 0 && (*was_going || !only_going))
        show(s, &r.run, *was_going);
    fleet_close(&r.fleet);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const char *name = rest->count ? rest->args[0] : NULL, *newest = NULL;
    bool was_going = false;
    bool is_run = name && file_exists(cluster_run_dir(&s->cluster, name));
    if (!is_run && choose(s, name, &name, &newest, e) < 0)
        return -1;
    if (s->config->dry_run) {
        struct run_fleet r;
        if (fleet_runs_open(&r, s, name, e) < 0)
            return -1;
        screen_out(s->screen, "would stop %s on %zu node%s\n", r.run.id, r.run.node_count,
                   str_plural(r.run.node_count));
        return 0;
    }
    // The record may be outdated. The newest run is stopped unless its nodes report it as ended.
    int rc = newest ? stop_run(s, newest, flags, true, &was_going, e) : 0;
    if (rc < 0 || was_going)
        return rc;
    return stop_run(s, name, flags, false, &was_going, e);
}

const struct command cmd_stop = {
    .verb = {.name = "stop",
             .summary = "end a run on all its nodes",
             .args = "[RUN]",
             .text = "Ends a run, by default the newest active one, and waits until all its "
                     "processes have ended. When several runs are active, stop asks on a terminal. "
                     "RUN may also be a task, whose active run is meant. The results can be "
                     "fetched afterwards.",
             .examples = "dtctl stop   # the newest active run\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct stop_flags),
    .args_max = 1,
    .run = run,
};
