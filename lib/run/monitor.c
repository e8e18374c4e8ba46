// SPDX-License-Identifier: Apache-2.0
// Monitors a run: follows it and finishes it.
#include "run/monitor_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet_runs.h"
#include "run/results/results.h"
#include "run/results/results_archive.h"
#include "run/results/results_part.h"
#include "run/results/results_upload.h"
#include "run/run_summary.h"
#include "run/run_verdict.h"
#include "sys/file.h"

#include <stdarg.h>
#include <string.h>

enum { TRAINER_SUMMARY_BYTES_MAX = 4 << 20 };

void monitor_note(const struct context *s, const struct run *run, const char *kind, ...) {
    struct strbuf text = {0};
    struct json_out j;
    struct err e = {0};
    char stamp[CLOCK_ISO_BYTES];
    int64_t now = clock_wall_ms();
    va_list ap;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_int(&j, "time_ms", now);
    json_str(&j, "time", clock_iso(stamp, now));
    json_str(&j, "node", "operator");
    json_str(&j, "kind", kind);
    va_start(ap, kind);
    for (const char *name = va_arg(ap, const char *); name; name = va_arg(ap, const char *))
        json_str(&j, name, va_arg(ap, const char *));
    va_end(ap);
    json_end(&j);
    strbuf_addc(&text, '\n');
    static const char *const files[] = {"operator.jsonl", "events.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (file_append(run_path(&s->cluster, run, files[i]), text.data, text.len, &e) < 0)
            log_warn("cannot write an event", "reason=\"%s\"", e.text);
    strbuf_fini(&text);
}

// ---- the end -----------------------------------------------------------------------------------

// Reads the trainer's figures. The folder may still hold those of an earlier run.
static struct json *read_trainer(const struct context *s, const struct run *run) {
    char *text = NULL;
    size_t len = 0;
    struct err ignored = {0};
    struct json *j = NULL;
    const char *path = file_join(s->arena, run->output_dir, "summary.json");
    if (!run->native ||
        file_read(s->arena, path, TRAINER_SUMMARY_BYTES_MAX, &text, &len, &ignored) < 0 ||
        json_parse(s->arena, text, len, &j, &ignored) < 0 || j->type != JSON_OBJECT ||
        !str_eq(json_get_str(j, "run", ""), run->id))
        return NULL;
    return j;
}

static void emit_summary(const struct summary *sum, struct err *e) {
    struct context *s = sum->follow->context;
    struct strbuf text = {0};
    run_summary_json(sum, &text);
    const char *path = run_path(&s->cluster, sum->run, "summary.json");
    if (file_write_atomic(path, text.data, text.len, 0600, e) < 0)
        log_error(e->text, "%s", "");
    if (s->screen->style == SCREEN_JSON) {
        struct strbuf line = {0};
        strbuf_adds(&line, "{\"event\":\"summary\",");
        strbuf_add(&line, text.data + 1, text.len > 2 ? text.len - 2 : 0);
        screen_json(s->screen, &line);
        strbuf_fini(&line);
    }
    strbuf_clear(&text);
    run_summary_failure(sum, &text);
    run_summary_text(sum, &text);
    screen_out(s->screen, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
}

// Of several programs that follow, one fetches the results and the others wait.
static int take_turn(struct attention *a, int *lock, struct err *e) {
    struct context *s = a->follow.context;
    struct run *run = a->follow.run, now;
    bool reported = false;
    while (run_lock(&s->cluster, run->id, "fetching the results", lock, e) < 0) {
        if (e->code != ERR_BUSY)
            return -1;
        if (!reported)
            screen_note(s->screen, "another dtctl fetches the results of this run; waiting for it");
        reported = true;
        err_clear(e);
        if (context_pause(s, FLEET_RETRY_PAUSE_MS, e) < 0)
            return -1;
    }
    if (run_load(&s->cluster, run->id, &now, e) < 0)
        return -1;
    if (now.fetched && !a->options->again)
        *run = now;
    return 0;
}

static bool all_gone(const struct follow *f) {
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].no_status || f->nodes[i].err.code != ERR_NOT_FOUND)
            return false;
    return true;
}

