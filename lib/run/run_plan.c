// SPDX-License-Identifier: Apache-2.0
// Decides the parameters of a run: its name, id and secret key, its nodes, its command.
#include "run/results/results_upload.h"
#include "run/run_start.h"

#include "base/clock.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "provider/provider.h"
#include "run/node_replace.h"
#include "run/run_device.h"
#include "run/task.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Replacing nodes needs a provider that makes machines and a dtctl that follows the run.
static int check_replace(const struct run_start *l, struct err *e) {
    const struct config *c = l->context->config;
    const struct provider *p = provider_named(l->inventory.provider);
    const char *where = config_where(c, "train.replace_nodes");
    if (!c->job.replace_nodes)
        return 0;
    if (!p || !p->costs)
        return err_set(e, ERR_CONFIG, "%s: provider %s creates no machines", where,
                       l->inventory.provider);
    if (c->job.max_restarts == 0)
        return err_set(e, ERR_CONFIG, "%s: needs --max-restarts", where);
    if (c->job.detach)
        return err_set(e, ERR_CONFIG, "%s: needs a dtctl that follows the run, not --detach",
                       where);
    return 0;
}

static int choose_nodes(struct run_start *l, struct err *e) {
    struct context *s = l->context;
    const struct config *c = s->config;
    struct run *r = &l->run;
    size_t have = l->inventory.count;
    bool chosen = c->job.once || c->job.nodes.max;
    int64_t min = c->job.once ? 1 : chosen ? c->job.nodes.min : (int64_t)have;
    int64_t max = c->job.once ? 1 : chosen ? c->job.nodes.max : (int64_t)have;
    if (min > (int64_t)have)
        return err_set(e, ERR_CONFIG,
                       "%s: the run wants %lld nodes and cluster '%s' has %zu (try: dtctl up "
                       "--nodes %lld, or list more hosts)",
                       config_where(c, "train.nodes"), (long long)min, s->cluster.name, have,
                       (long long)min);
    size_t places = max < (int64_t)have ? (size_t)max : have;
    size_t spares = chosen && !c->job.once ? (size_t)c->job.spares : 0; // else all nodes take part
    l->node_count = places + spares < have ? places + spares : have;
    if (l->node_count < places + spares)
        return err_set(e, ERR_CONFIG,
                       "%s: %zu nodes and %zu spares are wanted and cluster '%s' has %zu nodes",
                       config_where(c, "train.spares"), places, spares, s->cluster.name, have);
    l->indices = arena_new(s->arena, size_t, l->node_count);
    r->nodes = arena_new(s->arena, const char *, l->node_count + 1);
    for (size_t i = 0; i < l->node_count; i++) {
        l->indices[i] = i;
        r->nodes[i] = l->inventory.nodes[i].name;
        if (!l->inventory.nodes[i].dtrun[0])
            return err_set(e, ERR_FAILED,
                           "node '%s' is not ready: its last 'dtctl up' failed (try: dtctl up)",
                           r->nodes[i]);
    }
    r->node_count = l->node_count;
    r->nodes_min = (int)min;
    r->nodes_max = (int)places;
    l->elastic = min < (int64_t)l->node_count;
    return 0;
}

// Settings that were given and count only with another one.
static void warn_idle(const struct config *c) {
    static const char *const keys[] = {"train.outer_lr", "train.outer_momentum"};
    for (size_t i = 0; c->train.local_steps <= 1 && i < sizeof keys / sizeof *keys; i++)
        if (option_given(&c->set, keys[i]))
            log_warn("a setting does nothing without train.local_steps", "setting=\"%s\"",
                     config_where(c, keys[i]));
}

// The nodes are known now, and so is the program for them.
static int choose_trainer(struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    if (!l->native)
        return 0;
    warn_idle(l->context->config);
    l->trainer = run_device_program(l->context->config->train.device, &l->inventory, l->indices,
                                    l->node_count, embedded_find("dttrain-cuda") != NULL, e);
    if (!l->trainer)
        return -1;
    l->run.command[0] = embedded_program_path(a, l->trainer);
    return 0;
}

static const char *nproc_text(struct arena *a, int64_t n) {
    static const char *const words[] = {"auto", "cpu", "gpu"};
    return n < 0 ? words[-n - 1] : arena_printf(a, "%lld", (long long)n);
}

