// SPDX-License-Identifier: Apache-2.0
// The rendezvous at its limits: a millisecond before each of them, and at it.
#include "rendezvous/rendezvous.h"
#include "tests/unit/rendezvous/rendezvous_nodes.h"

enum { A = 11, B = 12, C = 13, LEASE = 2000, SILENT = 1500 };

static struct rendezvous_config config_of(int nodes_min, int nodes_max) {
    struct rendezvous_config c = base;
    c.nodes_min = nodes_min;
    c.nodes_max = nodes_max;
    return c;
}

// Two members, a and b, and a round of them since 0.
static struct rendezvous *two(const struct rendezvous_config *c, int *a, int *b) {
    struct rendezvous *r = rendezvous_open(c, 0);
    *a = join_as(r, 0, "a", A, 101, 1);
    *b = join_as(r, 0, "b", B, 102, 1);
    rendezvous_tick(r, 0);
    did(r, ACTION_NONE, NULL);
    return r;
}

static void test_gather(void) {
    struct rendezvous_config c = config_of(2, 4);
    struct rendezvous *r = rendezvous_open(&c, 100);
    struct rendezvous_action act = {0};
    is_int(rendezvous_deadline(r), 100 + c.note_ms, "a single member wakes up for the next note");
    rendezvous_tick(r, 100 + c.note_ms - 1);
    ok(!did(r, ACTION_WAITING, NULL), "there is no note a millisecond before its time");
    rendezvous_tick(r, 100 + c.note_ms);
    ok(did(r, ACTION_WAITING, &act) && act.present == 0 && act.expected == 4,
       "the note counts the nodes");
    rendezvous_tick(r, 100 + c.note_ms + 1);
    ok(!did(r, ACTION_WAITING, NULL), "the note is given once");
    c.note_ms = c.join_timeout_ms * 2;
    rendezvous_close(r);
    r = rendezvous_open(&c, 100);
    is_int(rendezvous_deadline(r), 100 + c.join_timeout_ms,
           "the coordinator wakes up for the join timeout");
    rendezvous_tick(r, 100 + c.join_timeout_ms - 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "the coordinator waits until the join timeout");
    ok(!rendezvous_can_hand_over(r), "before a round no other agent can take over");
    rendezvous_tick(r, 100 + c.join_timeout_ms);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "the run fails at the join timeout");
    ok(did(r, ACTION_OVER, &act), "the run is over");
    is_str(act.reason, "0 of 2 nodes came within 60 s",
           "the reason has the number of nodes and the limit");
    is_int(rendezvous_deadline(r) == INT64_MAX, 1, "a run that is over has no deadline");
    rendezvous_close(r);
}

static void test_last_call(void) {
    struct rendezvous_config c = config_of(2, 4);
    c.silent_ms_max = 80000;
    int a, b;
    struct rendezvous *r = two(&c, &a, &b);
    is_int(rendezvous_deadline(r), 5000,
           "the deadline is that of the last call or of the next note");
    rendezvous_tick(r, c.last_call_ms - 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "more nodes may join during the last call");
    rendezvous_tick(r, c.last_call_ms);
    is_int(rendezvous_phase(r), PHASE_RUN, "the round begins after the last call");
    is_int(rendezvous_deadline(r), 10000, "a running round is looked at for silent members");
    rendezvous_stop(r, 6000, VERDICT_NONE, "again");
    rendezvous_stopped(r, 6000, a, 0, 1), rendezvous_stopped(r, 6000, b, 0, 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "a later round gathers");
    is_int(rendezvous_deadline(r), 6000 + c.regroup_call_ms, "a later round has its own last call");
    rendezvous_tick(r, 6000 + c.regroup_call_ms - 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "the later round's last call is not over");
    rendezvous_tick(r, 6000 + c.regroup_call_ms);
    is_int(rendezvous_phase(r), PHASE_RUN, "now it is");
    rendezvous_close(r);
    c.nodes_expected = 2;
    r = two(&c, &a, &b);
    is_int(rendezvous_phase(r), PHASE_RUN,
           "no last call is needed when all expected nodes are there");
    rendezvous_close(r);
}

