// SPDX-License-Identifier: Apache-2.0
// dtctl train: start a run, follow it, bring its results home.
#include "cmd_train.h"
#include "command.h"

#include "base/clock.h"
#include "base/log.h"
#include "conf/render_row.h"
#include "lifecycle/up.h"
#include "run/inputs/input_stream.h"
#include "run/monitor.h"
#include "run/results/results_upload.h"
#include "run/run_forecast.h"
#include "run/run_setup.h"
#include "run/run_start.h"
#include "run/task.h"
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
             "stays while a run goes on, or while results are on its nodes alone."},
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

static const char *command_text(struct arena *a, const struct run *r) {
    struct strbuf text = {0};
    for (size_t i = 0; i < r->command_count; i++)
        strbuf_addf(&text, "%s%s", i ? " " : "", str_shell_quote(a, r->command[i]));
    char *copy = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

// ---- the deal of sharded inputs -----------------------------------------------------------------

static const char *count_text(struct arena *a, size_t n, const char *what) {
    return arena_printf(a, "%zu %s%s", n, what, n == 1 ? "" : "s");
}

// ", 6 to 7 files each" when the counts of the nodes differ.
static const char *spread_text(const struct run_start *l, const struct run_start_input *in) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t n = 0; n < (size_t)l->run.nodes_max; n++) { // spare nodes have no share
        size_t count = in->samples ? in->share[n].samples : in->share[n].files;
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    return least == most
               ? ""
               : arena_printf(l->context->arena, ", %zu to %s each", least,
                              count_text(l->context->arena, most, in->samples ? "sample" : "file"));
}

static void tell_deal(const struct run_start *l, const struct run_start_input *in) {
    struct context *s = l->context;
    char size[STR_HUMAN_BYTES_MAX];
    for (size_t n = 0; n < l->node_count; n++) {
        const struct run_start_share *share = &in->share[n];
        struct strbuf line = {0};
        strbuf_addf(&line, "%s: %s, ", l->run.nodes[n], count_text(s->arena, share->files, "file"));
        if (in->samples)
            strbuf_addf(&line, "%s, ", count_text(s->arena, share->samples, "sample"));
        strbuf_adds(&line, str_human_bytes(size, share->bytes));
        for (size_t i = 0; i < share->files && i < RUN_START_NAMES_MAX; i++)
            strbuf_addf(&line, "%s%s", i ? ", " : ": ",
                        str_printable(s->arena, share->names[i], strlen(share->names[i])));
        if (share->files > RUN_START_NAMES_MAX)
            strbuf_addf(&line, ", and %zu more", share->files - RUN_START_NAMES_MAX);
        screen_note(s->screen, "           %s", strbuf_cstr(&line));
        strbuf_fini(&line);
    }
}

static void tell_input(const struct run_start *l, const struct run_start_input *in) {
    static const char *const rules[] = {"size", "key", "count"};
    struct context *s = l->context;
    char size[STR_HUMAN_BYTES_MAX];
    const char *samples =
        in->samples ? arena_printf(s->arena, "%s, ", count_text(s->arena, in->samples, "sample"))
                    : "";
    screen_note(s->screen, "input    %s: %s, %s%s, %s%s%s%s", in->name,
                count_text(s->arena, in->manifest->files, "file"), samples,
                str_human_bytes(size, in->manifest->bytes),
                in->share ? "a share to every node by " : "all to every node",
                in->share ? rules[config_input_shard(in->config)] : "",
                in->share ? spread_text(l, in) : "",
                config_input_is_streamed(in->config) ? ", streamed" : "");
    if (in->run)
        screen_note(s->screen, "           from run %s", in->run);
    if (in->elastic)
        screen_note(s->screen,
                    "           dealt anew when nodes come or go; replicas of each file: %lld",
                    (long long)in->config->replicas);
    if (in->share && s->config->dry_run)
        tell_deal(l, in);
}

// "inputs":[{"name":…,"files":…,"shares":[{"node":…,"files":…,"bytes":…},…]},…]
static void deal_json(const struct run_start *l, struct json_out *j) {
    json_array(j, "inputs");
    for (size_t i = 0; i < l->input_count; i++) {
        const struct run_start_input *in = &l->inputs[i];
        json_object(j, NULL);
        json_str(j, "name", in->name);
        json_str(j, "mode", in->share ? "sharded" : "replicated");
        json_int(j, "files", (int64_t)in->manifest->files);
        json_int(j, "bytes", (int64_t)in->manifest->bytes);
        if (in->samples)
            json_int(j, "samples", (int64_t)in->samples);
        if (in->run)
            json_str(j, "run", in->run);
        if (in->elastic)
            json_int(j, "replicas", in->config->replicas);
        if (in->share)
            json_array(j, "shares");
        for (size_t n = 0; in->share && n < l->node_count; n++) {
            json_object(j, NULL);
            json_str(j, "node", l->run.nodes[n]);
            json_int(j, "files", (int64_t)in->share[n].files);
            if (in->samples)
                json_int(j, "samples", (int64_t)in->share[n].samples);
            json_int(j, "bytes", (int64_t)in->share[n].bytes);
            json_end(j);
        }
        if (in->share)
            json_end(j);
        json_end(j);
    }
    json_end(j);
}

