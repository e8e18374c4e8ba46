// SPDX-License-Identifier: Apache-2.0
// The coordinator in the course of a run: failures, stops and verdicts, copies of states, and its
// own begin and end. Connections are stand-ins; the rendezvous is real.
#include "tests/unit/agent/coordinator_links.h"

// ---- the end of a round -------------------------------------------------------------------------

static struct worker_failure failure(int rank, int age_ms) {
    return (struct worker_failure){.rank = rank,
                                   .status = 3,
                                   .age_ms = age_ms,
                                   .host = "",
                                   .error_file = "",
                                   .message = "",
                                   .tail = "",
                                   .evidence = ""};
}

static void test_failed(void) {
    struct worker_failure f[2] = {failure(2, 100), failure(3, 900)};
    begin_round();
    struct wire_msg m = {.type = WIRE_FAILED, .round = 1, .failures = f, .failure_count = 2};
    say(1, &m);
    m.round = 0;
    m.failure_count = 0;
    say(1, &m);
    is_done("", "another round and no failure are ignored");
    m.failure_count = 2;
    say(1, &m);
    is_done("1 STOP 0 by 15 in 7000: rank 2 on n1 ended with 3;"
            "0 STOP 0 by 15 in 7000: rank 2 on n1 ended with 3;",
            "a failure stops the round on all nodes");
    has_event("\"kind\":\"restart\",\"round\":0,\"restarts\":1,\"max_restarts\":1,"
              "\"reason\":\"rank 2 on n1 ended with 3\"");
    say(0, &(struct wire_msg){.type = WIRE_STOPPED, .round = 0, .store_port = 5100});
    say(1, &(struct wire_msg){.type = WIRE_STOPPED, .round = 0, .store_port = 5101});
    is_done("begin;0 ALLOW n0 n1;0 ROUND 1 rank 0 of 4, group 0 of 2: rank 2 on n1 ended with 3;"
            "1 ROUND 1 rank 2 of 4, group 1 of 2: rank 2 on n1 ended with 3;",
            "the next round begins when all workers have ended");
    ok(last.restarts == 1 && last.master_port == 5100, "the next round has its restart and store");
    m.round = 1;
    say(1, &m);
    done[0] = '\0';
    say(0, &(struct wire_msg){.type = WIRE_STOPPED, .round = 1});
    say(1, &(struct wire_msg){.type = WIRE_STOPPED, .round = 1});
    has_str(done, "1 FINISH 6 with 2: rank 2 on n1 ended with 3;0 FINISH 6 with 2: ",
            "the failure after the last restart is the verdict");
    is_int(last.restarts, 1, "the verdict has the count of restarts");
}

static void test_reasons(void) {
    static const struct {
        int status, signal;
        const char *evidence, *want;
    } cases[] = {{1, 0, "", "rank 2 on n1 ended with 1"},
                 {137, 9, "", "rank 2 on n1 was killed by SIGKILL"},
                 {137, 9, "out of memory\nmore",
                  "rank 2 on n1 was killed by SIGKILL: out of "
                  "memory"}};
    for (int i = 0; i < 3; i++) {
        struct worker_failure f = failure(2, 0);
        f.status = cases[i].status;
        f.signal = cases[i].signal;
        f.evidence = cases[i].evidence;
        begin_round();
        say(1, &(struct wire_msg){.type = WIRE_FAILED, .failures = &f, .failure_count = 1});
        char want[128];
        snprintf(want, sizeof want, "in 7000: %s;", cases[i].want);
        has_str(done, want, "the reason names rank, node and cause");
    }
}

