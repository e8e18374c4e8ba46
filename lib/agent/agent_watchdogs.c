// SPDX-License-Identifier: Apache-2.0
// Watchdogs of the agent: workers stuck in the kernel, torchrun's timers and health checks, and
// GPUs held by processes of the last round.
//
// Workers stuck in the kernel are in uninterruptible sleep (state D of /proc/PID/stat): a lost file
// server, a frozen file system or a driver blocks them, and most of them cannot be killed.
// TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT limits the time in this state. Without it there is no
// check, as in torchrun.
//
// After that time the node has failed. It is excluded from further rounds, because a new worker
// would need resources that the process holds (a GPU, memory, a port). The other workers are
// stopped as usual. When all remaining processes have been stuck for this time they are killed. The
// guard waits for those that survive this. No stuck process makes further progress.
#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "worker/gpu_holders.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WHERE_BYTES_MAX = 64 };

static void on_look(struct timer *t);

// The kernel function in which the process waits, if known.
static const char *where_is(pid_t pid, char out[WHERE_BYTES_MAX]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/wchan", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, out, WHERE_BYTES_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            *c = '?';
    if (!out[0] || strcmp(out, "0") == 0)
        snprintf(out, WHERE_BYTES_MAX, "the kernel");
    return out;
}

// x: NULL for a process that workers have left behind.
static void fail(struct agent *a, struct worker *x, pid_t pid, int64_t since_ms) {
    struct worker_failure f;
    struct arena texts = {0};
    char where[WHERE_BYTES_MAX], reason[RENDEZVOUS_REASON_BYTES_MAX];
    int64_t now = clock_mono_ms(), ms = now - since_ms;
    where_is(pid, where);
    snprintf(reason, sizeof reason,
             "%s %d (pid %d) has been in uninterruptible sleep for %.1f s, in %s: no other worker "
             "can run here before that ends",
             x ? "rank" : "a process of round", x ? x->rank : a->round, (int)pid, (double)ms / 1e3,
             where);
    if (x) {
        x->text = arena_strdup(&a->workers.arena, reason);
        workers_failure(&a->workers, x, &texts, &f);
        f.status = 1; // no exit status yet
        f.age_ms = 0;
        f.wall_ms = clock_wall_ms();
    }
    a->round_failed = true;
    agent_end(a, NODE_FAILED, reason, x ? &f : NULL, x != NULL);
    arena_fini(&texts);
}

// The first worker that exceeds the limit, or NULL.
static struct worker *look_at_workers(struct agent *a, int64_t now) {
    struct worker *stuck = NULL;
    for (int i = 0; i < a->workers.count; i++) {
        struct worker *x = &a->workers.list[i];
        struct proc_facts f;
        char where[WHERE_BYTES_MAX];
        if (!x->running || proc_look(x->pid, &f) < 0 || f.state != 'D') {
            x->stuck_mono_ms = 0;
        } else if (x->stuck_mono_ms == 0) {
            x->stuck_mono_ms = now;
            log_debug("a worker is in uninterruptible sleep", "rank=%d pid=%d in=%s", x->rank,
                      (int)x->pid, where_is(x->pid, where));
        } else if (now - x->stuck_mono_ms >= a->config->stuck_ms_max && !stuck) {
            stuck = x;
        }
    }
    return stuck;
}

static bool have_ended(const struct workers *w) {
    for (int i = 0; i < w->count; i++)
        if (w->list[i].running)
            return false;
    return true;
}

// When the last worker became stuck; `now` when only strays remain.
static int64_t since(const struct workers *w, int64_t now) {
    int64_t ms = 0;
    for (int i = 0; i < w->count; i++)
        if (w->list[i].running && w->list[i].stuck_mono_ms > ms)
            ms = w->list[i].stuck_mono_ms;
    return ms > 0 ? ms : now;
}

// Only stuck processes of a finished round remain.
static void look_at_rest(struct agent *a, int64_t now) {
    char where[WHERE_BYTES_MAX];
    pid_t pid = a->over || have_ended(&a->workers) ? workers_stuck(&a->workers) : 0;
    if (pid == 0)
        a->all_stuck_ms = a->killed_ms = 0;
    else if (a->all_stuck_ms == 0)
        a->all_stuck_ms = since(&a->workers, now);
    if (pid == 0 || now - a->all_stuck_ms < a->config->stuck_ms_max)
        return;
    if (!a->over)
        fail(a, NULL, pid, a->all_stuck_ms);
    if (a->killed_ms == 0) {
        a->killed_ms = now;
        workers_stop(&a->workers, SIGKILL, 0);
    } else if (now - a->killed_ms >= AGENT_STUCK_KILL_MS) {
        log_error("a killed process does not end", "pid=%d in=%s guard=%d", (int)pid,
                  where_is(pid, where), (int)a->workers.guard.child.pid);
        workers_abandon(&a->workers);
    }
}

