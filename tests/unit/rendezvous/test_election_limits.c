// SPDX-License-Identifier: Apache-2.0
// The election at its limits: a millisecond before each of them, and at it.
#include "rendezvous/election.h"
#include "tests/unit/rendezvous/election_node.h"

static void test_lease(void) {
    static const struct {
        const char *what;
        int64_t sent, left, end;
    } cases[] = {
        {"it counts from when the heartbeat was sent", T + 100, 1000, T + 1100},
        {"an answer to an older heartbeat shortens nothing", T + 50, 500, T + 1100},
        {"but what it leaves counts from the newest one", T + 50, 1001, T + 1101},
        {"no lease", T + 200, 0, T + 1101},
        {"less than none", T + 200, INT64_MIN, T + 1101},
        {"a whole lease", T + 300, LEASE, T + 300 + LEASE},
        {"more than a whole lease is one", T + 400, INT64_MAX, T + 400 + LEASE},
        {"a millisecond more is one, too", T + 500, LEASE + 1, T + 500 + LEASE},
        {"a round's answer to no heartbeat", 0, 2000, T + 500 + LEASE},
    };
    struct election e;
    struct election_peer p = peer(1);
    open_node(&e, 2, false, false);
    election_heartbeat_acked(&e, T, T, LEASE);
    ok(election_lease_end(&e) < 0, "without a leader there is no lease");
    election_joined(&e, T, T, TERM, &p);
    begin_round(&e, 3, 1, QUORUM_THIS, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        election_heartbeat_acked(&e, T + 600, cases[i].sent, cases[i].left);
        is_int(election_lease_end(&e), cases[i].end, "the lease ends when it should: %s",
               cases[i].what);
    }
    election_joined(&e, T + 700, T + 650, TERM + 1, &p);
    ok(election_lease_end(&e) < 0, "another leader's lease begins with its own answers");
    election_close(&e);
}

static void test_heard(void) {
    for (int nodes = 0; nodes < 2; nodes++) {
        struct election e;
        struct election_peer p = peer(1), places[] = {peer(1)};
        struct voter voters[] = {{1, QUORUM_THIS, false}};
        struct electorate of = {.term = TERM, .voters = voters, .count = nodes};
        open_node(&e, 2, false, false);
        election_joined(&e, T, T, TERM, &p);
        election_set_electorate(&e, T + 1000, &of, places, nodes, nodes);
        is_int(election_deadline(&e), T + 1000 * nodes + SILENT + 1, "%s is %sa word of the leader",
               nodes ? "a round" : "no round", nodes ? "" : "not ");
        election_tick(&e, T + 1000 * nodes + SILENT);
        is_int(e.state, ELECTION_FOLLOWER,
               "a follower keeps a leader that is silent up to the limit");
        election_tick(&e, T + 1000 * nodes + SILENT + 1);
        is_int(e.state, ELECTION_SEARCHING,
               "a follower searches when the leader is silent above the limit");
        drain(&e);
        is_int(last[ELECTION_LEADER_LOST].silent_ms, SILENT + 1, "the time of silence is reported");
        is_int(election_deadline(&e), T + 1000 * nodes + SILENT + 1, "the search begins at once");
        election_close(&e);
    }
    struct election e;
    follow(&e, 1, 3, 1);
    election_tick(&e, T + SILENT);
    is_int(e.state, ELECTION_LEADER, "a leader of three must hear itself, too");
    election_tick(&e, T + SILENT + 1);
    is_int(e.state, ELECTION_SEARCHING, "a leader that does not hear itself steps down");
    is_int(election_deadline(&e), T + SILENT + 1, "a leader that stepped down searches at once");
    election_close(&e);
}

static void test_resume(void) {
    static const int64_t at[] = {0, ASK, 3 * ASK, 6 * ASK, 9 * ASK, 12 * ASK, 15 * ASK};
    struct election e;
    follow(&e, 2, 3, 1);
    election_disconnected(&e, T);
    drain(&e);
    is_int(count[ELECTION_RESUME], 1, "a follower resumes its connection at once");
    is_int(last[ELECTION_RESUME].peer.incarnation, 1, "a follower resumes with its leader");
    election_disconnected(&e, T);
    drain(&e);
    is_int(count[ELECTION_RESUME], 0, "the connection is resumed once");
    for (size_t i = 1; i < sizeof at / sizeof *at; i++) {
        is_int(election_deadline(&e), T + at[i], "try %d", (int)i + 1);
        election_tick(&e, T + at[i] - 1);
        drain(&e);
        is_int(count[ELECTION_RESUME], 0, "no resume before the interval");
        election_tick(&e, T + at[i]);
        drain(&e);
        is_int(count[ELECTION_RESUME], 1, "a resume after the interval");
    }
    is_int(election_deadline(&e), T + SILENT + 1, "the follower waits until the silence limit");
    election_resumed(&e, T + SILENT);
    is_int(election_deadline(&e), T + 2 * SILENT + 1, "resumed, the leader was heard");
    election_resumed(&e, T + SILENT + 5);
    is_int(election_deadline(&e), T + 2 * SILENT + 1, "a resumed leader is heard once");
    election_close(&e);
}

