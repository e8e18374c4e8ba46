// SPDX-License-Identifier: Apache-2.0
// The rendezvous when members are lost: connections that break and come back, and who votes.
#include "rendezvous/rendezvous.h"
#include "tests/unit/rendezvous/rendezvous_nodes.h"

static int resume(struct rendezvous *r, int64_t now, int64_t incarnation, int64_t session,
                  int64_t connection) {
    struct rendezvous_resume x = {incarnation, session, connection};
    int id = -1;
    return rendezvous_resume(r, now, &x, &id, &e) < 0 ? -1 : id;
}

static void test_cut(void) {
    struct rendezvous_config config = base;
    config.max_restarts = 3;
    struct rendezvous *r = rendezvous_open(&config, 0);
    struct rendezvous_action a = {0};
    join_as(r, 0, "a", 11, 101, 1);
    int b = join_as(r, 0, "b", 12, 102, 1);
    ok(did(r, ACTION_START, NULL), "two nodes run");
    rendezvous_disconnected(r, 100, b, "reset");
    ok(did(r, ACTION_DISCONNECTED, &a) && a.id == b && a.counted,
       "the host of a disconnected agent is asked");
    is_int(rendezvous_phase(r), PHASE_RUN, "the round continues");
    rendezvous_tick(r, 400);
    ok(did(r, ACTION_DISCONNECTED, &a) && !a.counted, "the node is asked again");
    is_int(resume(r, 500, 12, 101, 2), -1, "a session of another agent is not resumed");
    is_int(resume(r, 500, 99, 102, 2), -1, "another agent does not resume the session");
    is_int(resume(r, 500, 12, 102, 1), -1, "an earlier request does not resume the session");
    is_int(resume(r, 500, 12, 102, 3), b, "the agent resumes its session");
    is_int(resume(r, 510, 12, 102, 2), -1, "a delayed request is too late");
    rendezvous_process_dead(r, 600, 12, true, "refused");
    ok(rendezvous_member(r, b) && !did(r, ACTION_LOST, NULL), "a late word of its host is nothing");
    rendezvous_disconnected(r, 700, b, "reset");
    rendezvous_process_dead(r, 710, 12, true, "its agent died");
    ok(did(r, ACTION_LOST, &a) && a.id == b,
       "a second disconnect, and the host has no agent: lost at once");
    is_str(a.reason, "its agent died", "the reason says that the agent died");
    is_int(resume(r, 720, 12, 102, 9), -1, "a lost session cannot be resumed");
    rendezvous_close(r);

    r = rendezvous_open(&config, 0);
    join_as(r, 0, "a", 11, 101, 1);
    b = join_as(r, 0, "b", 12, 102, 5);
    did(r, ACTION_START, NULL);
    rendezvous_disconnected(r, 100, b, "reset");
    for (int now = 100; now <= 1700; now += 100) {
        rendezvous_heard(r, now, 0);
        rendezvous_tick(r, now);
    }
    ok(did(r, ACTION_LOST, &a), "a session that is not resumed in time is lost");
    is_str(a.reason, "its connection broke: reset", "the reason is the first one");
    is_int(join_as(r, 0, "a", 11, 111, 1), -1, "an old request to join does not replace a session");
    is_int(join_as(r, 0, "a", 11, 111, 2) >= 0, 1, "a newer one does");
    is_int(rendezvous_member_count(r), 1, "a newer join replaces the member");
    b = join_as(r, 0, "b", 13, 0, 1);
    rendezvous_disconnected(r, 1800, b, "reset");
    ok(!rendezvous_member(r, b), "without a session, a closed connection is a loss");
    rendezvous_close(r);
}

// The answer to a node's request to join was lost with its connection: it asks again.
static void test_join_anew(void) {
    for (int restarts = 0; restarts < 2; restarts++) {
        struct rendezvous_config c = base;
        struct rendezvous_action act = {0};
        struct rendezvous_node n = {.name = "b",
                                    .address = "10.0.0.1",
                                    .role = "default",
                                    .node_rank = 1,
                                    .last_round = -1,
                                    .nproc = 1,
                                    .incarnation = 7,
                                    .session = 70,
                                    .connection = 1,
                                    .port = 9};
        int id;
        c.max_restarts = restarts;
        struct rendezvous *r = rendezvous_open(&c, 0);
        is_int(rendezvous_join(r, 1, &n, &id, &e), 0, "a node joins");
        is_int(rendezvous_join(r, 2, &n, &id, &e), -1, "a request that arrives twice counts once");
        n.connection = 2, n.session = 71;
        is_int(rendezvous_join(r, 3, &n, &id, &e), 0,
               "a request over a newer connection joins again");
        is_int(rendezvous_member_count(r), 1, "a node that joins again is one member");
        ok(!did(r, ACTION_STOP, NULL), "a repeated join before a round stops nothing");
        int a = join(r, 4, "a", 0, 1);
        ok(did(r, ACTION_START, NULL), "the round begins with the node");
        is_str(order(r), "a:0 b:1", "the node keeps its place");
        n.connection = 3, n.session = 72;
        is_int(rendezvous_join(r, 5, &n, &id, &e), 0, "a node may join again during a round");
        ok(did(r, ACTION_STOP, &act) && !act.counted,
           "a repeated join during a round counts as a loss");
        rendezvous_stopped(r, 6, a, 0, 1);
        is_int(rendezvous_verdict(r), restarts ? VERDICT_NONE : VERDICT_FAILED,
               restarts ? "the next round" : "the end of a run with no restarts");
        rendezvous_heard(r, 3000, a), rendezvous_heard(r, 3000, id);
        rendezvous_tick(r, 3000);
        if (restarts)
            is_str(order(r), "a:0 b:1", "both nodes are in the next round after the lease");
        rendezvous_close(r);
    }
}

