// SPDX-License-Identifier: Apache-2.0
// The agent's connection to the coordinator: what it sends and when, which answers count, and what
// follows when the connection ends, is resumed or is given up. All else is a stand-in.
#include "tests/unit/agent/uplink_fake.h"

#include <errno.h>
#include <sys/socket.h>

static bool refuses; // a host, at once

int connect(int fd, const struct sockaddr *addr, socklen_t len) {
    if (!refuses)
        return (int)syscall(SYS_connect, fd, addr, len);
    errno = ECONNREFUSED;
    return -1;
}

// ---- heartbeats ---------------------------------------------------------------------------------

static void test_beats(void) {
    begin();
    agent.stamp = 9;
    agent.session.taken = 2;
    agent_link_beat(&agent);
    clock_turn(test_loop, BEAT_MS - 1);
    is_done("send BEAT;", "a heartbeat is sent at once");
    ok(sent[0].seq == 0 && sent[0].stamp == 9 && sent[0].round_term == 6 && sent[0].round == 7 &&
           sent[0].taken == 2,
       "a heartbeat has number, stamp, round and the count of messages");
    clock_turn(test_loop, 1);
    is_done("send BEAT;", "the next one comes in time");
    is_int(sent[1].seq, 1, "the next heartbeat has the next number");
    agent.session.cut = true;
    agent_link_beat(&agent);
    agent.session.cut = is_open = false;
    agent_link_beat(&agent);
    is_done("", "a broken connection has no heartbeats");
}

// The last event of a coordinator that was given up.
static void is_lost(int64_t silent_ms, const char *why) {
    char want[128];
    snprintf(want, sizeof want, "\"peer\":\"n0\",\"silent_ms\":%d,\"reason\":\"%s", (int)silent_ms,
             why);
    has_str(strbuf_cstr(&agent.events.line), want, "the event has the time and the reason");
}

