// SPDX-License-Identifier: Apache-2.0
// The preemption of a node: which notices are sent and when, the signal for workers, and the time
// at which the node leaves. All else is a stand-in.
#include "tests/unit/agent/end_fake.h"

enum { MARGIN_MS = 20000, STOP_MS = 15000, YOUNG_MS = 2000, LEFT_MS = 100000 };

static void give(enum notice_kind kind, int64_t left_ms, const char *node) {
    struct notice n = {.kind = kind,
                       .deadline_s = left_ms < 0 ? 0 : (clock_wall_ms() + left_ms) / 1000};
    snprintf(n.node, sizeof n.node, "%s", node);
    noticed(&agent.notice_watch, &n);
}

// ---- the signal ---------------------------------------------------------------------------------

static void test_signal(void) {
    begin();
    agent_notice_signal(&agent);
    is_done("", "without a configured signal none is sent");
    config.notice_signal = SIGUSR1;
    agent_notice_signal(&agent);
    is_done("signal 10;", "old workers get the signal at once");
    workers[0].started_mono_ms = clock_mono_ms() - 500;
    workers[1].started_mono_ms = clock_mono_ms() - 1500;
    agent_notice_signal(&agent);
    clock_ahead_ms += YOUNG_MS - 501;
    loop_once(test_loop, 0);
    is_done("", "the youngest worker is not ready");
    clock_ahead_ms++;
    loop_once(test_loop, 0);
    is_done("signal 10;", "all workers get the signal when the youngest is ready");
    agent_notice_signal(&agent);
    is_done("signal 10;", "the moment at which it is ready counts");
    workers[1].started_mono_ms = 0;
    agent_notice_signal(&agent);
    is_int(agent.notice_signal.due_ms, clock_mono_ms() + YOUNG_MS,
           "a worker that has not started begins now");
    agent.workers.count = 0;
    agent_notice_signal(&agent);
    is_done("signal 10;", "without workers nothing is waited for");
}

static void test_received(void) {
    struct wire_msg m = {.name = "n7", .reason = "spot-stop", .grace_ms = 5000};
    begin();
    config.notice_signal = SIGUSR1;
    agent_notice_received(&agent, &m);
    is_done("signal 10;", "a notice of another node is passed on");
    has_str(strbuf_cstr(&agent.events.line),
            "\"kind\":\"notice\",\"peer\":\"n7\",\"reason\":\"spot-stop\",\"left_ms\":5000,"
            "\"signal\":\"SIGUSR1\"",
            "a notice has an event");
    config.notice_signal = 0;
    agent_notice_received(&agent, &m);
    is_done("", "a notice may have no signal");
    has_str(strbuf_cstr(&agent.events.line), "\"signal\":null", "the event has no signal");
}

// ---- notices of this node -----------------------------------------------------------------------