static void test_silence(void) {
    struct rendezvous_config c = config_of(1, 2);
    struct rendezvous_action act = {0};
    int a, b;
    struct rendezvous *r = two(&c, &a, &b);
    is_int(rendezvous_deadline(r), SILENT / 8, "silent members are looked for eight times");
    for (int64_t now = 100; now <= SILENT; now += 100)
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
    ok(rendezvous_member(r, b) != NULL, "a member may be silent for so long");
    rendezvous_heard(r, SILENT + SILENT / 8, a);
    rendezvous_tick(r, SILENT + SILENT / 8 + 100);
    ok(did(r, ACTION_LOST, &act) && act.id == b, "a silent member is lost at the next check");
    is_int(act.silent_ms, SILENT + SILENT / 8 + 100, "the time of silence is reported");
    is_str(act.name, "b", "the lost member's name is reported");
    is_str(act.reason, "it is silent", "the reason of the loss is reported");
    is_int(rendezvous_phase(r), PHASE_STOP, "the round stops");
    rendezvous_stopped(r, 1700, a, 0, 1);
    for (int64_t now = 1750; now < LEASE; now += 50)
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
    rendezvous_tick(r, LEASE - 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "no round begins during the lease of the lost node");
    rendezvous_heard(r, 1700 + c.regroup_call_ms, a);
    rendezvous_tick(r, 1700 + c.regroup_call_ms);
    is_int(rendezvous_phase(r), PHASE_RUN, "the round begins after the lease and the last call");
    rendezvous_close(r);
    c.regroup_call_ms = 0;
    r = two(&c, &a, &b);
    rendezvous_heard(r, 300, b);
    rendezvous_lost(r, 400, b, "gone"), rendezvous_stopped(r, 500, a, 0, 1);
    int64_t over = 300 + lease_over_ms(LEASE);
    for (int64_t now = 600; now < over; now += 100)
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
    is_int(rendezvous_deadline(r) <= over, 1,
           "the coordinator wakes up when the lease is over on every clock");
    rendezvous_tick(r, over - 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "the lease counts from the member's last heartbeat");
    rendezvous_tick(r, over);
    is_int(rendezvous_phase(r), PHASE_RUN, "the round begins to the millisecond");
    rendezvous_close(r);
}

static void test_stop_limit(void) {
    struct rendezvous_config c = config_of(2, 2);
    c.silent_ms_max = 800000;
    struct rendezvous_action act = {0};
    int a, b;
    struct rendezvous *r = two(&c, &a, &b);
    rendezvous_stop(r, 1000, VERDICT_STOPPED, "Ctrl-C");
    ok(did(r, ACTION_STOP, &act) && act.final && !act.counted && !act.tentative,
       "the stop is final");
    rendezvous_stop(r, 1100, VERDICT_STOPPED, "Ctrl-C again");
    ok(did(r, ACTION_STOP, &act) && act.final, "a second request is sent on");
    is_str(act.reason, "Ctrl-C", "the first reason stays");
    rendezvous_stop(r, 1100, VERDICT_FAILED, "a failure");
    ok(!did(r, ACTION_STOP, &act), "a failure is not, then");
    is_int(rendezvous_deadline(r), 1000 + c.stop_ms_max + 1, "the stop has a limit");
    rendezvous_tick(r, 1000 + c.stop_ms_max);
    is_int(rendezvous_phase(r), PHASE_STOP, "a member has that long to stop");
    c.silent_ms_max = 0;
    rendezvous_stopped(r, 1000 + c.stop_ms_max, a, 0, 1);
    rendezvous_tick(r, 1000 + 200000);
    ok(did(r, ACTION_LOST, &act) && act.id == b, "a member that does not stop in time is lost");
    is_str(act.reason, "it did not stop its workers in time",
           "the reason says that the workers were not stopped in time");
    is_int(rendezvous_verdict(r), VERDICT_STOPPED, "the run ends as requested");
    rendezvous_close(r);
    c = config_of(2, 2);
    c.max_restarts = 1;
    r = two(&c, &a, &b);
    rendezvous_failed(r, 10, a, 0, "fails");
    rendezvous_stop(r, 20, VERDICT_STOPPED, "Ctrl-C");
    ok(did(r, ACTION_STOP, &act) && act.final, "a final stop overtakes one for a restart");
    is_str(rendezvous_reason(r), "Ctrl-C", "a final stop has its own reason");
    rendezvous_stopped(r, 30, a, 0, 1), rendezvous_stopped(r, 30, b, 0, 1);
    is_int(rendezvous_verdict(r), VERDICT_STOPPED, "the run ends");
    rendezvous_stop(r, 40, VERDICT_FAILED, "late");
    is_int(rendezvous_verdict(r), VERDICT_STOPPED, "the verdict is given once");
    rendezvous_close(r);
}

