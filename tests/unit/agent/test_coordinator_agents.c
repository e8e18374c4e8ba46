// SPDX-License-Identifier: Apache-2.0
// The coordinator's answers to agents that join, resume, ask, send heartbeats and go. Connections
// are stand-ins; the rendezvous is real.
#include "tests/unit/agent/coordinator_links.h"

#define STARTED                                                                                    \
    "begin;1 JOINED 2/2;0 ALLOW n0 n1;0 ROUND 0 rank 0 of 4, group 0 of 2;"                        \
    "1 ROUND 0 rank 2 of 4, group 1 of 2;"

// ---- joining ------------------------------------------------------------------------------------

static void test_join(void) {
    begin(2, NULL);
    join(0);
    is_done("0 JOINED 1/2;", "the first agent joins");
    ok(last.incarnation == OWN && strcmp(last.name, "n0") == 0 && last.session == 0 &&
           last.attempt == -1 && last.term == 1 && last.members == 0 && last.node_count == 0,
       "the answer has the coordinator and no session of its own node");
    is_int(admission.count, 0, "an agent that has joined takes no place of newcomers");
    has_event("\"kind\":\"node-joined\",\"peer\":\"n0\",\"address\":\"10.0.0.9\",\"present\":1,"
              "\"expected\":2");
    join(1);
    is_done(STARTED, "the round begins with the second agent");
    ok(strcmp(last.master_addr, "10.0.0.9") == 0 && last.master_port == 5000 &&
           last.role_rank == 2 && last.role_world == 4 && last.max_restarts == 1 &&
           last.restarts == 0 && last.left_ms > 0,
       "the round has the store of the first node");
    ok(last.members == 2 && last.node_count == 2, "the round has the electorate");
    has_event("\"address\":\"10.0.0.1\",\"present\":2");
    is_int(member_reports, 2, "changes of members are reported");
    int number = arrive(3);
    is_int(admission.count, 1, "a newcomer takes a place");
    hang_up(number, ERR_NET, "broken");
    is_done("2 closed;", "a newcomer may go");
    is_int(admission.count, 0, "the place of the newcomer is free again");
}

static void test_malformed(void) {
    static const char refused[] = "1 refused for good: a malformed request to join;1 closed;";
    for (int i = 0; i < 13; i++) {
        begin(3, NULL);
        join(0);
        done[0] = '\0';
        struct wire_msg m = joining(1);
        static const char *const what[] = {"no workers",       "many workers", "a low rank",
                                           "a high rank",      "a low round",  "a high round",
                                           "no name",          "no address",   "the fewest workers",
                                           "the most workers", "no rank",      "the last rank",
                                           "the last round"};
        m.nproc = i == 0 ? 0 : i == 1 ? (1 << 16) + 1 : i == 8 ? 1 : i == 9 ? 1 << 16 : 2;
        m.node_rank = i == 2 ? -2 : i == 3 ? (1 << 24) + 1 : i == 10 ? -1 : i == 11 ? 1 << 24 : 1;
        m.round = i == 4 ? -2 : i == 5 ? (1 << 30) + 1 : i == 12 ? 1 << 30 : -1;
        m.name = i == 6 ? "" : "n1";
        m.address = i == 7 ? "n1.example" : "";
        arrive(1);
        say(1, &m);
        if (i < 8)
            is_str(done, refused, "a request to join with %s is refused", what[i]);
        else
            is_str(done, "1 JOINED 2/3;", "a request to join with %s is accepted", what[i]);
    }
    struct wire_msg m = joining(1);
    say(1, &m);
    has_str(done, "1 refused for good: a malformed request to join;1 closed;",
            "an agent joins once");
}

static void test_rank_taken(void) {
    begin(3, NULL);
    join(0);
    join(1);
    done[0] = '\0';
    struct wire_msg m = joining(1);
    m.incarnation = 99;
    int number = arrive(2);
    say(number, &m);
    ok(strncmp(done, "2 refused: ", 11) == 0, "a rank that is taken may be free later");
    ok(!links[number], "the connection is closed");
    done[0] = '\0';
}

static void test_addresses(void) {
    static const struct {
        const char *sent, *want;
    } cases[] = {{"", "10.0.0.1"}, {"127.0.0.1", "10.0.0.1"}, {"10.0.0.77", "10.0.0.77"}};
    for (int i = 0; i < 3; i++) {
        char want[64];
        begin(3, NULL);
        join(0);
        struct wire_msg m = joining(1);
        m.address = cases[i].sent;
        arrive(1);
        say(1, &m);
        snprintf(want, sizeof want, "\"peer\":\"n1\",\"address\":\"%s\"", cases[i].want);
        has_event(want);
    }
}

static void test_waiting(void) {
    static const char *const names[] = {"n0", "n1", "n2", NULL};
    begin(3, NULL);
    join(0);
    join(1);
    arrive(3);
    done[0] = '\0';
    struct wire_msg beat = {.type = WIRE_BEAT};
    for (int i = 0; i < 6; i++) {
        clock_turn(test_loop, 1000);
        say(0, &beat);
        say(1, &beat);
    }
    has_str(done, "1 WAITING: here: n1 n0;0 WAITING: here: n1 n0;", "members hear who is here");
    ok(!strstr(done, "2 WAITING"), "a newcomer hears nothing");
    ok(!strstr(done, "missing"), "without a list of nodes none is missing");
    config.expected_names = names;
    begin(3, NULL);
    join(0);
    for (int i = 0; i < 6; i++) {
        clock_turn(test_loop, 1000);
        say(0, &beat);
    }
    has_str(done, "0 WAITING: here: n0; missing: n1 n2;", "members hear which nodes are missing");
    config.expected_names = NULL;
}

