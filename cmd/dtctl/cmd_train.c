// SPDX-License-Identifier: Apache-2.0
// dtctl train: start a run, follow it, bring its results home.
#include "cmd_train.h"
#include "command.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "lifecycle/up.h"
#include "provider/provider.h"
#include "run/inputs/input_keep.h"
#include "run/inputs/input_look.h"
#include "run/inputs/input_record.h"
#include "run/inputs/input_stream.h"
#include "run/monitor.h"
#include "run/results/results_upload.h"
#include "run/run_setup.h"
#include "run/run_start.h"
#include "run/task.h"
#include "run/task_files.h"
#include "train_plan.h"
#include "up_down.h"

#include <string.h>
#include <unistd.h>

static const struct option_row ROWS[] = {
    {.flag = "up",
     .verbs = "train",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct up_down, up),
     .marks = OPTION_NO_ENV,
     .help = "First bring the cluster up, as dtctl up does; an existing one is completed."},
    {.flag = "down",
     .verbs = "train",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct up_down, down),
     .marks = OPTION_NO_ENV,
     .help = "Remove the cluster after the run, also after one that failed, as dtctl down does. It "
             "stays while a run is active, or while results are on its nodes alone."},
    {.flag = "keep-on-failure",
     .verbs = "train",
     .type = OPTION_DURATION,
     .text = "0s",
     .max = 31 * 86400000LL,
     .arg = "TIME",
     .offset = offsetof(struct up_down, keep_ms),
     .marks = OPTION_NO_ENV,
     .help = "With --down: keep the cluster after a failure; 0: no. On provider aws the nodes end "
             "themselves TIME after the failure, or at their idle limit. Nodes of other providers "
             "stay until dtctl down."},
};
static const struct option_table TABLE = {"Train", ROWS, sizeof ROWS / sizeof ROWS[0]};

static int bring_up_local(struct context *s, struct err *e) {
    struct lifecycle_up_result up;
    if (cluster_exists(&s->cluster) || s->config->cluster.provider != CONFIG_LOCAL)
        return 0;
    if (s->config->dry_run)
        return err_set(e, ERR_NOT_FOUND, "cluster '%s' is not up (try: dtctl up)", s->cluster.name);
    return lifecycle_up(s, false, &up, e);
}

// Nodes may fail between the least and the most that the run wants.
static int check_nodes(const struct run *r, struct fleet *f, const char *step, struct err *e) {
    if (!fleet_failures(f) || f->count - fleet_failures(f) >= (size_t)r->nodes_min)
        return 0;
    fleet_report(f);
    return fleet_verdict(f, step, e);
}

// Sends files and starts agents; the run then needs no dtctl.
static int start(struct run_start *l, struct fleet *f, struct err *e) {
    struct context *s = l->context;
    struct run *r = &l->run;
    if (run_save(&s->cluster, r, e) < 0 || input_record_save(l, e) < 0 || task_files_save(l, e) < 0)
        return -1;
    monitor_note(s, r, "made", "run", r->id, NULL);
    fleet_open(f, s, &l->inventory, l->indices, l->node_count);
    f->transfers = true;
    int64_t began = clock_mono_ms();
    if (fleet_connect(f, true, e) < 0 || run_start_send(l, f, e) < 0)
        return -1;
    r->push_ms = clock_mono_ms() - began;
    r->push_bytes = l->sent.bytes;
    if (check_nodes(r, f, "push", e) < 0)
        return -1;
    if (input_keep_save(l, e) < 0)
        return -1;
    monitor_note(s, r, "pushed", NULL);
    began = clock_mono_ms();
    if (node_setup_each(l, f, e) < 0 || check_nodes(r, f, "setup", e) < 0)
        return -1;
    r->setup_ms = clock_mono_ms() - began;
    if (job_needs_setup(&l->spec))
        monitor_note(s, r, "prepared", NULL);
    began = clock_mono_ms();
    if (input_stream_start(l, f, e) < 0 || check_nodes(r, f, "stream", e) < 0)
        return -1;
    int result = run_start_agents(l, f, e);
    fleet_report(f);
    if (result < 0)
        return -1;
    r->start_ms = clock_mono_ms() - began;
    r->state = "started";
    monitor_note(s, r, "started", NULL);
    if (run_save(&s->cluster, r, e) < 0)
        return -1;
    return s->config->job.detach ? context_check(s, e) : 0; // else the monitor checks
}

