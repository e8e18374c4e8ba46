// SPDX-License-Identifier: Apache-2.0
// lib/rendezvous/election_follower and what the election makes of other agents' words when it has
// no coordinator: finding one, founding, the lease, a connection that breaks, proof, an old
// coordinator.
#include "rendezvous/election_impl.h"
#include "tests/unit/rendezvous/election_node.h"

static void test_lease(void) {
    static const struct {
        const char *what;
        int64_t sent, left, lease; // from T; lease: 0 is none
    } cases[] = {
        {"counts from when the beat was sent", T + 100, 500, T + 600},
        {"an answer to an older beat takes nothing away", T + 50, 500, T + 600},
        {"nor does it what comes after it", 0, 550, T + 650},
        {"less time left shortens nothing that was given", T + 200, 10, T + 650},
        {"no time left gives none", T + 900, 0, T + 650},
        {"less than none neither", T + 900, INT64_MIN, T + 650},
        {"never more than a lease", T + 1000, INT64_MAX, T + 1000 + LEASE},
        {"what answers no beat counts from the last one that was", 0, LEASE, T + 1000 + LEASE},
    };
    struct election e;
    struct election_peer p = peer(1);
    open_node(&e, 2, false, false);
    election_heartbeat_acked(&e, T, T, LEASE);
    ok(election_lease_end(&e) < 0, "without a coordinator there is no lease");
    election_joined(&e, T + 10, T, TERM, &p);
    ok(election_lease_end(&e) < 0, "joining gives none yet");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        election_heartbeat_acked(&e, T + 1500, cases[i].sent, cases[i].left);
        is_int(election_lease_end(&e), cases[i].lease, "%s", cases[i].what);
    }
    election_joined(&e, T + 2000, T + 2000, TERM + 1, &p);
    ok(election_lease_end(&e) < 0, "the next coordinator's lease is not that of the last one");
    election_close(&e);
    follow(&e, 1, 1, 1);
    ok(election_lease_end(&e) == INT64_MAX && election_deadline(&e) == INT64_MAX,
       "a node alone needs no lease");
    election_close(&e);
    follow(&e, 1, 2, 1);
    is_int(election_lease_end(&e), T + LEASE, "one of two nodes that coordinates has a lease");
    election_close(&e);
}

static void test_silence(void) {
    struct election e;
    follow(&e, 2, 3, 1);
    is_int(election_deadline(&e), T + SILENT + 1, "wake-up at the silence limit");
    election_tick(&e, T + SILENT);
    drain(&e);
    ok(count[ELECTION_LEADER_LOST] == 0 && e.state == ELECTION_FOLLOWER,
       "a follower remains one before the limit");
    election_tick(&e, T + SILENT + 1);
    drain(&e);
    ok(count[ELECTION_LEADER_LOST] == 1 && !last[ELECTION_LEADER_LOST].dead &&
           e.state == ELECTION_SEARCHING,
       "the coordinator is lost at the limit");
    is_int(last[ELECTION_LEADER_LOST].silent_ms, SILENT + 1, "the time of silence is reported");
    election_close(&e);
}

// A connection that broke, and comes back or does not.
static void test_cut(void) {
    struct election e;
    follow(&e, 2, 3, 1);
    election_disconnected(&e, T + 100);
    election_disconnected(&e, T + 100);
    drain(&e);
    ok(count[ELECTION_RESUME] == 1 && last[ELECTION_RESUME].peer.incarnation == 1,
       "the session is resumed at once, once, with the same coordinator");
    ok(e.state == ELECTION_FOLLOWER && election_lease_end(&e) == T + LEASE,
       "a follower that resumes keeps its coordinator and its lease");
    int64_t before = T + 100, gap = 0;
    for (int64_t at; (at = when(&e, T + SILENT, ELECTION_RESUME, 0)) > 0; before = at) {
        ok(at - before >= gap && at - before <= SILENT / 5, "the next resume is after %lld ms",
           (long long)(at - before));
        gap = at - before;
    }
    is_int(gap, SILENT / 5, "the longest interval fits five times into the silence limit");
    is_int(when(&e, T + 2 * SILENT, ELECTION_LEADER_LOST, 0), T + SILENT + 1,
           "the coordinator is lost when it was silent for too long");
    election_resumed(&e, T + SILENT + 2);
    ok(e.state == ELECTION_SEARCHING, "a resumed connection after the loss is too late");
    election_close(&e);
    follow(&e, 2, 3, 1);
    election_disconnected(&e, T + SILENT);
    election_resumed(&e, T + SILENT);
    drain(&e);
    is_int(when(&e, T + 2 * SILENT, ELECTION_RESUME, 0), -1, "no resume after a resume");
    ok(e.state == ELECTION_FOLLOWER && election_deadline(&e) == T + 2 * SILENT + 1,
       "a resumed follower has heard its coordinator");
    election_close(&e);
    follow(&e, 1, 3, 1);
    election_disconnected(&e, T);
    drain(&e);
    is_int(count[ELECTION_RESUME], 0, "a coordinator does not resume a connection");
    election_close(&e);
}

