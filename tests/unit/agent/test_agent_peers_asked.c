// SPDX-License-Identifier: Apache-2.0
// Requests of other agents, reports of the coordinator, and the actions of the election. All else
// is a stand-in.
#include "tests/unit/agent/peers_fake.h"

// ---- requests of others -------------------------------------------------------------------------

static struct net_address from_host(const char *address) {
    struct net_address out;
    if (net_resolve(address, 4700, &out, &fault) < 0)
        bail_out("%s", fault.text);
    return out;
}

static int descriptor(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bail_out("no socket");
    return fd;
}

static void test_requested(void) {
    struct net_address from = from_host("10.0.0.2");
    struct channel link = {0};
    begin();
    opened = &link;
    reply = (struct election_response){.kind = REQUEST_PREVOTE,
                                       .request_term = 41,
                                       .term = 42,
                                       .granted = true,
                                       .incarnation = OWN,
                                       .age_ms = 43,
                                       .leader_term = 44,
                                       .leader = peer_at("10.0.0.3", 4300),
                                       .counters = {7, 8, 9}};
    struct wire_msg m = {.type = WIRE_ASK,
                         .kind = REQUEST_VOTE,
                         .term = 45,
                         .round_term = 46,
                         .round = 47,
                         .incarnation = 23,
                         .name = "n3",
                         .address = "127.0.0.1",
                         .port = 4301};
    actions[action_count++] = (struct election_action){.kind = ELECTION_RESUME};
    agent_elect_answer(&agent, &link, &from, &m);
    is_done("requested 1;send ANSWER;resume;", "a request is answered, then come actions");
    ok(requested.kind == REQUEST_VOTE && requested.term == 45 && requested.round_term == 46 &&
           requested.round == 47,
       "the request has the fields of the message");
    ok(is_peer(&requested.from, 23, "n3", "10.0.0.2", 4301),
       "the request has its sender at the address of its host");
    ok(sent.kind == REQUEST_PREVOTE && sent.seq == 41 && sent.term == 42 && sent.granted == 1 &&
           sent.unaffiliated == 0 && sent.incarnation == OWN && sent.age_ms == 43 &&
           sent.leader_term == 44 && sent.leader == 22 && sent.port == 4300 && sent.attempt == 7 &&
           sent.restarts == 8 && sent.crashes == 9,
       "the answer has the fields of the response");
    static const int kinds[] = {REQUEST_STATUS - 1, REQUEST_STATUS, REQUEST_ANNOUNCE,
                                REQUEST_ANNOUNCE + 1};
    for (int i = 0; i < 4; i++) {
        m.kind = kinds[i];
        agent_elect_answer(&agent, &link, &from, &m);
        is_done(i % 3 ? "requested 1;send ANSWER;" : "", "kinds of requests have bounds");
    }
    m.kind = REQUEST_VOTE;
    agent.over = true;
    agent_elect_answer(&agent, &link, &from, &m);
    is_done("", "after its end an agent answers nothing");
    end();
}

static void test_adopt(void) {
    enum { IDLE_MS = 10000 };
    static const struct wire_msg ask = {.type = WIRE_ASK, .name = "n3", .address = ""};
    struct net_address from = from_host("10.0.0.2");
    begin();
    agent_elect_adopt(&agent, descriptor(), &from);
    is_done("open from;", "a connection is taken");
    is_int(agent.admission.count, 1, "the connection takes a place of newcomers");
    opened->events->on_ready(opened);
    clock_turn(test_loop, IDLE_MS - 1);
    opened->events->on_message(opened, &ask);
    clock_turn(test_loop, IDLE_MS - 1);
    is_done("requested 1;send ANSWER;", "each question keeps the connection");
    clock_turn(test_loop, 1);
    is_done("close;", "a silent connection ends");
    is_int(agent.admission.count, 0, "the place of the connection is free");
    static const enum wire_type others[] = {WIRE_JOIN, WIRE_RESUME, WIRE_BEAT};
    for (int i = 0; i < 3; i++) {
        agent_elect_adopt(&agent, descriptor(), &from);
        done[0] = '\0';
        opened->events->on_message(opened, &(struct wire_msg){.type = others[i]});
        is_done(i < 2 ? "refuse this agent does not coordinate;close;" : "",
                "an agent that does not coordinate refuses to be joined");
    }
    opened->events->on_end(opened, &(struct err){.code = ERR_NONE});
    is_done("close;", "the end of the connection is the end of its place");
    is_int(agent.admission.count, 0, "no place is taken");
    opens = false;
    int fd = descriptor();
    agent_elect_adopt(&agent, fd, &from);
    is_done("open from;", "a channel of another agent may be refused");
    ok(close(fd) < 0 && errno == EBADF && agent.admission.count == 0,
       "the descriptor is closed, no place is taken");
    opens = true;
    for (int i = 0; i < 3; i++) // of one host there may be half as many as newcomers at all
        agent_elect_adopt(&agent, descriptor(), &from);
    is_done("open from;open from;open from;close;", "a newcomer replaces the oldest one");
    end();
    is_done("close;close;end;", "the end closes all connections of others");
}

