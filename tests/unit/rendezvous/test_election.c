// SPDX-License-Identifier: Apache-2.0
// lib/rendezvous/election, one agent at a time: each rule of its headers once.
// tests/sim/sim_rendezvous.c tests many agents together under faults; test_quorum.c tests the
// counting of votes.
#include "rendezvous/election.h"
#include "tests/unit/rendezvous/election_node.h"

// ---- voting ----

enum before { LOST, FOLLOWS, LEADS, PROVEN, VOTED }; // VOTED: for 3 in term 5, when its lease ended

static const struct {
    const char *rule;
    enum before before;
    int64_t age; // of the coordinator's last word
    int64_t term, round_term;
    int round, from;
    bool vote, prevote;
} votes[] = {
    {"its lease is over", LOST, LEASE, 2, TERM, ROUND, 3, true, true},
    {"its lease has a millisecond left", LOST, LEASE - 1, 2, TERM, ROUND, 3, false, false},
    {"a year later", LOST, 366LL * 86400 * 1000, 2, TERM, ROUND, 3, true, true},
    {"a clock that shows less than before", LOST, -5, 2, TERM, ROUND, 3, false, false},
    {"it follows", FOLLOWS, LEASE, 2, TERM, ROUND, 3, false, false},
    {"it coordinates", LEADS, LEASE, 2, TERM, ROUND, 3, false, false},
    {"a proof needs no lease", PROVEN, SILENT, 2, TERM, ROUND, 3, true, true},
    {"the term of its coordinator", LOST, LEASE, TERM, TERM, ROUND, 3, false, false},
    {"an earlier term", LOST, LEASE, 0, TERM, ROUND, 3, false, false},
    {"no term at all", LOST, LEASE, INT64_MIN, TERM, ROUND, 3, false, false},
    {"a leap of terms", LOST, LEASE, TERM + ELECTION_TERM_STEP_MAX, TERM, ROUND, 3, true, true},
    {"too far", LOST, LEASE, TERM + 1LL + ELECTION_TERM_STEP_MAX, TERM, ROUND, 3, false, false},
    {"the last of all terms", LOST, LEASE, INT64_MAX, TERM, ROUND, 3, false, false},
    {"who knows an older round", LOST, LEASE, 2, TERM, ROUND - 1, 3, false, false},
    {"or one of an older term", LOST, LEASE, 2, TERM - 1, ROUND + 9, 3, false, false},
    {"who knows a newer round", LOST, LEASE, 2, TERM, ROUND + 1, 3, true, true},
    {"or one of a newer term", LOST, LEASE, 2, TERM + 1, 0, 3, true, true},
    {"the one it voted for asks again", VOTED, LEASE + 1, 5, TERM, ROUND, 3, true, false},
    {"and for long", VOTED, LEASE + 9 * PATIENCE, 5, TERM, ROUND, 3, true, false},
    {"another one in that term", VOTED, LEASE + PATIENCE, 5, TERM, ROUND, 1, false, false},
    {"a term before that", VOTED, LEASE + PATIENCE, 4, TERM, ROUND, 1, false, false},
    {"a later term, too soon", VOTED, LEASE + PATIENCE - 1, 6, TERM, ROUND, 1, false, false},
    {"a later term, after patience", VOTED, LEASE + PATIENCE, 6, TERM, ROUND, 1, true, true},
};

static void before_vote(struct election *e, enum before before) {
    if (before == FOLLOWS || before == LEADS)
        follow(e, 2, 3, before == LEADS ? 2 : 1);
    else
        follow_and_lose(e, 2, 3, 1, before == PROVEN);
    if (before == VOTED)
        ok(ask(e, T + LEASE, REQUEST_VOTE, 5, 3).granted, "the agent grants its vote");
}

