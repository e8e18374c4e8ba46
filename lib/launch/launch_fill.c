// SPDX-License-Identifier: Apache-2.0
// The part of an agent's config that is the same by hand and from dtctl.
#include "base/log.h"
#include "launch/launch.h"
#include "worker/numa.h"

#include <stdlib.h>
#include <string.h>

enum { STOP_MARGIN_MS = AGENT_DEVICES_MS_MAX + 10000, JOIN_TIMEOUT_MS = 600 * 1000 };

void launch_init(struct launch *l, struct arena *a) {
    *l = (struct launch){.arena = a};
    l->agent.listen_fd = -1;
    l->agent.node_rank = -1;
    l->agent.health_port = -1;
}

static int fill_workers(struct launch *l, struct err *e) {
    const struct launch_options *o = &l->options;
    struct workers_config *w = &l->agent.workers;
    if (launch_nproc(o->nproc_per_node, &w->nproc, e) < 0)
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

// torchrun's launcher calls a static join's limit "timeout".
int64_t launch_join_ms(const struct launch *l) {
    const struct launch_options *o = &l->options;
    int64_t absent_ms = JOIN_TIMEOUT_MS;
    if (str_eq(o->rdzv_backend, "static"))
        absent_ms = launch_conf_ms(l->arena, o->rdzv_conf, "timeout", absent_ms);
    return launch_conf_ms(l->arena, o->rdzv_conf, "join_timeout", absent_ms);
}

// One device each: a short list would leave workers without.
static int check_devices(const struct launch *l, struct err *e) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int devices = launch_gpu_count(), nproc = l->agent.workers.nproc;
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
    w->processors = sets; // the words of the flag: none, then the modes
    return numa_bind("", (enum numa_mode)(l->options.numa_binding - 1),
                     getenv("CUDA_VISIBLE_DEVICES"), w->nproc, &allowed, sets, e);
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

// How often agents speak, and after which silence one is lost. In seconds, as torchrun's own keys.
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

// torchrun counts failures against --max-restarts only; so does dtrun unless it is asked for more.
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