static void test_blame(void) {
    for (int late = 0; late < 2; late++) {
        struct rendezvous_config c = config_of(2, 2);
        struct election_counters counters;
        struct rendezvous_action act = {0};
        int a, b;
        c.max_restarts = 3;
        c.crash_ms = 5000, c.crashes_max = 9, c.backoff_ms = 1000;
        struct rendezvous *r = two(&c, &a, &b);
        rendezvous_failed(r, 1000, a, 0, "rank 0 ended with 1");
        ok(did(r, ACTION_STOP, &act) && act.tentative && act.counted, "a failure may be excused");
        rendezvous_counters(r, &counters);
        ok(counters.attempt == 0 && counters.restarts == 0 && counters.crashes == 0,
           "a failure counts nothing before it is judged");
        rendezvous_heard(r, 1000 + RENDEZVOUS_BLAME_MS + late, b);
        rendezvous_lost(r, 1600, b, "it died");
        ok(did(r, ACTION_EXCUSED, &act) == !late, "the loss of a node heard %s is %s cause",
           late ? "later" : "so long after the failure", late ? "no" : "its");
        rendezvous_stopped(r, 1700, a, 0, 1);
        is_int(rendezvous_restarts(r), late, "%s",
               late ? "the failure counts" : "the failure does not count");
        rendezvous_counters(r, &counters);
        ok(counters.restarts == late && counters.crashes == late,
           "the next coordinator has the same counters");
        rendezvous_close(r);
    }
}

static void test_backoff(void) {
    struct rendezvous_config c = config_of(1, 1);
    struct election_counters counters;
    c.max_restarts = 100;
    c.crash_ms = 5000, c.crashes_max = 9, c.backoff_ms = 1000, c.silent_ms_max = 100000;
    struct rendezvous *r = rendezvous_open(&c, 0);
    int a = join_as(r, 0, "a", A, 101, 1);
    int64_t now = 0;
    static const int64_t waits[] = {0, 1000, 2000, 3000};
    for (int i = 0; i < 4; i++) {
        now += c.crash_ms - 1;
        rendezvous_failed(r, now, a, i, "crash");
        rendezvous_counters(r, &counters);
        rendezvous_stopped(r, now, a, i, 1);
        rendezvous_counters(r, &counters);
        is_int(counters.crashes, i + 1, "crash %d is counted", i + 1);
        if (waits[i] > 0) {
            rendezvous_tick(r, now + waits[i] - 1);
            is_int(rendezvous_phase(r), PHASE_GATHER, "the next start waits");
            ok(rendezvous_deadline(r) <= now + waits[i],
               "the coordinator wakes up at the start of the next round");
        }
        now += waits[i];
        rendezvous_tick(r, now);
        is_int(rendezvous_phase(r), PHASE_RUN, "the next round begins after %d ms", (int)waits[i]);
    }
    rendezvous_failed(r, now + c.crash_ms, a, 4, "late");
    rendezvous_stopped(r, now + c.crash_ms, a, 4, 1);
    rendezvous_counters(r, &counters);
    is_int(counters.crashes, 0, "a round that lasts for crash_ms is no crash");
    rendezvous_close(r);
}