// Passes torchrun's own flags on to the agent under their own names.
static void pass_on(struct run_start *l) {
    const struct config *c = l->context->config;
    const struct option_table *t = &options_torchrun;
    const char *signal = c->job.notice_signal;
    bool automatic = strcmp(signal, "auto") == 0;
    l->spec.torchrun = arena_new(l->context->arena, struct job_pair, t->count + 2);
    l->spec.torchrun[l->spec.torchrun_count++] =
        (struct job_pair){"notice-signal", !automatic  ? signal
                                           : l->native ? "USR1"
                                                       : "none"};
    for (size_t i = 0; i < t->count; i++) {
        const struct option_row *row = &t->rows[i];
        const void *at = (const char *)c + row->offset;
        if (!option_given(&c->set, row->key))
            continue;
        struct job_pair *pair = &l->spec.torchrun[l->spec.torchrun_count++];
        pair->name = row->flag;
        if (row->type == OPTION_STRING)
            pair->value = *(const char *const *)at;
        else if (row->type == OPTION_INT)
            pair->value = arena_printf(l->context->arena, "%lld", (long long)*(const int64_t *)at);
        else
            pair->value = arena_printf(l->context->arena, "%g", *(const double *)at);
    }
}

// A run that needs all its nodes waits for a replacement.
static void wait_for_new_nodes(struct run_start *l) {
    static const char key[] = "rejoin_timeout=";
    const char *given = l->context->config->torchrun.rdzv_conf;
    if (!l->context->config->job.replace_nodes || strstr(given, key))
        return;
    const char *text = arena_printf(l->context->arena, "%s%s%s%d", given, given[0] ? "," : "", key,
                                    REPLACE_WAIT_MS / 1000);
    for (int i = 0; i < l->spec.torchrun_count; i++)
        if (str_eq(l->spec.torchrun[i].name, "rdzv-conf")) {
            l->spec.torchrun[i].value = text;
            return;
        }
    l->spec.torchrun[l->spec.torchrun_count++] = (struct job_pair){"rdzv-conf", text};
}

static void fill_spec(struct run_start *l) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    struct job_spec *spec = &l->spec;
    job_spec_init(spec);
    spec->run = l->run.id;
    spec->name = l->run.name;
    spec->nnodes_min = l->run.nodes_min;
    spec->nnodes_max = l->run.nodes_max;
    spec->nproc_per_node = l->run.nproc;
    spec->max_restarts = l->run.max_restarts;
    spec->has_key = true;
    hash_random(spec->key, sizeof spec->key);
    spec->workdir = run_node_dir(a, l->run.id, "work");
    spec->command = l->run.command;
    spec->command_count = (int)l->run.command_count;
    spec->shutdown_timeout_ms = c->torchrun.shutdown_timeout * 1000;
    spec->max_time_ms = c->job.max_time_ms;
    spec->created_ms = l->run.created_ms;
    spec->sample_ms = config_monitor_ms(c);
    if (c->state_every_ms && l->node_count > 1 &&
        (!l->native || option_given(&c->set, "state.replicas"))) {
        spec->state_replicas = (int)c->state_replicas;
        spec->state_every_ms = c->state_every_ms;
    }
    run_start_env(l);
    pass_on(l);
    wait_for_new_nodes(l);
}

// Finds the newest earlier run of this name, or the run that the user named.
static int find_resume(struct run_start *l, struct err *e) {
    struct context *s = l->context;
    const char *wish = s->config->train.resume;
    struct run earlier;
    struct stat st;
    if (s->config->job.clean_state || !wish[0] || strcmp(wish, "never") == 0)
        return 0;
    if (strcmp(wish, "auto") != 0) {
        if (l->native && strchr(wish, '/') && stat(wish, &st) == 0)
            return err_set(e, ERR_CONFIG, "%s: '%s' is a folder here; give the name of a run",
                           config_where(s->config, "train.resume"), wish);
        return cluster_find_run(&s->cluster, wish, &l->resume_run, e);
    }
    int found = task_find(&s->cluster, l->run.name, NULL, &earlier, e);
    if (found <= 0)
        return found;
    // Without state.keep only unfinished runs are resumed; a finished one starts from scratch.
    if (strcmp(earlier.state, "finished") != 0 || s->config->state_keep == CONFIG_KEEP_TASK)
        l->resume_run = earlier.id;
    return 0;
}

