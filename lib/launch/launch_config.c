// SPDX-License-Identifier: Apache-2.0
// Converts options to an agent's configuration: defaults, the workers' command line, torchrun's
// watchdog variables. Used by manual launches and by dtctl.
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "launch/launch.h"
#include "sys/file.h"
#include "worker/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_MARGIN_MS = AGENT_DEVICES_MS_MAX + 10000, JOIN_TIMEOUT_MS = 600 * 1000 };

void launch_init(struct launch *l, struct arena *a, char *const *env) {
    *l = (struct launch){.arena = a, .env = env};
    l->agent.workers.env = env;
    l->agent.listen_fd = -1;
    l->agent.node_rank = -1;
    l->agent.health_port = -1;
}

static const char *visible_devices(const struct launch *l) {
    return env_get(l->env, "CUDA_VISIBLE_DEVICES");
}

static int fill_workers(struct launch *l, struct err *e) {
    const struct launch_options *o = &l->options;
    struct workers_config *w = &l->agent.workers;
    if (launch_nproc(o->nproc_per_node, visible_devices(l), &w->nproc, e) < 0)
        return -1;
    unsigned char *to_file = arena_new(l->arena, unsigned char, (size_t)w->nproc);
    unsigned char *to_both = arena_new(l->arena, unsigned char, (size_t)w->nproc);
    bool *shown = arena_new(l->arena, bool, (size_t)w->nproc);
    if (launch_streams(o->redirects, w->nproc, to_file, e) < 0)
        return err_wrap(e, "--redirects");
    if (launch_streams(o->tee, w->nproc, to_both, e) < 0)
        return err_wrap(e, "--tee");
    if (launch_ranks_filter(o->local_ranks_filter, w->nproc, shown, e) < 0)
        return -1;
    w->streams_to_file = to_file;
    w->streams_to_both = to_both;
    w->on_console = shown;
    w->words_out = launch_filters(l->arena, o->duplicate_stdout_filters);
    w->words_err = launch_filters(l->arena, o->duplicate_stderr_filters);
    w->prefix = o->log_line_prefix_template[0] ? o->log_line_prefix_template : NULL;
    w->role = l->agent.role;
    w->host = l->agent.name;
    return 0;
}

// torchrun's launcher calls the limit of a static join "timeout".
int64_t launch_join_ms(const struct launch *l) {
    const struct launch_options *o = &l->options;
    int64_t absent_ms = JOIN_TIMEOUT_MS;
    if (str_eq(o->rdzv_backend, "static"))
        absent_ms = launch_conf_ms(l->arena, o->rdzv_conf, "timeout", absent_ms);
    return launch_conf_ms(l->arena, o->rdzv_conf, "join_timeout", absent_ms);
}

// Requires one device per worker.
static int check_devices(const struct launch *l, struct err *e) {
    const char *visible = visible_devices(l);
    int devices = launch_gpu_count(visible), nproc = l->agent.workers.nproc;
    if (!l->options.virtual_local_rank || !visible || devices >= nproc)
        return 0;
    return err_set(e, ERR_USAGE,
                   "--virtual-local-rank: CUDA_VISIBLE_DEVICES '%.100s' has %d devices for %d "
                   "workers",
                   visible, devices, nproc);
}

static int bind_processors(struct launch *l, struct err *e) {
    struct workers_config *w = &l->agent.workers;
    cpu_set_t allowed;
    if (l->options.numa_binding == 0)
        return 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return err_errno(e, ERR_SYS, "--numa-binding: cannot read this process's processors");
    cpu_set_t *sets = arena_new(l->arena, cpu_set_t, (size_t)w->nproc);
    w->processors = sets; // the flag's words: none, then the modes
    return numa_bind("", (enum numa_mode)(l->options.numa_binding - 1), visible_devices(l),
                     w->nproc, &allowed, sets, e);
}

static int conf_ms(struct launch *l, const char *key, int64_t *out, struct err *e) {
    const char *text = launch_conf(l->arena, l->options.rdzv_conf, key);
    double seconds;
    if (text && str_parse_f64(text, 0, 86400, &seconds, e) < 0)
        return err_set(e, ERR_USAGE, "--rdzv-conf %s=%.40s: not a number of seconds", key, text);
    if (text)
        *out = (int64_t)(seconds * 1000);
    return 0;
}