// Finds nodes that answer but do not know the run. Their part is lost unless it was fetched before.
static bool *find_gone(struct attention *a) {
    struct follow *f = &a->follow;
    struct context *s = f->context;
    bool *gone = arena_new(s->arena, bool, f->count);
    struct err why = {0};
    for (size_t i = 0; i < f->count; i++) {
        struct follow_node *n = &f->nodes[i];
        struct fleet_node *node = n->node;
        bool answers = node->ready || node->absent;
        if (n->no_status && n->err.code == ERR_NOT_FOUND && answers &&
            !file_exists(results_part_mark(s, f->run, node->info->name))) {
            gone[i] = true;
            err_set(&why, ERR_NO_STATUS, "it %s, and its part of the results is lost",
                    node->absent ? "is no longer in the cluster"
                                 : "does not have the run any more");
            fleet_fail(node, &why);
        } else if (!node->up) {
            err_set(&why, ERR_NO_STATUS, "it cannot be reached");
            fleet_fail(node, &why);
        }
    }
    return gone;
}

static unsigned kinds_of(const struct monitor_options *o, const struct run *run) {
    return o->kinds ? *o->kinds : run->wanted;
}

// Logs that were left on the nodes are here now, as the whole run was followed with them.
static bool logs_have_come(const struct follow *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].no_status)
            return false;
    return !f->events_only && (f->run->left & RESULT_LOGS);
}

// Archives and uploads results that have come. After a failure, which is logged, the results stay
// here, and fetch tries again.
static void pass_on(struct context *s, struct run *run) {
    struct err why = {0};
    if (results_archive_is_due(run) && results_archive(s, run, &why) < 0)
        log_error(why.text, "%s", "");
    if (!results_upload_is_wanted(run) || !run->fetched)
        return;
    run->uploaded = false; // more files may have come
    err_clear(&why);
    if (results_upload(s, run, &why) < 0)
        log_error(why.text, "%s", "");
}

// The final steps, done once per run. Results that are already here are not fetched again.
static int finish(struct attention *a, struct err *e) {
    struct follow *f = &a->follow;
    struct context *s = f->context;
    struct run *run = f->run;
    struct collect_result got = {0};
    auto_close int lock = -1;
    context_listen(s, NULL, NULL);
    if (take_turn(a, &lock, e) < 0)
        return -1;
    int64_t began = clock_mono_ms();
    bool fetch = !run->fetched || a->options->rest, more = !fetch && logs_have_come(f);
    run->bring_work |= a->options->work;
    run->rest = a->options->rest;
    run->bring = kinds_of(a->options, run);
    if (more)
        run->left &= ~(unsigned)RESULT_LOGS;
    // Keep the recorded state when no node knows the run any more.
    if (!run_is_over(run) || !all_gone(f))
        run->state = follow_state(f, &run->exit_status);
    if (!run->train_ms && f->history.first_started_ms)
        run->train_ms = monitor_view_ended_ms(f) - f->history.first_started_ms;
    if (run_save(&s->cluster, run, e) < 0)
        return -1;
    if (fetch) {
        f->fleet->on_lost = NULL; // from here on, losing a node is a failure
        f->fleet->on_back = NULL;
        if (results_collect(f->fleet, run, &f->history, find_gone(a), &got, e) < 0)
            return err_wrap(e, "the run is over (%s); fetching its results", run->state);
        if (!got.complete || run->lost_count) // else unreachable nodes are not needed
            fleet_report(f->fleet);
        run->fetched = got.complete || run->rest;
        run->fetch_bytes += got.totals.bytes;
        run->fetch_ms += clock_mono_ms() - began;
        monitor_note(s, run, "fetched", "complete", run->fetched && !run->lost_count ? "yes" : "no",
                     NULL);
    }
    if (follow_name_logs(f, e) < 0 || run_summary_merge_events(f, e) < 0 ||
        run_save(&s->cluster, run, e) < 0)
        return -1;
    if ((fetch || more) && run_is_all_here(run))
        fleet_runs_mark_fetched(f->fleet, run->id);
    if (fetch || more)
        pass_on(s, run);
    struct summary sum = {s, run, f, fetch ? &got : NULL, read_trainer(s, run), s->arena};
    emit_summary(&sum, e);
    return e->code ? -1 : 0;
}

// A dtctl that was killed before it started the agents leaves only the record.
static int check_started(struct attention *a, struct err *e) {
    struct follow *f = &a->follow;
    struct run *run = f->run;
    if (!all_gone(f) || !str_eq(run->state, "made")) // otherwise the run has existed and is lost
        return 0;
    run->state = "failed";
    run->exit_status = err_status(ERR_FAILED);
    run->fetched = true; // no results exist
    if (run_save(&f->context->cluster, run, e) < 0)
        return -1;
    return err_set(e, ERR_NOT_FOUND, "run '%s' was never started: no node knows it", run->id);
}

