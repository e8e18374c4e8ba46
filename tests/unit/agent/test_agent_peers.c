// SPDX-License-Identifier: Apache-2.0
// Requests of the election to other agents, and their answers. All else is a stand-in.
#include "tests/unit/agent/peers_fake.h"

#define STATUS(address, port) want_request(address, port, REQUEST_STATUS)

// The election wants one request to be sent; it is, as far as possible.
static void want_request(const char *address, int port, enum election_request_kind kind) {
    actions[action_count++] = (struct election_action){
        .kind = ELECTION_SEND_REQUEST,
        .peer = peer_at(address, port),
        .request = {
            .kind = kind,
            .term = 5,
            .round_term = 4,
            .round = 3,
            .from = {.incarnation = OWN, .name = "n1", .address = "10.0.0.1", .port = 4100}}};
    agent_elect_pump(&agent);
}

// ---- requests -----------------------------------------------------------------------------------

static void test_ask(void) {
    begin();
    want_request("10.0.0.2", 4200, REQUEST_VOTE);
    is_done("open to;", "a request opens a connection");
    is_int(agent.asker_count, 1, "the connection is counted");
    want_request("10.0.0.2", 4200, REQUEST_PREVOTE);
    is_done("", "the request waits for the greeting");
    opened->stage = CHANNEL_READY;
    opened->events->on_ready(opened);
    is_done("send ASK;", "the newest request follows the greeting");
    ok(sent.kind == REQUEST_PREVOTE && sent.term == 5 && sent.round_term == 4 && sent.round == 3 &&
           sent.incarnation == OWN && strcmp(sent.name, "n1") == 0 &&
           strcmp(sent.address, "10.0.0.1") == 0 && sent.port == 4100,
       "the request has the sender, its term and its round");
    want_request("10.0.0.2", 4200, REQUEST_ANNOUNCE);
    is_done("send ASK;", "a later request takes the same connection");
    is_int(sent.kind, REQUEST_ANNOUNCE, "the later request is sent");
    STATUS("10.0.0.2", 4201);
    is_done("open to;", "another port has another connection");
    is_int(agent.asker_count, 2, "both connections are counted");
    end();
    is_done("close;close;end;", "the end closes all connections");
    is_int(agent.asker_count, 0, "no connection is left");
}

static void test_ask_fails(void) {
    begin();
    STATUS("n2.example", 4200);
    is_done("", "a name is not resolved");
    opens = false;
    STATUS("10.0.0.2", 4200);
    is_done("open to;", "a channel may be refused");
    is_int(agent.asker_count, 0, "a refused channel is not counted");
    begin();
    connect_error = ECONNREFUSED;
    STATUS("10.0.0.2", 4200);
    is_done("dead 10.0.0.2:4200 1;", "a host that refuses at once has no agent");
    agent.coordinator = (struct coordinator *)(void *)&agent;
    STATUS("10.0.0.2", 4200);
    is_done("dead 10.0.0.2:4200 1;gone 22: its agent died: no process listens at its port;",
            "this agent's coordinator learns of the death");
    connect_error = ENETUNREACH;
    STATUS("10.0.0.2", 4200);
    is_done("", "an unreachable network proves no death");
    begin();
    agent.asker_count = WIRE_NODES_MAX;
    STATUS("10.0.0.2", 4200);
    is_done("", "connections have a limit");
    agent.asker_count--;
    STATUS("10.0.0.2", 4200);
    is_done("open to;", "the last connection is opened");
    end();
}

static void test_idle(void) {
    enum { IDLE_MS = 3000 };
    begin();
    STATUS("10.0.0.2", 4200);
    clock_turn(test_loop, IDLE_MS - 1);
    STATUS("10.0.0.2", 4200);
    clock_turn(test_loop, IDLE_MS - 1);
    is_done("open to;", "each request keeps the connection");
    clock_turn(test_loop, 1);
    is_done("close;", "a connection without requests ends");
    is_int(agent.asker_count, 0, "the connection is not counted any more");
    end();
}

static void test_probe(void) {
    struct election_peer to = peer_at("10.0.0.2", 4200);
    begin();
    agent.election.term = 8;
    agent.election.electorate.term = 7;
    agent.election.electorate.round = 6;
    agent.election.self = (struct election_peer){.incarnation = OWN, .name = "n1"};
    agent_elect_probe(&agent, &to);
    opened->events->on_ready(opened);
    is_done("open to;send ASK;", "an agent is probed");
    ok(sent.kind == REQUEST_STATUS && sent.term == 8 && sent.round_term == 7 && sent.round == 6 &&
           sent.incarnation == OWN && strcmp(sent.name, "n1") == 0,
       "the probe has the state of the election");
    end();
}

