// SPDX-License-Identifier: Apache-2.0
// The coordinator's right to coordinate: how long it lasts, what prolongs it, and when it ends.
#include "rendezvous/rendezvous.h"
#include "tests/unit/rendezvous/rendezvous_nodes.h"

enum { A = 11, B = 12, C = 13, LEASE = 2000, KEPT = 50 };

static struct rendezvous_config config_of(int nodes) {
    struct rendezvous_config c = base;
    c.incarnation = A;
    c.nodes_min = 1;
    c.nodes_max = c.nodes_expected = nodes;
    c.max_restarts = 9;
    c.silent_ms_max = 100000;
    c.regroup_call_ms = 0;
    return c;
}

// Nodes a, b, … (ids 0, 1, …) in a round since 0.
static struct rendezvous *group(int nodes) {
    struct rendezvous_config c = config_of(nodes);
    struct rendezvous *r = rendezvous_open(&c, 0);
    char name[2] = "a";
    for (int i = 0; i < nodes; i++, name[0]++)
        join_as(r, 0, name, A + i, 101 + i, 1);
    ok(did(r, ACTION_START, NULL), "a round of %d starts", nodes);
    return r;
}

static void test_lease(void) {
    struct rendezvous *r = group(3);
    is_int(rendezvous_lease_left_ms(r), LEASE, "a round begins with a whole lease");
    is_int(rendezvous_heartbeat(r, 1000, 0, 900, 1, 0), LEASE - 1000, "one of three is no quorum");
    is_int(rendezvous_heartbeat(r, 1000 + KEPT, 1, 950, 1, 0), LEASE + 900 - 1000 - KEPT,
           "two are: it lasts from the earlier of their times");
    is_int(rendezvous_heartbeat(r, 1000 + KEPT + 1, 2, 1000, 1, 0), LEASE + 900 - 1000 - KEPT - 1,
           "the lease is not recounted at each heartbeat");
    is_int(rendezvous_heartbeat(r, 1000 + 2 * KEPT, 2, 1000, 1, 0), LEASE + 950 - 1000 - 2 * KEPT,
           "the lease is recounted soon: two of three were heard at 950");
    is_int(rendezvous_heartbeat(r, 1200, 1, 1201, 1, 0), LEASE + 950 - 1200,
           "a time stamp of the future does not count");
    is_int(rendezvous_heartbeat(r, 1300, 1, 940, 1, 0), LEASE + 950 - 1300,
           "an old one takes nothing back");
    is_int(rendezvous_heartbeat(r, 1300, 7, 1290, 1, 0), 0, "an unknown member gets no lease");
    is_int(rendezvous_heartbeat(r, 1400, 0, 1400, 1, 0), LEASE + 1000 - 1400,
           "a stamp of this moment counts");
    is_int(rendezvous_deadline(r), LEASE + 1000, "the coordinator wakes up when its lease ends");
    rendezvous_tick(r, LEASE + 999);
    ok(!did(r, ACTION_STEP_DOWN, NULL), "the coordinator leads until its lease ends");
    rendezvous_tick(r, LEASE + 1000);
    ok(did(r, ACTION_STEP_DOWN, NULL), "the coordinator steps down at the end of its lease");
    is_int(rendezvous_phase(r), PHASE_DEPOSED, "a coordinator that stepped down stays deposed");
    is_int(rendezvous_heartbeat(r, LEASE + 1001, 0, LEASE + 1000, 1, 0), 0,
           "a deposed coordinator grants no lease");
    is_int(rendezvous_lease_left_ms(r), 0, "a deposed coordinator has no lease");
    ok(rendezvous_deadline(r) == INT64_MAX, "a deposed coordinator has no deadline");
    is_int(join_as(r, LEASE + 1002, "z", 77, 1, 1), -1, "a deposed coordinator takes no members");
    is_int(e.code, ERR_BUSY, "the refusal is 'busy'");
    rendezvous_depose(r, "again");
    ok(!did(r, ACTION_STEP_DOWN, NULL), "the coordinator steps down once");
    rendezvous_close(r);
}

static void test_alone(void) {
    struct rendezvous *r = group(1);
    is_int(rendezvous_heartbeat(r, 90000, 0, 0, 1, 0), LEASE, "alone it has a whole lease");
    rendezvous_tick(r, 99000);
    ok(!did(r, ACTION_STEP_DOWN, NULL), "a coordinator alone need not hear itself");
    rendezvous_close(r);
}