// ---- reports of the coordinator -----------------------------------------------------------------

static void test_round(void) {
    struct wire_node nodes[] = {
        {.name = "n0", .address = "127.0.0.1", .incarnation = 20, .port = 4000, .rounds = 1},
        {.name = "n1", .address = "10.0.0.1", .incarnation = OWN, .port = 4100, .rounds = 2},
        {.name = "n2", .address = "10.0.0.2", .incarnation = 22, .port = 4200, .rounds = 7}};
    struct wire_msg m = {.type = WIRE_ROUND,
                         .round_term = 51,
                         .round = 52,
                         .committed = 1,
                         .tie_breaker = 53,
                         .tie_breaker_last = 54,
                         .attempt = 55,
                         .restarts = 56,
                         .crashes = 57,
                         .members = 9,
                         .nodes = nodes,
                         .node_count = 3};
    begin();
    agent_elect_round(&agent, &m);
    is_done("self n1 10.0.0.1:4100;counters 52 56 57;electorate 1;",
            "a round has the number of attempts and this agent's own address");
    ok(rounds.term == 51 && rounds.round == 52 && rounds.committed && rounds.tie_breaker == 53 &&
           rounds.tie_breaker_last == 54 && rounds.count == 3 && peers_count == 3 && members == 9,
       "the electorate has the fields of the message");
    ok(voters[0].incarnation == 20 && voters[0].rounds == 1 && !voters[0].dead &&
           voters[1].incarnation == OWN && voters[1].rounds == 2 && !voters[1].dead &&
           voters[2].rounds == 3 && voters[2].dead,
       "voters have their rounds and deaths");
    ok(is_peer(&electors[0], 20, "n0", "10.0.0.9", 4000) &&
           is_peer(&electors[2], 22, "n2", "10.0.0.2", 4200),
       "a loopback address of the electorate is the coordinator's");
    m.committed = 0;
    m.node_count = 0;
    m.type = WIRE_JOINED;
    agent_elect_round(&agent, &m);
    is_done("counters 55 56 57;electorate 1;", "another message has the count of attempts");
    ok(!rounds.committed && rounds.count == 0 && peers_count == 0, "an electorate may be empty");
    end();
}

static void test_joined(void) {
    struct wire_msg m = {
        .type = WIRE_JOINED, .term = 6, .incarnation = 29, .name = "n9", .attempt = 3};
    begin();
    agent.join_ms = 77;
    actions[action_count++] = (struct election_action){.kind = ELECTION_RESUME};
    ok(agent_elect_joined(&agent, &m), "a coordinator is joined");
    is_done("joined 1 77 6;counters 3 0 0;electorate 1;resume;",
            "the electorate and actions follow the joining");
    ok(is_peer(&told, 29, "n9", "10.0.0.9", 4900),
       "the leader has its name and the address of the connection");
    joins = false;
    ok(!agent_elect_joined(&agent, &m), "a coordinator of the past is not joined");
    is_done("joined 1 77 6;lost 0: it is not the coordinator any more;",
            "a coordinator of the past is given up");
    end();
}

// ---- actions ------------------------------------------------------------------------------------

static void test_actions(void) {
    static const struct {
        enum election_action_kind kind;
        bool dead;
        const char *want;
    } cases[] = {{ELECTION_NONE, false, ""},
                 {ELECTION_CONNECT, false, "connect 10.0.0.5;"},
                 {ELECTION_RESUME, false, "resume;"},
                 {ELECTION_TAKE_OVER, false, "take over 61;"},
                 {ELECTION_LEADER_LOST, false, "lost 62: it is silent;"},
                 {ELECTION_LEADER_LOST, true, "lost 62: its agent died;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        actions[action_count++] = (struct election_action){.kind = cases[i].kind,
                                                           .peer = peer_at("10.0.0.5", 4500),
                                                           .term = 61,
                                                           .silent_ms = 62,
                                                           .dead = cases[i].dead};
        agent_elect_pump(&agent);
        is_done(cases[i].want, "the election has an action");
    }
}