// Heartbeat interval and silence limit, in seconds like torchrun's own keys.
static int fill_beats(struct launch *l, struct err *e) {
    struct rendezvous_config *r = &l->agent.coordinator.rendezvous;
    int64_t beat_ms = AGENT_BEAT_MS, silent_ms = AGENT_SILENT_MS_MAX;
    if (conf_ms(l, "heartbeat", &beat_ms, e) < 0 || conf_ms(l, "silence", &silent_ms, e) < 0)
        return -1;
    if (beat_ms < LAUNCH_BEAT_MS_MIN || beat_ms > LAUNCH_BEAT_MS_MAX)
        return err_set(e, ERR_USAGE, "--rdzv-conf heartbeat: %g s is not from %g to %g s",
                       (double)beat_ms / 1e3, LAUNCH_BEAT_MS_MIN / 1e3, LAUNCH_BEAT_MS_MAX / 1e3);
    if (silent_ms < LAUNCH_BEATS_PER_SILENCE * beat_ms || silent_ms > LAUNCH_SILENT_MS_MAX)
        return err_set(e, ERR_USAGE,
                       "--rdzv-conf silence: %g s is not from %d heartbeats (of %g s) to %g s",
                       (double)silent_ms / 1e3, LAUNCH_BEATS_PER_SILENCE, (double)beat_ms / 1e3,
                       LAUNCH_SILENT_MS_MAX / 1e3);
    l->agent.beat_ms = beat_ms;
    r->silent_ms_max = silent_ms;
    r->lease_ms = AGENT_LEASE_MS(silent_ms, beat_ms);
    return 0;
}

// torchrun counts failures only against --max-restarts; dtrun does more only on request.
static int fill_crash_loop(struct launch *l, struct err *e) {
    struct rendezvous_config *r = &l->agent.coordinator.rendezvous;
    const char *text = launch_conf(l->arena, l->options.rdzv_conf, "crash_loop");
    int64_t count = 0;
    if (text && str_parse_i64(text, 0, LAUNCH_CRASHES_MAX, &count, e) < 0)
        return err_set(e, ERR_USAGE,
                       "--rdzv-conf crash_loop=%.40s: not a number of failures from 0 to %d", text,
                       LAUNCH_CRASHES_MAX);
    r->crashes_max = (int)count;
    r->crash_ms = count > 0 ? LAUNCH_CRASH_MS : 0;
    return 0;
}

int launch_fill(struct launch *l, struct err *e) {
    const struct launch_options *o = &l->options;
    struct agent_config *c = &l->agent;
    struct rendezvous_config *r = &c->coordinator.rendezvous;
    c->role = o->role;
    c->virtual_local_rank = o->virtual_local_rank;
    c->signals_text = o->signals_to_handle;
    c->report = true;
    c->exit_code_of_worker = o->exit_code == 1;
    c->notice_file = o->notice_file;
    c->notice_signal = launch_notice_signal(o->notice_signal, e);
    if (c->notice_signal < 0)
        return -1;
    if (fill_workers(l, e) < 0 || check_devices(l, e) < 0 || bind_processors(l, e) < 0 ||
        launch_signals(o->signals_to_handle, &c->signals, e) < 0)
        return -1;
    c->coordinator.shutdown_timeout_ms = o->shutdown_timeout * 1000;
    c->join_timeout_ms = launch_join_ms(l);
    *r = (struct rendezvous_config){
        .nodes_min = (int)o->nnodes.min,
        .nodes_max = (int)o->nnodes.max,
        .max_restarts = (int)o->max_restarts,
        .join_timeout_ms = c->join_timeout_ms,
        .rejoin_timeout_ms =
            launch_conf_ms(l->arena, o->rdzv_conf, "rejoin_timeout", LAUNCH_REJOIN_MS),
        .last_call_ms =
            launch_conf_ms(l->arena, o->rdzv_conf, "last_call_timeout", LAUNCH_LAST_CALL_MS),
        .regroup_call_ms = LAUNCH_REGROUP_CALL_MS,
        .stop_ms_max = c->coordinator.shutdown_timeout_ms + STOP_MARGIN_MS,
        .note_ms = AGENT_NOTE_MS,
        .backoff_ms = LAUNCH_BACKOFF_MS};
    return fill_crash_loop(l, e) < 0 ? -1 : fill_beats(l, e);
}

// ---- the workers' command line ------------------------------------------------------------------
//
// torchrun's rules, with the first Python found instead of its own.

