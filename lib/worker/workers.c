// SPDX-License-Identifier: Apache-2.0
// Starts and stops the workers of a round. All data of the round (paths, lists, environments) is
// created in the round's arena before the guard forks. The guard starts the workers and reports.
// The workers write their log files directly, so the agent never delays their output.
#include "worker/workers.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct guard_events guard_table;

void workers_init(struct workers *w, struct loop *loop, const struct workers_config *config,
                  const struct workers_events *events) {
    must(config->env);
    *w = (struct workers){.loop = loop,
                          .config = config,
                          .events = events,
                          .round = -1,
                          .filtered_fds = {-1, -1},
                          .ctx = w->ctx};
}

void workers_fini(struct workers *w) {
    must(workers_is_idle(w));
    timer_stop(&w->kill);
    worker_evidence_end(&w->evidence);
    arena_fini(&w->arena);
}

bool workers_is_idle(const struct workers *w) {
    return guard_is_idle(&w->guard);
}

pid_t workers_stuck(const struct workers *w) {
    return guard_stuck(&w->guard);
}

void workers_abandon(struct workers *w) {
    guard_abandon(&w->guard);
}

bool worker_succeeded(const struct worker *x) {
    return x->ended && x->status == 0;
}

// Replaces every ${name} by value.
static const char *substitute(struct arena *a, const char *text, const char *name,
                              const char *value) {
    struct strbuf out = {0};
    char *macro = arena_printf(a, "${%s}", name);
    for (const char *at; (at = strstr(text, macro)); text = at + strlen(macro)) {
        strbuf_add(&out, text, (size_t)(at - text));
        strbuf_adds(&out, value);
    }
    strbuf_adds(&out, text);
    const char *copy = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return copy;
}

static const char *const *command_of(struct workers *w, int local_rank) {
    int n = 0;
    while (w->config->command[n])
        n++;
    const char **argv = arena_new(&w->arena, const char *, (size_t)n + 1);
    char *number = arena_printf(&w->arena, "%d", local_rank);
    for (int i = 0; i < n; i++)
        argv[i] = substitute(&w->arena, w->config->command[i], "local_rank", number);
    return argv;
}

static const char *prefix_of(struct workers *w, const struct worker *x) {
    const struct workers_config *c = w->config;
    const char *p = c->prefix ? c->prefix : "[${role_name}${local_rank}]:";
    p = substitute(&w->arena, p, "role_name", c->role);
    p = substitute(&w->arena, p, "local_rank", arena_printf(&w->arena, "%d", x->local_rank));
    p = substitute(&w->arena, p, "rank", arena_printf(&w->arena, "%d", x->rank));
    return substitute(&w->arena, p, "hostname", c->host);
}

static int open_log(const char *path, struct err *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", path) : fd;
}

// Opens the descriptor of one stream: its file, the agent's own stream, or none (*fd -1).
static int open_stream(struct workers *w, struct worker *x, int bit, const char *name,
                       const char **path, int *fd, struct err *e) {
    const struct workers_config *c = w->config;
    bool both = c->streams_to_both[x->local_rank] & bit;
    const char *const *words = bit == STREAM_OUT ? c->words_out : c->words_err;
    bool filtered = words && words[0];
    *fd = c->on_console[x->local_rank] ? bit : -1; // STREAM_OUT is 1, STREAM_ERR is 2
    if (!x->dir || !((c->streams_to_file[x->local_rank] & bit) || both || filtered))
        return 0;
    bool only_file = (c->streams_to_file[x->local_rank] & bit) && !both;
    int console = *fd < 0 || only_file ? -1 : *fd;
    *path = file_join(&w->arena, x->dir, name);
    *fd = open_log(*path, e);
    if (*fd < 0)
        return -1;
    int filter_fd = filtered ? w->filtered_fds[bit - 1] : -1;
    if (console < 0 && filter_fd < 0)
        return 0;
    if (!w->tee && !(w->tee = log_tee_open(w->loop, e)))
        return -1;
    return log_tee_add(w->tee, *path, console, prefix_of(w, x), words, filter_fd, e);
}

static int open_filtered(struct workers *w, const char *attempt, struct err *e) {
    const char *const *words[] = {w->config->words_out, w->config->words_err};
    static const char *const names[] = {"filtered_stdout.log", "filtered_stderr.log"};
    for (int i = 0; i < 2; i++) {
        if (!words[i] || !words[i][0])
            continue;
        w->filtered_fds[i] = open_log(file_join(&w->arena, attempt, names[i]), e);
        if (w->filtered_fds[i] < 0)
            return -1;
    }
    return 0;
}

static int make_folders(struct workers *w, struct err *e) {
    if (!w->config->log_base)
        return 0;
    char *attempt = arena_printf(&w->arena, "%s/attempt_%d", w->config->log_base, w->round);
    for (int i = 0; i < w->count; i++) {
        struct worker *x = &w->list[i];
        x->dir = arena_printf(&w->arena, "%s/%d", attempt, i);
        if (file_make_dirs(x->dir, 0755, e) < 0)
            return -1;
        x->error_path = file_join(&w->arena, x->dir, "error.json");
        unlink(x->error_path); // from an earlier use of the folder
    }
    return open_filtered(w, attempt, e);
}

static void close_streams(struct guard_worker *g, int count) {
    for (int i = 0; i < count; i++) {
        if (g[i].out > 2)
            close(g[i].out);
        if (g[i].err > 2)
            close(g[i].err);
    }
}