// A run has failed only if no part of it is running. If that is unknown, the run can still be
// followed, stopped and fetched.
static int give_up(struct run_start *l, struct fleet *f, struct err *e) {
    struct context *s = l->context;
    struct run *r = &l->run;
    struct run_start_called_off off;
    struct err why = *e;
    run_start_call_off(l, f, &off);
    r->state = off.unknown ? "started" : "failed";
    r->exit_status = err_status(why.code);
    r->fetched = !off.ran; // there is nothing to fetch
    monitor_note(s, r, "not-started", "reason", why.text, NULL);
    if (run_save(&s->cluster, r, e) < 0)
        log_warn("the run's record cannot be written", "reason=\"%s\"", e->text);
    if (off.unknown)
        return err_set(
            e, why.code,
            "%s; run '%s' may still be active on %s, which did not say that it has stopped "
            "(try: dtctl stop %s)",
            why.text, r->id, off.unknown, r->id);
    *e = why;
    return -1;
}

static void show_detached(const struct run_start *l) {
    const char *id = l->run.id;
    screen_note(l->context->screen, "run %s has started on %zu node%s", id, l->run.node_count,
                str_plural(l->run.node_count));
    screen_note(l->context->screen, "  follow:  dtctl logs -f %s", id);
    screen_note(l->context->screen, "  stop:    dtctl stop %s", id);
    if (provider_of(l->context->config)->lease)
        screen_note(l->context->screen,
                    "  results: dtctl fetch %s, before the lease ends or the nodes idle for a day",
                    id);
    screen_out(l->context->screen, "%s\n", id);
}

static void show_skipped(const struct run_start *l, const struct run *done) {
    struct context *s = l->context;
    struct strbuf text = {0};
    struct json_out j;
    screen_note(s->screen,
                "task '%s' is done: run %s is reused, nothing has changed (--force runs it)",
                done->name, done->id);
    screen_note(s->screen, "results  %s", run_near_path(s->arena, done->output_dir));
    screen_event(&text, &j, "skipped");
    json_str(&j, "name", done->name);
    json_str(&j, "run", done->id);
    json_str(&j, "output_dir", done->output_dir);
    screen_event_end(s->screen, &text, &j);
}

// 1 when a finished run is reused instead of this one.
static int reuses_run(struct run_start *l, struct err *e) {
    const struct config_job *job = &l->context->config->job;
    struct run done;
    const char *why;
    task_key(l);
    if (!job->if_changed || job->force)
        return 0;
    int found = task_find_reusable(l, &done, &why, e);
    if (found > 0)
        show_skipped(l, &done);
    else if (why)
        screen_note(l->context->screen, "run %s is not reused: %s", done.id, why);
    return found;
}