static void on_look(struct timer *t) {
    struct agent *a = container_of(t, struct agent, stuck);
    int64_t now = clock_mono_ms();
    if (workers_is_idle(&a->workers))
        return;
    struct worker *x = look_at_workers(a, now);
    if (x && !a->over)
        fail(a, x, x->pid, x->stuck_mono_ms);
    look_at_rest(a, now);
    agent_stuck_watch(a);
}

void agent_stuck_watch(struct agent *a) {
    if (a->config->stuck_ms_max > 0 && !workers_is_idle(&a->workers))
        timer_start(a->loop, &a->stuck, AGENT_STUCK_LOOK_MS, on_look);
}

void agent_stuck_close(struct agent *a) {
    timer_stop(&a->stuck);
}

// ---- timers and health checks -------------------------------------------------------------------
// Timers of workers, which request their own end unless they make progress (file_timer.h), and
// health checks of the agent (health_check.h).
//
// A worker ended by its timer has failed like any other: its peers are stopped, the report has the
// reason, and --max-restarts counts it. (PyTorch's agent ends itself with the same signal.)

static void on_expired(struct file_timers *t, const struct file_timer *x, int signal) {
    struct agent *a = container_of(t, struct agent, timers);
    struct worker *own = NULL; // NULL: a child process of a worker
    for (int i = 0; i < a->workers.count && !own; i++)
        if (a->workers.list[i].running && a->workers.list[i].pid == x->pid)
            own = &a->workers.list[i];
    if (own && signal > 0)
        own->text = arena_printf(&a->workers.arena, "its timer '%s' expired", x->scope);
    struct json_out *j = events_begin(&a->events, EVENT_TIMER);
    json_int(j, "round", a->round);
    if (own)
        json_int(j, "local_rank", own->local_rank);
    else
        json_null(j, "local_rank");
    json_int(j, "pid", x->pid);
    json_str(j, "scope", x->scope);
    json_str(j, "signal", signal > 0 ? proc_signal_name(signal) : NULL);
    events_end(&a->events);
    log_warn("a worker's timer has expired", "pid=%d scope=%s signal=%s", (int)x->pid, x->scope,
             signal > 0 ? proc_signal_name(signal) : "none");
}

int agent_watch_open(struct agent *a, struct err *e) {
    const struct agent_config *c = a->config;
    struct err busy;
    if (c->timer_file && file_timers_open(&a->timers, a->loop, c->timer_file, on_expired, e) < 0)
        return -1;
    if (c->health_port < 0)
        return 0;
    // Training does not need health checks: continue without.
    if (health_open(&a->health, a->loop, c->health_port, &busy) < 0)
        log_warn("cannot answer health checks", "reason=%s", busy.text);
    else
        log_info("answering health checks", "port=%d", a->health.port);
    return 0;
}

void agent_watch_close(struct agent *a) {
    file_timers_close(&a->timers);
    health_close(&a->health);
}

// ---- GPUs that are still held -------------------------------------------------------------------
// Between two rounds the agent waits until no process of the run has a GPU open. The guard has
// ended everything below it by then. Other processes were started outside on a worker's behalf (a
// container runtime, systemd-run), or belong to a killed agent.

static void on_devices_look(struct timer *t);

static void fail_held(struct agent *a, const struct device_holder *h) {
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    snprintf(
        text, sizeof text,
        "%s is still held by %s (pid %d) of this run, %d s after its workers ended: end it, or "
        "restart the node",
        h->device, h->name, (int)h->pid, AGENT_DEVICES_MS_MAX / 1000);
    agent_end(a, NODE_FAILED, text, NULL, 0);
}

static void look_at_devices(struct agent *a, bool first) {
    struct device_holder h;
    if (a->over || !worker_devices_held("", a->config->run, &h)) {
        agent_round_gone(a);
        return;
    }
    if (first) {
        log_warn("a GPU of the last round is not free yet", "device=%s pid=%d name=%s", h.device,
                 (int)h.pid, h.name);
        a->devices_until_ms = clock_mono_ms() + AGENT_DEVICES_MS_MAX;
    }
    if (clock_mono_ms() >= a->devices_until_ms)
        fail_held(a, &h);
    else
        timer_start(a->loop, &a->devices, AGENT_DEVICES_LOOK_MS, on_devices_look);
}

static void on_devices_look(struct timer *t) {
    look_at_devices(container_of(t, struct agent, devices), false);
}

void agent_devices_wait(struct agent *a) {
    look_at_devices(a, true);
}

bool agent_devices_waits(const struct agent *a) {
    return a->devices.loop != NULL;
}

void agent_devices_close(struct agent *a) {
    timer_stop(&a->devices);
}