// With each number of nodes that may come together.
static int check_parallel(const struct run_start *l, struct err *e) {
    const struct config *c = l->context->config;
    int64_t each = c->job.once ? 1 : c->job.nproc_per_node;
    struct train_parallel ignored;
    for (int n = l->run.nodes_min; l->native && each > 0 && n <= l->run.nodes_max; n++)
        if (train_parallel(&c->train, n * (int)each, &ignored, e) < 0)
            return -1;
    return 0;
}

static int refuse_text(struct arena *a, const char *where, const char *text, struct err *e) {
    return err_set(e, ERR_CONFIG, "%s: '%s' is not UTF-8, as records of runs are", where,
                   str_printable(a, text, strlen(text)));
}

// Job and record are text: a program would get other bytes than those that were given.
static int check_text(const struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    for (size_t i = 0; i < l->run.command_count; i++)
        if (!str_is_utf8(l->run.command[i]))
            return refuse_text(a, "the command", l->run.command[i], e);
    for (int i = 0; i < l->spec.env_count; i++)
        if (!str_is_utf8(l->spec.env[i].value))
            return refuse_text(a, l->spec.env[i].name, l->spec.env[i].value, e);
    if (!str_is_utf8(c->setup.run))
        return refuse_text(a, config_where(c, "setup.run"), c->setup.run, e);
    return str_is_utf8(l->run.output_dir)
               ? 0
               : refuse_text(a, config_where(c, "outputs.dir"), l->run.output_dir, e);
}

static void warn_of_launcher(const struct run_start *l) {
    const struct run *r = &l->run;
    const char *launcher = r->native ? NULL : run_start_launcher(r->command, r->command_count);
    if (launcher && (l->node_count > 1 || strcmp(r->nproc, "1") != 0))
        log_warn("every rank starts a launcher, which makes a group of its own, apart from other "
                 "nodes; dtctl starts the ranks itself",
                 "launcher=%s try=\"dtctl train --nproc-per-node N -- SCRIPT\"", launcher);
}

int run_start_plan(struct run_start *l, struct context *s, const struct run_start_request *request,
                   struct err *e) {
    const struct config *c = s->config;
    struct run *r = &l->run;
    *l = (struct run_start){.context = s, .looked = request->looked};
    if (cluster_load(&s->cluster, &l->inventory, e) < 0 || run_start_command(l, request, e) < 0)
        return -1;
    r->created_ms = clock_wall_ms();
    r->id = run_make_id(s->arena, r->name, r->created_ms);
    if (strlen(r->id) > JOB_RUN_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the name '%s' is too long", r->name);
    r->cluster = s->cluster.name;
    r->provider = l->inventory.provider;
    r->nproc = nproc_text(s->arena, c->job.once ? 1 : c->job.nproc_per_node);
    r->max_restarts = (int)c->job.max_restarts;
    r->metrics = c->metrics;
    r->tags = provider_account(c).tags;
    r->resumes = "";
    r->bring_work = !l->native && c->output_work;
    r->wanted = result_kinds_of(&c->output_fetch);
    r->archive = c->output_archive;
    r->output_every_ms = config_output_every_ms(c);
    r->merge = l->native ? CONFIG_MERGE_AUTO : c->output_merge;
    r->state = "made";
    r->output_dir = c->output_dir[0] ? file_absolute(s->arena, c->output_dir, e)
                                     : run_path(&s->cluster, r, "output");
    r->s3 = results_upload_uri(s, r);
    if (!r->output_dir || check_replace(l, e) < 0 || choose_nodes(l, e) < 0 ||
        choose_trainer(l, e) < 0 || check_parallel(l, e) < 0 || find_resume(l, e) < 0)
        return -1;
    warn_of_launcher(l);
    fill_spec(l);
    if (check_text(l, e) < 0 || digest_key_read(s, l->digest_key, e) < 0)
        return -1;
    run_start_settings(l);
    return task_env(l, e);
}