static void test_votes(void) {
    for (size_t i = 0; i < sizeof votes / sizeof *votes; i++) {
        struct election e;
        struct election_request q = {.term = votes[i].term,
                                     .round_term = votes[i].round_term,
                                     .round = votes[i].round,
                                     .from = peer(votes[i].from)};
        struct election_response a;
        before_vote(&e, votes[i].before);
        int64_t term = e.term, seen = e.highest_term, voted = e.voted_for, voted_ms = e.voted_ms;
        q.kind = REQUEST_PREVOTE;
        election_requested(&e, T + votes[i].age, &q, &a);
        ok(a.granted == votes[i].prevote, "%s: %s", votes[i].rule,
           votes[i].prevote ? "a vote would be granted" : "no vote would be granted");
        ok(e.term == term && e.highest_term == seen && e.voted_for == voted &&
               e.voted_ms == voted_ms,
           "%s: the agent keeps no vote", votes[i].rule);
        q.kind = REQUEST_VOTE;
        election_requested(&e, T + votes[i].age, &q, &a);
        ok(a.granted == votes[i].vote, "%s: %s", votes[i].rule,
           votes[i].vote ? "the vote is granted" : "no vote is granted");
        ok(e.term == (a.granted ? votes[i].term : term) &&
               e.voted_for == (a.granted ? votes[i].from : voted),
           "%s: %s", votes[i].rule, a.granted ? "the vote is kept" : "the earlier vote is kept");
        election_close(&e);
    }
}

// A vote given ends what the voter itself was asking for.
static void test_votes_while_standing(void) {
    struct election e;
    follow_and_lose(&e, 2, 3, 1, false);
    is_int(when(&e, T + LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE), T + LEASE,
           "a candidate asks for prevotes");
    ok(ask(&e, T + LEASE, REQUEST_VOTE, 2, 3).granted,
       "the candidate votes for another one with a newer round");
    tell(&e, T + LEASE + 1, 3, REQUEST_PREVOTE, true, LEASE);
    tell(&e, T + LEASE + 1, 3, REQUEST_VOTE, true, LEASE);
    drain(&e);
    ok(asks[REQUEST_VOTE] == 0 && count[ELECTION_TAKE_OVER] == 0,
       "a candidate that voted for another one ends its own candidacy");
    int64_t again = when(&e, T + LEASE + 3 * PATIENCE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE);
    ok(again >= T + LEASE + PATIENCE,
       "the candidate asks again after the other one had time to win");
    election_close(&e);
}

static void test_answers(void) {
    struct election e;
    follow(&e, 2, 3, 1);
    struct election_response a = ask(&e, T + 40, REQUEST_STATUS, 0, 3);
    ok(a.leader_term == TERM && a.leader.incarnation == 1 && a.leader.port == 29401,
       "a follower says whom it follows");
    ok(a.age_ms == 40 && a.incarnation == 2 && a.counters.attempt == ROUND && !a.unaffiliated,
       "the answer has age, incarnation and counters of the coordinator");
    election_leader_lost(&e, T + SILENT);
    a = ask(&e, T + SILENT, REQUEST_STATUS, 7, 3);
    ok(a.leader_term == 0 && a.term == 7, "an answer without a coordinator has the last term");
    drain(&e);
    ask(&e, T + SILENT, REQUEST_ANNOUNCE, 6, 3);
    drain(&e);
    ok(count[ELECTION_CONNECT] == 1 && last[ELECTION_CONNECT].peer.incarnation == 3,
       "the agent connects to the coordinator that announced itself");
    election_close(&e);
    follow_and_lose(&e, 2, 3, 1, false);
    ask(&e, T + LEASE, REQUEST_VOTE, 5, 3);
    ask(&e, T + LEASE, REQUEST_ANNOUNCE, 4, 1);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 0,
           "an announcement of a term before the agent's vote is ignored");
    election_close(&e);
}

// ---- standing ----

