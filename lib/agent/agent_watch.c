// SPDX-License-Identifier: Apache-2.0
// Watchdogs: workers that ask to be ended when they do not get on (file_timer.h), and the answer to
// those who ask whether the agent gets on (health_check.h).
//
// A worker that was ended so has failed like any other: its peers are stopped, the reason is in the
// report, and --max-restarts counts it. (PyTorch's agent ends itself with the same signal.)
#include "agent/agent_impl.h"

#include "base/log.h"
#include "sys/proc.h"

static void on_expired(struct file_timers *t, const struct file_timer *x, int signal) {
    struct agent *a = container_of(t, struct agent, timers);
    struct worker *own = NULL; // it may also be a process that one of them has started
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
    // Nothing that trains needs it: the run goes on without.
    if (health_open(&a->health, a->loop, c->health_port, &busy) < 0)
        log_warn("health checks are not answered", "reason=%s", busy.text);
    else
        log_info("health checks are answered", "port=%d", a->health.port);
    return 0;
}

void agent_watch_close(struct agent *a) {
    file_timers_close(&a->timers);
    health_close(&a->health);
}