// ---- votes ----

// Of a round of four three agents die: in the coordinator's lease, or after it.
static void test_majority_gone(void) {
    for (int late = 0; late < 2; late++) {
        struct rendezvous_config config = base;
        struct rendezvous_action a;
        config.nodes_max = 4;
        config.nodes_expected = 4;
        config.incarnation = 11;
        struct rendezvous *r = rendezvous_open(&config, 0);
        int ids[4];
        char name[2] = "a";
        for (int i = 0; i < 4; i++, name[0]++)
            ids[i] = join_as(r, 0, name, 11 + i, 101 + i, 1);
        did(r, ACTION_START, NULL);
        for (int i = 0; i < 4; i++)
            rendezvous_heartbeat(r, 1000, ids[i], 900, 1, 0);
        int64_t now = 900 + config.lease_ms - 1 + late;
        for (int i = 1; i < 4; i++)
            rendezvous_disconnected(r, 1100, ids[i], "reset");
        for (int i = 1; i < 4; i++)
            rendezvous_process_dead(r, now, 11 + i, true, "its agent died");
        rendezvous_heartbeat(r, now, ids[0], now, 1, 0);
        rendezvous_tick(r, now + 5);
        ok(did(r, ACTION_STEP_DOWN, &a) == (late > 0), "%s",
           late ? "the hosts report it too late: the coordinator steps down"
                : "the hosts report it in time: the run continues");
        if (!late)
            ok(rendezvous_lease_left_ms(r) > 0 && quorum_is_single(rendezvous_electorate(r), 11),
               "a single voter needs no other");
        rendezvous_close(r);
    }
}

// A node that was silent when a round began without it and answers shortly afterwards.
static void test_left_out(void) {
    struct rendezvous_config config = base;
    struct rendezvous_action lost;
    config.nodes_max = 3;
    config.regroup_call_ms = 0;
    config.incarnation = 11;
    struct rendezvous *r = rendezvous_open(&config, 0);
    int a = join_as(r, 0, "a", 11, 101, 1), b = join_as(r, 0, "b", 12, 102, 1),
        c = join_as(r, 0, "c", 13, 103, 1);
    rendezvous_tick(r, 10);
    ok(did(r, ACTION_START, NULL), "a round of three starts");
    rendezvous_lost(r, 1000, b, "it died");
    rendezvous_stopped(r, 1100, a, 0, 0), rendezvous_stopped(r, 1100, c, 0, 0);
    rendezvous_heartbeat(r, 1100, c, 1090, 1, 0);
    rendezvous_heartbeat(r, 2650, a, 2640, 1, 0);
    did(r, ACTION_LOST, NULL);
    join_as(r, 2700, "b", 12, 102, 2);
    ok(did(r, ACTION_LOST, &lost) && lost.id == c, "the silent one is lost");
    is_str(order(r), "a:0 b:1", "the next round begins without the silent node");
    rendezvous_close(r);
}

// After a change of the coordinator, too, the nodes of the last round come before a spare.
static void test_votes_first(void) {
    struct rendezvous_config config = base;
    config.incarnation = 13;
    config.max_restarts = 1;
    struct voter voters[] = {{.incarnation = 12, .rounds = QUORUM_THIS},
                             {.incarnation = 13, .rounds = QUORUM_THIS}};
    struct electorate last = {
        .term = 1, .committed = true, .tie_breaker = 12, .voters = voters, .count = 2};
    struct election_peer peers[2] = {{.incarnation = 12}, {.incarnation = 13}};
    struct rendezvous_history history = {
        .term = 2, .electorate = &last, .peers = peers, .why = "the coordinator was lost"};
    struct rendezvous *r = rendezvous_take_over(&config, 0, &history);
    int b = join_as(r, 0, "b", 12, 102, 1);
    join_as(r, 0, "a", 11, 101, 1);
    rendezvous_tick(r, 600);
    ok(!did(r, ACTION_START, NULL), "no round begins without the coordinator's own node");
    int c = join_as(r, 700, "c", 13, 103, 1);
    rendezvous_heartbeat(r, 710, b, 705, 1, 0), rendezvous_heartbeat(r, 710, c, 705, 1, 0);
    rendezvous_tick(r, 1300);
    is_str(order(r), "b:0 c:1", "the spare has no place");
    rendezvous_close(r);
}