// ---- the plan -----------------------------------------------------------------------------------

// Prints the settings of the native trainer and their sources, without defaults.
static void tell_settings(const struct run_start *l) {
    const struct option_set *set = &l->context->config->set;
    struct arena *a = l->context->arena;
    for (struct render_each x = {0}; render_next(&x, set);) {
        if (!str_starts(x.row->key ? x.row->key : "", "train.") || !x.value ||
            x.place->source == OPTION_DEFAULT)
            continue;
        struct strbuf value = {0};
        option_format(&value, x.row, x.value);
        screen_note(l->context->screen, "setting  %s = %s (%s)", x.row->key, strbuf_cstr(&value),
                    option_place_text(a, x.place));
        strbuf_fini(&value);
    }
}

static void tell_plan(const struct run_start *l) {
    struct context *s = l->context;
    const struct run *r = &l->run;
    char size[STR_HUMAN_BYTES_MAX];
    screen_note(s->screen, "run      %s", r->id);
    bool trains = l->native && !l->measures;
    screen_note(s->screen, "command  %s", trains ? "native trainer" : command_text(s->arena, r));
    if (trains && s->config->dry_run)
        tell_settings(l);
    int spares = (int)r->node_count - r->nodes_max;
    struct strbuf nodes = {0};
    strbuf_addf(&nodes, "%d", r->nodes_max);
    if (r->nodes_min != r->nodes_max)
        strbuf_addf(&nodes, " (at least %d)", r->nodes_min);
    if (spares > 0)
        strbuf_addf(&nodes, ", %d spare%s", spares, spares == 1 ? "" : "s");
    screen_note(s->screen, "nodes    %s, %s process%s each", strbuf_cstr(&nodes), r->nproc,
                strcmp(r->nproc, "1") == 0 ? "" : "es");
    strbuf_fini(&nodes);
    screen_note(s->screen, "sends    %zu file%s, %s%s", l->common->files,
                l->common->files == 1 ? "" : "s", str_human_bytes(size, l->common->bytes),
                l->work_is_implicit ? ", the current folder among them" : "");
    for (size_t i = 0; i < l->input_count; i++)
        tell_input(l, &l->inputs[i]);
    if (r->wanted != RESULT_ALL)
        screen_note(s->screen, "fetches  %s of the results, the rest stays on the nodes",
                    r->wanted ? result_kinds_words(s->arena, r->wanted) : "nothing");
    if (r->s3[0])
        screen_note(s->screen, "uploads  %s", r->s3);
    if (l->resume_run && l->native)
        screen_note(s->screen,
                    "resumes  %s at epoch %lld, step %lld (--resume never starts at the beginning)",
                    l->resume_run, (long long)l->resume_at.epoch, (long long)l->resume_at.step);
    else if (l->resume_run)
        screen_note(s->screen,
                    "resumes  %s with the state of %zu node%s (--resume never starts "
                    "at the beginning)",
                    l->resume_run, l->resume_nodes, l->resume_nodes == 1 ? "" : "s");
}

static void tell_plan_json(const struct run_start *l, const char *kind) {
    const struct run *r = &l->run;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, kind);
    json_str(&j, "run", r->id);
    json_str(&j, "name", r->name);
    json_str(&j, "cluster", r->cluster);
    json_bool(&j, "native", l->native);
    json_array(&j, "command");
    for (size_t i = 0; i < r->command_count; i++)
        json_str(&j, NULL, r->command[i]);
    json_end(&j);
    json_array(&j, "nodes");
    for (size_t i = 0; i < r->node_count; i++)
        json_str(&j, NULL, r->nodes[i]);
    json_end(&j);
    json_int(&j, "files", (int64_t)l->common->files);
    json_int(&j, "bytes", (int64_t)l->common->bytes);
    deal_json(l, &j);
    json_str(&j, "bundle", l->spec.bundle_hash);
    json_str(&j, "resumes", l->resume_run);
    if (l->resume_run && l->native) {
        json_int(&j, "resumes_epoch", l->resume_at.epoch);
        json_int(&j, "resumes_step", l->resume_at.step);
    }
    json_str(&j, "output_dir", r->output_dir);
    if (r->s3[0])
        json_str(&j, "s3", r->s3);
    screen_event_end(l->context->screen, &text, &j);
}

