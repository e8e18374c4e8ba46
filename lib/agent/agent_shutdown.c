// SPDX-License-Identifier: Apache-2.0
// The end of a run on this node: verdict, report, signals, and the end of the loop when nothing of
// the run remains.
#include "agent/agent_impl.h"

#include "agent/failure_report.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/proc.h"
#include "worker/console.h"
#include "worker/error_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const enum node_event ends[] = {
    [NODE_FINISHED] = EVENT_FINISHED, [NODE_FAILED] = EVENT_FAILED, [NODE_STOPPED] = EVENT_ENDED};

static void record_end(struct agent *a, enum node_state state) {
    struct json_out *j = events_begin(&a->events, ends[state]);
    json_int(j, "exit_status", a->exit_status);
    json_int(j, "rounds", a->round + 1);
    json_int(j, "restarts", a->restarts);
    json_int(j, "ms", clock_mono_ms() - a->begin_ms);
    if (state != NODE_FINISHED)
        json_str(j, "reason", a->reason);
    events_end(&a->events);
}

static void print_report(struct agent *a, const struct worker_failure *failures, int64_t count) {
    struct strbuf text = {0};
    if (!a->config->report || count == 0)
        return;
    failure_report_print(&text, a->config->title, failures, count);
    console_put(STDERR_FILENO, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
}

// Copies the error file of the first failure on this node that has one.
static void copy_error_file(struct agent *a, const struct worker_failure *failures, int64_t count) {
    const char *to = a->config->error_file;
    struct err e;
    for (int64_t i = 0; i < count && to; i++) {
        const struct worker_failure *f = &failures[i];
        if (!f->error_file[0] || strcmp(f->node, a->config->name) != 0)
            continue;
        if (error_file_copy(f->error_file, to, failure_report_exit_code(f), &e) < 0)
            log_warn("cannot copy the error file", "to=%s reason=%s", to, e.text);
        return;
    }
}

static int exit_status(const struct agent *a, enum node_state state,
                       const struct worker_failure *failures, int64_t count) {
    if (a->config->exit_code_of_worker && count > 0 && failures[0].status > 0)
        return (int)failures[0].status;
    return node_state_exit_status(state);
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    if (a->over)
        return;
    a->over = true;
    char text[RENDEZVOUS_REASON_BYTES_MAX]; // reason may alias a->reason
    snprintf(text, sizeof text, "%s", reason);
    a->exit_status = exit_status(a, state, failures, count);
    agent_stop_workers(a, SIGTERM, a->config->coordinator.shutdown_timeout_ms, text);
    if (state == NODE_FINISHED)
        log_info("the run has finished", "rounds=%d restarts=%d", a->round + 1, a->restarts);
    else
        log_error(state == NODE_STOPPED ? "the run was stopped" : "the run has failed", "reason=%s",
                  text);
    print_report(a, failures, count);
    copy_error_file(a, failures, count);
    snprintf(a->reason, sizeof a->reason, "%s", text);
    a->state = state;
    if (!a->leaving) // a leaving node reports it after its workers have ended
        agent_link_close(a, text);
    if (a->coordinator && !a->leaving) // no effect if the verdict came from this coordinator
        coordinator_end_run(a->coordinator,
                            state == NODE_STOPPED ? VERDICT_STOPPED : VERDICT_FAILED, text, SIGTERM,
                            a->config->coordinator.shutdown_timeout_ms);
    agent_maybe_leave_loop(a);
}

void agent_maybe_leave_loop(struct agent *a) {
    if (!a->over || !workers_is_idle(&a->workers))
        return;
    // A leaving node announces no verdict: another node takes over.
    if (a->coordinator && !a->coordinator_idle && !a->leaving)
        return;
    if (!a->ended) { // status and events end when nothing remains
        a->ended = true;
        agent_write_status(a);
        record_end(a, a->state);
    }
    loop_stop(a->loop);
}

// Leaves the run. The others continue without this node, if permitted, as soon as it reports that
// its workers have stopped. The workers have the full grace period, since the connection renews
// their lease.
void agent_leave(struct agent *a, const char *reason, int signal, int64_t grace_ms) {
    struct wire_msg m = {.type = WIRE_LEAVE, .reason = reason};
    a->leaving = true;
    agent_send(a, &m);
    agent_stop_workers(a, signal, grace_ms, reason);
    agent_end(a, NODE_STOPPED, reason, NULL, 0);
}

// ---- the time limit of the run ------------------------------------------------------------------
// Every agent measures the time limit itself, so that it holds without an operator and across a
// change of coordinator. The first agent whose time is up requests the stop.

static void on_time_up(struct timer *t) {
    struct agent *a = container_of(t, struct agent, time_limit);
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    snprintf(reason, sizeof reason, "time limit reached: %.0f s (task.max_time)",
             (double)a->config->time_ms_max / 1000);
    agent_request_stop(a, reason, SIGTERM, a->config->coordinator.shutdown_timeout_ms);
}

static void on_time_short(struct timer *t) {
    struct agent *a = container_of(t, struct agent, time_limit);
    int64_t left = a->begin_ms + a->config->time_ms_max - clock_mono_ms();
    log_warn("the time limit of the run is near", "left_ms=%lld", (long long)left);
    agent_notice_signal(a);
    timer_start(a->loop, &a->time_limit, left > 0 ? left : 0, on_time_up);
}

void agent_limit_open(struct agent *a) {
    int64_t limit = a->config->time_ms_max;
    int64_t part = limit / AGENT_LIMIT_NOTICE_PART;
    int64_t notice = part < AGENT_LIMIT_NOTICE_MS ? part : AGENT_LIMIT_NOTICE_MS;
    if (limit > 0)
        timer_start(a->loop, &a->time_limit, limit - notice, on_time_short);
}

void agent_request_stop(struct agent *a, const char *reason, int signal, int64_t grace_ms) {
    if (a->over)
        return;
    if (a->coordinator) {
        coordinator_end_run(a->coordinator, VERDICT_STOPPED, reason, signal, grace_ms);
        return;
    }
    struct wire_msg m = {
        .type = WIRE_STOP_RUN, .reason = reason, .signal = signal, .grace_ms = grace_ms};
    agent_send(a, &m);
    if (a->link.stage != CHANNEL_READY) // no coordinator to ask
        agent_end(a, NODE_STOPPED, reason, NULL, 0);
}