// The failures of a verdict are in order of time; those of a round before do not count.
static void test_order(void) {
    struct worker_failure late = failure(0, 100), early = failure(2, 900), odd = failure(3, -5);
    late.message = "a message";
    config.rendezvous.max_restarts = 0;
    begin_round();
    say(0, &(struct wire_msg){.type = WIRE_FAILED, .failures = &late, .failure_count = 1});
    has_event("\"kind\":\"failure\",\"peer\":\"n0\",\"round\":0,\"rank\":0");
    has_event("\"root\":true");
    say(1, &(struct wire_msg){.type = WIRE_FAILED, .failures = &early, .failure_count = 1});
    has_event("\"root\":true");
    say(1, &(struct wire_msg){.type = WIRE_FAILED, .failures = &odd, .failure_count = 1});
    has_event("\"root\":false");
    clock_turn(test_loop, 50);
    done[0] = '\0';
    say(0, &(struct wire_msg){.type = WIRE_STOPPED});
    say(1, &(struct wire_msg){.type = WIRE_STOPPED});
    has_str(done, "FINISH 6 with 3: rank 0 on n0 ended with 3;", "the first report is the reason");
    ok(verdict[0].rank == 2 && verdict[1].rank == 0 && verdict[2].rank == 3,
       "failures are in order of time");
    ok(verdict[0].age_ms == 950 && verdict[1].age_ms == 150 && verdict[2].age_ms == 50,
       "failures have their ages");
    is_str(verdict[1].message, "a message", "later failures keep short texts");
    is_str(verdict[1].node, "n0", "failures have their nodes");
    config.rendezvous.max_restarts = 1;
}

