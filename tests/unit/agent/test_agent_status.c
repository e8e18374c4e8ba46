// SPDX-License-Identifier: Apache-2.0
// The status of an agent as a file, the change of coordinators, and reports of the server of
// streamed inputs. The coordinator and the rest of the agent are stand-ins.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DAY_MS = 1000000000, GRACE_MS = 7000, WAIT_MS = 10000 };

static struct err fault;
static struct arena arena;
static struct loop *test_loop;
static struct agent agent;
static struct agent_config config;
static struct worker workers[4];
static char root[] = "/tmp/test_agent_status.XXXXXX";
static struct rendezvous_member members[5];
static bool is_member[5];
static const struct coordinator_events *table;
static struct coordinator_config led;
static struct rendezvous_history led_after;
static struct electorate current;
static bool opens_local;

#define COORDINATOR ((struct coordinator *)(void *)&led)

// ---- stand-ins ----------------------------------------------------------------------------------

const struct rendezvous *coordinator_rendezvous(const struct coordinator *c) {
    return (const struct rendezvous *)(const void *)c;
}

void *coordinator_ctx(const struct coordinator *c) {
    (void)c;
    return &agent;
}

struct coordinator *coordinator_open(struct loop *loop, const struct coordinator_config *c,
                                     const struct rendezvous_history *history, struct events *log,
                                     const struct coordinator_events *events, void *ctx) {
    if (loop != test_loop || log != &agent.events || ctx != &agent)
        bail_out("another coordinator");
    note("lead;");
    led = *c;
    led_after = *history;
    table = events;
    return COORDINATOR;
}

void coordinator_close(struct coordinator *c) {
    note("close %s;", c ? "coordinator" : "none");
}

void coordinator_depose(struct coordinator *c) {
    (void)c;
    note("depose;");
}

void coordinator_election_peers(const struct coordinator *c, struct election_peer *peers,
                                int count) {
    (void)c;
    for (int i = 0; i < count; i++)
        peers[i] = (struct election_peer){.incarnation = 20 + i};
}

int rendezvous_member_count(const struct rendezvous *r) {
    int count = 0;
    (void)r;
    for (int i = 0; i < 5; i++)
        count += is_member[i];
    return count;
}

const struct rendezvous_member *rendezvous_member(const struct rendezvous *r, int id) {
    (void)r;
    return id < 5 && is_member[id] ? &members[id] : NULL;
}

const struct electorate *rendezvous_electorate(const struct rendezvous *r) {
    (void)r;
    return &current;
}

void rendezvous_counters(const struct rendezvous *r, struct election_counters *out) {
    (void)r;
    *out = (struct election_counters){4, 5, 6};
}

const char *rendezvous_reason(const struct rendezvous *r) {
    (void)r;
    return "why";
}

void election_merge_counters(struct election *e, const struct election_counters *c) {
    (void)e;
    note("counters %d %d %d;", c->attempt, c->restarts, c->crashes);
}

void election_set_electorate(struct election *e, int64_t now, const struct electorate *electorate,
                             const struct election_peer *peers, int peer_count, int total) {
    (void)e;
    note("electorate %d %d %d %d;", now == clock_mono_ms() && electorate == &current, peer_count,
         total, (int)peers[peer_count - 1].incarnation);
}

void agent_elect_answer(struct agent *a, struct channel *l, const struct net_address *from,
                        const struct wire_msg *m) {
    (void)a, (void)l, (void)from, (void)m;
    note("answer;");
}

void agent_elect_probe(struct agent *a, const struct election_peer *peer) {
    (void)a;
    note("probe %d;", (int)peer->incarnation);
}

void agent_link_close(struct agent *a, const char *why) {
    (void)a;
    note("hang up: %s;", why);
}

int agent_link_open_local(struct agent *a, struct err *e) {
    (void)a;
    note("connect;");
    return opens_local ? 0 : err_set(e, ERR_SYS, "no socket pair");
}

void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    (void)a;
    note("lost %d: %s;", (int)silent_ms, why);
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    (void)a;
    note("end %d: %s;", state == NODE_FAILED && !failures && !count, reason);
}

void agent_maybe_leave_loop(struct agent *a) {
    (void)a;
    note("leave;");
}

void agent_request_stop(struct agent *a, const char *reason, int signal, int64_t grace_ms) {
    (void)a;
    note("stop %d %d: %s;", signal, (int)grace_ms, reason);
}