// A round without c follows: who must know of it before the next one.
static void test_commit(void) {
    enum what { KNOWS, SILENT_VOTER, LEFT, DEAD, NOT_YET };
    static const struct {
        const char *what;
        enum what how;
        int64_t at; // SILENT_VOTER: for how long
        bool committed;
    } cases[] = {
        {"that both others know of", KNOWS, 0, true},
        {"that one of the last round does not know of", NOT_YET, 0, false},
        {"the same, it is silent for a lease less a millisecond", SILENT_VOTER, LEASE - 1, false},
        {"the same, it is silent for a lease", SILENT_VOTER, LEASE, true},
        {"whose missing voter has left in good order", LEFT, 0, true},
        {"whose missing voter is dead", DEAD, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rendezvous *r = group(3);
        rendezvous_heartbeat(r, 200, 1, 190, 1, 0), rendezvous_heartbeat(r, 200, 2, 190, 1, 0);
        if (cases[i].how == LEFT) {
            rendezvous_leave(r, 300, 2, "SIGTERM");
        } else if (cases[i].how == DEAD) {
            rendezvous_disconnected(r, 300, 2, "reset");
            rendezvous_process_dead(r, 300, C, true, "it died");
        } else {
            rendezvous_stop(r, 300, VERDICT_NONE, "again");
        }
        for (int id = 0; id < 3; id++)
            rendezvous_stopped(r, 300, id, 0, 1);
        if (cases[i].how == DEAD)
            for (int64_t now = 400; now <= 300 + lease_over_ms(LEASE); now += 100)
                for (int id = 0; id < 2; id++)
                    rendezvous_heartbeat(r, now, id, now - 10, 1, 0), rendezvous_tick(r, now);
        int64_t began = cases[i].how == DEAD ? 200 + lease_over_ms(LEASE) : 300;
        is_int(rendezvous_round(r), 1, "a second round begins");
        const struct electorate *el = rendezvous_electorate(r);
        ok(!el->committed && el->tie_breaker == A && el->tie_breaker_last == A && el->count == 3,
           "the second round is not committed");
        // The last message from the third node was at 200.
        int64_t want = cases[i].how == SILENT_VOTER ? 200 + cases[i].at : began + 600;
        rendezvous_heartbeat(r, want - 50, 0, want - 60, 1, 1);
        rendezvous_heartbeat(r, want - 50, 1, want - 60, 1, 1);
        if (cases[i].how == KNOWS)
            rendezvous_heartbeat(r, want - 50, 2, want - 60, 1, 1);
        if (cases[i].how == NOT_YET)
            rendezvous_heartbeat(r, want - 50, 2, want - 60, 1, 0);
        rendezvous_stop(r, want, VERDICT_NONE, "again");
        for (int id = 0; id < 3; id++)
            rendezvous_stopped(r, want, id, 1, 1);
        rendezvous_tick(r, want);
        is_int(rendezvous_round(r), cases[i].committed ? 2 : 1, "after a round %s, %s",
               cases[i].what, cases[i].committed ? "another one begins" : "none begins");
        rendezvous_close(r);
    }
}

static struct rendezvous *take_over(int64_t exclusive_until_ms, const struct electorate *last) {
    struct rendezvous_config c = config_of(3);
    static const struct election_peer peers[3] = {{0}};
    struct rendezvous_history h = {.term = 2,
                                   .not_before_ms = 10,
                                   .exclusive_until_ms = exclusive_until_ms,
                                   .counters = {0, 0, 0},
                                   .electorate = last,
                                   .peers = peers,
                                   .why = "the coordinator is gone"};
    return rendezvous_take_over(&c, 0, &h);
}

static void test_new_coordinator(void) {
    struct voter voters[] = {
        {A, QUORUM_THIS, false}, {B, QUORUM_THIS, false}, {C, QUORUM_THIS, false}};
    struct electorate last = {
        .term = 1, .committed = true, .tie_breaker = B, .voters = voters, .count = 3};
    struct rendezvous_action act = {0};
    struct rendezvous *r = take_over(0, &last);
    is_int(rendezvous_lease_left_ms(r), 0, "a new coordinator has no lease yet");
    is_int(rendezvous_deadline(r) <= 2 * LEASE, 1, "a new coordinator waits for two leases");
    rendezvous_tick(r, 2 * LEASE - 1);
    ok(!did(r, ACTION_STEP_DOWN, NULL), "a new coordinator waits for a quorum");
    rendezvous_tick(r, 2 * LEASE);
    ok(did(r, ACTION_STEP_DOWN, NULL), "without a quorum, a new coordinator steps down");
    rendezvous_close(r);

    r = take_over(0, &last);
    join_as(r, 20, "a", A, 101, 1), join_as(r, 20, "b", B, 102, 1);
    rendezvous_heartbeat(r, 40, 0, 30, 1, 0);
    is_int(rendezvous_phase(r), PHASE_GATHER, "one of three voters is no quorum");
    is_int(rendezvous_heartbeat(r, 41, 1, 35, 1, 0), LEASE + 30 - 41,
           "two of three voters are a quorum");
    is_int(rendezvous_phase(r), PHASE_RUN, "a round begins with a quorum");
    rendezvous_close(r);

    struct rendezvous_config c = config_of(3);
    c.silent_ms_max = 800; // looks every 100 ms
    static const struct election_peer peers[3] = {{0}};
    struct rendezvous_history h = {
        .term = 2, .exclusive_until_ms = 1000, .electorate = &last, .peers = peers, .why = "gone"};
    r = rendezvous_take_over(&c, 0, &h);
    rendezvous_tick(r, 999);
    ok(did(r, ACTION_PROBE, &act) && act.id == 2, "voters that have not joined are asked for");
    rendezvous_process_dead(r, 999, B, true, "dead");
    rendezvous_process_dead(r, 999, A, true, "dead");
    ok(!quorum_is_single(rendezvous_electorate(r), A), "one voter is dead: the other one may live");
    rendezvous_process_dead(r, 999, C, false, "elsewhere");
    ok(!quorum_is_single(rendezvous_electorate(r), A),
       "a voter that follows another coordinator is not dead");
    rendezvous_process_dead(r, 999, C, true, "dead");
    ok(quorum_is_single(rendezvous_electorate(r), A),
       "all other voters are dead: the coordinator is the only one");
    rendezvous_close(r);
    r = rendezvous_take_over(&c, 0, &h);
    rendezvous_tick(r, 1000);
    ok(!did(r, ACTION_PROBE, &act), "no voter is probed after the proof has expired");
    rendezvous_process_dead(r, 1000, B, true, "dead"),
        rendezvous_process_dead(r, 1000, C, true, "");
    ok(!quorum_is_single(rendezvous_electorate(r), A),
       "no answer counts after the proof has expired");
    rendezvous_close(r);
}

// Voters of a second round: those of it by rank, then those of the first that are not in it.
static void test_electorate(void) {
    struct rendezvous *r = group(3);
    struct rendezvous_action act;
    rendezvous_heartbeat(r, 100, 1, 90, 1, 0);
    join_as(r, 150, "d", 14, 104, 1);
    rendezvous_leave(r, 200, 1, "SIGTERM");
    for (int id = 0; id < 3; id++)
        rendezvous_stopped(r, 210, id, 0, 1);
    ok(did(r, ACTION_START, &act), "b leaves, the spare takes its place");
    is_str(order(r), "a:0 c:1 d:2", "the ranks are kept");
    const struct electorate *el = rendezvous_electorate(r);
    static const struct {
        int64_t incarnation;
        unsigned rounds;
    } want[] = {{A, QUORUM_THIS | QUORUM_LAST},
                {C, QUORUM_THIS | QUORUM_LAST},
                {14, QUORUM_THIS},
                {B, QUORUM_LAST}};
    is_int(el->count, 4, "the electorate has four voters");
    for (int i = 0; i < 4 && i < el->count; i++)
        ok(el->voters[i].incarnation == want[i].incarnation &&
               el->voters[i].rounds == want[i].rounds && !el->voters[i].dead,
           "voter %d is the same as before", i);
    is_int(el->round, 1, "the electorate is of round 1");
    is_int(el->term, 1, "the electorate has the coordinator's term");
    rendezvous_close(r);
}

int main(void) {
    test_lease();
    test_alone();
    test_commit();
    test_new_coordinator();
    test_electorate();
    return done_testing();
}