static int train(struct context *s, struct run_start *l, struct fleet *f, struct err *e) {
    const struct config *c = s->config;
    int status = 0;
    if (run_start_files(l, e) < 0)
        return -1;
    int done = reuses_run(l, e);
    if (done || input_record_compare(l, e) < 0 || results_upload_check(s, e) < 0 ||
        run_start_output(l, e) < 0)
        return done > 0 ? 0 : -1;
    train_plan_show(l);
    if (run_start_bundle_show(l, e) < 0)
        return -1;
    train_plan_event(l, "plan");
    if (c->dry_run)
        return l->native && !l->measures ? train_plan_forecast(l, e) : 0;
    if (cluster_lock(&s->cluster, "train", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = start(l, f, e);
    if (result < 0)
        result = give_up(l, f, e);
    cluster_unlock(&s->cluster); // others may use the cluster while this run is active
    if (result < 0)
        return -1;
    train_plan_event(l, "started");
    if (c->job.detach) {
        show_detached(l);
        return 0;
    }
    struct monitor_options o = {
        .only_rank = -1,
        .exit_code = c->job.exit_code,
        .interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO),
        .launch = l,
        .replace_nodes = c->job.replace_nodes,
    };
    result = monitor_run(f, &l->run, &o, &status, e);
    return result < 0 ? -1 : status;
}

static int train_up(struct context *s, const struct run_start_request *request,
                    struct up_down_end *end, struct err *e) {
    struct run_start l = {0};
    struct fleet f = {0};
    int result = run_start_plan(&l, s, request, e);
    if (result == 0)
        result = train(s, &l, &f, e);
    end->going = l.run.state && strcmp(l.run.state, "started") == 0;
    fleet_close(&f);
    run_start_close(&l);
    return result;
}

int cmd_train_request(struct context *s, const struct run_start_request *request, struct err *e) {
    struct up_down_end end = {0};
    if (run_start_check(s, e) < 0 || bring_up_local(s, e) < 0)
        return -1;
    return train_up(s, request, &end, e);
}

static int check_before_up(struct context *s, const struct run_start_request *request,
                           struct input_look *look, struct err *e) {
    struct run_start trial = {.context = s};
    if (run_start_command(&trial, request, e) < 0 || results_upload_check(s, e) < 0 ||
        input_look_open(look, s, e) < 0)
        return -1;
    if (s->config->dry_run) // the run's plan needs the nodes
        train_plan_inputs(s, look);
    return 0;
}

static int run_with_cluster(struct context *s, const struct up_down *way, bool up,
                            struct run_start_request *request, struct err *e) {
    struct up_down_end end = {0};
    bool began = false;
    end.result = up ? up_down_make(s, false, &began, e) : bring_up_local(s, e);
    if (end.result == 0 && up && s->config->dry_run)
        return 0;
    if (end.result == 0) {
        began = true;
        end.result = train_up(s, request, &end, e);
    }
    return way->down && began && !s->config->dry_run ? up_down_after(s, way, &end, e) : end.result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct up_down *way = flags;
    struct input_look look = {0};
    struct run_start_request request = {
        .command = rest->command, .command_count = rest->command_count, .looked = NULL};
    bool up = way->up && !(s->config->dry_run && cluster_exists(&s->cluster));
    if (rest->dashes && rest->command_count == 0)
        return err_set(e, ERR_USAGE, "no command follows '--'; without '--' the trainer runs");
    if (up_down_check(way, s, e) < 0 || run_start_check(s, e) < 0)
        return -1;
    request.looked = up ? &look : NULL;
    int result = up ? check_before_up(s, &request, &look, e) : 0; // before machines cost anything
    if (result == 0)
        result = run_with_cluster(s, way, up, &request, e);
    input_look_close(&look);
    return result;
}

const struct command cmd_train = {
    .verb = {.name = "train",
             .summary = "run a command, or the native trainer, on the cluster",
             .args = "[-- COMMAND…]",
             .text =
                 "Sends the run's files, starts an agent on every node, follows the run, and "
                 "fetches and verifies its results. The command gets the environment that torchrun "
                 "would give it. Without a command the native trainer runs, configured by "
                 "[train].\n\nThe run does not depend on this program. On a terminal, Ctrl-C "
                 "detaches and prints how to follow the run again; a second Ctrl-C within two "
                 "seconds stops the run. Without a terminal, the first one stops it.",
             .examples =
                 "dtctl train   # the trainer, as dtctl.toml says\n"
                 "dtctl train --nodes 2 -- python3 train.py --epochs 3   # any command\n"
                 "dtctl train --nodes 2:4 --max-restarts 3   # continues with two, grows again\n"
                 "dtctl train --input data=./images:sharded -- ./train.sh   # with data\n"
                 "dtctl train --dry-run --input data=./images:sharded -- ./train.sh   # which "
                 "node gets which files\n"
                 "dtctl train --dry-run --pipeline 2   # memory, bytes and time of the trainer\n"
                 "dtctl train --up --down --keep-on-failure 1h   # a cluster for one run\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct up_down),
    .marks = COMMAND_REST,
    .run = run,
};