// ---- out of turn --------------------------------------------------------------------------------

static void test_out_of_turn(void) {
    static const struct {
        enum wire_type type;
        bool newcomer, member;
    } cases[] = {{WIRE_BEAT, true, true},    {WIRE_DONE, false, true},
                 {WIRE_FAILED, false, true}, {WIRE_STOPPED, false, true},
                 {WIRE_ROUND, false, false}, {WIRE_HELLO, false, false},
                 {WIRE_ASK, true, true},     {WIRE_NOTICE, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_member = 0; is_member < 2; is_member++) {
            begin(3, NULL);
            join(0);
            if (is_member)
                join(1);
            else
                arrive(1);
            done[0] = '\0';
            say(1, &(struct wire_msg){.type = cases[i].type, .name = "", .address = ""});
            bool good = is_member ? cases[i].member : cases[i].newcomer;
            is_int(strstr(done, "1 refused for good: a message out of turn;1 closed;") == NULL,
                   good, "%s from a %s", frame_name(cases[i].type),
                   is_member ? "member" : "newcomer");
        }
}

static void test_ask(void) {
    begin(2, NULL);
    arrive(3);
    say(0, &(struct wire_msg){.type = WIRE_ASK});
    is_done("0 asks;", "requests of elections are handed on");
}

static void test_beat(void) {
    begin_round();
    struct wire_msg m = {.type = WIRE_BEAT, .seq = 7, .round_term = 1, .round = 0};
    say(1, &m);
    is_done("1 BEAT;", "a heartbeat is answered");
    ok(last.seq == 7 && last.stamp == clock_mono_ms() && last.round == 0 && last.round_term == 1 &&
           last.taken == 0,
       "the answer has number, time and round");
    say(1, &(struct wire_msg){.type = WIRE_DONE, .round = 5});
    say(1, &m);
    is_int(last.taken, 1, "the answer counts the messages of the session");
    done[0] = '\0';
    m.taken = 99;
    say(1, &m);
    ok(strncmp(done, "1 refused for good: ", 20) == 0 && !links[1],
       "an agent that has taken more than was sent breaks the protocol");
}

static void test_notice(void) {
    begin_round();
    arrive(3);
    say(1, &(struct wire_msg){.type = WIRE_NOTICE, .name = "n1", .reason = "lease"});
    is_done("1 NOTICE: lease;0 NOTICE: lease;", "a notice is sent to all members");
}

// ---- connections that break ---------------------------------------------------------------------

static void test_breaks(void) {
    static const struct {
        int number;
        enum err_code code;
        bool lost;
    } cases[] = {{1, ERR_NONE, false},  {1, ERR_NET, false}, {1, ERR_FAILED, true},
                 {1, ERR_FORMAT, true}, {0, ERR_NONE, true}, {0, ERR_NET, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_round();
        hang_up(cases[i].number, cases[i].code, "broken");
        is_int(strstr(done, "STOP") != NULL, cases[i].lost, "end %zu is a loss or not", i);
        if (!cases[i].lost)
            is_done("probe n1 21 10.0.0.1:4001;", "the host is asked whether the agent lives");
    }
    begin_round();
    hang_up(1, ERR_NET, "broken");
    done[0] = '\0';
    coordinator_process_dead(coordinator, 21, true, "its agent died");
    has_str(done, "STOP 0 by 15 in 7000: node n1 is gone: its agent died", "a dead agent is lost");
}

static void test_resume(void) {
    struct wire_msg m = {.type = WIRE_RESUME, .incarnation = 21, .connection = 2};
    begin(2, NULL);
    join(0);
    struct wire_msg j = joining(1);
    arrive(1);
    say(1, &j);
    for (int id = 0; id < 8 && !m.session; id++) {
        const struct rendezvous_member *x =
            rendezvous_member(coordinator_rendezvous(coordinator), id);
        m.session = x && x->incarnation == 21 ? x->session : 0;
    }
    ok(m.session & 1, "a session has an odd number");
    hang_up(1, ERR_NET, "broken");
    done[0] = '\0';
    int number = arrive(1);
    say(number, &m);
    is_done("1 closed;2 RESUMED;2 again;", "a session continues over another connection");
    ok(last.incarnation == OWN && last.taken == 0, "the answer has the state of the session");
    say(number, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    say(0, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    has_str(done, "2 FINISH 5", "the new connection is the member's");
    begin_round();
    m.session++;
    number = arrive(1);
    say(number, &m);
    ok(strncmp(done, "2 refused: ", 11) == 0 && !links[number], "an unknown session is refused");
    done[0] = '\0';
    say(1, &m);
    ok(strncmp(done, "1 closed;", 9) == 0 && strstr(done, "STOP"),
       "a member that resumes its own connection breaks the protocol");
}

static void test_silent(void) {
    begin_round();
    struct wire_msg beat = {.type = WIRE_BEAT, .round_term = 1};
    for (int i = 0; i < 15; i++) {
        clock_turn(test_loop, 100);
        say(0, &beat);
    }
    done[0] = '\0';
    clock_turn(test_loop, 100);
    is_int(strncmp(done,
                   "1 refused: it is silent;1 closed;0 STOP 0 by 15 in 7000: node n1 is gone: "
                   "it is silent;",
                   80),
           0, "a silent node is lost");
}

int main(void) {
    open_test();
    test_join();
    test_malformed();
    test_rank_taken();
    test_addresses();
    test_waiting();
    test_out_of_turn();
    test_ask();
    test_beat();
    test_notice();
    test_breaks();
    test_resume();
    test_silent();
    return close_test();
}