// Of a round of two with the store on a.
static void test_leaving(void) {
    static const struct {
        const char *what;
        bool done_a, done_b, a_goes, leaves, stops;
    } cases[] = {
        {"a running node is lost", false, false, false, false, true},
        {"a running node leaves", false, false, false, true, true},
        {"a node that was done is lost", false, true, false, false, false},
        {"a node that was done leaves", false, true, false, true, false},
        {"the node of the store is lost, done", true, false, true, false, true},
        {"the node of the store leaves, done", true, false, true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous_config c = config_of(1, 2);
        struct rendezvous_action act = {0};
        int a, b;
        struct rendezvous *r = two(&c, &a, &b);
        if (cases[i].done_a)
            rendezvous_done(r, 10, a, 0);
        if (cases[i].done_b)
            rendezvous_done(r, 10, b, 0);
        int goes = cases[i].a_goes ? a : b;
        if (cases[i].leaves)
            rendezvous_leave(r, 20, goes, "SIGTERM"), rendezvous_leave(r, 21, goes, "again");
        else
            rendezvous_lost(r, 20, goes, "gone");
        is_int(rendezvous_phase(r), cases[i].stops ? PHASE_STOP : PHASE_RUN, "%s", cases[i].what);
        if (cases[i].leaves && cases[i].stops && rendezvous_member(r, goes)) {
            rendezvous_stopped(r, 30, goes, 0, 1);
            ok(did(r, ACTION_LEFT, &act) && act.id == goes,
               "a departing node is a member until it has stopped");
            is_str(act.reason, "SIGTERM", "a departing node leaves for its first reason");
        }
        rendezvous_close(r);
    }
}

static void test_hand_over(void) {
    struct rendezvous_config c = config_of(2, 2);
    int a, b;
    struct rendezvous *r = two(&c, &a, &b);
    ok(!rendezvous_can_hand_over(r), "two nodes of a fixed size cannot continue as one");
    ok(rendezvous_active(r, 0) && rendezvous_active(r, 1), "both nodes have a group rank");
    ok(!rendezvous_active(r, 2) && !rendezvous_active(r, -1), "no node has another group rank");
    rendezvous_close(r);
    c.max_restarts = 1;
    r = two(&c, &a, &b);
    ok(rendezvous_can_hand_over(r), "two nodes with restarts can hand over");
    rendezvous_stop(r, 1, VERDICT_STOPPED, "stop");
    ok(!rendezvous_can_hand_over(r), "a run that is being stopped is not handed over");
    rendezvous_close(r);
    c = config_of(1, 2);
    r = two(&c, &a, &b);
    ok(rendezvous_can_hand_over(r),
       "without restarts, a run for which one node is enough is handed over");
    rendezvous_lost(r, 2, b, "gone");
    ok(!rendezvous_can_hand_over(r), "the last node has no other to hand over to");
    rendezvous_close(r);
    c = config_of(1, 1);
    c.nodes_max = 1;
    r = rendezvous_open(&c, 0);
    join_as(r, 0, "a", A, 101, 1), join_as(r, 0, "b", B, 102, 1);
    ok(rendezvous_can_hand_over(r), "a spare can take over");
    rendezvous_close(r);
}

static void test_ranks_taken(void) {
    struct rendezvous_config c = config_of(2, 3);
    struct rendezvous *r = rendezvous_open(&c, 0);
    ok(join(r, 0, "a", 0, 1) >= 0, "a node asks for rank 0");
    is_int(join(r, 0, "b", 0, 1), -1, "a second node cannot have rank 0");
    is_int(e.code, ERR_BUSY, "rank 0 is busy while the first node has it");
    ok(join(r, 0, "b", 1, 1) >= 0 && join(r, 0, "c", -1, 1) >= 0, "others can have others");
    rendezvous_close(r);
}

static void test_take_over(void) {
    static const struct {
        const char *what;
        int min, max, restarts, voters;
        bool ends;
    } cases[] = {{"two nodes of a fixed size", 2, 2, 0, 2, true},
                 {"two with restarts", 2, 2, 1, 2, false},
                 {"three where two are enough", 2, 2, 0, 3, false},
                 {"two of a range", 2, 3, 0, 2, false},
                 {"one alone", 1, 1, 0, 1, true},
                 {"no electorate", 2, 2, 0, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous_config c = config_of(cases[i].min, cases[i].max);
        struct voter voters[4] = {{A, QUORUM_THIS, false},
                                  {B, QUORUM_THIS, false},
                                  {C, QUORUM_THIS | QUORUM_LAST, false},
                                  {0}};
        voters[cases[i].voters] = (struct voter){99, QUORUM_LAST, false};
        struct electorate last = {.term = 1,
                                  .committed = true,
                                  .tie_breaker = A,
                                  .voters = voters,
                                  .count = cases[i].voters + 1};
        struct election_peer peers[4] = {{0}};
        struct rendezvous_history h = {.term = 2,
                                       .counters = {4, 1, 3},
                                       .electorate = &last,
                                       .peers = peers,
                                       .why = "node a is gone"};
        c.incarnation = B;
        c.max_restarts = cases[i].restarts;
        c.backoff_ms = 1000;
        struct rendezvous *r = rendezvous_take_over(&c, 100, &h);
        is_int(rendezvous_verdict(r), cases[i].ends ? VERDICT_FAILED : VERDICT_NONE,
               "a new coordinator of %s: the run %s", cases[i].what,
               cases[i].ends ? "ends" : "continues");
        is_str(rendezvous_reason(r), "node a is gone", "the new coordinator keeps the reason");
        ok(rendezvous_round(r) == 4 && rendezvous_restarts(r) == 1 && rendezvous_term(r) == 2,
           "the new coordinator keeps round, restarts and term");
        rendezvous_close(r);
    }
}

int main(void) {
    test_gather();
    test_last_call();
    test_silence();
    test_stop_limit();
    test_blame();
    test_backoff();
    test_leaving();
    test_hand_over();
    test_ranks_taken();
    test_take_over();
    return done_testing();
}
