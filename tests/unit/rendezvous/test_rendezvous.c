// SPDX-License-Identifier: Apache-2.0
// The rendezvous, step by step: who starts when, in which order, and what ends or restarts a round.
#include "rendezvous/rendezvous.h"
#include "tests/unit/rendezvous/rendezvous_nodes.h"

static void test_start_and_finish(void) {
    struct rendezvous *r = rendezvous_open(&base, 0);
    int b = join(r, 10, "b", -1, 2);
    ok(!did(r, ACTION_START, NULL), "one node of two: no round starts");
    int a = join(r, 20, "a", -1, 3);
    ok(did(r, ACTION_START, NULL), "two of two: the round starts at once");
    is_str(order(r), "a:0 b:3", "ranks follow names; unequal numbers of workers are fine");
    is_int(rendezvous_world_size(r), 5, "the world size is the number of all workers");
    rendezvous_done(r, 100, a, 0);
    is_int(rendezvous_phase(r), PHASE_RUN, "one node is done: the run continues");
    rendezvous_lost(r, 150, b, "gone");
    is_int(rendezvous_phase(r), PHASE_STOP, "the other lost before it was done: no finish");
    rendezvous_stopped(r, 160, a, 0, 0);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "fixed size and no restarts: it fails");
    rendezvous_close(r);
    r = rendezvous_open(&base, 0);
    a = join(r, 1, "a", 1, 1), b = join(r, 2, "b", 0, 1);
    is_str(order(r), "b:0 a:1", "given node ranks come before names");
    rendezvous_done(r, 10, a, 0);
    rendezvous_lost(r, 11, a, "shut down");
    is_int(rendezvous_phase(r), PHASE_RUN, "a node that was done may go");
    rendezvous_done(r, 12, b, 0);
    is_int(rendezvous_verdict(r), VERDICT_FINISHED, "the run is finished when all nodes are");
    ok(did(r, ACTION_OVER, NULL), "all agents get the verdict");
    is_int(join(r, 20, "c", -1, 1), -1, "an agent cannot join a run that is over");
    has_str(e.text, "over", "the refusal says that the run is over");
    rendezvous_close(r);
}

static void test_natural_order(void) {
    struct rendezvous_config c = base;
    c.nodes_min = c.nodes_max = 4;
    struct rendezvous *r = rendezvous_open(&c, 0);
    join(r, 1, "host10", -1, 1), join(r, 2, "host2", -1, 1);
    join(r, 3, "host1", -1, 1), join(r, 4, "first", 9, 1);
    is_str(order(r), "first:0 host1:1 host2:2 host10:3",
           "nodes with given ranks come first, and the others are in natural order");
    is_int(join(r, 5, "x", 9, 1), -1, "a node rank that is taken is refused");
    is_int(e.code, ERR_BUSY, "may be tried again later");
    rendezvous_close(r);
}

static void test_restarts(void) {
    struct rendezvous_config c = base;
    struct rendezvous_action act = {0};
    c.max_restarts = 1;
    struct rendezvous *r = rendezvous_open(&c, 0);
    int a = join(r, 1, "a", -1, 1), b = join(r, 2, "b", -1, 1);
    rendezvous_failed(r, 100, b, 0, "rank 1 ended with 3");
    ok(did(r, ACTION_STOP, &act), "a failure stops the round");
    ok(act.counted && !act.final, "the restart is counted");
    rendezvous_failed(r, 101, a, 0, "rank 0 too");
    is_int(rendezvous_restarts(r), 1, "a second failure of the same round is not counted");
    rendezvous_stopped(r, 200, a, 0, 8);
    is_int(rendezvous_phase(r), PHASE_STOP, "the group waits until every node has stopped");
    rendezvous_stopped(r, 300, b, 0, 9);
    ok(did(r, ACTION_START, NULL), "the next round starts when every node has stopped");
    is_int(rendezvous_round(r), 1, "round 1 follows");
    is_int(rendezvous_active(r, 0)->store_port, 8, "the next round has the new store");
    rendezvous_failed(r, 350, a, 0, "late news of round 0");
    is_int(rendezvous_phase(r), PHASE_RUN, "news of an old round are ignored");
    rendezvous_failed(r, 400, a, 1, "again");
    ok(did(r, ACTION_STOP, &act) && act.final, "no restart is left: stop for good");
    rendezvous_stopped(r, 500, a, 1, 0), rendezvous_stopped(r, 501, b, 1, 0);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "failed");
    is_str(rendezvous_reason(r), "again", "the run has the reason of the failure");
    rendezvous_close(r);
}