// A member whose connection has no way back is lost with the connection.
static void test_no_way_back(void) {
    struct rendezvous_config config = base;
    config.nodes_min = 1, config.nodes_max = 3;
    struct rendezvous *r = rendezvous_open(&config, 0);
    join_as(r, 0, "a", 11, 101, 1);
    int b = join_as(r, 0, "b", 12, 102, 1), c = join_as(r, 0, "c", 13, 103, 1);
    ok(did(r, ACTION_START, NULL), "three nodes run");
    rendezvous_leave(r, 100, b, "SIGTERM");
    ok(rendezvous_member(r, b) != NULL, "a node that leaves stays until its workers are stopped");
    rendezvous_disconnected(r, 110, b, "reset");
    ok(!rendezvous_member(r, b), "a node that leaves is removed when its connection closes");
    rendezvous_close(r);

    r = rendezvous_open(&config, 0);
    join_as(r, 0, "a", 11, 101, 1);
    struct rendezvous_node n = {.name = "p",
                                .address = "10.0.0.1",
                                .role = "default",
                                .node_rank = -1,
                                .incarnation = 14,
                                .session = 104,
                                .connection = 1,
                                .last_round = -1,
                                .nproc = 1};
    is_int(rendezvous_join(r, 0, &n, &c, &e), 0, "a node without a port joins");
    rendezvous_disconnected(r, 100, c, "reset");
    ok(!rendezvous_member(r, c), "a lost node without a port cannot be probed: lost at once");
    rendezvous_close(r);
}

// Of the nodes that are being stopped after a failure, the loss of one that has stopped is no
// excuse for it.
static void test_no_excuse(void) {
    struct rendezvous_config config = base;
    config.nodes_max = 3, config.max_restarts = 3;
    for (int answered = 0; answered < 2; answered++) {
        struct rendezvous *r = rendezvous_open(&config, 0);
        int a = join(r, 0, "a", -1, 1), b = join(r, 0, "b", -1, 1);
        join(r, 0, "c", -1, 1);
        did(r, ACTION_START, NULL);
        rendezvous_failed(r, 100, a, 0, "rank 0 ended with 1");
        if (answered)
            rendezvous_stopped(r, 110, b, 0, 7);
        rendezvous_lost(r, 120, b, "its host is gone");
        rendezvous_stopped(r, 130, a, 0, 7);
        ok(did(r, ACTION_EXCUSED, NULL) == !answered, "a node that is lost %s its answer %s",
           answered ? "after" : "before", answered ? "excuses nothing" : "excuses a failure");
        is_int(rendezvous_restarts(r), answered, "the restarts are counted");
        rendezvous_close(r);
    }
}

static void test_spare_lost(void) {
    struct rendezvous *r = rendezvous_open(&base, 0);
    join(r, 0, "a", -1, 1), join(r, 0, "b", -1, 1);
    int spare = join(r, 0, "s", -1, 1);
    did(r, ACTION_START, NULL);
    rendezvous_lost(r, 100, spare, "its host is gone");
    is_int(rendezvous_phase(r), PHASE_RUN, "the loss of a spare ends no round");
    rendezvous_close(r);
}

// The place of the first member is taken again, also when every other one is full.
static void test_first_place(void) {
    enum { MEMBERS = 16 };
    struct rendezvous_config config = base;
    config.nodes_min = config.nodes_max = MEMBERS + 1;
    struct rendezvous *r = rendezvous_open(&config, 0);
    for (int i = 0; i < MEMBERS; i++)
        join_as(r, 0, "n", 100 + i, 1, 1);
    rendezvous_lost(r, 10, 0, "gone");
    is_int(join_as(r, 20, "n", 99, 1, 1), 0, "a new member gets the only free place");
    rendezvous_disconnected(r, 30, 0, "reset");
    is_int(resume(r, 40, 99, 1, 2), 0, "a session may have any number but zero");
    rendezvous_close(r);
}

static void test_join_at_the_end(void) {
    struct rendezvous *r = rendezvous_open(&base, 0);
    join(r, 0, "a", -1, 1), join(r, 0, "b", -1, 1);
    did(r, ACTION_START, NULL);
    rendezvous_stop(r, 100, VERDICT_STOPPED, "on request");
    is_int(rendezvous_verdict(r), VERDICT_NONE, "workers are being stopped");
    is_int(join(r, 110, "c", -1, 1), -1, "no node joins a run that is being stopped for good");
    is_str(e.text, "the run is over: on request", "the refusal has the reason");
    is_int(rendezvous_member_count(r), 2, "the members stay");
    rendezvous_close(r);
}

int main(void) {
    test_no_way_back();
    test_no_excuse();
    test_spare_lost();
    test_first_place();
    test_join_at_the_end();
    test_cut();
    test_join_anew();
    test_majority_gone();
    test_left_out();
    test_votes_first();
    return done_testing();
}