// ---- an agent -----------------------------------------------------------------------------------

static void begin(void) {
    timer_stop(&agent.members_due);
    timer_stop(&agent.drop);
    events_close(&agent.events);
    config = (struct agent_config){.run = "r1",
                                   .run_name = "a run",
                                   .name = "n1",
                                   .node_rank = 3,
                                   .run_dir = root,
                                   .created_ms = 5,
                                   .agent_starts = 2,
                                   .coordinator = {.shutdown_timeout_ms = GRACE_MS}};
    agent = (struct agent){.config = &config,
                           .loop = test_loop,
                           .state = NODE_RUNNING,
                           .round = 4,
                           .restarts = 1,
                           .max_restarts = 3,
                           .expected = 8,
                           .leader = "n0"};
    memset(is_member, 0, sizeof is_member);
    if (events_open(&agent.events, NULL, "n1", &fault) < 0)
        bail_out("%s", fault.text);
    opens_local = true;
    done[0] = '\0';
}

static const char *status(void) {
    const char *path = file_join(&arena, root, "status.json");
    char *text;
    size_t len;
    if (file_read(&arena, path, 65536, &text, &len, &fault) < 0)
        return "absent";
    unlink(path);
    return text;
}

// ---- the file -----------------------------------------------------------------------------------

static void test_file(void) {
    begin();
    agent_set_state(&agent, NODE_JOINING, "waits");
    is_str(status(),
           arena_printf(&arena,
                        "{\"run\":\"r1\",\"name\":\"a run\",\"node\":\"n1\",\"node_rank\":3,"
                        "\"nnodes\":8,\"state\":\"joining\",\"pid\":%d,\"round\":4,\"restarts\":1,"
                        "\"max_restarts\":3,\"agent_starts\":2,\"reason\":\"waits\","
                        "\"exit_status\":null,\"created_ms\":5,\"updated_ms\":%d,"
                        "\"coordinator\":false,\"workers\":[]}\n",
                        (int)getpid(), DAY_MS),
           "the status has everything");
    agent.group_world = 2;
    agent.exit_status = 7;
    agent_set_state(&agent, NODE_FAILED, agent.reason);
    const char *text = status();
    has_str(text, "\"state\":\"waiting\",", "no state is final before the run has ended here");
    has_str(text, "\"exit_status\":null", "there is no exit status before");
    agent.ended = true;
    agent_write_status(&agent);
    text = status();
    has_str(text, "\"nnodes\":2,\"state\":\"failed\"", "a round has its number of nodes");
    has_str(text, "\"reason\":\"waits\",\"exit_status\":7", "a final state has an exit status");
    config.run_dir = NULL;
    agent_write_status(&agent);
    is_str(status(), "absent", "an agent that was started by hand writes no status");
    config.run_dir = "/dev/null";
    agent_write_status(&agent);
    pass("a status that cannot be written is no failure");
}

static void test_workers(void) {
    begin();
    workers[0] = (struct worker){.rank = 6, .local_rank = 0, .pid = 50, .running = true};
    workers[1] = (struct worker){.rank = 7, .local_rank = 1};
    workers[2] = (struct worker){.rank = 8, .local_rank = 2, .ended = true, .status = 3 << 8};
    workers[3] = (struct worker){.rank = 9, .local_rank = 3, .ended = true, .status = SIGKILL};
    agent.workers.list = workers;
    agent.workers.count = 4;
    agent_write_status(&agent);
    const char *text = status();
    has_str(text,
            "\"workers\":[{\"local_rank\":0,\"rank\":6,\"pid\":50,\"state\":\"running\","
            "\"status\":null,\"signal\":null},{\"local_rank\":1,\"rank\":7,\"pid\":0,"
            "\"state\":\"starting\",\"status\":null,\"signal\":null}",
            "workers that run or start have no status");
    has_str(text, "\"state\":\"exited\",\"status\":3,\"signal\":null}", "a worker has its status");
    has_str(text, "\"state\":\"exited\",\"status\":137,\"signal\":\"SIGKILL\"}",
            "a killed worker has its signal");
    workers[0].ended = true;
    workers[0].status = -1;
    agent_write_status(&agent);
    has_str(status(), "\"state\":\"exited\",\"status\":127,\"signal\":null}",
            "a worker that was not started has the shell's status");
    workers[0].status = 0;
    agent_write_status(&agent);
    has_str(status(), "\"state\":\"exited\",\"status\":0,\"signal\":null}", "success is zero");
    workers[0].status = SIGHUP;
    agent_write_status(&agent);
    has_str(status(), "\"state\":\"exited\",\"status\":129,\"signal\":\"SIGHUP\"}",
            "the first of all signals is one");
}