static void test_giving_up(void) {
    for (int ever = 0; ever < 2; ever++) {
        struct election e;
        int64_t limit = ever ? GIVE_UP : JOIN;
        if (ever)
            follow_and_lose(&e, 17, 18, 1, false);
        else
            open_node(&e, 2, false, false);
        int64_t began = ever ? T + SILENT : T;
        election_tick(&e, began + limit - 1);
        drain(&e);
        is_int(count[ELECTION_GIVE_UP], 0, "the agent searches for %d ms", (int)limit);
        election_tick(&e, began + limit);
        drain(&e);
        is_int(count[ELECTION_GIVE_UP], 1, "the agent gives up after that");
        election_tick(&e, began + limit + 1);
        drain(&e);
        is_int(count[ELECTION_GIVE_UP], 0, "the agent gives up once");
        election_close(&e);
    }
}

static void test_connecting(void) {
    struct election e;
    open_node(&e, 2, false, false);
    election_seed(&e, "10.0.0.1", 29401);
    election_tick(&e, T);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 1, "the agent connects to the first seed");
    election_tick(&e, T + CONNECT);
    drain(&e);
    is_int(count[ELECTION_LEADER_LOST], 0, "a seed may take the connect timeout to answer");
    election_tick(&e, T + CONNECT + 1);
    drain(&e);
    ok(count[ELECTION_LEADER_LOST] == 1 && last[ELECTION_LEADER_LOST].silent_ms == CONNECT + 1,
       "a seed is lost after the connect timeout");
    election_tick(&e, T + CONNECT + 2);
    drain(&e);
    is_int(count[ELECTION_LEADER_LOST], 0, "a seed is lost once");
    election_close(&e);
    struct election_response a = {.incarnation = 3, .leader_term = TERM, .leader = peer(1)};
    struct election_peer p = peer(3);
    follow_and_lose(&e, 2, 3, 3, false);
    a.leader_term = 0;
    election_answered(&e, T + SILENT, &p, &a);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 0, "term 0 is no leader's");
    a.leader_term = TERM;
    election_answered(&e, T + SILENT, &p, &a);
    election_answered(&e, T + SILENT + PATIENCE - 1, &p, &a);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 1, "the agent does not connect twice in a row");
    election_answered(&e, T + SILENT + PATIENCE, &p, &a);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 1, "the agent connects again after an interval");
    election_leader_lost(&e, T + SILENT + PATIENCE + 1);
    election_answered(&e, T + SILENT + PATIENCE + 1, &p, &a);
    drain(&e);
    is_int(count[ELECTION_CONNECT], 1, "the agent connects at once after a failed connection");
    election_close(&e);
}

// A vote: what the winner may begin, and when.
static void test_taking_over(int64_t age_ms, int64_t heard_ms) {
    struct election e;
    follow_and_lose(&e, 2, 3, 1, false);
    ok(when(&e, T + 2 * LEASE, ELECTION_SEND_REQUEST, REQUEST_PREVOTE) > 0,
       "the agent asks for prevotes");
    tell(&e, T + LEASE + 100, 3, REQUEST_PREVOTE, true, LEASE + 50);
    drain(&e);
    is_int(asks[REQUEST_VOTE], 2, "both others are asked for their votes");
    is_int(e.state, ELECTION_CANDIDATE, "an agent that asks for votes is a candidate");
    is_int(election_deadline(&e), T + LEASE + 100 + ASK, "the candidate asks again soon");
    struct election_peer three = peer(3);
    struct election_response a = {.kind = REQUEST_VOTE,
                                  .request_term = e.term,
                                  .term = e.term,
                                  .granted = true,
                                  .incarnation = 3,
                                  .age_ms = age_ms,
                                  .counters = {ROUND + 2, 1, 1}};
    election_answered(&e, T + LEASE + 110, &three, &a);
    drain(&e);
    ok(count[ELECTION_TAKE_OVER] == 1 && asks[REQUEST_ANNOUNCE] == 2,
       "the winner leads and announces itself to both others");
    const struct election_action *t = &last[ELECTION_TAKE_OVER];
    is_int(t->not_before_ms, heard_ms + LEASE + LEASE / 16,
           "no round begins before the lease that its voter heard of last is over");
    is_int(t->exclusive_until_ms, 0, "without a proof no round is exclusive");
    ok(t->counters.attempt == ROUND + 2 && t->counters.restarts == 1,
       "the leader continues the counters");
    is_int(e.highest_term, TERM + 1, "the leader has the next term");
    election_close(&e);
}

int main(void) {
    test_lease();
    test_heard();
    test_resume();
    test_giving_up();
    test_connecting();
    test_taking_over(150, T + LEASE - 40);
    test_taking_over(1, T + LEASE + 109);
    test_taking_over(0, T + LEASE + 110);
    test_taking_over(INT64_MIN, T + LEASE + 110); // a vote of the future
    test_taking_over(LEASE + 200, T);             // a later message of its own leader
    return done_testing();
}