static void test_crash_loop(void) {
    struct rendezvous_config c = base;
    c.nodes_min = c.nodes_max = 1;
    c.max_restarts = 100;
    c.crash_ms = 5000, c.crashes_max = 3, c.backoff_ms = 1000;
    struct rendezvous *r = rendezvous_open(&c, 0);
    int a = join(r, 0, "a", -1, 1);
    rendezvous_failed(r, 1000, a, 0, "one"), rendezvous_stopped(r, 1000, a, 0, 1);
    is_int(rendezvous_phase(r), PHASE_RUN, "the run restarts at once after the first crash");
    rendezvous_failed(r, 2000, a, 1, "two"), rendezvous_stopped(r, 2000, a, 1, 1);
    is_int(rendezvous_phase(r), PHASE_GATHER,
           "the run does not restart at once after a second crash in a row");
    rendezvous_heard(r, 3000, a), rendezvous_tick(r, 3000);
    is_int(rendezvous_phase(r), PHASE_RUN, "the third round starts after the back-off");
    rendezvous_heard(r, 9000, a);
    rendezvous_failed(r, 9000, a, 2, "three"), rendezvous_stopped(r, 9000, a, 2, 1);
    is_int(rendezvous_phase(r), PHASE_RUN, "a round that ran for long counts no crash");
    for (int i = 0; i < 3; i++) {
        int64_t now = 10000 + i * 4000;
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
        rendezvous_failed(r, now, a, 3 + i, "quick"), rendezvous_stopped(r, now, a, 3 + i, 1);
    }
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "three crashes in a row end the run");
    has_str(rendezvous_reason(r), "crash loop", "the reason is 'crash loop'");
    rendezvous_close(r);
}

static void test_loss_and_fence(void) {
    struct rendezvous_config c = base;
    struct rendezvous_action act = {0};
    c.nodes_min = 1;
    c.nodes_max = 3;
    struct rendezvous *r = rendezvous_open(&c, 0);
    int a = join(r, 0, "a", -1, 1), b = join(r, 0, "b", -1, 1), d = join(r, 0, "d", -1, 1);
    ok(did(r, ACTION_START, NULL), "three nodes run");
    rendezvous_heard(r, 1000, a), rendezvous_heard(r, 1000, b), rendezvous_heard(r, 1000, d);
    for (int64_t now = 1100; now <= 2900; now += 100) {
        rendezvous_heard(r, now, a), rendezvous_heard(r, now, b);
        rendezvous_tick(r, now);
    }
    ok(did(r, ACTION_LOST, &act), "a silent node is lost");
    ok(act.silent_ms > 1500 && act.silent_ms < 2000, "a node counts as silent within 2 s (%d ms)",
       (int)act.silent_ms);
    rendezvous_stopped(r, 2910, a, 0, 1), rendezvous_stopped(r, 2920, b, 0, 1);
    is_int(rendezvous_phase(r), PHASE_GATHER, "the members gather when all others have stopped");
    for (int64_t now = 2930; now < 3000; now += 10) {
        rendezvous_heard(r, now, a), rendezvous_heard(r, now, b);
        rendezvous_tick(r, now);
    }
    ok(!did(r, ACTION_START, NULL), "no round begins before the lease of the lost node is over");
    rendezvous_heard(r, 3420, a), rendezvous_heard(r, 3420, b);
    rendezvous_tick(r, 3420);
    ok(did(r, ACTION_START, NULL), "the next round begins after the lost node's lease");
    is_str(order(r), "a:0 b:1", "the next round has no lost node");
    is_int(rendezvous_restarts(r), 0, "a lost node is no restart");
    d = join(r, 3500, "d", -1, 1);
    ok(did(r, ACTION_STOP, &act) && !act.final, "the node joins again: the group stops to grow");
    rendezvous_stopped(r, 3600, a, 1, 1), rendezvous_stopped(r, 3600, b, 1, 1);
    is_str(order(r), "a:0 b:1 d:2", "a node that joins again has its old rank");
    rendezvous_leave(r, 3700, d, "SIGTERM");
    ok(did(r, ACTION_STOP, NULL), "a node that leaves stops the group");
    rendezvous_stopped(r, 3800, d, 2, 1), rendezvous_stopped(r, 3800, a, 2, 1);
    rendezvous_stopped(r, 3800, b, 2, 1);
    rendezvous_tick(r, 4300);
    ok(did(r, ACTION_START, NULL), "no fence is needed for one that stopped its workers itself");
    is_str(order(r), "a:0 b:1", "the next round has no node that left");
    rendezvous_close(r);
}