static void test_members(void) {
    begin();
    agent.coordinator = COORDINATOR;
    for (int i = 0; i < 4; i++) {
        members[i + 1] =
            (struct rendezvous_member){.node_rank = i, .state = (enum rendezvous_state)i};
        snprintf(members[i + 1].name, sizeof members[i + 1].name, "n%d", i);
        is_member[i + 1] = i != 1;
    }
    agent_write_status(&agent);
    has_str(status(),
            "\"coordinator\":true,\"members\":[{\"name\":\"n0\",\"node_rank\":0,\"state\":"
            "\"waiting\"},{\"name\":\"n2\",\"node_rank\":2,\"state\":\"done\"},{\"name\":"
            "\"n3\",\"node_rank\":3,\"state\":\"stopping\"}]",
            "the coordinator's status has all members");
    is_member[2] = true;
    agent_write_status(&agent);
    has_str(status(), "\"state\":\"running\"}", "members have their states");
}

static void test_soon(void) {
    begin();
    agent_write_status_soon(&agent);
    agent_write_status_soon(&agent);
    is_str(status(), "absent", "the status is written later");
    loop_once(test_loop, 0);
    ok(strcmp(status(), "absent") != 0, "the status is written after the callbacks");
    agent_write_members_soon(&agent);
    clock_turn(test_loop, 99);
    agent_write_members_soon(&agent);
    is_str(status(), "absent", "changes of members are collected");
    clock_turn(test_loop, 1);
    ok(strcmp(status(), "absent") != 0, "members are written 100 ms after the first change");
    agent_write_members_soon(&agent);
    agent_write_status(&agent);
    status();
    clock_turn(test_loop, 200);
    is_str(status(), "absent", "a status has the members");
    agent_write_members_soon(&agent);
    agent.state = NODE_FINISHED;
    clock_turn(test_loop, 200);
    is_str(status(), "absent", "a final status is the last one");
}

// ---- coordinators -------------------------------------------------------------------------------

static void test_lead(void) {
    struct election_action action = {
        .term = 8, .not_before_ms = 9, .exclusive_until_ms = 10, .counters = {-1, 0, 0}};
    begin();
    agent.election.config.incarnation = 11;
    agent.coordinator_idle = true;
    agent_lead_take_over(&agent, &action);
    is_done("hang up: its agent coordinates now;close none;lead;connect;",
            "an agent becomes the coordinator, and its own member");
    ok(led.rendezvous.incarnation == 11 && led.admission == &agent.admission &&
           led.shutdown_timeout_ms == GRACE_MS && led_after.term == 8 &&
           led_after.not_before_ms == 9 && led_after.exclusive_until_ms == 10 &&
           led_after.counters.attempt == -1 && led_after.electorate == &agent.election.electorate &&
           agent.coordinator == COORDINATOR && !agent.coordinator_idle,
       "the coordinator continues from the election");
    opens_local = false;
    agent_lead_take_over(&agent, &action);
    is_done("hang up: its agent coordinates now;close coordinator;lead;connect;end 1: no socket "
            "pair;",
            "an agent without a connection to itself has failed");
    agent_lead_drop(&agent);
    is_done("depose;", "a coordinator is deposed at once");
    ok(agent.coordinator, "the coordinator stays until its callbacks have returned");
    loop_once(test_loop, 0);
    is_done("close coordinator;", "the coordinator is closed after that");
    ok(!agent.coordinator, "the agent coordinates no more");
}

static void test_events(void) {
    struct voter voters[3] = {{.incarnation = 20}};
    struct election_peer peer = {.incarnation = 23};
    begin();
    agent.coordinator = COORDINATOR;
    current = (struct electorate){.voters = voters, .count = 3};
    table->on_round(COORDINATOR);
    is_done("counters 4 5 6;electorate 1 3 3 22;", "this agent learns of a round first");
    table->on_deposed(COORDINATOR, "because");
    is_done("lost 0: because;", "a deposed coordinator is lost");
    table->on_ask(COORDINATOR, NULL, NULL, NULL);
    table->on_disconnected(COORDINATOR, &peer);
    is_done("answer;probe 23;", "requests and probes are the election's");
    table->on_members(COORDINATOR);
    ok(agent.members_due.loop, "members are written soon");
    table->on_idle(COORDINATOR);
    is_done("end 1: why;leave;", "the end of the coordinator is the end of its agent");
    ok(agent.coordinator_idle, "the coordinator is idle");
    agent.over = true;
    table->on_idle(COORDINATOR);
    is_done("leave;", "an agent ends once");
}