static void test_done(void) {
    begin_round();
    say(0, &(struct wire_msg){.type = WIRE_DONE, .round = 1});
    is_int(strstr(strbuf_cstr(&event_log.line), "node-done") == NULL, 1,
           "another round is not over");
    say(0, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    has_event("\"kind\":\"node-done\",\"peer\":\"n0\",\"round\":0");
    is_done("", "the round goes on until all nodes are done");
    say(1, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    is_done("1 FINISH 5 with 0: every worker ended with 0;0 FINISH 5 with 0: every worker ended "
            "with 0;",
            "the run has finished");
    hang_up(0, ERR_FAILED, "over");
    is_done("0 closed;", "the coordinator waits for the other agent");
    hang_up(1, ERR_FAILED, "over");
    is_done("1 closed;idle;", "the coordinator is idle when all agents have gone");
    begin_round();
    say(0, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    say(1, &(struct wire_msg){.type = WIRE_DONE, .round = 0});
    done[0] = '\0';
    clock_turn(test_loop, COORDINATOR_LINGER_MS_MAX - 100);
    is_done("", "agents have time to receive the verdict");
    clock_turn(test_loop, 100);
    is_done("idle;", "the coordinator is idle after that time");
}

static void test_stop(void) {
    static const struct {
        int64_t signal, grace_ms;
        const char *want;
    } cases[] = {
        {SIGINT, 10, "1 STOP 0 for good by 2 in 10: why;0 STOP 0 for good by 2 in 10: why;"},
        {0, 0, "1 STOP 0 for good by 15 in 0: why;0 STOP 0 for good by 15 in 0: why;"},
        {NSIG - 1, 1,
         "1 STOP 0 for good by 64 in 1: why;0 STOP 0 for good by 64 in 1: "
         "why;"},
        {NSIG, -1,
         "1 STOP 0 for good by 15 in 7000: why;0 STOP 0 for good by 15 in 7000: "
         "why;"},
        {1, 1, "1 STOP 0 for good by 1 in 1: why;0 STOP 0 for good by 1 in 1: why;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_round();
        say(1, &(struct wire_msg){.type = WIRE_STOP_RUN,
                                  .signal = cases[i].signal,
                                  .grace_ms = cases[i].grace_ms,
                                  .reason = "why"});
        is_done(cases[i].want, "a run is stopped on request");
    }
    begin_round();
    coordinator_end_run(coordinator, VERDICT_FAILED, "because", SIGUSR1, 20);
    is_done("1 STOP 0 for good by 10 in 20: because;0 STOP 0 for good by 10 in 20: because;",
            "this agent ends the run");
    say(0, &(struct wire_msg){.type = WIRE_STOPPED});
    say(1, &(struct wire_msg){.type = WIRE_STOPPED});
    is_done("1 FINISH 6 with 0: because;0 FINISH 6 with 0: because;", "the verdict has the reason");
    coordinator_end_run(coordinator, VERDICT_STOPPED, "again", SIGUSR1, 20);
    is_done("", "a run ends once");
}

static void test_leave(void) {
    begin_round();
    say(1, &(struct wire_msg){.type = WIRE_LEAVE, .reason = "tired"});
    has_str(done, "STOP 0 by 15 in 7000: ", "a node that leaves stops the round");
    done[0] = '\0';
    say(1, &(struct wire_msg){.type = WIRE_STOPPED});
    has_str(done, "1 refused: tired;1 closed;", "the node has left when its workers have ended");
    has_event("\"reason\":\"tired\"");
}

// ---- the coordinator ----------------------------------------------------------------------------

static void test_copies(void) {
    config.copies = true;
    begin(3, NULL);
    for (int i = 0; i < 3; i++)
        join(i);
    has_str(done,
            "0 ALLOW n0 n1 n2;0 COPIES n1 n2;0 ROUND 0 rank 0 of 6, group 0 of 3;1 COPIES n2 n0;"
            "1 ROUND 0 rank 2 of 6, group 1 of 3;2 COPIES n0 n1;2 ROUND 0",
            "each node has the nodes that follow before its round");
    config.copies = false;
}

static void test_many(void) {
    enum { NODES = COORDINATOR_CANDIDATES_MAX + 2 };
    begin(NODES, NULL);
    for (int i = 0; i < NODES; i++)
        join(i);
    ok(last.type == WIRE_ROUND && last.group_rank == NODES - 1,
       "the last node gets the round last");
    ok(last.members == NODES && last.node_count == COORDINATOR_CANDIDATES_MAX,
       "a node that is no candidate gets the candidates");
}

static void test_depose(void) {
    begin_round();
    coordinator_depose(coordinator);
    struct wire_msg beat = {.type = WIRE_BEAT};
    say(1, &beat);
    done[0] = '\0';
    clock_turn(test_loop, 5000);
    is_done("", "a deposed coordinator does nothing");
    coordinator_close(coordinator);
    coordinator = NULL;
    is_done("1 refused: its agent does not coordinate any more;1 closed;"
            "0 refused: its agent does not coordinate any more;0 closed;",
            "the agents are sent away");
    loop_once(test_loop, 0);
    opens = false;
    begin(2, NULL);
    arrive(1);
    opens = true;
    is_done("", "a channel may be refused");
    is_int(admission.count, 0, "a refused channel takes no place");
}

static void test_take_over(void) {
    struct voter voters[] = {{.incarnation = OWN, .rounds = QUORUM_THIS},
                             {.incarnation = 21, .rounds = QUORUM_THIS},
                             {.incarnation = 22, .rounds = QUORUM_THIS, .dead = true}};
    struct electorate e = {.term = 3, .round = 4, .committed = true, .voters = voters, .count = 3};
    struct election_peer peers[] = {{.incarnation = OWN, .name = "n0", .address = "10.0.0.9"},
                                    {.incarnation = 21, .name = "n1", .address = "10.0.0.1"},
                                    {.incarnation = 22, .name = "n2", .address = "10.0.0.2"}};
    struct rendezvous_history history = {.term = 5,
                                         .counters = {.attempt = 4, .restarts = 1, .crashes = 0},
                                         .electorate = &e,
                                         .peers = peers,
                                         .why = "n9 is gone"};
    begin(2, &history);
    join(0);
    is_done("0 JOINED 1/2;", "an agent joins the new coordinator");
    ok(last.term == 5 && last.attempt == 4 && last.restarts == 1 && last.members == 3 &&
           last.round_term == 3 && last.round == 4 && last.committed,
       "the answer has the electorate of before");
    struct election_peer out[3];
    coordinator_election_peers(coordinator, out, 3);
    ok(out[1].incarnation == 21 && strcmp(out[1].name, "n1") == 0 &&
           strcmp(out[2].address, "10.0.0.2") == 0,
       "nodes of before keep their names and addresses");
    struct wire_msg m = joining(1);
    m.round = 4;
    arrive(1);
    say(1, &m);
    beat();
    has_str(done, "begin;", "a round begins with more than half of the nodes");
    has_str(done, "1 ROUND 5 rank 2 of 4, group 1 of 2: n9 is gone;",
            "the round has the next number");
    coordinator_election_peers(coordinator, out, 3);
    ok(strcmp(out[0].name, "n0") == 0 && strcmp(out[1].name, "n1") == 0 &&
           strcmp(out[2].name, "n2") == 0 && out[1].port == 4001,
       "the electorate has this round's nodes, then those of the last one");
}

int main(void) {
    open_test();
    test_failed();
    test_reasons();
    test_order();
    test_done();
    test_stop();
    test_leave();
    test_copies();
    test_many();
    test_depose();
    test_take_over();
    return close_test();
}