static void test_range_and_spares(void) {
    struct rendezvous_config c = base;
    c.nodes_min = 2;
    c.nodes_max = 3;
    struct rendezvous *r = rendezvous_open(&c, 0);
    join(r, 0, "a", -1, 1), join(r, 100, "b", -1, 1);
    ok(!did(r, ACTION_START, NULL), "the minimum is there: last call");
    int64_t at = rendezvous_deadline(r);
    ok(at <= 5100, "a deadline is set");
    for (int64_t now = 1000; now <= 5000; now += 500)
        rendezvous_heard(r, now, 0), rendezvous_heard(r, now, 1), rendezvous_tick(r, now);
    ok(!did(r, ACTION_START, NULL), "no round begins before the last call is over");
    rendezvous_tick(r, 5100);
    ok(did(r, ACTION_START, NULL), "last call over: two start");
    int d = join(r, 5200, "d", -1, 1);
    rendezvous_stopped(r, 5300, 0, 0, 1), rendezvous_stopped(r, 5300, 1, 0, 1);
    ok(did(r, ACTION_START, NULL), "a third makes the group grow");
    int spare = join(r, 5400, "a0", -1, 1);
    is_int(rendezvous_phase(r), PHASE_RUN, "a fourth waits as a spare");
    rendezvous_lost(r, 5500, d, "killed");
    rendezvous_stopped(r, 5600, 0, 1, 1), rendezvous_stopped(r, 5600, 1, 1, 1);
    for (int64_t now = 5700; now <= 7600; now += 100)
        for (int id = 0; id < 4; id++)
            rendezvous_heard(r, now, id), rendezvous_tick(r, now);
    ok(did(r, ACTION_START, NULL), "a spare takes the place of a lost node");
    is_int(rendezvous_active_count(r), 3, "three nodes are active again");
    ok(rendezvous_member(r, spare)->state == MEMBER_ACTIVE, "the spare is active");
    rendezvous_close(r);
}

static void test_timeouts_and_stop(void) {
    struct rendezvous_config c = base;
    struct rendezvous_action act = {0};
    struct rendezvous *r = rendezvous_open(&c, 0);
    int a = join(r, 0, "a", -1, 1);
    for (int64_t now = 500; now <= 5000; now += 500)
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
    ok(did(r, ACTION_WAITING, &act), "every few seconds it says who is missing");
    is_int(act.present, 1, "one node is present");
    for (int64_t now = 5500; now <= 60000; now += 500)
        rendezvous_heard(r, now, a), rendezvous_tick(r, now);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "the run fails when the join timeout is over");
    has_str(rendezvous_reason(r), "1 of 2 nodes", "the reason says so");
    rendezvous_close(r);
    r = rendezvous_open(&c, 0);
    a = join(r, 0, "a", -1, 1);
    int b = join(r, 0, "b", -1, 1);
    rendezvous_stop(r, 10, VERDICT_STOPPED, "Ctrl-C");
    ok(did(r, ACTION_STOP, &act) && act.final, "a stop on request is final");
    rendezvous_failed(r, 11, a, 0, "died of it");
    rendezvous_stopped(r, 12, a, 0, 0);
    for (int64_t now = 1000; now <= 42000; now += 1000)
        rendezvous_heard(r, now, a), rendezvous_heard(r, now, b), rendezvous_tick(r, now);
    is_int(rendezvous_verdict(r), VERDICT_STOPPED, "a node that does not stop is not waited for");
    rendezvous_close(r);
}

static void test_roles(void) {
    struct rendezvous_config c = base;
    c.nodes_min = c.nodes_max = 3;
    struct rendezvous *r = rendezvous_open(&c, 0);
    const char *roles[] = {"t", "p", "t"};
    for (int i = 0; i < 3; i++) {
        struct rendezvous_node n = {.name = "n",
                                    .address = "::1",
                                    .role = roles[i],
                                    .node_rank = i,
                                    .last_round = -1,
                                    .nproc = 2};
        int id;
        rendezvous_join(r, 1, &n, &id, &e);
    }
    const struct rendezvous_member *m = rendezvous_active(r, 2);
    is_int(m->role_rank, 2, "ranks are numbered inside a role");
    is_int(m->role_world, 4, "a role has its size");
    is_int(rendezvous_active(r, 1)->role_world, 2, "another role has its own size");
    rendezvous_close(r);
}