static void test_order(void) {
    static const struct {
        const char *who;
        int self, nodes, leader;
        unsigned rounds;
        int hidden;       // addresses that it does not know
        int64_t staggers; // that it waits after its lease; -1: for ever
    } cases[] = {
        {"the first node that is left", 2, 3, 1, QUORUM_THIS, 0, 0},
        {"the next one", 3, 3, 1, QUORUM_THIS, 0, 1},
        {"one before the lost coordinator", 1, 3, 3, QUORUM_THIS, 0, 0},
        {"one behind it", 3, 3, 2, QUORUM_THIS, 0, 1},
        {"the one that lost its own office", 1, 3, 1, QUORUM_THIS, 0, 2},
        {"the last stand-in", ELECTION_CANDIDATES_MAX, 18, 1, QUORUM_THIS, 0, 14},
        {"the node behind it", ELECTION_CANDIDATES_MAX + 1, 18, 1, QUORUM_THIS, 0, -1},
        {"one that does not know all nodes", 2, 3, 1, QUORUM_THIS, 1, -1},
        {"one of the round before only", 3, 3, 1, QUORUM_LAST, 0, -1},
        {"one of no round", 9, 3, 1, QUORUM_THIS, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        follow(&e, cases[i].self, cases[i].nodes, cases[i].leader);
        begin_round(&e, cases[i].nodes, cases[i].leader, cases[i].rounds,
                    cases[i].nodes - cases[i].hidden);
        election_leader_lost(&e, T + SILENT);
        int64_t stands = cases[i].staggers < 0 ? -1 : T + LEASE + cases[i].staggers * STAGGER;
        is_int(when(&e, T + SILENT + GIVE_UP / 2, ELECTION_SEND_REQUEST, REQUEST_PREVOTE), stands,
               "%s asks for votes %s", cases[i].who, stands < 0 ? "never" : "in its turn");
        election_close(&e);
    }
}

static void test_cut_off(void) {
    struct election e;
    follow_and_lose(&e, 2, 3, 1, false);
    ok(when(&e, T + LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE) > 0 &&
           asks[REQUEST_PREVOTE] == 2,
       "both other agents are asked");
    ok(last[ELECTION_SEND_REQUEST].request.term == TERM + 1 &&
           last[ELECTION_SEND_REQUEST].request.from.incarnation == 2 &&
           last[ELECTION_SEND_REQUEST].request.round_term == TERM &&
           last[ELECTION_SEND_REQUEST].request.round == ROUND,
       "the request has the next term and the last round");
    is_int(when(&e, T + SILENT + GIVE_UP - 1, ELECTION_SEND_REQUEST, REQUEST_VOTE), -1,
           "a candidate without answers never asks for votes");
    ok(e.term == TERM && e.highest_term == TERM, "a candidate without answers raises no term");
    is_int(when(&e, T + SILENT + GIVE_UP, ELECTION_GIVE_UP, 0), T + SILENT + GIVE_UP,
           "a candidate without answers gives up after a limit");
    election_close(&e);
}

static const struct {
    const char *rule;
    int nodes, leader, self;
    bool dead; // the leader, proven
    int yes[4];
    bool wins;
} majorities[] = {
    {"of three, alone", 3, 1, 2, false, {0}, false},
    {"of three, two", 3, 1, 2, false, {3}, true},
    {"of five, two", 5, 1, 2, false, {3}, false},
    {"of five, the same one twice", 5, 1, 2, false, {3, 3}, false},
    {"of five, three", 5, 1, 2, false, {3, 4}, true},
    {"of five, a stranger", 5, 1, 2, false, {3, 19}, false},
    {"of four, half without the coordinator", 4, 1, 2, false, {3}, false},
    {"of four, half with it", 4, 1, 2, false, {1}, true},
    {"of two, the other one, in silence", 2, 1, 2, false, {0}, false},
    {"of two, the other one, with a proof", 2, 1, 2, true, {0}, true},
    {"of two, the one that coordinated", 2, 1, 1, false, {0}, true},
    {"of two, both", 2, 1, 2, false, {1}, true},
    {"of three with a proof, the first", 3, 1, 2, true, {0}, true},
    {"of three with a proof, the other", 3, 1, 3, true, {0}, false},
    {"of three, a dead one's voice", 3, 1, 3, true, {1}, false},
};

static void test_majorities(void) {
    for (size_t i = 0; i < sizeof majorities / sizeof *majorities; i++) {
        struct election e;
        follow_and_lose(&e, majorities[i].self, majorities[i].nodes, majorities[i].leader,
                        majorities[i].dead);
        int takes = 0, term = 0;
        for (int64_t until = T + LEASE; until < T + LEASE + PATIENCE - 1 && !takes; until += ASK) {
            when(&e, until, ELECTION_TAKE_OVER, 0);
            for (int stage = REQUEST_PREVOTE; stage <= REQUEST_VOTE && !count[ELECTION_TAKE_OVER];
                 stage++) {
                for (int k = 0; k < 4 && majorities[i].yes[k]; k++)
                    tell(&e, until, majorities[i].yes[k], (enum election_request_kind)stage, true,
                         LEASE);
                drain(&e);
            }
            takes = count[ELECTION_TAKE_OVER];
            term = (int)last[ELECTION_TAKE_OVER].term;
        }
        ok((takes == 1) == majorities[i].wins, "%s: %s", majorities[i].rule,
           majorities[i].wins ? "the candidate coordinates" : "the candidate does not coordinate");
        ok(majorities[i].wins ? term == TERM + 1 && e.state == ELECTION_LEADER
                              : e.term == TERM && e.state <= ELECTION_PRECANDIDATE,
           "%s: the node is in %s", majorities[i].rule,
           majorities[i].wins ? "the next term" : "no new term");
        election_close(&e);
    }
}

static void enter_vote(struct election *e, int nodes) {
    follow_and_lose(e, 2, nodes, 1, false);
    when(e, T + LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE);
    for (int i = 3; i <= nodes; i++)
        tell(e, T + LEASE, i, REQUEST_PREVOTE, true, LEASE);
    drain(e);
}

static void test_counted(void) {
    static const struct {
        const char *what;
        struct election_response a;
        bool counts;
    } cases[] = {
        {"yes", {.kind = REQUEST_VOTE, .request_term = 2, .granted = true, .incarnation = 3}, true},
        {"no", {.kind = REQUEST_VOTE, .request_term = 2, .incarnation = 3}, false},
        {"yes to the pre-vote",
         {.kind = REQUEST_PREVOTE, .granted = true, .incarnation = 3},
         false},
        {"yes in an old term",
         {.kind = REQUEST_VOTE, .request_term = 1, .granted = true, .incarnation = 3},
         false},
        {"yes in a later one",
         {.kind = REQUEST_VOTE, .request_term = 3, .granted = true, .incarnation = 3},
         false},
        {"yes to a query",
         {.kind = REQUEST_STATUS, .request_term = 2, .granted = true, .incarnation = 3},
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        struct election_peer p = peer(3);
        enter_vote(&e, 3);
        ok(e.term == 2 && e.voted_for == 2 && asks[REQUEST_VOTE] == 2,
           "the candidate asks for votes in term 2");
        election_answered(&e, T + LEASE, &p, &cases[i].a);
        drain(&e);
        ok((count[ELECTION_TAKE_OVER] == 1) == cases[i].counts, "'%s': %s", cases[i].what,
           cases[i].counts ? "a vote" : "no vote");
        election_close(&e);
    }
}

// A node that voted in a later term cannot follow this one, and says so whether or not it is a
// candidate.
static void test_later_term(void) {
    static const struct {
        enum election_request_kind kind;
        int64_t term;
        bool ends;
    } cases[] = {{REQUEST_STATUS, TERM, false},
                 {REQUEST_STATUS, TERM + 1, true},
                 {REQUEST_PREVOTE, TERM + 1, false},
                 {REQUEST_PREVOTE, TERM + 2, true},
                 {REQUEST_ANNOUNCE, TERM + 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        follow(&e, 1, 2, 1);
        ask(&e, T + 10, cases[i].kind, cases[i].term, 2);
        drain(&e);
        ok((count[ELECTION_LEADER_LOST] == 1) == cases[i].ends,
           "a coordinator of term %d ends where it should after request %d of term %d", TERM,
           cases[i].kind, (int)cases[i].term);
        election_close(&e);
    }
}

// Others that die while it asks for votes may have elected one of them in the same term.
static void test_gone_while_standing(void) {
    struct election e;
    struct election_peer three = peer(3), four = peer(4);
    follow_and_lose(&e, 2, 4, 1, true);
    int64_t now = when(&e, T + LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE);
    tell(&e, now, 3, REQUEST_PREVOTE, true, LEASE);
    drain(&e);
    is_int(e.term, 2, "the candidate asks for votes in term 2");
    election_process_dead(&e, now, &three);
    election_process_dead(&e, now, &four);
    drain(&e);
    ok(count[ELECTION_TAKE_OVER] == 1 && last[ELECTION_TAKE_OVER].term > 2,
       "alone, it leads in a term that no dead agent can have won");
    election_close(&e);
}

// Until when may workers live that the last coordinator has started?
static void test_fence(void) {
    static const int64_t ages[][2] = {{LEASE, LEASE}, {100, LEASE}, {LEASE, 0}, {INT64_MAX, 900}};
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        struct election e;
        int64_t now = T + LEASE + 7, least = ages[i][0] < ages[i][1] ? ages[i][0] : ages[i][1];
        int64_t heard = now - least > T ? now - least : T;
        enter_vote(&e, 5);
        tell(&e, now, 3, REQUEST_VOTE, true, ages[i][0]);
        tell(&e, now, 4, REQUEST_VOTE, true, ages[i][1]);
        drain(&e);
        is_int(last[ELECTION_TAKE_OVER].not_before_ms, heard + LEASE + LEASE / 16,
               "a takeover waits for a lease and a sixteenth after the last voter heard the leader "
               "(%lld and %lld ms ago)",
               (long long)ages[i][0], (long long)ages[i][1]);
        is_int(asks[REQUEST_ANNOUNCE], 4, "all other agents get the announcement");
        election_close(&e);
    }
}

// A coordinator that was stopped for longer than its lease starts a round as soon as it continues,
// and only then notices: the leases of that round begin with it.
static void test_fence_of_own_round(void) {
    struct election e;
    int64_t late = T + LEASE + 100;
    follow(&e, 1, 2, 1);
    struct voter voters[] = {{.incarnation = 1, .rounds = QUORUM_THIS},
                             {.incarnation = 2, .rounds = QUORUM_THIS}};
    struct electorate of = {.term = TERM,
                            .round = ROUND + 1,
                            .committed = true,
                            .tie_breaker = 1,
                            .voters = voters,
                            .count = 2};
    struct election_peer peers[] = {peer(1), peer(2)};
    election_set_electorate(&e, late, &of, peers, 2, 2);
    election_leader_lost(&e, late);
    drain(&e);
    int64_t at = when(&e, late + 2 * LEASE, ELECTION_TAKE_OVER, 0);
    ok(at >= late + LEASE, "a candidate asks again when the leases are over");
    ok(last[ELECTION_TAKE_OVER].not_before_ms >= late + LEASE,
       "a new coordinator starts nothing before the leases are over");
    election_close(&e);
}

static void test_facts(void) {
    struct election e;
    struct election_counters own = {.attempt = ROUND, .restarts = 2, .crashes = 1};
    struct election_peer p = peer(3);
    struct election_response a = {.kind = REQUEST_VOTE,
                                  .request_term = 2,
                                  .granted = true,
                                  .incarnation = 3,
                                  .counters = {.attempt = 9, .restarts = 1, .crashes = 5}};
    enter_vote(&e, 3);
    election_merge_counters(&e, &own);
    election_answered(&e, T + LEASE, &p, &a);
    drain(&e);
    const struct election_counters *f = &last[ELECTION_TAKE_OVER].counters;
    ok(f->attempt == 9 && f->restarts == 2, "the highest counters are continued");
    is_int(f->crashes, 1, "crashes are counted since the last restart");
    election_close(&e);
}

// Two that stand at the same time, each having lost the other, and halve the votes of 4 and 5.
static int64_t tie(struct election *e, int i, int64_t now) {
    int64_t term = e->term;
    tell(e, now, 4, REQUEST_PREVOTE, true, LEASE);
    tell(e, now, 5, REQUEST_PREVOTE, true, LEASE);
    is_int(e->term, term + 1, "each candidate asks in the next term");
    tell(e, now, 4 + i, REQUEST_VOTE, true, LEASE);
    ok(!ask(e, now, REQUEST_VOTE, e->term, 2 - i).granted,
       "a candidate votes for no other one in its term");
    drain(e);
    is_int(count[ELECTION_TAKE_OVER], 0, "a split vote elects no coordinator");
    int64_t again = when(e, now + 2 * LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE);
    ok(again >= now + PATIENCE, "a loser waits before it asks again");
    is_int(last[ELECTION_SEND_REQUEST].request.term, e->term + 1,
           "a loser asks again in a later term");
    return again;
}

static void test_tie(void) {
    enum { TIES_MAX = 10 };
    struct election e[2];
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
        follow_and_lose(&e[i], i + 1, 5, 2 - i, false);
        at[i] = when(&e[i], T + 2 * LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE);
    }
    is_int(at[0], at[1], "both candidates ask at the same time");
    int ties = 0;
    for (; at[0] == at[1] && ties < TIES_MAX; ties++)
        for (int i = 0; i < 2; i++)
            at[i] = tie(&e[i], i, at[i]);
    ok(at[0] != at[1], "both candidates ask at different times in the end (%d ties)", ties);
    election_close(&e[0]);
    election_close(&e[1]);
}

int main(void) {
    test_votes();
    test_votes_while_standing();
    test_answers();
    test_order();
    test_cut_off();
    test_majorities();
    test_counted();
    test_later_term();
    test_gone_while_standing();
    test_fence();
    test_fence_of_own_round();
    test_facts();
    test_tie();
    return done_testing();
}
