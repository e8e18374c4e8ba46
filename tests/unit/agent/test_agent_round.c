// SPDX-License-Identifier: Apache-2.0
// The agent's part in a round: its start, exits of workers, stops and ends, each by the next steps
// of the agent.
#include "tests/unit/agent/round_fake.h"

#include <signal.h>
#include <stdlib.h>

// ---- the start ----------------------------------------------------------------------------------

static void test_round(void) {
    struct wire_node nodes[] = {{.address = "10.0.0.1"}, {.address = "10.0.0.2"}};
    struct wire_msg m = {.round = 6,
                         .group_rank = 1,
                         .group_world = 2,
                         .rank = 2,
                         .world_size = 4,
                         .master_addr = "127.0.0.1",
                         .master_port = 99,
                         .left_ms = 70,
                         .nodes = nodes,
                         .node_count = 2};
    for (int first = 0; first < 2; first++) {
        begin();
        agent.store_next = (struct store_server *)(void *)&stores_open;
        stores_open = 1;
        m.group_rank = !first;
        lease_left_ms = first ? 60000 : INT64_MAX;
        agent.round_failed = agent.stop_requested = agent.done_sent = agent.rejoin = true;
        message(WIRE_ROUND, &m);
        is_done(first ? "elect_round;acked 0 70;link_beat;state ;hold;copies_env;"
                        "start 6 with a lease 10.0.0.1 10.0.0.2 end;stuck_watch;"
                      : "elect_round;acked 0 70;link_beat;state ;hold;copies_env;start 6 10.0.0.1 "
                        "10.0.0.2 end;"
                        "stuck_watch;",
                "a round begins");
        is_int(stores_open, first, "the first node alone keeps its store");
        ok(!agent.round_failed && !agent.stop_requested && !agent.done_sent && !agent.rejoin,
           "nothing of the last round is left");
        ok(agent.round == 6 && agent.rank == 2 && agent.facts.world_size == 4 &&
               agent.facts.master_port == 99 && strcmp(agent.ifname, "lo") == 0,
           "workers have the facts of the round");
        is_event("\"round\":6,\"restarts\":0,\"group_rank\":");
    }
    begin();
    m.node_count = 1;
    copies_wait = true;
    message(WIRE_ROUND, &m);
    is_done("elect_round;acked 0 70;link_beat;state ;", "workers wait for their copies");
    agent_start_round(&agent);
    has_str(done, "start 6;", "a list that has too few nodes is left out");
    begin();
    lease_left_ms = 0;
    message(WIRE_ROUND, &m);
    is_done("elect_round;acked 0 70;link_beat;lost this agent was stopped for too long 0;",
            "a lease that has ended is a lost coordinator");
    begin();
    idle = false;
    message(WIRE_ROUND, &m);
    has_str(done, " a round began while the last one was not over 0;", "the agent ends");
    is_int(agent.round, ROUND, "a round does not begin before the last one is over");
}