static void test_timer(void) {
    begin();
    deadline_ms = clock_mono_ms() + 200;
    agent_elect_pump(&agent);
    clock_turn(test_loop, 199);
    is_done("", "before its time the election does nothing");
    deadline_ms = INT64_MAX;
    clock_turn(test_loop, 1);
    is_done("tick 1;", "the election ticks at its time");
    ok(!agent.elect.loop, "without a deadline there is no timer");
    deadline_ms = clock_mono_ms() - 5;
    agent_elect_pump(&agent);
    is_int(agent.elect.due_ms, clock_mono_ms(), "a deadline that has passed is due now");
    agent.over = true;
    loop_once(test_loop, 0);
    is_done("", "after its end an agent has no elections");
    ok(!agent.elect.loop, "after its end an agent has no timer");
    actions[action_count++] = (struct election_action){.kind = ELECTION_RESUME};
    agent_elect_pump(&agent);
    is_done("", "after its end an agent has no actions");
    end();
}

static void test_give_up(void) {
    static const char hint[] = " (is that the first node, does dtrun run there, may the port be "
                               "reached?);";
    static const struct {
        int endpoints, round, attempt;
        const char *name, *error;
        bool open, connecting;
        const char *want;
    } cases[] = {{1, -1, -1, NULL, "", false, false, "at 10.0.0.2 port 4200: no answer"},
                 {1, -1, -1, "node-a", "", false, false, "at node-a port 4200: no answer"},
                 {0, -1, -1, NULL, "", false, false, "at this node port 4100: no answer"},
                 {1, -1, -1, NULL, "refused", true, false, "at 10.0.0.2 port 4200: refused"},
                 {1, -1, -1, NULL, "", true, true, "at 10.0.0.2 port 4200: no answer"},
                 {1, -1, -1, NULL, "", true, false, "at 10.0.0.2 port 4200: no greeting"},
                 {1, 0, -1, NULL, "", false, false, NULL},
                 {1, -1, 0, NULL, "", false, false, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[512];
        begin();
        config.endpoint_count = cases[i].endpoints;
        config.endpoints[0].name = cases[i].name;
        agent.election.config.give_up_ms = 30999;
        agent.election.counters.attempt = cases[i].attempt;
        agent.round = cases[i].round;
        agent.link.conn.connecting = cases[i].connecting;
        snprintf(agent.leader, sizeof agent.leader, "n0");
        snprintf(agent.connect_error, sizeof agent.connect_error, "%s", cases[i].error);
        is_open = cases[i].open;
        snprintf(want, sizeof want, "end 1: no coordinator %s%s", cases[i].want, hint);
        actions[action_count++] = (struct election_action){.kind = ELECTION_GIVE_UP};
        agent_elect_pump(&agent);
        is_done(cases[i].want ? want
                              : "end 1: the coordinator (n0) is lost, and no node may continue "
                                "without it or more than half of the nodes of the last round "
                                "(waited 30 s);",
                "an agent gives up");
    }
}

static void test_open(void) {
    begin();
    config.leads = true;
    config.join_timeout_ms = 71;
    config.coordinator.rendezvous =
        (struct rendezvous_config){.silent_ms_max = 72, .lease_ms = 73, .rejoin_timeout_ms = 74};
    config.endpoint_count = 3;
    config.endpoints[1] = (struct agent_endpoint){.host = "fd00::2", .port = 4201, .same = true};
    config.endpoints[2] = (struct agent_endpoint){.host = "10.0.0.3", .port = 4300};
    actions[action_count++] = (struct election_action){.kind = ELECTION_RESUME};
    is_int(agent_elect_open(&agent, &fault), 0, "an election is opened");
    is_done("open 1;self n1 10.0.0.1:4100;seed 10.0.0.2:4200;seed fd00::2:4201;alias;"
            "seed 10.0.0.3:4300;tick 1;resume;",
            "the election gets this agent and all endpoints, and begins");
    ok(opened_with.join_ms_max == 71 && opened_with.silent_ms_max == 72 &&
           opened_with.lease_ms == 73 && opened_with.give_up_ms == 74 &&
           opened_with.may_bootstrap && !opened_with.bootstrap_at_once,
       "the election has the limits of the configuration");
    is_int(opened_with.connect_ms_max, 10000, "a coordinator has 10 s to answer and to greet");
    ok(opened_with.incarnation % 2 == 1 && opened_with.incarnation > 0 &&
           opened_with.incarnation >> AGENT_INCARNATION_BITS == 0,
       "the incarnation is an odd number of 62 bits");
    end();
    begin();
    config.endpoints[0].host = "n0.example";
    is_int(agent_elect_open(&agent, &fault), -1, "an endpoint must be an address");
    is_str(fault.text, "endpoint 'n0.example' is not an address", "the endpoint is named");
    end();
}

int main(void) {
    test_loop = loop_open(&fault);
    if (!test_loop)
        bail_out("no loop: %s", fault.text);
    clock_stop();
    clock_ahead_ms = NOW_MS;
    test_requested();
    test_adopt();
    test_round();
    test_joined();
    test_actions();
    test_timer();
    test_give_up();
    test_open();
    loop_close(test_loop);
    return done_testing();
}