// Refuses a rank that no round had, since an empty result would look like a silent rank.
static int check_rank(const struct run_history *t, const struct run *run, int rank, struct err *e) {
    int highest = -1;
    for (size_t i = 0; i < t->node_count; i++)
        for (const struct history_attempt *a = t->nodes[i].attempts; a; a = a->next)
            if (a->first_rank + a->rank_count - 1 > highest)
                highest = a->first_rank + a->rank_count - 1;
    return highest < 0 || rank <= highest
               ? 0
               : err_set(e, ERR_NOT_FOUND, "run '%s' has no rank %d: its highest is %d", run->id,
                         rank, highest);
}

// Work of this side for an active run.
static int serve_open(struct attention *a, struct err *e) {
    state_published_open(&a->states, &a->follow);
    output_published_open(&a->outputs, &a->follow);
    output_upload_open(&a->upload, &a->follow, &a->outputs);
    return input_source_open(&a->source, &a->follow, e);
}

static void serve_close(struct attention *a) {
    output_upload_close(&a->upload);
    publish_close(&a->states);
    publish_close(&a->outputs);
    input_source_close(&a->source);
}

int monitor_run(struct fleet *fleet, struct run *run, const struct monitor_options *o,
                int *exit_status, struct err *e) {
    struct context *s = fleet->context;
    struct attention *a = arena_new(s->arena, struct attention, 1);
    a->options = o;
    monitor_view_init(&a->view, &a->follow, o);
    int result = follow_open(&a->follow, s, fleet, run, &monitor_view, &a->view, e);
    results_drain_open(&a->view.drain, &a->follow);
    if (result == 0)
        context_listen(s, monitor_on_signal, a);
    a->follow.timed = o->timestamps;
    a->follow.since = (struct log_since){.ms = o->since_ms, .arena = s->arena};
    if (result == 0 && o->replay)
        monitor_view_replay(&a->view);
    a->follow.events_only = !(kinds_of(o, run) & RESULT_LOGS);
    a->follow.until_now = o->until_now;
    a->follow.goes_on = o->goes_on;
    if (result == 0 && o->launch)
        agent_restart_init(&a->restart, o->launch, &a->follow);
    if (result == 0 && o->launch)
        input_resend_open(&a->view.resend, o->launch, &a->follow);
    if (result == 0 && !o->offline && !o->until_now)
        input_renew_open(&a->view.renew, o->launch, &a->follow);
    if (result == 0 && o->replace_nodes)
        node_replace_init(&a->replace, &a->follow);
    if (result == 0 && !o->offline && !o->until_now)
        result = serve_open(a, e);
    if (result == 0 && !o->offline)
        result = follow_wait(&a->follow, e);
    serve_close(a);
    if (result == 0 && !o->offline)
        result = check_started(a, e);
    results_drain_close(&a->view.drain);
    agent_restart_close(&a->restart);
    input_resend_close(&a->view.resend);
    input_renew_close(&a->view.renew);
    screen_erase(s->screen);
    timer_stop(&a->leave);
    monitor_view_tail(&a->view);
    *exit_status = 0;
    if (result == 0 && o->offline) {
        *exit_status = run_verdict(&a->follow, o->exit_code);
    } else if (result == 0 && !follow_state(&a->follow, exit_status)[0]) {
        *exit_status = 0; // still running
        result = follow_name_logs(&a->follow, e);
    } else if (result == 0) {
        result = finish(a, e);
        *exit_status = run_verdict(&a->follow, o->exit_code);
    } else if (e->code == ERR_INTERRUPTED && !a->stop_ms) {
        struct err ignored = {0};
        follow_name_logs(&a->follow, &ignored);
        monitor_note(s, run, "left", NULL);
        err_clear(e);
        result = 0; // detaching is not a failure
        if (o->until_now)
            result = err_set(e, ERR_INTERRUPTED, "stopped by %s before all of run '%s' was here",
                             s->last_signal == SIGINT ? "Ctrl-C" : "a signal", run->id);
    }
    if (result == 0 && (o->offline || o->until_now))
        result = check_rank(&a->follow.history, run, o->only_rank, e);
    node_replace_close(&a->replace);
    monitor_view_close(&a->view);
    follow_close(&a->follow);
    context_listen(s, NULL, NULL);
    return result;
}