static void test_starts(void) {
    static const struct {
        int inputs_round;
        const char *reason;
        bool starts;
        const char *want;
    } cases[] = {{ROUND, "no file", true, "send FAILED 5 no file 1;"},
                 {ROUND - 1, "no file", true, "start 5;"},
                 {ROUND, "", true, "start 5;"},
                 {-1, "", false, "start 5;send FAILED 5 no process 1;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        begin();
        starts = cases[i].starts;
        agent.inputs_round = cases[i].inputs_round;
        snprintf(agent.inputs_reason, sizeof agent.inputs_reason, "%s", cases[i].reason);
        agent_start_round(&agent);
        snprintf(want, sizeof want, "hold;copies_env;%sstuck_watch;", cases[i].want);
        is_done(want, "workers start, or it is known why not");
        is_int(agent.round_failed, strstr(want, "FAILED") != NULL, "the round fails without them");
    }
}

static void test_store(void) {
    begin();
    agent.store_next = (struct store_server *)(void *)&stores_open;
    stores_open = 1;
    is_int(agent_open_store(&agent, &fault), 5100, "the next store has a port of its own");
    is_done("store 10.0.0.1 0;", "the store listens on the node's address");
    is_int(stores_open, 1, "the store before it is closed");
    local_store = 1;
    is_int(agent_open_store(&agent, &fault), 5100, "a node behind NAT has a store");
    is_done("store 10.0.0.1 0;store all 0;", "the store listens on all addresses then");
    local_store = 0;
    config.store_at_endpoint = true;
    is_int(agent_open_store(&agent, &fault), 5100, "a node that follows has a port of its own");
    config.store_at_endpoint = false;
    agent.coordinator = (struct coordinator *)(void *)&agent;
    is_int(agent_open_store(&agent, &fault), 5100,
           "a coordinator without a static start has one, too");
    local_store = 1;
    config.store_at_endpoint = true;
    agent.coordinator = (struct coordinator *)(void *)&agent;
    is_int(agent_open_store(&agent, &fault), -1, "a shared port has no other address");
    local_store = 0;
    is_int(agent_open_store(&agent, &fault), 4100,
           "the store of the coordinator has the agents' port");
}

// The milliseconds of the last event are few.
static void is_soon(void) {
    const char *ms = strstr(strbuf_cstr(&agent.events.line), "\"ms\":");
    long long value = ms ? strtoll(ms + strlen("\"ms\":"), NULL, 10) : -1;
    ok(value >= 0 && value < 30000, "the event has its time");
}

static void test_started(void) {
    begin();
    workers[0].pid = 41;
    workers[1].pid = 42;
    agent.round_ms = clock_mono_ms();
    agent_workers_table.on_started(&agent.workers);
    is_done("write_status;let go;", "workers run");
    is_event("\"round\":5,\"attempt\":5,\"pids\":[41,42],");
    is_soon();
}

// ---- exits --------------------------------------------------------------------------------------

static void test_exits(void) {
    static const char fails[] = "send FAILED 5 bad 3;state rank 7 failed;stop 15 3000;";
    static const struct {
        int status;
        bool stopping, stopped, lease_ended, notice, stop_requested, over, failed, sent;
        const char *want;
    } cases[] = {
        {.want = "send DONE 5;state the workers of this node are done;"},
        {.sent = true, .want = ""},
        {.failed = true, .want = ""},
        {.stop_requested = true, .want = ""},
        {.status = FAILED_EXIT, .want = fails},
        {.status = SIGKILL, .want = fails},
        {.status = FAILED_EXIT, .notice = true, .want = ""},
        {.status = FAILED_EXIT, .stop_requested = true, .want = ""},
        {.status = FAILED_EXIT, .over = true, .want = ""},
        {.status = FAILED_EXIT, .stopping = true, .stopped = true, .want = ""},
        {.status = FAILED_EXIT, .stopping = true, .want = "send FAILED 5 bad 3;stop 15 3000;"},
        {.status = SIGKILL, .lease_ended = true, .want = ""},
        {.lease_ended = true, .want = ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        idle = false;
        notice = cases[i].notice;
        agent.stop_requested = cases[i].stop_requested;
        agent.over = cases[i].over;
        agent.round_failed = cases[i].failed;
        agent.done_sent = cases[i].sent;
        agent.workers.stopping = cases[i].stopping;
        workers[0].ended = workers[1].ended = true;
        workers[1].status = cases[i].status;
        workers[1].stopped = cases[i].stopped;
        workers[1].lease_ended = cases[i].lease_ended;
        agent_workers_table.on_exited(&agent.workers, &workers[1]);
        is_done(cases[i].want, arena_printf(&agent.round_texts, "exit %zu has its effect", i));
        ok(agent.round_failed ==
               (cases[i].failed || cases[i].lease_ended || strstr(cases[i].want, "FAILED")),
           "exit %zu fails the round, or does not", i);
    }
    begin();
    workers[0].ended = true;
    agent_workers_table.on_exited(&agent.workers, &workers[0]);
    is_done("", "a worker that ends before the others ends nothing");
    is_event("\"status\":0,");
    workers[1].ended = true;
    agent_workers_table.on_exited(&agent.workers, &workers[1]);
    agent_workers_table.on_exited(&agent.workers, &workers[1]);
    is_done("send DONE 5;state the workers of this node are done;", "the end is sent once");
    workers[1] = (struct worker){
        .rank = 7, .local_rank = 1, .pid = 42, .ended = true, .status = SIGTERM, .text = "t"};
    workers[1].started_mono_ms = 100, workers[1].ended_mono_ms = 350, workers[1].dir = "/d";
    agent.stop_requested = true;
    agent_workers_table.on_exited(&agent.workers, &workers[1]);
    is_event("\"rank\":7,\"local_rank\":1,\"pid\":42,\"status\":143,\"signal\":\"SIGTERM\","
             "\"ms\":250,\"reason\":\"t\",\"log\":\"attempt_5/1\"");
    workers[1].status = -1;
    workers[1].started_mono_ms = 0;
    agent_workers_table.on_exited(&agent.workers, &workers[1]);
    is_event("\"status\":127,");
    is_event("\"ms\":0,");
}

static void test_gone(void) {
    static const struct {
        bool over, leaving, rejoin, stop, failed, joined, stopping;
        const char *want;
    } cases[] = {
        {.over = true, .want = "maybe_leave_loop;"},
        {.over = true, .leaving = true, .want = "send STOPPED 5 0;maybe_leave_loop;"},
        {.rejoin = true, .stop = true, .want = "link_join;"},
        {.stop = true, .want = "store 10.0.0.1 0;state ;send STOPPED 5 5100;"},
        {.failed = true, .joined = true, .want = "lost this agent was stopped for too long 0;"},
        {.failed = true, .joined = true, .stopping = true, .want = ""},
        {.failed = true, .want = ""},
        {.joined = true, .want = ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        agent.over = cases[i].over;
        agent.leaving = cases[i].leaving;
        agent.rejoin = cases[i].rejoin;
        agent.stop_requested = cases[i].stop;
        agent.round_failed = cases[i].failed;
        agent.joined = cases[i].joined;
        agent.workers.stopping = cases[i].stopping;
        agent_round_gone(&agent);
        is_done(cases[i].want, arena_printf(&agent.round_texts, "end %zu has its effect", i));
        ok(!agent.rejoin && (!agent.stop_requested || cases[i].rejoin), "no order is left");
    }
    begin();
    agent.workers.stopping = true;
    agent.stop_ms = clock_mono_ms();
    agent_workers_table.on_gone(&agent.workers, 3);
    is_done("clear;devices_wait;", "nothing of the round is left");
    is_event("\"orphans\":3");
    is_soon();
    agent.workers.stopping = false;
    agent_workers_table.on_gone(&agent.workers, 0);
    is_event("\"ms\":0,\"orphans\":0");
}

// ---- stops and other messages -------------------------------------------------------------------

static void test_stops(void) {
    const struct wire_msg m = {.round = ROUND,
                               .signal = SIGINT,
                               .grace_ms = 900,
                               .restarts = 2,
                               .crashes = 1,
                               .reason = "why"};
    begin();
    message(WIRE_STOP, &(struct wire_msg){.round = ROUND - 1});
    is_done("", "a stop of another round is ignored");
    idle = false;
    message(WIRE_STOP, &m);
    is_done("counters 5 2 1;state why;stop 2 900;", "workers are stopped");
    is_event("\"round\":5,\"reason\":\"why\",\"signal\":\"SIGINT\",\"grace_ms\":900");
    agent_stop_workers(&agent, SIGKILL, 0, "again");
    is_done("stop 9 0;", "a second stop has no event");
    waits_for_devices = idle = true;
    message(WIRE_STOP, &m);
    is_done("counters 5 2 1;", "devices are waited for");
    ok(agent.stop_requested && !agent.stop_final, "the stop is kept");
    waits_for_devices = false;
    message(WIRE_STOP, &m);
    is_done("counters 5 2 1;store 10.0.0.1 0;state why;send STOPPED 5 5100;",
            "without workers the answer comes at once");
    begin();
    struct wire_msg last = m;
    last.final = 1;
    message(WIRE_STOP, &last);
    is_done("counters 5 2 1;send STOPPED 5 0;", "the last stop needs no other store");
    agent_stop_workers(&agent, SIGKILL, 0, "again");
    is_done("", "without workers there is nothing to stop");
    begin();
    agent.coordinator = (struct coordinator *)(void *)&agent;
    config.store_at_endpoint = true;
    local_store = 1;
    message(WIRE_STOP, &m);
    has_str(done, " no port 0;", "an agent without a store ends");
}

static void test_messages(void) {
    struct wire_node nodes[] = {{.address = "10.0.0.1"}, {.address = "name"}, {.address = "::1"}};
    begin();
    agent.joined = false;
    message(WIRE_WAITING, &(struct wire_msg){.present = 1});
    is_done("lost it gave orders before it let this agent join 0;", "orders come too early");
    message(WIRE_JOINED, &(struct wire_msg){.name = "n5", .session = 8, .present = 3});
    is_done("link_beat;write_status;notice_joined;", "another coordinator takes the agent in");
    is_event("\"peer\":\"n5\",\"reason\":\"n0\"");
    ok(agent.joined && agent.session.id == 8 && agent.present == 3, "the session has its number");
    message(WIRE_JOINED, &(struct wire_msg){.name = "n5"});
    is_event("\"coordinator\":\"n5\"");
    done[0] = '\0';
    agent.joined = takes_in = false;
    message(WIRE_JOINED, &(struct wire_msg){.name = "n5"});
    is_done("", "an agent that has voted since is not taken in");
    agent.joined = true;
    message(WIRE_ALLOW, &(struct wire_msg){.nodes = nodes, .node_count = 3});
    is_done("", "without a store none is allowed");
    agent.store_next = (struct store_server *)(void *)&stores_open;
    message(WIRE_ALLOW, &(struct wire_msg){.nodes = nodes, .node_count = 3});
    is_done("allow 2;", "numeric addresses are allowed");
    agent.state = NODE_JOINING;
    message(WIRE_WAITING, &(struct wire_msg){.present = 1, .expected = 2, .reason = "r"});
    is_event("\"present\":1,\"expected\":2,\"reason\":\"r\"");
    done[0] = '\0';
    message(WIRE_FINISH, &(struct wire_msg){.state = NODE_STOPPED, .reason = "r"});
    is_str(done, arena_printf(&agent.round_texts, "end %d r 0;", (int)NODE_STOPPED),
           "an end without failures has none");
    done[0] = '\0';
    struct worker_failure f[] = {{.message = "bad"}, {.message = "worse"}};
    message(
        WIRE_FINISH,
        &(struct wire_msg){
            .state = NODE_STOPPED, .round = 4, .reason = "r", .failures = f, .failure_count = 1});
    is_str(done, arena_printf(&agent.round_texts, "failure bad 4 1;end %d r 1;", (int)NODE_STOPPED),
           "the end has its failure");
    done[0] = '\0';
    agent.coordinator = (struct coordinator *)(void *)&agent;
    message(WIRE_FINISH,
            &(struct wire_msg){.state = NODE_JOINING, .failures = f, .failure_count = 1});
    is_str(done, arena_printf(&agent.round_texts, "end %d  1;", (int)NODE_FAILED),
           "an end of another kind is a failure, which the coordinator has recorded");
    done[0] = '\0';
    agent.over = true;
    message(WIRE_FINISH, &(struct wire_msg){.state = NODE_STOPPED});
    is_done("", "after its end an agent takes no order");
}

int main(void) {
    test_round();
    test_starts();
    test_store();
    test_started();
    test_exits();
    test_gone();
    test_stops();
    test_messages();
    events_close(&agent.events);
    arena_fini(&agent.round_texts);
    arena_fini(&agent.workers.arena);
    return done_testing();
}
