// SPDX-License-Identifier: Apache-2.0
// Preemption of a node (preemption_notice.h). Its agent informs the coordinator, which informs all
// agents; each agent passes the configured signal on to its workers once per notice. A node that is
// really preempted leaves the run some time before its deadline, or when one of its workers ends
// before. The others continue without it, or wait for a replacement. A withdrawn notice (an
// extended lease) cancels this. Idle notices are ignored: an active run withdraws them.
//
// Messages carry the remaining time instead of the deadline, since clocks of nodes may differ by
// hours.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/proc.h"

#include <signal.h>
#include <stdio.h>

static int64_t left_ms(const struct notice *n) {
    int64_t left = n->deadline_s * 1000 - clock_wall_ms();
    return n->deadline_s == 0 ? -1 : left > 0 ? left : 0;
}

static void record_notice(struct agent *a, const struct wire_msg *m) {
    struct json_out *j = events_begin(&a->events, EVENT_NOTICE);
    int signal = a->config->notice_signal;
    json_str(j, "peer", m->name);
    json_str(j, "reason", m->reason);
    json_int(j, "left_ms", m->grace_ms);
    json_str(j, "signal", signal ? proc_signal_name(signal) : NULL);
    events_end(&a->events);
    log_warn("preemption of a node is announced", "node=%s reason=%s left_ms=%lld signal=%s",
             m->name, m->reason, (long long)m->grace_ms,
             signal ? proc_signal_name(signal) : "none");
}

static void on_signal_due(struct timer *t) {
    struct agent *a = container_of(t, struct agent, notice_signal);
    workers_signal(&a->workers, a->config->notice_signal);
}

// Delays the signal for young workers, since a program without a handler would be ended by it.
void agent_notice_signal(struct agent *a) {
    int64_t due = 0, now = clock_mono_ms();
    if (!a->config->notice_signal)
        return;
    for (int i = 0; i < a->workers.count; i++) {
        int64_t started = a->workers.list[i].started_mono_ms; // 0: about to start
        int64_t old = (started ? started : now) + AGENT_NOTICE_YOUNG_MS;
        due = old > due ? old : due;
    }
    if (due > now)
        timer_start(a->loop, &a->notice_signal, due - now, on_signal_due);
    else
        workers_signal(&a->workers, a->config->notice_signal);
}

void agent_notice_received(struct agent *a, const struct wire_msg *m) {
    record_notice(a, m);
    agent_notice_signal(a);
}

static void send_notice(struct agent *a) {
    struct wire_msg m = {.type = WIRE_NOTICE,
                         .name = a->config->name,
                         .reason = preemption_notice_word(a->notice.kind),
                         .grace_ms = left_ms(&a->notice)};
    bool can_send = a->link.stage == CHANNEL_READY || a->session.open;
    a->notice_unsent = !can_send || a->state == NODE_STARTING;
    if (!a->notice_unsent)
        agent_send(a, &m);
    else if (!workers_is_idle(&a->workers))
        agent_notice_received(a, &m);
}

void agent_notice_joined(struct agent *a) {
    if (a->notice_unsent && a->notice.kind != NOTICE_NONE)
        send_notice(a);
}

static void leave(struct agent *a) {
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    int64_t left = left_ms(&a->notice), grace = a->config->coordinator.shutdown_timeout_ms;
    if (a->over)
        return;
    int64_t most = left / 2 < AGENT_NOTICE_STOP_MS ? left / 2 : AGENT_NOTICE_STOP_MS;
    snprintf(reason, sizeof reason, "node %s is taken away (%s)", a->config->name,
             preemption_notice_word(a->notice.kind));
    if (left >= 0 && grace > most)
        grace = most;
    if (a->coordinator && a->group_world <= 1)
        agent_request_stop(a, reason, SIGTERM, grace);
    else
        agent_leave(a, reason, SIGTERM, grace);
}

static void on_leave(struct timer *t) {
    leave(container_of(t, struct agent, notice_leave));
}

bool agent_notice_takes(struct agent *a, const struct worker *x) {
    if (!preemption_ends_node(a->notice.kind) || worker_succeeded(x) || a->over ||
        a->stop_requested)
        return false;
    leave(a);
    return true;
}

static void on_notice(struct notice_watch *w, const struct notice *n) {
    struct agent *a = container_of(w, struct agent, notice_watch);
    static const struct notice none;
    // Several nodes of dtctl may share a machine and its notice file.
    bool other = a->config->run_dir && n->node[0] && !str_eq(n->node, a->config->name);
    bool was = a->notice.kind != NOTICE_NONE;
    n = other || n->kind == NOTICE_IDLE ? &none : n;
    a->notice = *n;
    timer_stop(&a->notice_leave);
    if (a->over)
        return;
    if (n->kind == NOTICE_NONE) {
        if (was)
            log_warn("the preemption notice of this node was withdrawn", NULL);
        return;
    }
    send_notice(a);
    int64_t left = left_ms(n);
    if (!preemption_ends_node(n->kind) || left < 0)
        return;
    int64_t margin = left / 2 < AGENT_NOTICE_MARGIN_MS ? left / 2 : AGENT_NOTICE_MARGIN_MS;
    timer_start(a->loop, &a->notice_leave, left - margin, on_leave);
}

int agent_notice_open(struct agent *a, struct err *e) {
    const char *path = a->config->notice_file;
    if (!path || !path[0])
        return 0;
    return preemption_watch_start(&a->notice_watch, a->loop, path, on_notice, e);
}

void agent_notice_close(struct agent *a) {
    timer_stop(&a->notice_leave);
    timer_stop(&a->notice_signal);
    preemption_watch_stop(&a->notice_watch);
}