static void test_end_of_connection(void) {
    static const struct {
        int error, code, seeds, peers;
        const char *leader, *want;
    } cases[] = {
        {0, ERR_NONE, 1, 0, "", "note 10.0.0.2: its connection closed;close;"},
        {ETIMEDOUT, ERR_NET, 1, 0, "", "note 10.0.0.2: why;close;"},
        {ECONNREFUSED, ERR_NET, 1, 0, "", "note 10.0.0.2: why;close;dead 10.0.0.2:4200 1;"},
        {ECONNREFUSED, ERR_FAILED, 1, 0, "", "note 10.0.0.2: why;close;"},
        {0, ERR_NONE, 0, 0, "", "close;"},
        {0, ERR_NONE, 1, 1, "", "close;"},
        {0, ERR_NONE, 1, 0, "n0", "close;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election_peer seeds[2] = {peer_at("10.0.0.2", 4200), peer_at("10.0.0.3", 4200)};
        struct err why = {.code = ERR_NONE};
        begin();
        agent.election.peers = seeds;
        agent.election.seed_count = cases[i].seeds;
        agent.election.peer_count = cases[i].peers;
        snprintf(agent.leader, sizeof agent.leader, "%s", cases[i].leader);
        STATUS("10.0.0.2", 4200);
        done[0] = '\0';
        opened->conn.error = cases[i].error;
        if (cases[i].code)
            err_set(&why, (enum err_code)cases[i].code, "why");
        actions[action_count++] = (struct election_action){.kind = ELECTION_RESUME};
        opened->events->on_end(opened, &why);
        size_t len = strlen(cases[i].want);
        ok(strncmp(done, cases[i].want, len) == 0 && strcmp(done + len, "resume;") == 0,
           "end %zu of a connection: %s", i, cases[i].want);
        done[0] = '\0';
        STATUS("10.0.0.3", 4200);
        opened->events->on_end(opened, &why);
        is_done("open to;close;", "the second endpoint is not noted");
        end();
    }
}

// ---- answers ------------------------------------------------------------------------------------

static void test_answer(void) {
    begin();
    STATUS("10.0.0.2", 4200);
    done[0] = '\0';
    struct wire_msg m = {.type = WIRE_ANSWER,
                         .kind = REQUEST_VOTE,
                         .seq = 31,
                         .term = 32,
                         .granted = 1,
                         .incarnation = 22,
                         .age_ms = 33,
                         .leader_term = 34,
                         .leader = 23,
                         .name = "n3",
                         .address = "10.0.0.3",
                         .port = 4300,
                         .attempt = 7,
                         .restarts = 8,
                         .crashes = 9};
    opened->events->on_message(opened, &m);
    is_done("answered 1;", "an answer is handed on");
    ok(answer.kind == REQUEST_VOTE && answer.request_term == 31 && answer.term == 32 &&
           answer.granted && !answer.unaffiliated && answer.incarnation == 22 &&
           answer.age_ms == 33 && answer.leader_term == 34 && answer.counters.attempt == 7 &&
           answer.counters.restarts == 8 && answer.counters.crashes == 9,
       "the answer has the fields of the message");
    ok(is_peer(&answer.leader, 23, "n3", "10.0.0.3", 4300), "the answer has a leader");
    ok(is_peer(&told, 22, "n2", "10.0.0.2", 4200), "the answer has its sender");
    m.granted = 0, m.unaffiliated = 1, m.age_ms = -1, m.address = "127.0.0.1";
    opened->events->on_message(opened, &m);
    ok(!answer.granted && answer.unaffiliated && answer.age_ms == 0,
       "a negative age is taken as zero");
    is_str(answer.leader.address, "10.0.0.2", "a loopback address is the sender's");
    m.address = "";
    opened->events->on_message(opened, &m);
    is_str(answer.leader.address, "", "another leader without an address has none");
    m.leader = 22;
    opened->events->on_message(opened, &m);
    is_str(answer.leader.address, "10.0.0.2", "a sender that leads is where it was asked");
    m.address = "10.0.0.7";
    opened->events->on_message(opened, &m);
    is_str(answer.leader.address, "10.0.0.7", "a sender that leads may have another address");
    done[0] = '\0';
    static const int kinds[] = {REQUEST_STATUS - 1, REQUEST_STATUS, REQUEST_ANNOUNCE,
                                REQUEST_ANNOUNCE + 1};
    for (int i = 0; i < 4; i++) {
        m.kind = kinds[i];
        opened->events->on_message(opened, &m);
        is_done(i % 3 ? "answered 1;" : "", "kinds of answers have bounds");
    }
    m = (struct wire_msg){.type = WIRE_ASK, .kind = REQUEST_STATUS};
    opened->events->on_message(opened, &m);
    is_done("", "a question is no answer");
    end();
}

// Answers from a node of this agent's coordinator.
static void test_answer_to_coordinator(void) {
    static const char another[] = "answered 1;gone 22: its agent died: another one is at its port;";
    static const char away[] = "answered 1;away 22: its agent has given this coordinator up;";
    static const struct {
        bool coordinates, echo;
        int asked, incarnation, leader_term, leader;
        const char *want;
    } cases[] = {
        {true, false, 22, 22, 5, OWN, "answered 1;"}, {true, false, 22, 24, 5, OWN, another},
        {true, false, 22, 22, 0, OWN, away},          {true, false, 22, 22, 5, OWN + 1, away},
        {true, true, 22, 24, 5, OWN, "answered 1;"},  {true, false, 0, 24, 5, OWN, "answered 1;"},
        {false, false, 22, 24, 5, OWN, "answered 1;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        struct election_peer to = peer_at("10.0.0.2", 4200);
        to.incarnation = cases[i].asked;
        agent_elect_probe(&agent, &to);
        agent.coordinator = cases[i].coordinates ? (struct coordinator *)(void *)&agent : NULL;
        is_echo = cases[i].echo;
        done[0] = '\0';
        opened->events->on_message(opened, &(struct wire_msg){.type = WIRE_ANSWER,
                                                              .kind = REQUEST_STATUS,
                                                              .incarnation = cases[i].incarnation,
                                                              .leader_term = cases[i].leader_term,
                                                              .leader = cases[i].leader,
                                                              .name = "",
                                                              .address = ""});
        is_done(cases[i].want, "an answer about a node of this coordinator");
        end();
    }
}

int main(void) {
    test_loop = loop_open(&fault);
    if (!test_loop)
        bail_out("no loop: %s", fault.text);
    clock_stop();
    clock_ahead_ms = NOW_MS;
    test_ask();
    test_ask_fails();
    test_idle();
    test_probe();
    test_end_of_connection();
    test_answer();
    test_answer_to_coordinator();
    loop_close(test_loop);
    return done_testing();
}
