// SPDX-License-Identifier: Apache-2.0
// The end of an agent: verdicts, reports and exit statuses, a node that leaves, stops on request
// and the time limit of a run. All else is a stand-in.
#include "tests/unit/agent/end_fake.h"

// The last event.
static void has_event(const char *want, const char *what) {
    has_str(strbuf_cstr(&agent.events.line), want, "%s", what);
}

static const struct worker_failure failures[] = {{.rank = 3,
                                                  .status = 7,
                                                  .node = "n0",
                                                  .error_file = "/e0",
                                                  .host = "",
                                                  .message = "",
                                                  .tail = "",
                                                  .evidence = ""},
                                                 {.rank = 1,
                                                  .status = 8,
                                                  .node = "n1",
                                                  .error_file = "",
                                                  .host = "",
                                                  .message = "",
                                                  .tail = "",
                                                  .evidence = ""},
                                                 {.rank = 2,
                                                  .status = 137,
                                                  .signal = 9,
                                                  .node = "n1",
                                                  .error_file = "/e2",
                                                  .host = "",
                                                  .message = "",
                                                  .tail = "",
                                                  .evidence = ""},
                                                 {.rank = 4,
                                                  .status = 9,
                                                  .node = "n1",
                                                  .error_file = "/e3",
                                                  .host = "",
                                                  .message = "",
                                                  .tail = "",
                                                  .evidence = ""}};
enum { FAILURES = sizeof failures / sizeof *failures };

// ---- verdicts -----------------------------------------------------------------------------------

static void test_verdicts(void) {
    static const struct {
        enum node_state state;
        int status;
        const char *event, *reason;
    } cases[] = {{NODE_FINISHED, 0, "\"kind\":\"finished\"", NULL},
                 {NODE_FAILED, 1, "\"kind\":\"failed\"", "\"reason\":\"why\""},
                 {NODE_STOPPED, 1, "\"kind\":\"stopped\"", "\"reason\":\"why\""}};
    for (int i = 0; i < 3; i++) {
        begin();
        clock_ahead_ms += 1500;
        agent_end(&agent, cases[i].state, "why", NULL, 0);
        is_done("stop 15 40000: why;close: why;status why;", "the run is over on this node");
        ok(agent.over && agent.state == cases[i].state, "the agent has the verdict");
        is_int(agent.exit_status, cases[i].status, "the verdict has an exit status");
        has_event(cases[i].event, "the verdict has an event");
        has_event("\"rounds\":5,\"restarts\":2,\"ms\":1500", "the event has the run's figures");
        if (cases[i].reason)
            has_event(cases[i].reason, "the event has the reason");
        else
            ok(!strstr(strbuf_cstr(&agent.events.line), "reason"), "success has no reason");
        agent_end(&agent, NODE_FAILED, "again", NULL, 0);
        is_done("", "a run ends once");
        agent_maybe_leave_loop(&agent);
        is_done("", "the end is recorded once");
        is_int(agent.events.seq, 1, "the end has one event");
    }
    begin();
    snprintf(agent.reason, sizeof agent.reason, "own");
    agent_end(&agent, NODE_FAILED, agent.reason, NULL, 0);
    is_str(agent.reason, "own", "the reason may be the agent's own");
}

static void test_waits(void) {
    begin();
    agent_maybe_leave_loop(&agent);
    is_done("", "a run that goes on has no end");
    idle = false;
    agent_end(&agent, NODE_FAILED, "why", NULL, 0);
    is_done("stop 15 40000: why;close: why;", "the end waits for workers");
    idle = true;
    agent_maybe_leave_loop(&agent);
    is_done("status why;", "the end comes after the workers'");
    begin();
    agent.coordinator = COORDINATOR;
    agent_end(&agent, NODE_STOPPED, "why", NULL, 0);
    is_done("stop 15 40000: why;close: why;end run stopped 15 40000: why;",
            "this agent's coordinator ends the run");
    agent.coordinator_idle = true;
    agent_maybe_leave_loop(&agent);
    is_done("status why;", "the end comes after the coordinator's");
    begin();
    agent.coordinator = COORDINATOR;
    agent_end(&agent, NODE_FAILED, "why", NULL, 0);
    is_done("stop 15 40000: why;close: why;end run failed 15 40000: why;",
            "a failure is the run's failure");
}

static struct timer later;
static int turns;

static void on_later(struct timer *t) {
    if (++turns < 10)
        timer_start(test_loop, t, 1, on_later);
    clock_ahead_ms++;
}

static void on_end_due(struct timer *t) {
    (void)t;
    timer_start(test_loop, &later, 1, on_later);
    agent_end(&agent, NODE_FINISHED, "", NULL, 0);
}

static void test_loop_ends(void) {
    begin();
    timer_start(test_loop, &agent.time_limit, 0, on_end_due);
    loop_run(test_loop);
    is_int(turns, 0, "the loop ends with the run");
    timer_stop(&later);
}

// ---- reports ------------------------------------------------------------------------------------