// The needs of the trainer's run. The plan is complete without them, unless the settings are wrong.
static int tell_forecast(const struct run_start *l, struct err *e) {
    struct context *s = l->context;
    struct json *tree;
    const char *answer;
    bool json = s->screen->style == SCREEN_JSON;
    if (run_forecast(l, json, &answer, e) < 0 ||
        (json && json_parse(s->arena, answer, strlen(answer), &tree, e) < 0)) {
        if (e->code == ERR_CONFIG)
            return -1;
        log_warn("the needs of the run are not known", "reason=\"%s\"", e->text);
        return 0;
    }
    if (!json) {
        screen_out(s->screen, "%s", answer);
        return 0;
    }
    struct strbuf text = {0};
    struct json_out j;
    tree->key = "forecast";
    screen_event(&text, &j, "forecast");
    json_str(&j, "run", l->run.id);
    json_value(&j, tree);
    screen_event_end(s->screen, &text, &j);
    return 0;
}

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
    if (run_save(&s->cluster, r, e) < 0)
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

static void tell_detached(const struct run_start *l) {
    const char *id = l->run.id;
    screen_note(l->context->screen, "run %s has started on %zu node%s", id, l->run.node_count,
                l->run.node_count == 1 ? "" : "s");
    screen_note(l->context->screen, "  follow:  dtctl logs -f %s", id);
    screen_note(l->context->screen, "  stop:    dtctl stop %s", id);
    if (l->context->config->cluster.provider == CONFIG_AWS)
        screen_note(l->context->screen, "  results: dtctl fetch %s, before the lease ends", id);
    screen_out(l->context->screen, "%s\n", id);
}

static void tell_skipped(const struct run_start *l, const struct run *done) {
    struct context *s = l->context;
    struct strbuf text = {0};
    struct json_out j;
    screen_note(s->screen,
                "task '%s' is done: run %s stands in, nothing has changed (--force runs it)",
                done->name, done->id);
    screen_note(s->screen, "results  %s", run_near_path(s->arena, done->output_dir));
    screen_event(&text, &j, "skipped");
    json_str(&j, "name", done->name);
    json_str(&j, "run", done->id);
    json_str(&j, "output_dir", done->output_dir);
    screen_event_end(s->screen, &text, &j);
}

// 1 when a finished run stands in for this one.
static int stands_in(struct run_start *l, struct err *e) {
    const struct config_job *job = &l->context->config->job;
    struct run done;
    const char *why;
    task_key(l);
    if (!job->if_changed || job->force)
        return 0;
    int found = task_find_stand_in(l, &done, &why, e);
    if (found > 0)
        tell_skipped(l, &done);
    else if (why)
        screen_note(l->context->screen, "run %s does not stand in: %s", done.id, why);
    return found;
}

static int train(struct context *s, struct run_start *l, struct fleet *f, struct err *e) {
    const struct config *c = s->config;
    int status = 0;
    if (run_start_files(l, e) < 0)
        return -1;
    int done = stands_in(l, e);
    if (done || results_upload_check(s, e) < 0 || run_start_output(l, e) < 0)
        return done > 0 ? 0 : -1;
    tell_plan(l);
    if (run_start_bundle_tell(l, e) < 0)
        return -1;
    tell_plan_json(l, "plan");
    if (c->dry_run)
        return l->native && !l->measures ? tell_forecast(l, e) : 0;
    if (cluster_lock(&s->cluster, "train", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = start(l, f, e);
    if (result < 0)
        result = give_up(l, f, e);
    cluster_unlock(&s->cluster); // others may use the cluster while this run is active
    if (result < 0)
        return -1;
    tell_plan_json(l, "started");
    if (c->job.detach) {
        tell_detached(l);
        return 0;
    }
    struct attend_options o = {
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

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct up_down *way = flags;
    struct run_start_request request = {rest->command, rest->command_count, NULL};
    struct up_down_end end = {0};
    bool began = false, up = way->up && !(s->config->dry_run && cluster_exists(&s->cluster));
    if (rest->dashes && rest->command_count == 0)
        return err_set(e, ERR_USAGE, "no command follows '--'; without '--' the trainer runs");
    if (up_down_check(way, s, e) < 0 || run_start_check(s, e) < 0)
        return -1;
    if (up && results_upload_check(s, e) < 0) // before machines cost anything
        return -1;
    end.result = up ? up_down_make(s, false, &began, e) : bring_up_local(s, e);
    if (end.result == 0 && up && s->config->dry_run)
        return 0; // the run's plan needs the nodes
    if (end.result == 0) {
        began = true;
        end.result = train_up(s, &request, &end, e);
    }
    return way->down && began && !s->config->dry_run ? up_down_after(s, way, &end, e) : end.result;
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