static bool on_path(char *const *env, const char *name) {
    const char *path = env_get(env, "PATH");
    char file[FILE_PATH_BYTES_MAX];
    for (const char *p = path ? path : ""; *p;) {
        size_t len = strcspn(p, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)len, p, name);
        if (len > 0 && access(file, X_OK) == 0)
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

// PYTHON_EXEC, an active virtual environment, python3, python.
static const char *interpreter(struct arena *a, char *const *env) {
    const char *chosen = env_get(env, "PYTHON_EXEC"), *venv = env_get(env, "VIRTUAL_ENV");
    if (chosen && chosen[0])
        return chosen;
    if (venv && venv[0]) {
        const char *python = arena_printf(a, "%s/bin/python", venv);
        if (access(python, X_OK) == 0)
            return python;
    }
    return !on_path(env, "python3") && on_path(env, "python") ? "python" : "python3";
}

// torchrun's child process runs this: a failure also writes an error file, as with @record.
static const char run_path[] =
    "import os, runpy, sys\n"
    "sys.argv = sys.argv[1:]\n"
    "sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))\n"
    "try:\n"
    "    from torch.distributed.elastic.multiprocessing.errors import record\n"
    "except ImportError:\n"
    "    record = lambda function: function\n"
    "record(runpy.run_path)(sys.argv[0], run_name='__main__')\n";

int launch_command(struct launch *l, const char *const *args, size_t count, struct err *e) {
    const struct launch_options *o = &l->options;
    bool python = o->run_path || !o->no_python; // as in torchrun, --run-path has precedence
    if (count == 0)
        return err_set(e, ERR_USAGE, "no training script is given");
    if (!python && o->module)
        return err_set(e, ERR_USAGE, "--no-python and --module exclude each other");
    if (o->use_env && !o->launch)
        return err_set(e, ERR_USAGE, "--use-env belongs to --launch");
    const char **argv = arena_new(l->arena, const char *, count + 6);
    size_t n = 0;
    if (python) {
        argv[n++] = interpreter(l->arena, l->env);
        argv[n++] = "-u";
        if (o->run_path) {
            argv[n++] = "-c";
            argv[n++] = run_path;
        } else if (o->module) {
            argv[n++] = "-m";
        }
    }
    argv[n++] = args[0];
    if (o->launch && !o->use_env)
        argv[n++] = "--local-rank=${local_rank}"; // replaced for each worker
    for (size_t i = 1; i < count; i++)
        argv[n++] = args[i];
    l->agent.workers.command = argv;
    l->agent.title = args[0];
    return 0;
}

// ---- watchdogs ----------------------------------------------------------------------------------
// Watchdogs that torchrun configures by variables instead of flags.

enum { PORT_MAX = 65535, STUCK_S_MAX = 7 * 86400 };

static const char *variable(const struct launch *l, const char *name) {
    for (int i = l->agent.env_count - 1; i >= 0; i--)
        if (strcmp(l->agent.env[i].name, name) == 0)
            return l->agent.env[i].value;
    return env_get(l->env, name);
}

static const char *own_timer_file(struct launch *l) {
    const char *tmp = env_get(l->env, "TMPDIR");
    unsigned char id[8];
    char hex[2 * sizeof id + 1];
    hash_random(id, sizeof id);
    str_hex(hex, id, sizeof id);
    return arena_printf(l->arena, "%s/watchdog_timer_%s", tmp && tmp[0] ? tmp : "/tmp", hex);
}

// Any other value disables it, as in torchrun.
static void read_stuck(struct launch *l) {
    static const char name[] = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT";
    const char *text = variable(l, name);
    double seconds;
    struct err bad;
    if (!text || !text[0])
        return;
    if (str_parse_f64(text, -1e9, STUCK_S_MAX, &seconds, &bad) < 0)
        log_warn("a variable is not a number and not used", "variable=%s value=%.40s", name, text);
    else if (seconds > 0)
        l->agent.stuck_ms_max = (int64_t)(seconds * 1000) + 1;
}

int launch_watch(struct launch *l, struct err *e) {
    const char *enabled = variable(l, "TORCHELASTIC_ENABLE_FILE_TIMER");
    const char *file = variable(l, "TORCHELASTIC_TIMER_FILE");
    const char *port = variable(l, "TORCHELASTIC_HEALTH_CHECK_PORT");
    int64_t number;
    struct err bad;
    read_stuck(l);
    if (enabled && strcmp(enabled, "1") == 0) // only "1" means yes, as in torchrun
        l->agent.timer_file =
            file && file[0] ? file_absolute(l->arena, file, e) : own_timer_file(l);
    if (enabled && strcmp(enabled, "1") == 0 && !l->agent.timer_file)
        return -1;
    if (port && str_parse_i64(port, 0, PORT_MAX, &number, &bad) == 0)
        l->agent.health_port = (int)number;
    else if (port && port[0]) // torchrun continues without it, too
        log_warn("TORCHELASTIC_HEALTH_CHECK_PORT is not a port; cannot answer health checks",
                 "reason=%s", bad.text);
    return 0;
}