static void test_reports(void) {
    static const struct {
        bool report, of_worker;
        int count, status;
        const char *error_file, *want;
    } cases[] = {{true, false, FAILURES, 1, NULL, "print 2;"},
                 {false, false, FAILURES, 1, NULL, ""},
                 {true, false, 0, 1, NULL, ""},
                 {false, true, FAILURES, 7, NULL, ""},
                 {false, true, 0, 1, NULL, ""},
                 {true, false, 1, 1, "/to", "print 2;"},
                 {false, false, FAILURES, 1, "/to", "copy /e2 /to -9;"},
                 {false, false, 2, 1, "/to", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        begin();
        copies = i % 2 == 0;
        config.report = cases[i].report;
        config.exit_code_of_worker = cases[i].of_worker;
        config.error_file = cases[i].error_file;
        agent_end(&agent, NODE_FAILED, "why", failures, cases[i].count);
        snprintf(want, sizeof want, "stop 15 40000: why;%sclose: why;status why;", cases[i].want);
        is_done(want, "failures are reported");
        is_int(agent.exit_status, cases[i].status, "the exit status is the worker's on request");
    }
    struct worker_failure none = failures[0];
    none.status = 0;
    begin();
    config.exit_code_of_worker = true;
    agent_end(&agent, NODE_FAILED, "why", &none, 1);
    is_int(agent.exit_status, 1, "a failed run never returns success");
    none.status = 1;
    begin();
    config.exit_code_of_worker = true;
    agent_end(&agent, NODE_FINISHED, "why", &none, 1);
    is_int(agent.exit_status, 1, "the least status of a worker is returned");
}

// ---- leaving and stopping -----------------------------------------------------------------------

static void test_leave(void) {
    begin();
    config.report = true;
    idle = false;
    agent.coordinator = COORDINATOR;
    agent_leave(&agent, "why", SIGUSR1, 5);
    is_done("send LEAVE: why;stop 10 5: why;stop 15 40000: why;",
            "a node that leaves keeps its connection, and the run goes on");
    ok(agent.leaving && agent.over && agent.state == NODE_STOPPED, "the node has stopped");
    idle = true;
    agent_maybe_leave_loop(&agent);
    is_done("status why;", "a node that leaves waits for no coordinator");
}

static void test_request(void) {
    begin();
    config.report = true;
    agent_request_stop(&agent, "why", SIGUSR1, 5);
    is_done("send STOP_RUN: why;", "the coordinator is asked to stop the run");
    ok(sent.signal == SIGUSR1 && sent.grace_ms == 5, "the request has signal and time");
    ok(!agent.over, "the agent waits for the verdict");
    agent.link.stage = CHANNEL_WAIT_PROOF;
    agent_request_stop(&agent, "why", SIGUSR1, 5);
    is_done("send STOP_RUN: why;stop 15 40000: why;close: why;status why;",
            "without a coordinator the agent ends by itself");
    agent_request_stop(&agent, "again", SIGUSR1, 5);
    is_done("", "a run that is over needs no stop");
    begin();
    config.report = true;
    agent.coordinator = COORDINATOR;
    agent_request_stop(&agent, "why", SIGUSR1, 5);
    is_done("end run stopped 10 5: why;", "this agent's own coordinator stops the run");
}

// ---- the time limit -----------------------------------------------------------------------------

static void test_limit(void) {
    static const struct {
        int64_t limit_ms, notice_ms;
    } cases[] = {{1000, 100}, {600000, 60000}, {610000, 60000}, {590000, 59000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        begin();
        config.notice_signal = SIGUSR2;
        config.time_ms_max = cases[i].limit_ms;
        agent_limit_open(&agent);
        clock_ahead_ms += cases[i].limit_ms - cases[i].notice_ms - 1;
        loop_once(test_loop, 0);
        is_done("", "nothing happens before the notice");
        clock_ahead_ms++;
        loop_once(test_loop, 0);
        is_done("signal 12;", "workers get the notice signal");
        clock_ahead_ms += cases[i].notice_ms - 1;
        loop_once(test_loop, 0);
        is_done("", "the notice is given once");
        clock_ahead_ms++;
        loop_once(test_loop, 0);
        snprintf(want, sizeof want,
                 "send STOP_RUN: time limit reached: %d s (task.max_time);", //
                 (int)cases[i].limit_ms / 1000);
        is_done(want, "the run is to stop at its limit");
        ok(sent.signal == SIGTERM && sent.grace_ms == GRACE_MS, "the stop has its time");
    }
    begin();
    config.time_ms_max = 1000;
    agent.begin_ms -= 5000; // the loop was busy
    agent_limit_open(&agent);
    clock_turn(test_loop, 900);
    is_int(agent.time_limit.due_ms, clock_mono_ms(), "a limit that has passed is due at once");
    begin();
    agent_limit_open(&agent);
    ok(!agent.time_limit.loop, "no limit needs no timer");
    config.time_ms_max = 1;
    agent_limit_open(&agent);
    ok(agent.time_limit.loop, "the shortest limit has a timer");
}

int main(void) {
    open_test();
    test_verdicts();
    test_waits();
    test_loop_ends();
    test_reports();
    test_leave();
    test_request();
    test_limit();
    return close_test();
}