// A worker of a fails at 1000. The last message of b, another node of the round, is at b_heard_ms,
// and b is lost at 2400 at the latest. spare: a third node is a spare.
static struct rendezvous *fail_and_lose(const struct rendezvous_config *c, int64_t b_heard_ms,
                                        bool spare, struct rendezvous_action *stop) {
    struct rendezvous *r = rendezvous_open(c, 0);
    int a = join(r, 0, "a", -1, 1), b = join(r, 0, "b", -1, 1);
    int s = spare ? join(r, 0, "s", -1, 1) : -1;
    int64_t times[] = {900, 1000, 1499, 1501, 1600, 2400, 2600, 3500, 4000};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        int64_t now = times[i];
        rendezvous_heard(r, now, a), rendezvous_heard(r, now, s);
        if (now <= b_heard_ms)
            rendezvous_heard(r, now, b);
        if (now == 1000) {
            rendezvous_failed(r, now, a, 0, "rank 0 ended with 1");
            did(r, ACTION_STOP, stop);
            rendezvous_stopped(r, now, a, 0, 0);
        }
        if (now == 2400)
            rendezvous_lost(r, now, b, "it is silent");
        rendezvous_tick(r, now);
    }
    return r;
}

static void test_blame(void) {
    struct rendezvous_config c = base;
    struct rendezvous_action stop = {0}, act;
    struct rendezvous *r = fail_and_lose(&c, 900, true, &stop);
    ok(stop.final && stop.tentative, "without restarts a failure is final, but may be excused");
    ok(did(r, ACTION_EXCUSED, &act), "a loss that came before it excuses it");
    has_str(act.reason, "node b is gone: it is silent", "the earlier loss is the reason");
    is_str(order(r), "a:0 s:1", "the run continues with the spare");
    is_int(rendezvous_round(r), 1, "the spare takes part in another round");
    is_int(rendezvous_restarts(r), 0, "an excused failure uses no restart");
    rendezvous_close(r);
    r = fail_and_lose(&c, 1499, true, &stop);
    is_int(rendezvous_phase(r), PHASE_RUN,
           "a node may speak for a short time after the failure that it caused");
    rendezvous_close(r);
    r = fail_and_lose(&c, 1501, true, &stop);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "a node that spoke later was not the cause");
    is_str(rendezvous_reason(r), "rank 0 ended with 1", "the reason is the failure");
    ok(!did(r, ACTION_EXCUSED, NULL), "the failure is not excused");
    rendezvous_close(r);
    r = fail_and_lose(&c, 900, false, &stop);
    is_int(rendezvous_verdict(r), VERDICT_FAILED, "too few nodes are left: the loss ends the run");
    is_str(rendezvous_reason(r), "node b is gone: it is silent", "the reason names the lost node");
    rendezvous_close(r);
    c.max_restarts = 1, c.crash_ms = 5000, c.crashes_max = 2, c.backoff_ms = 60000;
    r = fail_and_lose(&c, 900, true, &stop);
    ok(!stop.final && stop.counted, "a failure counts");
    is_int(rendezvous_restarts(r), 0, "an excused failure counts no restart");
    struct election_counters counters;
    rendezvous_counters(r, &counters);
    is_int(counters.crashes, 0, "an excused failure counts no crash");
    rendezvous_close(r);
    r = rendezvous_open(&c, 0);
    int x = join(r, 0, "x", -1, 1), y = join(r, 0, "y", -1, 1);
    join(r, 0, "s", -1, 1);
    rendezvous_failed(r, 100, x, 0, "rank 0 ended with 1");
    rendezvous_counters(r, &counters);
    is_int(counters.restarts, 0, "no restart is counted while the failure may be excused");
    is_int(counters.crashes, 0, "no crash is counted while the failure may be excused");
    rendezvous_stopped(r, 200, x, 0, 0), rendezvous_stopped(r, 200, y, 0, 0);
    rendezvous_counters(r, &counters);
    is_int(counters.restarts, 1, "a failure that stands counts a restart");
    is_int(counters.crashes, 1, "a failure that stands counts a crash");
    rendezvous_close(r);
    c = base;
    r = rendezvous_open(&c, 0);
    int a = join(r, 0, "a", -1, 1), b = join(r, 0, "b", -1, 1);
    join(r, 0, "s", -1, 1);
    rendezvous_failed(r, 100, a, 0, "rank 0 ended with 1");
    rendezvous_stop(r, 200, VERDICT_STOPPED, "Ctrl-C");
    rendezvous_stopped(r, 300, a, 0, 0), rendezvous_lost(r, 400, b, "it is silent");
    is_int(rendezvous_phase(r), PHASE_OVER, "a run that is to stop does not continue");
    rendezvous_close(r);
}

int main(void) {
    test_start_and_finish();
    test_natural_order();
    test_restarts();
    test_crash_loop();
    test_blame();
    test_loss_and_fence();
    test_range_and_spares();
    test_timeouts_and_stop();
    test_roles();
    return done_testing();
}