static void test_answers(void) {
    enum { SEQ = 40, KEPT = sizeof agent.beats / sizeof *agent.beats };
    static const struct {
        bool joined;
        int64_t seq;
        const char *want;
    } cases[] = {{true, SEQ - 1, "acked after 10 left 70;round 8.9 committed;lease 1000;"},
                 {true, SEQ - KEPT, "acked after 10 left 70;round 8.9 committed;lease 1000;"},
                 {true, SEQ - KEPT - 1, ""},
                 {true, SEQ, ""},
                 {true, -1, ""},
                 {false, SEQ - 1, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        idle = false;
        lease_end_ms = clock_mono_ms() + 1000;
        agent.joined = cases[i].joined;
        agent.seq = SEQ;
        agent.stamp = 1;
        for (size_t k = 0; k < KEPT; k++)
            agent.beats[k] = clock_mono_ms() - 1000;
        if (cases[i].seq >= 0)
            agent.beats[cases[i].seq % KEPT] = clock_mono_ms() - 10;
        const struct wire_msg m = {.type = WIRE_BEAT,
                                   .seq = cases[i].seq,
                                   .stamp = 5,
                                   .left_ms = 70,
                                   .round_term = 8,
                                   .round = 9,
                                   .committed = 1};
        table->on_message(&agent.link, &m);
        is_done(cases[i].want, "an answer to a heartbeat");
        is_int(agent.stamp, cases[i].want[0] ? 5 : 1, "the stamp is that of an answer that counts");
    }
    begin();
    agent.seq = 1;
    table->on_message(&agent.link, &(struct wire_msg){.type = WIRE_BEAT, .stamp = 5});
    has_str(done, "send BEAT;", "the first answer is answered at once");
    begin();
    table->on_message(&agent.link, &(struct wire_msg){.type = WIRE_BEAT, .taken = 3});
    has_str(done, "lost 1;", "a count of messages that were not sent ends the connection");
    is_lost(0, "3 messages taken");
}

static void test_lease(void) {
    begin();
    idle = false;
    agent_link_renew(&agent);
    is_done("lease -1;", "a lease without end has none");
    idle = true;
    agent_link_renew(&agent);
    idle = agent.joined = false;
    agent_link_renew(&agent);
    is_done("", "without workers or a coordinator there is no lease");
}

static void test_messages(void) {
    begin();
    table->on_message(&agent.link, &(struct wire_msg){.type = WIRE_STOP});
    is_int(agent.session.taken, frame_is_kept(WIRE_STOP), "a message of the session is counted");
    table->on_message(&agent.link, &(struct wire_msg){.type = WIRE_WAITING});
    is_int(agent.session.taken, frame_is_kept(WIRE_STOP) + frame_is_kept(WIRE_WAITING),
           "another one is not");
    is_done("message STOP;message WAITING;", "messages are passed on");
    agent_send(&agent, &(struct wire_msg){.type = WIRE_DONE});
    is_done("keep DONE;", "messages are sent in the session");
}

// ---- joining ------------------------------------------------------------------------------------

static void test_ready(void) {
    begin();
    agent.connections = 4;
    agent.stamp = 3;
    agent.connect_error[0] = 'x';
    table->on_ready(&agent.link);
    is_done("self n1 127.0.0.1:4100;send BEAT;send JOIN;state 1 ;", "an idle agent joins at once");
    const struct wire_msg *m = &sent[1];
    ok(m->incarnation == 11 && strcmp(m->name, "n1") == 0 && m->node_rank == 3 &&
           strcmp(m->address, "127.0.0.1") == 0 && m->port == 4100 && m->store_port == 5100 &&
           m->nproc == 8 && strcmp(m->role, "default") == 0 && m->round == 5 && m->term == 4 &&
           m->connection == 5,
       "the request has all of the node");
    ok(!agent.stamp && !agent.connect_error[0] && agent.join_ms == clock_mono_ms() &&
           agent.session.open && !agent.session.id,
       "a session begins, without what was before");
    for (int i = 0; i < 2; i++) {
        begin();
        idle = i == 0;
        waits_for_devices = i == 0;
        snprintf(agent.address, sizeof agent.address, "10.0.0.1");
        table->on_ready(&agent.link);
        is_done("send BEAT;", "an agent whose last round has not ended waits");
        ok(agent.rejoin, "the agent joins later");
    }
    begin();
    agent.coordinator = (struct coordinator *)(void *)&agent;
    snprintf(agent.peer.address, sizeof agent.peer.address, "no address");
    table->on_ready(&agent.link);
    has_str(done, "self n1 127.0.0.1:4100;", "the coordinator's own agent has the local address");
    begin();
    store_port = -1;
    agent_link_join(&agent);
    is_done("end 1 no port;", "an agent without a store's port ends");
}

static void test_connect(void) {
    begin();
    struct election_peer to = {.name = "n5", .address = "127.0.0.1", .port = free_port};
    agent.link.stage = CHANNEL_READY;
    agent.rejoin = true;
    agent_link_connect(&agent, &to);
    is_done("refuse;close;open;", "the old connection is closed before another one opens");
    ok(strcmp(agent.peer.name, "n5") == 0 && !agent.joined && !agent.rejoin && !agent.session.open,
       "nothing of the old one is left");
    snprintf(to.address, sizeof to.address, "n5.example");
    agent_link_connect(&agent, &to);
    is_done("close;lost 1;pump;", "a name is no address, and the search continues");
    has_str(agent.connect_error, "'n5.example' is not an address", "the error is kept");
    begin();
    is_int(agent_link_open_local(&agent, &fault), 0, "the coordinator's own agent opens its link");
    is_done("adopt;open local;", "both ends of the link are in this process");
}

static void test_notes(void) {
    begin();
    static const struct {
        const char *text;
        int64_t after_ms;
        bool logged;
    } cases[] = {{"refused", 0, true},
                 {"refused", AGENT_NOTE_MS - 1, false},
                 {"refused", 1, true},
                 {"no route", 0, true},
                 {"no route", 100, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clock_ahead_ms += cases[i].after_ms;
        agent_link_note(&agent, &agent.peer, cases[i].text);
        is_int(agent.noted_ms == clock_mono_ms(), cases[i].logged, "'%s' is logged in its time",
               cases[i].text);
        is_str(agent.connect_error, cases[i].text, "the last error is kept");
    }
}

// ---- ends ---------------------------------------------------------------------------------------

#define CUT    "disconnected 1;pump;"
#define LOST   "close;state 1 the coordinator is lost;stop 1 3000;lost 1;pump;"
#define SEARCH "lost 1;pump;"
#define END    "end 1 why;"

static void test_ends(void) {
    static const struct {
        bool joined, leads, greeted, refused, stranger, no_session;
        enum err_code code;
        const char *want;
    } cases[] = {
        {.joined = true, .greeted = true, .code = ERR_NET, .want = CUT},
        {.joined = true, .greeted = true, .code = ERR_NONE, .want = CUT},
        {.joined = true, .greeted = true, .code = ERR_FORMAT, .want = LOST},
        {.joined = true, .greeted = true, .code = ERR_NET, .no_session = true, .want = LOST},
        {.joined = true, .leads = true, .greeted = true, .code = ERR_NET, .want = "close;drop;"},
        {.greeted = true, .code = ERR_NET, .want = SEARCH},
        {.code = ERR_NET, .want = SEARCH},
        {.code = ERR_AUTH, .want = SEARCH},                  // from an old address
        {.code = ERR_AUTH, .stranger = true, .want = END},   // the first coordinator refuses it
        {.greeted = true, .code = ERR_AUTH, .want = SEARCH}, // a message is damaged
        {.joined = true, .code = ERR_AUTH, .want = END},
        {.greeted = true, .refused = true, .code = ERR_FAILED, .want = END},
        {.refused = true, .code = ERR_FAILED, .want = SEARCH},
        {.joined = true, .greeted = true, .code = ERR_FAILED, .want = LOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err why = {.code = ERR_NONE};
        begin();
        agent.joined = cases[i].joined;
        agent.coordinator = cases[i].leads ? (struct coordinator *)(void *)&agent : NULL;
        agent.link.refused_final = cases[i].refused;
        if (cases[i].stranger)
            agent.leader[0] = '\0';
        if (cases[i].no_session)
            agent.session.id = 0;
        if (cases[i].greeted)
            agent_link_beat(&agent);
        if (cases[i].code)
            err_set(&why, cases[i].code, "why");
        done[0] = '\0';
        table->on_end(&agent.link, &why);
        is_int(strncmp(done, cases[i].want, strlen(cases[i].want)), 0, "end %zu: %s", i,
               cases[i].want);
        if (strncmp(done, cases[i].want, strlen(cases[i].want)) != 0)
            diag("it was %s", done);
        ok(!agent.beat.loop, "end %zu: no heartbeat follows", i);
        is_int(agent.session.cut, strcmp(cases[i].want, CUT) == 0,
               "end %zu: the session waits for another connection", i);
        if (strcmp(cases[i].want, LOST) == 0)
            is_lost(0, "why");
    }
    begin();
    agent.over = true;
    table->on_end(&agent.link, &(struct err){.code = ERR_NONE});
    is_done("", "after its end an agent does nothing");
}

static void test_lost(void) {
    static const struct {
        int64_t left_ms;
        const char *want;
    } cases[] = {{INT64_MAX, "stop 1 3000;"},
                 {GRACE_MS + 1, "stop 1 3000;"},
                 {GRACE_MS - 1, "stop 1 2999;"},
                 {1, "stop 1 1;"},
                 {0, "stop 1 0;"},
                 {-5, "stop 1 0;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        idle = false;
        agent.stop_requested = true;
        lease_end_ms =
            cases[i].left_ms == INT64_MAX ? INT64_MAX : clock_mono_ms() + cases[i].left_ms;
        agent_coordinator_lost(&agent, "why", 8);
        has_str(done, cases[i].want, "workers have %s of their lease", cases[i].want);
        ok(agent.round_failed && !agent.stop_requested && !agent.joined, "the round has failed");
        ok(!strstr(done, "state"), "workers that run keep the state");
        is_lost(8, "why");
    }
    begin();
    agent.joined = false;
    agent_coordinator_lost(&agent, "why", 8);
    is_done("close;stop 1 3000;lost 1;pump;", "a coordinator that was not joined leaves no word");
    begin();
    agent.over = true;
    agent_coordinator_lost(&agent, "why", 8);
    is_done("close;", "after its end an agent only hangs up");
}

// ---- resuming -----------------------------------------------------------------------------------

static void test_resume(void) {
    begin();
    agent.link.conn.connecting = false;
    agent_link_resume(&agent);
    is_done("", "a greeting in progress is not disturbed");
    agent.link.conn.connecting = true;
    agent_link_resume(&agent);
    is_done("close;open;", "a connection that is not made is replaced");
    agent.connections = 4;
    agent.session.taken = 6;
    table->on_ready(&agent.link);
    is_done("send RESUME;send BEAT;", "the session is to continue");
    ok(sent[0].incarnation == 11 && sent[0].session == 33 && sent[0].connection == 5 &&
           sent[0].taken == 6,
       "the request has the session and its state");
    agent.session.cut = true;
    table->on_message(&agent.link, &(struct wire_msg){.type = WIRE_RESUMED, .incarnation = 22});
    is_done("send again;resumed 1;pump;", "the session continues");
    ok(!agent.session.cut && agent.link.events != table, "the connection is an ordinary one again");
    static const struct wire_msg wrong[] = {{.type = WIRE_WAITING, .incarnation = 22},
                                            {.type = WIRE_RESUMED, .incarnation = 21},
                                            {.type = WIRE_RESUMED, .incarnation = 22, .taken = 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin();
        is_open = false;
        agent_link_resume(&agent);
        done[0] = '\0';
        table->on_message(&agent.link, &wrong[i]);
        has_str(done, "stop 1 3000;lost 1;", "answer %zu ends the session", i);
        is_lost(0, i < 2 ? "it answers out of turn" : "9 messages taken");
    }
}

static void test_resume_ends(void) {
    static const struct {
        int error;
        enum err_code code;
        const char *want;
    } cases[] = {{ECONNREFUSED, ERR_NET, "dead n0 1;pump;"},
                 {ETIMEDOUT, ERR_NET, ""},
                 {0, ERR_NONE, ""},
                 {0, ERR_TIMEOUT, ""},
                 {ECONNREFUSED, ERR_FAILED, LOST},
                 {0, ERR_FAILED, LOST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        is_open = false;
        agent_link_resume(&agent);
        agent.link.conn.error = cases[i].error;
        done[0] = '\0';
        table->on_end(&agent.link, &(struct err){.code = cases[i].code});
        is_done(cases[i].want, "an attempt to resume ends");
        if (strcmp(cases[i].want, LOST) == 0)
            is_lost(0, "");
    }
    begin();
    is_open = false;
    refuses = true;
    agent_link_resume(&agent);
    refuses = false;
    is_done("close;dead n0 1;pump;", "a host that refuses at once has no agent");
    errno = 0;
    snprintf(agent.peer.address, sizeof agent.peer.address, "n0.example");
    agent_link_resume(&agent);
    is_done("close;", "a name proves nothing");
}

int main(void) {
    test_loop = loop_open(&fault);
    if (!test_loop || net_listen("127.0.0.1", 0, &listen_fd, &free_port, &fault) < 0)
        bail_out("no loop or port: %s", fault.text);
    clock_stop();
    clock_ahead_ms = NOW_MS;
    test_beats();
    test_answers();
    test_lease();
    test_messages();
    test_ready();
    test_connect();
    test_notes();
    test_ends();
    test_lost();
    test_resume();
    test_resume_ends();
    timer_stop(&agent.beat);
    replay_close(&agent.session);
    events_close(&agent.events);
    fd_let_go();
    close(listen_fd);
    loop_close(test_loop);
    return done_testing();
}