// ---- streamed inputs ----------------------------------------------------------------------------

static int server; // the connection of the agent
static int listening;

static void serve(void) {
    struct pollfd p = {.fd = listening, .events = POLLIN};
    server = poll(&p, 1, WAIT_MS) == 1 ? accept(listening, NULL, NULL) : -1;
    if (server < 0)
        bail_out("no connection");
}

static void turn(void) {
    for (int i = 0; i < 5; i++)
        loop_once(test_loop, 0);
}

static void report(const char *text) {
    if (write(server, text, strlen(text)) < 0)
        bail_out("no report");
    turn();
}

static void has_event(const char *want) {
    has_str(strbuf_cstr(&agent.events.line), want, "the event has %s", want);
}

static void test_reports(void) {
    report("{\"what\":\"first\",\"input\":\"set\",\"ms\":12}\n");
    has_event("\"kind\":\"stream\",\"what\":\"first\",\"input\":\"set\",\"ms\":12}");
    report("{\"what\":\"whole\",\"input\":\"set\",\"bytes\":5,\"left_ms\":6}\n");
    has_event("\"what\":\"whole\",\"input\":\"set\",\"bytes\":5,\"left_ms\":6}");
    report("{\"what\":\"failed\",\"te");
    report("xt\":\"gone\"}\n[1]\nno json\n");
    has_event("\"what\":\"failed\",\"text\":\"gone\"}");
    is_int(agent.events.seq, 3, "other lines are no events");
    is_done("", "a failure of one object stops nothing");
    report("{\"what\":\"over\"}\n");
    is_done("", "an end without a reason stops nothing");
    report("{\"what\":\"over\",\"text\":\"disk full\"}\n");
    is_done("stop 15 7000: disk full;", "the end of the server is the end of the run");
    char large[8192];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    int64_t before = agent.events.seq;
    report(large);
    report("x{\"what\":\"first\"}\n");
    is_int(agent.events.seq, before + 1, "a line that is too long is left out");
}

static void test_stream(void) {
    const char *path = file_join(&arena, root, "stream.sock");
    char text[16] = "";
    begin();
    is_int(agent_stream_open(&agent, &fault), 0, "streamed inputs are optional");
    agent_stream_close(&agent);
    config.stream_socket = path;
    is_int(agent_stream_open(&agent, &fault), -1, "the server must be there");
    has_str(fault.text, "streamed inputs are not served on this node any more",
            "the error says so");
    listening = net_unix_listen(path, &fault);
    if (listening < 0 || agent_stream_open(&agent, &fault) < 0)
        bail_out("%s", fault.text);
    serve();
    test_reports();
    close(server);
    turn();
    has_event(
        "\"what\":\"restarted\",\"text\":\"the server of streamed inputs was killed, and serves "
        "on\"}");
    serve();
    report("{\"what\":\"whole\"}\n");
    has_event("\"what\":\"whole\"}");
    agent_stream_close(&agent);
    is_int(read(server, text, sizeof text), 4, "the server gets the end of the run");
    is_str(text, "end\n", "the end is a line");
    close(server);
    if (agent_stream_open(&agent, &fault) < 0)
        bail_out("%s", fault.text);
    serve();
    close(listening);
    unlink(path);
    close(server);
    turn();
    has_event("\"what\":\"lost\",\"text\":\"the server of streamed inputs has ended\"}");
    agent_stream_close(&agent);
}

int main(void) {
    test_loop = loop_open(&fault);
    if (!test_loop || !mkdtemp(root))
        bail_out("no loop or folder: %s", fault.text);
    clock_stop();
    clock_day_ms = DAY_MS;
    test_file();
    test_workers();
    test_members();
    test_soon();
    test_lead();
    test_events();
    test_stream();
    begin();
    events_close(&agent.events);
    file_remove_tree(root, &fault);
    loop_close(test_loop);
    arena_fini(&arena);
    return done_testing();
}