// When a host's word that its agent is gone is a proof.
static void test_proof(void) {
    static const struct {
        const char *what;
        int64_t sent, at; // the beat that was answered last; the word
        int64_t round_term;
        int round, node;
        bool proof;
    } cases[] = {
        {"just heard", T, T + SILENT, TERM, ROUND, 1, true},
        {"heard a millisecond too long ago", T, T + SILENT + 1, TERM, ROUND, 1, false},
        {"answered late to an old beat", T - 1, T + SILENT, TERM, ROUND, 1, false},
        {"a newer round has begun", T, T + 1, TERM, ROUND + 1, 1, false},
        {"and one of a newer term", T, T + 1, TERM + 1, ROUND, 1, false},
        {"another node's host says so of that one", T, T + 1, TERM, ROUND, 3, false},
        {"nobody knows of whom", T, T + 1, TERM, ROUND, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        struct election_peer leader = peer(1), p = peer(cases[i].node);
        open_node(&e, 2, false, false);
        election_joined(&e, T - 5, T - 5, TERM, &leader);
        begin_round(&e, 2, 1, QUORUM_THIS, 2);
        election_heartbeat_acked(&e, T, cases[i].sent, LEASE);
        election_leader_round(&e, cases[i].round_term, cases[i].round, true);
        election_leader_lost(&e, cases[i].at);
        election_process_dead(&e, cases[i].at, &p);
        ok((e.leader_dead_ms > 0) == cases[i].proof, "%s: %s", cases[i].what,
           cases[i].proof ? "a proof" : "none");
        int64_t took = when(&e, T + LEASE - 1, ELECTION_TAKE_OVER, 0);
        ok((took > 0) == cases[i].proof, "%s: the other agent of two %s before the lease is over",
           cases[i].what, cases[i].proof ? "continues" : "stops");
        if (took > 0)
            is_int(last[ELECTION_TAKE_OVER].not_before_ms, took + LEASE + LEASE / 16,
                   "behind a fence, as the last word may have been one just before the end");
        election_close(&e);
    }
}

static void test_proof_ways(void) {
    struct election e;
    struct election_peer p = peer(1);
    struct election_response other = {.incarnation = 77}, same = {.incarnation = 1};
    follow_and_lose(&e, 2, 2, 1, false);
    election_answered(&e, T + SILENT, &p, &same);
    ok(e.leader_dead_ms == 0, "the coordinator itself answers: alive");
    election_answered(&e, T + SILENT, &p, &other);
    ok(e.leader_dead_ms > 0, "another agent answers there: dead");
    election_close(&e);
    follow(&e, 2, 2, 1);
    election_process_dead(&e, T + 1, &p);
    ok(e.state == ELECTION_FOLLOWER && e.leader_dead_ms == 0,
       "nothing counts while it is connected");
    election_disconnected(&e, T + 2);
    election_process_dead(&e, T + 3, &p);
    drain(&e);
    ok(count[ELECTION_LEADER_LOST] == 1 && last[ELECTION_LEADER_LOST].dead &&
           e.leader_dead_ms == T + 3,
       "a refused resume proves the coordinator's death");
    election_joined(&e, T + 9, T + 9, TERM + 1, &p);
    ok(e.leader_dead_ms == 0, "a proof is against one coordinator, not the next");
    election_close(&e);
}

// A word about a place: whom it concerns. 1 of 2 coordinated and asks or is asked as 1 or 2.
static void test_places(void) {
    static const struct {
        const char *what;
        int self, place;  // place: index of the asked address
        int64_t answerer; // 0: the host says that no agent is there
        int dead;         // the agent that is dead then; 0: none
    } cases[] = {
        {"refused at the lost coordinator's place", 2, 1, 0, 1},
        {"refused at this agent's place, seen from outside: it lives", 1, 1, 0, 0},
        {"the same of an agent that only followed", 2, 2, 0, 0},
        {"another agent is at this agent's place, seen from outside: it lives", 1, 1, 77, 0},
        {"this agent itself answers at the coordinator's place: the address leads here", 2, 1, 2,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        struct election_peer place = peer(cases[i].place);
        struct election_response a = {.incarnation = cases[i].answerer};
        place.incarnation = 0;
        follow_and_lose(&e, cases[i].self, 2, 1, false);
        if (cases[i].answerer)
            election_answered(&e, T + SILENT, &place, &a);
        else
            election_process_dead(&e, T + SILENT, &place);
        for (int node = 1; node <= 2; node++)
            ok(e.electorate.voters[node - 1].dead == (node == cases[i].dead), "%s: %d is %s",
               cases[i].what, node, node == cases[i].dead ? "dead" : "not dead");
        ok((e.leader_dead_ms > 0) == (cases[i].dead > 0), "%s: %s", cases[i].what,
           cases[i].dead ? "a proof" : "no proof");
        election_close(&e);
    }
    struct election e;
    struct election_peer before;
    follow_and_lose(&e, 2, 2, 1, false);
    e.peers[0] = peer(2); // the coordinator ran where this agent runs now
    e.peers[0].incarnation = 1;
    before = e.peers[0];
    struct election_response a = {.incarnation = 2};
    election_answered(&e, T + SILENT, &before, &a);
    ok(e.leader_dead_ms > 0, "this agent answers in its place: dead");
    election_close(&e);
}

// Its coordinator and others of the round died at once: 1 of 4 coordinated, this is 2.
static void test_others_gone(void) {
    static const struct {
        const char *what;
        bool proof;
        int64_t at; // when the hosts of 3 and 4 say so; 0: never
        int64_t at_last;
        enum { NOTHING, VOTES, ANSWERS } last;
        bool goes_on;
    } cases[] = {
        {"all others died, it goes on", true, T + SILENT + 1, T + SILENT + 2, NOTHING, true},
        {"just in time", true, T + LEASE - 1, T + LEASE - 1, NOTHING, true},
        {"too late, a round may have begun", true, T + LEASE - 1, T + LEASE, NOTHING, false},
        {"the coordinator may live", false, T + SILENT + 1, T + SILENT + 2, NOTHING, false},
        {"one lives and says nothing", true, T + SILENT + 1, 0, NOTHING, false},
        {"one lives and agrees", true, T + SILENT + 1, 0, VOTES, true},
        {"one lives and does not agree", true, T + SILENT + 1, 0, ANSWERS, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        struct election_peer three = peer(3), four = peer(4);
        int64_t took = -1;
        follow_and_lose(&e, 2, 4, 1, cases[i].proof);
        for (int64_t now = T + SILENT; now < T + 3 * LEASE && took < 0; now++) {
            if (now == cases[i].at)
                election_process_dead(&e, now, &three);
            if (now == cases[i].at_last)
                election_process_dead(&e, now, &four);
            if (now >= election_deadline(&e))
                election_tick(&e, now);
            if (cases[i].last != NOTHING && e.state == ELECTION_PRECANDIDATE)
                tell(&e, now, 4, REQUEST_PREVOTE, cases[i].last == VOTES, SILENT);
            if (cases[i].last != NOTHING && e.state == ELECTION_CANDIDATE)
                tell(&e, now, 4, REQUEST_VOTE, cases[i].last == VOTES, SILENT);
            drain(&e);
            took = count[ELECTION_TAKE_OVER] ? now : -1;
        }
        ok((took >= 0) == cases[i].goes_on, "%s", cases[i].what);
        if (took >= 0 && cases[i].last == NOTHING)
            ok(e.term > TERM + 64 && last[ELECTION_TAKE_OVER].exclusive_until_ms == T + LEASE,
               "the new term is above any that the dead agents can have voted in");
        election_close(&e);
    }
}

// A node that joined later has no vote and does not block a new group.
static void test_forgets(void) {
    struct election e;
    struct election_peer p = peer(1), q = peer(2);
    open_node(&e, 3, true, false);
    election_joined(&e, T, T, TERM, &p);
    begin_round(&e, 2, 1, QUORUM_THIS, 2);
    election_leader_lost(&e, T + SILENT);
    election_process_dead(&e, T + SILENT, &p);
    ok(!ask(&e, T + SILENT, REQUEST_STATUS, 0, 4).unaffiliated,
       "one of its round may live: affiliated");
    election_process_dead(&e, T + 5 * LEASE, &q);
    struct election_response a = ask(&e, T + 5 * LEASE, REQUEST_STATUS, 0, 4);
    ok(a.unaffiliated && a.counters.attempt == -1,
       "with all of its round dead, the agent is unaffiliated");
    election_tick(&e, T + 5 * LEASE);
    drain(&e);
    is_int(count[ELECTION_TAKE_OVER], 1, "the founder founds a group");
    election_close(&e);
}

// A coordinator that was out of touch and comes back.
static void test_old_coordinator(void) {
    static const struct {
        const char *what;
        enum election_request_kind kind;
        int64_t term;
        bool steps_down;
    } cases[] = {
        {"one that has voted in a later term", REQUEST_STATUS, TERM + 1, true},
        {"one of its own term", REQUEST_STATUS, TERM, false},
        {"one that knows no term", REQUEST_STATUS, 0, false},
        {"one that only would like to stand", REQUEST_PREVOTE, TERM + 1, false},
        {"one with a term that cannot be", REQUEST_STATUS, INT64_MAX, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        follow(&e, 1, 3, 1);
        struct election_response a = ask(&e, T + 5, cases[i].kind, cases[i].term, 2);
        drain(&e);
        ok((count[ELECTION_LEADER_LOST] == 1) == cases[i].steps_down, "the coordinator %s for %s",
           cases[i].steps_down ? "steps down" : "continues", cases[i].what);
        is_int(a.leader_term, cases[i].steps_down ? 0 : TERM,
               "the status has the coordinator's term");
        election_close(&e);
    }
    struct election e;
    struct election_peer old = peer(1), new = peer(2);
    follow(&e, 3, 3, 2);
    ok(election_joined(&e, T, T, TERM + 3, &new), "the agent joins a later term");
    ok(!election_joined(&e, T, T, TERM + 2, &old) && e.leader.incarnation == 2,
       "the agent joins no earlier term after that");
    election_leader_lost(&e, T + 1);
    ok(!election_joined(&e, T + 2, T + 2, TERM + 2, &old),
       "after a loss no earlier term is joined");
    ok(!election_joined(&e, T + 2, T + 2, INT64_MAX, &old) && e.term == TERM + 3,
       "the agent joins no impossible term");
    election_close(&e);
}

// The choice of a leader from the answers of other agents.
static void test_news(void) {
    enum { LATER = TERM + 1 }; // of the coordinator that is lost
    static const struct {
        const char *what;
        int from, leader;
        int64_t leader_term;
        bool joins;
    } cases[] = {
        {"a later coordinator", 3, 2, 5, true},
        {"another one in the same term", 3, 2, LATER, true},
        {"one of an earlier term", 3, 2, TERM, false},
        {"none", 3, 0, 0, false},
        {"the one that is lost", 3, 1, LATER, false},
        {"that one, by itself", 1, 1, LATER, true},
        {"that one in a later term", 3, 1, LATER + 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct election e;
        struct election_peer p = peer(cases[i].from), lost = peer(1);
        struct election_response a = {.incarnation = cases[i].from,
                                      .leader_term = cases[i].leader_term,
                                      .leader = peer(cases[i].leader)};
        follow(&e, 4, 4, 2);
        election_joined(&e, T, T, LATER, &lost);
        election_leader_lost(&e, T + SILENT);
        election_answered(&e, T + SILENT, &p, &a);
        drain(&e);
        ok(count[ELECTION_CONNECT] == cases[i].joins, "%s: %s", cases[i].what,
           cases[i].joins ? "the agent joins" : "the agent searches");
        election_answered(&e, T + SILENT + PATIENCE - 1, &p, &a);
        drain(&e);
        is_int(count[ELECTION_CONNECT], 0, "no second request before the answer is due");
        election_close(&e);
    }
}

// ---- before the first round ----

static void test_founding(void) {
    struct election e;
    struct election_peer seeds[] = {peer(0), peer(0)};
    struct election_response stranger = {.incarnation = 2, .unaffiliated = true, .term = 4};
    seeds[0].port = 7001;
    seeds[1].port = 7002;
    open_node(&e, 1, true, true);
    is_int(when(&e, T, ELECTION_TAKE_OVER, 0), T, "some founders found at once");
    ok(last[ELECTION_TAKE_OVER].term == 1 && last[ELECTION_TAKE_OVER].not_before_ms == T,
       "the new group begins in term 1 without a fence");
    election_close(&e);
    open_node(&e, 1, true, false);
    for (int i = 0; i < 2; i++)
        election_seed(&e, seeds[i].address, seeds[i].port);
    is_int(when(&e, T + JOIN / 2, ELECTION_TAKE_OVER, 0), -1, "no answers: no group is founded");
    election_answered(&e, T + JOIN / 2, &seeds[0], &stranger);
    is_int(when(&e, T + JOIN * 3 / 4, ELECTION_TAKE_OVER, 0), -1, "one of two seeds is not enough");
    election_process_dead(&e, T + JOIN * 3 / 4, &seeds[1]);
    ok(when(&e, T + JOIN, ELECTION_TAKE_OVER, 0) > 0,
       "one seed is unaffiliated and the other refuses: the agent founds a group");
    is_int(last[ELECTION_TAKE_OVER].term, 5, "the new group's term is above all that were heard");
    election_close(&e);
    open_node(&e, 1, true, false);
    election_seed(&e, seeds[0].address, seeds[0].port);
    election_answered(&e, T, &seeds[0], &stranger);
    stranger.unaffiliated = false;
    election_answered(&e, T, &seeds[0], &stranger);
    is_int(when(&e, T + JOIN - 1, ELECTION_TAKE_OVER, 0), -1, "a seed may take its word back");
    election_close(&e);
    open_node(&e, 1, true, false);
    election_seed(&e, seeds[0].address, seeds[0].port);
    election_seed(&e, seeds[1].address, seeds[1].port);
    election_seed_alias(&e);
    election_process_dead(&e, T, &seeds[1]);
    is_int(when(&e, T + JOIN - 1, ELECTION_TAKE_OVER, 0), T, "one of a seed's addresses is enough");
    election_close(&e);
    open_node(&e, 1, true, true);
    struct election_counters counters = {0};
    election_merge_counters(&e, &counters);
    is_int(when(&e, T + JOIN - 1, ELECTION_TAKE_OVER, 0), -1, "no group is founded after a round");
    election_close(&e);
}

static void test_looking(void) {
    struct election e;
    open_node(&e, 2, false, false);
    election_seed(&e, "10.0.0.1", 29401);
    is_int(when(&e, T, ELECTION_CONNECT, 0), T, "the first seed is joined without asking");
    ok(!ask(&e, T, REQUEST_STATUS, 0, 3).unaffiliated, "while it connects, it is affiliated");
    is_int(when(&e, T + JOIN, ELECTION_LEADER_LOST, 0) > T + CONNECT, 1,
           "a seed that does not answer is lost");
    ok(ask(&e, T + CONNECT, REQUEST_STATUS, 0, 3).unaffiliated,
       "while it searches, it is unaffiliated");
    int64_t before = e.next_request_ms, gap = 0;
    for (int64_t at; (at = when(&e, T + JOIN - 1, ELECTION_SEND_REQUEST, REQUEST_STATUS)) > 0;
         before = at)
        gap = at - before;
    is_int(gap, ASK_MAX * 16 / 10, "a follower asks less and less often");
    is_int(when(&e, T + 2 * JOIN, ELECTION_GIVE_UP, 0) >= T + JOIN, 1,
           "no group is found: the agent gives up");
    for (int i = 0; i < 2 * ELECTION_SEEDS_MAX; i++)
        election_seed(&e, "10.0.1.1", 1000 + i);
    is_int(e.seed_count, ELECTION_SEEDS_MAX, "seeds above the limit are left out");
    election_close(&e);
    follow(&e, 17, 18, 1);
    election_seed(&e, "10.0.0.1", 29401);
    election_seed(&e, "10.0.9.9", 29401);
    election_leader_lost(&e, T + SILENT);
    election_tick(&e, T + SILENT);
    drain(&e);
    is_int(asks[REQUEST_STATUS], ELECTION_CANDIDATES_MAX + 1,
           "in a group, the candidates and all other seeds are asked");
    election_close(&e);
}

// ---- words that no agent of ours says ----

static void test_hostile(void) {
    static const int64_t odd[] = {INT64_MIN, -1, 0, INT64_MAX / 2, INT64_MAX};
    enum { ODD = sizeof odd / sizeof *odd };
    struct election e;
    struct election_peer other = peer(3);
    follow_and_lose(&e, 2, 3, 1, false);
    for (int i = 0; i < ODD * ODD * ODD * 4; i++) {
        struct election_request q = {.kind = (enum election_request_kind)(i % 4),
                                     .term = odd[i / 4 % ODD],
                                     .round_term = odd[i / 4 / ODD % ODD],
                                     .round = (int)odd[i / 4 / ODD / ODD],
                                     .from = other};
        struct election_response r = {.kind = q.kind,
                                      .request_term = q.term,
                                      .term = q.term,
                                      .granted = true,
                                      .incarnation = i % 3 ? 3 : odd[i % ODD],
                                      .leader_term = q.round_term,
                                      .leader = other},
                                 a;
        election_requested(&e, T + SILENT + i / ASK, &q, &a);
        election_answered(&e, T + SILENT + i / ASK, &other, &r);
    }
    drain(&e);
    ok(e.state == ELECTION_SEARCHING && e.term == TERM && e.highest_term == TERM &&
           e.voted_for == 1,
       "malformed requests and answers change neither coordinator nor term");
    is_int(count[ELECTION_TAKE_OVER], 0, "malformed answers elect none");
    ok(when(&e, T + 2 * LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE) > 0 &&
           last[ELECTION_SEND_REQUEST].request.term == TERM + 1,
       "afterwards the candidate asks for votes in the next term");
    election_close(&e);
}

// A vote without a majority needs every voter, the first and the last as well.
static void test_unanimous(void) {
    struct election e;
    open_node(&e, 1, false, false);
    begin_round(&e, 4, 4, QUORUM_THIS, 4);
    e.leader_dead_ms = T;
    for (int missing = -1; missing < 4; missing++) {
        for (int i = 0; i < 4; i++)
            e.votes[i] = i != missing;
        is_int(election_is_unanimous(&e), missing < 0, "the electorate without the vote of %d",
               missing);
        if (missing < 0)
            continue;
        e.reported_dead[missing] = true;
        ok(election_is_unanimous(&e), "a dead agent's vote is not needed");
        is_int(election_reported_dead_count(&e), 1, "one agent is reported dead");
        e.reported_dead[missing] = false;
    }
    election_close(&e);
}

int main(void) {
    test_unanimous();
    test_lease();
    test_silence();
    test_cut();
    test_proof();
    test_proof_ways();
    test_places();
    test_others_gone();
    test_forgets();
    test_old_coordinator();
    test_news();
    test_founding();
    test_looking();
    test_hostile();
    return done_testing();
}