static void test_kinds(void) {
    static const struct {
        enum notice_kind kind;
        const char *want;
        bool leaves;
    } cases[] = {{NOTICE_SPOT_TERMINATE, "send NOTICE: spot-terminate;", true},
                 {NOTICE_SPOT_STOP, "send NOTICE: spot-stop;", true},
                 {NOTICE_SPOT_HIBERNATE, "send NOTICE: spot-hibernate;", true},
                 {NOTICE_REBALANCE, "send NOTICE: rebalance;", false},
                 {NOTICE_LEASE, "send NOTICE: lease;", true},
                 {NOTICE_IDLE, "", false},
                 {NOTICE_NONE, "", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        give(cases[i].kind, LEFT_MS, "");
        is_done(cases[i].want, "a notice is sent");
        is_int(agent.notice_leave.loop != NULL, cases[i].leaves, "a node leaves if it is taken");
        begin();
        give(cases[i].kind, -1, "");
        is_done(cases[i].want, "a notice without a deadline is sent");
        ok(!agent.notice_leave.loop, "a node without a deadline stays");
        if (cases[i].want[0])
            is_int(sent.grace_ms, -1, "the message has no deadline");
    }
}

static void test_sent(void) {
    begin();
    give(NOTICE_LEASE, LEFT_MS, "");
    ok(strcmp(sent.name, "n1") == 0 && sent.grace_ms == LEFT_MS,
       "the message has the node and the time left");
    give(NOTICE_LEASE, 0, "");
    is_int(sent.grace_ms, 0, "a deadline may be now");
    clock_ahead_ms += 5000;
    noticed(&agent.notice_watch, &(struct notice){.kind = NOTICE_LEASE, .deadline_s = 1});
    is_int(sent.grace_ms, 0, "a deadline of the past is now");
    static const struct {
        enum channel_stage stage;
        bool session, idle;
        enum node_state state;
        const char *want;
    } cases[] = {{CHANNEL_READY, false, true, NODE_RUNNING, "send NOTICE: lease;"},
                 {CHANNEL_IDLE, true, true, NODE_RUNNING, "send NOTICE: lease;"},
                 {CHANNEL_IDLE, false, true, NODE_RUNNING, ""},
                 {CHANNEL_IDLE, false, false, NODE_RUNNING, "signal 10;"},
                 {CHANNEL_READY, false, true, NODE_STARTING, ""},
                 {CHANNEL_READY, false, true, NODE_JOINING, "send NOTICE: lease;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        config.notice_signal = SIGUSR1;
        agent.link.stage = cases[i].stage;
        agent.session.open = cases[i].session;
        agent.state = cases[i].state;
        idle = cases[i].idle;
        give(NOTICE_LEASE, LEFT_MS, "");
        is_done(cases[i].want, "a notice is sent, or given to this node's workers");
        agent.link.stage = CHANNEL_READY;
        agent.state = NODE_RUNNING;
        agent_notice_joined(&agent);
        is_done(cases[i].want[0] == 's' && cases[i].want[1] == 'e' ? "" : "send NOTICE: lease;",
                "a notice that was not sent is sent after joining");
        agent_notice_joined(&agent);
        is_done("", "a notice is sent once");
    }
    begin();
    agent.link.stage = CHANNEL_IDLE;
    give(NOTICE_LEASE, LEFT_MS, "");
    give(NOTICE_NONE, -1, "");
    agent_notice_joined(&agent);
    is_done("", "a withdrawn notice is not sent");
}

static void test_other_node(void) {
    begin();
    config.run_dir = "/run";
    give(NOTICE_LEASE, LEFT_MS, "n2");
    is_done("", "a notice of another node of this machine is not this one's");
    is_int(agent.notice.kind, NOTICE_NONE, "this node has no notice");
    give(NOTICE_LEASE, LEFT_MS, "n1");
    is_done("send NOTICE: lease;", "a notice may name this node");
    give(NOTICE_LEASE, LEFT_MS, "");
    is_done("send NOTICE: lease;", "a notice may name no node");
    config.run_dir = NULL;
    give(NOTICE_LEASE, LEFT_MS, "n2");
    is_done("send NOTICE: lease;", "an agent that was started by hand has another name");
}

// ---- leaving ------------------------------------------------------------------------------------

static void test_when(void) {
    static const struct {
        int64_t left_ms, leaves_ms, grace_ms;
    } cases[] = {{LEFT_MS, LEFT_MS - MARGIN_MS, MARGIN_MS / 2},
                 {2 * MARGIN_MS + 2000, MARGIN_MS + 2000, MARGIN_MS / 2},
                 {20000, 10000, 5000},
                 {0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[256];
        begin();
        give(NOTICE_SPOT_STOP, cases[i].left_ms, "");
        done[0] = '\0';
        is_int(agent.notice_leave.due_ms - clock_mono_ms(), cases[i].leaves_ms,
               "a node leaves some time before its end");
        clock_ahead_ms += cases[i].leaves_ms;
        loop_once(test_loop, 0);
        snprintf(want, sizeof want,
                 "send LEAVE: node n1 is taken away (spot-stop);stop 15 %d: node n1",
                 (int)cases[i].grace_ms);
        has_str(done, want, "the workers have a part of the time");
        ok(agent.leaving, "the node leaves");
    }
    begin();
    give(NOTICE_SPOT_STOP, LEFT_MS, "");
    give(NOTICE_NONE, -1, "");
    ok(!agent.notice_leave.loop, "a withdrawn notice keeps the node");
}

// A worker ends between a notice and the node's departure.
static void test_takes(void) {
    static const struct {
        int64_t left_ms, grace_ms, stop_ms; // grace_ms: as configured
    } cases[] = {{LEFT_MS, GRACE_MS, STOP_MS},
                 {LEFT_MS, 1000, 1000},
                 {2000, GRACE_MS, 1000},
                 {-1, GRACE_MS, GRACE_MS}};
    struct worker x = {.ended = true, .status = 1 << 8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[256];
        begin();
        give(NOTICE_LEASE, cases[i].left_ms, "");
        config.coordinator.shutdown_timeout_ms = cases[i].grace_ms;
        ok(agent_notice_takes(&agent, &x), "the end of a worker is the node's departure");
        snprintf(want, sizeof want, "(lease);stop 15 %d: node n1", (int)cases[i].stop_ms);
        has_str(done, want, "the others have a part of the time");
        ok(!agent_notice_takes(&agent, &x), "a node leaves once");
    }
    begin();
    ok(!agent_notice_takes(&agent, &x), "without a notice a worker has failed");
    give(NOTICE_REBALANCE, LEFT_MS, "");
    ok(!agent_notice_takes(&agent, &x), "a recommendation takes no node");
    give(NOTICE_LEASE, LEFT_MS, "");
    agent.stop_requested = true;
    ok(!agent_notice_takes(&agent, &x), "workers that are stopped end");
    agent.stop_requested = false;
    x.status = 0;
    ok(!agent_notice_takes(&agent, &x), "a worker may succeed until then");
    x.status = 1 << 8;
    done[0] = '\0';
    static const struct {
        int world;
        const char *want;
    } alone[] = {{0, "end run stopped 15 15000: node n1 is taken away (lease);"},
                 {1, "end run stopped 15 15000: node n1 is taken away (lease);"},
                 {2, "send LEAVE: node n1 is taken away (lease);"}};
    for (int i = 0; i < 3; i++) {
        begin();
        give(NOTICE_LEASE, LEFT_MS, "");
        done[0] = '\0';
        agent.coordinator = COORDINATOR;
        agent.group_world = alone[i].world;
        agent_notice_takes(&agent, &x);
        is_int(strncmp(done, alone[i].want, strlen(alone[i].want)), 0,
               "the last of %d nodes ends the run", alone[i].world);
    }
    begin();
    agent.group_world = 1;
    give(NOTICE_LEASE, LEFT_MS, "");
    done[0] = '\0';
    agent_notice_takes(&agent, &x);
    is_int(strncmp(done, "send LEAVE", 10), 0, "a node that does not coordinate leaves");
}

static void test_over(void) {
    begin();
    give(NOTICE_LEASE, LEFT_MS, "");
    agent.over = true;
    done[0] = '\0';
    clock_ahead_ms += LEFT_MS;
    loop_once(test_loop, 0);
    is_done("", "a run that is over is not left");
    give(NOTICE_LEASE, LEFT_MS, "");
    is_done("", "a run that is over sends no notice");
    ok(!agent.notice_leave.loop, "a run that is over has no departure");
}

static void test_watch(void) {
    begin();
    is_int(agent_notice_open(&agent, &fault), 0, "notices are optional");
    config.notice_file = "";
    is_int(agent_notice_open(&agent, &fault), 0, "an empty name is none");
    is_done("", "no file is watched");
    config.notice_file = "/run/notice";
    is_int(agent_notice_open(&agent, &fault), 0, "notices are watched for");
    is_done("watch 1 /run/notice;", "the file is watched");
    config.notice_signal = SIGUSR1;
    give(NOTICE_LEASE, LEFT_MS, "");
    workers[0].started_mono_ms = clock_mono_ms();
    agent_notice_signal(&agent);
    done[0] = '\0';
    agent_notice_close(&agent);
    is_done("unwatch 1;", "the watch ends");
    ok(!agent.notice_leave.loop && !agent.notice_signal.loop, "no timer is left");
}

int main(void) {
    open_test();
    test_watch();
    test_signal();
    test_received();
    test_kinds();
    test_sent();
    test_other_node();
    test_when();
    test_takes();
    test_over();
    return close_test();
}