static void close_tee(struct workers *w) {
    log_tee_close(w->tee);
    w->tee = NULL;
    for (int i = 0; i < 2; i++) {
        if (w->filtered_fds[i] >= 0)
            close(w->filtered_fds[i]);
        w->filtered_fds[i] = -1;
    }
}

static int prepare(struct workers *w, const struct worker_facts *f, struct guard_worker *g,
                   struct err *e) {
    struct sagemaker *tree = w->config->sagemaker;
    if (make_folders(w, e) < 0 || (tree && sagemaker_round(tree, f, e) < 0))
        return -1;
    for (int i = 0; i < w->count; i++) {
        struct worker *x = &w->list[i];
        struct worker_facts own = *f;
        struct job_pair *pairs = NULL;
        if (tree)
            own.compat_count = sagemaker_variables(tree, &w->arena, f, i, &pairs);
        own.compat = pairs;
        g[i].argv = command_of(w, i);
        g[i].processors = w->config->processors ? &w->config->processors[i] : NULL;
        g[i].env = worker_env_build(&w->arena, w->config->env, &own, i,
                                    x->error_path ? x->error_path : "");
        if (open_stream(w, x, STREAM_OUT, "stdout.log", &x->out_path, &g[i].out, e) < 0 ||
            open_stream(w, x, STREAM_ERR, "stderr.log", &x->err_path, &g[i].err, e) < 0)
            return -1;
    }
    return 0;
}

static int enter_tree(const void *ctx, struct err *e) {
    return sagemaker_enter(ctx, e);
}

int workers_start(struct workers *w, const struct worker_facts *f, int64_t lease_ms,
                  struct err *e) {
    must(workers_is_idle(w));
    arena_reset(&w->arena);
    w->count = w->config->nproc;
    w->round = f->round;
    w->reported = 0;
    w->stopping = false;
    w->list = arena_new(&w->arena, struct worker, (size_t)w->count);
    struct guard_worker *g = arena_new(&w->arena, struct guard_worker, (size_t)w->count);
    for (int i = 0; i < w->count; i++) {
        w->list[i] = (struct worker){.local_rank = i, .rank = f->rank + i};
        g[i].out = g[i].err = -1;
    }
    struct guard_spec spec = {.workers = g,
                              .count = w->count,
                              .in = 0,
                              .cwd = w->config->cwd,
                              .descriptors_max = w->config->descriptors_max,
                              .lease_ms = lease_ms};
    if (w->config->sagemaker && w->config->sagemaker->way == SAGEMAKER_MOUNTED) {
        spec.enter = enter_tree;
        spec.enter_ctx = w->config->sagemaker;
    }
    w->guard.ctx = w;
    worker_evidence_begin(&w->evidence);
    int rc = prepare(w, f, g, e);
    if (rc == 0)
        rc = guard_start(&w->guard, w->loop, &spec, &guard_table, e);
    close_streams(g, w->count);
    if (rc < 0)
        close_tee(w);
    return rc;
}

static void on_kill(struct timer *t) {
    struct workers *w = container_of(t, struct workers, kill);
    log_warn("workers did not end in time; killing them", "round=%d", w->round);
    guard_kill(&w->guard);
}

void workers_stop(struct workers *w, int signal, int64_t grace_ms) {
    if (workers_is_idle(w))
        return;
    // A second stop only shortens the grace period. Another signal could end a worker that is
    // writing its checkpoint.
    if (grace_ms <= 0)
        guard_kill(&w->guard);
    else if (!w->stopping)
        guard_stop(&w->guard, signal);
    w->stopping = true;
    if (grace_ms > 0 && (!w->kill.loop || w->kill.due_ms > clock_mono_ms() + grace_ms))
        timer_start(w->loop, &w->kill, grace_ms, on_kill);
}

void workers_signal(struct workers *w, int signal) {
    if (!workers_is_idle(w) && !w->stopping)
        guard_signal(&w->guard, signal);
}

void workers_lease(struct workers *w, int64_t mono_ms) {
    if (!workers_is_idle(w))
        guard_lease(&w->guard, mono_ms);
}

static void note_reported(struct workers *w) {
    if (++w->reported == w->count)
        w->events->on_started(w);
}

static void guard_on_started(struct guard *g, int local_rank, pid_t pid) {
    struct workers *w = g->ctx;
    struct worker *x = &w->list[local_rank];
    x->pid = pid;
    x->running = true;
    x->started_mono_ms = clock_mono_ms();
    note_reported(w);
}

static void guard_on_exited(struct guard *g, const struct guard_exit *e) {
    struct workers *w = g->ctx;
    struct worker *x = &w->list[e->local_rank];
    bool never_ran = !x->running;
    x->running = false;
    x->ended = true;
    x->status = e->status;
    x->stopped = e->stopped;
    x->lease_ended = e->lease_ended;
    x->ended_mono_ms = e->mono_ms;
    x->ended_wall_ms = e->wall_ms;
    if (e->text[0])
        x->text = arena_strdup(&w->arena, e->text);
    if (never_ran)
        note_reported(w);
    w->events->on_exited(w, x);
}

static void guard_on_gone(struct guard *g, int orphans) {
    struct workers *w = g->ctx;
    timer_stop(&w->kill);
    close_tee(w);
    w->events->on_gone(w, orphans);
}

static const struct guard_events guard_table = {guard_on_started, guard_on_exited, guard_on_gone};
