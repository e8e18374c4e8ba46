// SPDX-License-Identifier: Apache-2.0
// How a run ends on this node: the verdict, the report, signals, and leaving the loop when nothing
// of the run is left.
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

static void tell_end(struct agent *a, enum node_state state) {
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
    report_failures(&text, a->config->title, failures, count);
    console_put(STDERR_FILENO, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
}

// Of the failures of this node the first one that wrote a file.
static void copy_error_file(struct agent *a, const struct worker_failure *failures, int64_t count) {
    const char *to = a->config->error_file;
    struct err e;
    for (int64_t i = 0; i < count && to; i++) {
        const struct worker_failure *f = &failures[i];
        if (!f->error_file[0] || strcmp(f->node, a->config->name) != 0)
            continue;
        if (error_file_copy(f->error_file, to, report_exit_code(f), &e) < 0)
            log_warn("the error file is not copied", "to=%s reason=%s", to, e.text);
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
    char text[RENDEZVOUS_REASON_BYTES_MAX]; // reason may be a->reason
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
    if (!a->leaving) // one that leaves says so when its workers are gone
        agent_link_close(a, text);
    if (a->coordinator && !a->leaving) // no effect when the verdict came from there
        coordinator_end_run(a->coordinator,
                            state == NODE_STOPPED ? VERDICT_STOPPED : VERDICT_FAILED, text, SIGTERM,
                            a->config->coordinator.shutdown_timeout_ms);
    agent_maybe_leave_loop(a);
}

void agent_maybe_leave_loop(struct agent *a) {
    if (!a->over || !workers_is_idle(&a->workers))
        return;
    // One that leaves takes no verdict with it: another node takes over.
    if (a->coordinator && !a->coordinator_idle && !a->leaving)
        return;
    if (a->begin_ms >= 0) { // once: the story ends when nothing is left
        agent_write_status(a);
        tell_end(a, a->state);
        a->begin_ms = -1;
    }
    loop_stop(a->loop);
}

// The others go on without this node, if they may: as soon as it says that its workers are stopped.
// They have all of the grace, since the connection keeps their lease.
void agent_leave(struct agent *a, const char *reason, int signal, int64_t grace_ms) {
    struct wire_msg m = {.type = WIRE_LEAVE, .reason = reason};
    a->leaving = true;
    agent_send(a, &m);
    agent_stop_workers(a, signal, grace_ms, reason);
    agent_end(a, NODE_STOPPED, reason, NULL, 0);
}

// ---- the time limit of the run ------------------------------------------------------------------
// Every agent counts for itself, so that the limit holds without its operator and through a change
// of coordinator. The first one whose time is up asks for the stop.

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
    if (a->link.stage != CHANNEL_READY) // nobody to ask
        agent_end(a, NODE_STOPPED, reason, NULL, 0);
}
