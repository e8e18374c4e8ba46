// SPDX-License-Identifier: Apache-2.0
// Following a leader: its acknowledgements, the lease that they give, its rounds, a connection that
// broke, and the death of the leader or of other voters.
#include "base/arena.h"
#include "rendezvous/election_impl.h"

#include <stdlib.h>
#include <string.h>

// A connection is tried at least so often. A host that takes longer to answer is not reached.
enum { RESUMES_PER_SILENCE = 5 };

static bool is_this_round(const struct election *e, int64_t term, int round) {
    return e->electorate.term == term && e->electorate.round == round;
}

bool election_is_sole_voter(const struct election *e) {
    return e->state == ELECTION_LEADER && quorum_is_single(&e->electorate, e->config.incarnation);
}

// ---- the leader ----

void election_accept_leader(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                            const struct election_peer *leader) {
    e->connecting = e->disconnected = false;
    e->term = term;
    if (term > e->highest_term)
        e->highest_term = term;
    e->voted_for = leader->incarnation; // in this term, no other agent gets its vote
    e->leader = *leader;
    e->leader_term = term;
    e->heard_ms = now_ms;
    e->acked_ms = sent_ms;
    e->lease_end_ms = INT64_MIN / 2;
    e->leader_round_term = -1; // not known yet
    e->leader_dead_ms = 0;
    if (e->reported_dead)
        memset(e->reported_dead, 0, (size_t)e->electorate.count * sizeof *e->reported_dead);
}

bool election_joined(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                     const struct election_peer *leader) {
    if (term < e->term || !election_term_is_plausible(e, term))
        return false;
    bool own = leader->incarnation == e->config.incarnation;
    election_accept_leader(e, now_ms, sent_ms, term, leader);
    election_step(e, now_ms, own ? ELECTION_EVENT_JOINED_SELF : ELECTION_EVENT_JOINED);
    election_check(e);
    return true;
}

void election_heartbeat_acked(struct election *e, int64_t now_ms, int64_t sent_ms,
                              int64_t left_ms) {
    if (election_is_searching(e))
        return;
    e->heard_ms = now_ms;
    if (sent_ms > e->acked_ms)
        e->acked_ms = sent_ms;
    int64_t most = e->config.lease_ms;
    if (left_ms > 0 && e->acked_ms + (left_ms < most ? left_ms : most) > e->lease_end_ms)
        e->lease_end_ms = e->acked_ms + (left_ms < most ? left_ms : most);
    election_check(e);
}

void election_leader_round(struct election *e, int64_t round_term, int round, bool committed) {
    if (election_is_searching(e))
        return;
    e->leader_round_term = round_term;
    e->leader_round = round;
    if (committed && is_this_round(e, round_term, round))
        e->electorate.committed = true;
    election_check(e);
}

int64_t election_lease_end(const struct election *e) {
    return election_is_sole_voter(e) ? INT64_MAX : e->lease_end_ms;
}

void election_set_electorate(struct election *e, int64_t now_ms,
                             const struct electorate *electorate, const struct election_peer *peers,
                             int peer_count, int total) {
    int at = quorum_find(electorate, e->config.incarnation);
    struct election_peer *all = heap_alloc((size_t)(peer_count + e->seed_count + 1) * sizeof *all);
    memcpy(all, peers, (size_t)peer_count * sizeof *all);
    if (e->seed_count > 0)
        memcpy(all + peer_count, e->peers + e->peer_count, (size_t)e->seed_count * sizeof *all);
    free(e->peers);
    e->peers = all;
    e->peer_count = peer_count;
    if (!election_is_searching(e) && electorate->count > 0) { // the leader has just reported it,
        e->heard_ms = now_ms; // or this agent leads: the leases of the round begin now
        e->leader_round_term = electorate->term;
        e->leader_round = electorate->round;
    }
    quorum_copy(&e->electorate, electorate);
    e->may_stand = peer_count == total && at >= 0 && at < ELECTION_CANDIDATES_MAX &&
                   (electorate->voters[at].rounds & QUORUM_THIS) != 0;
    free(e->votes);
    e->votes = heap_alloc((size_t)(electorate->count + 1) * sizeof *e->votes);
    free(e->reported_dead);
    e->reported_dead = heap_alloc((size_t)(electorate->count + 1) * sizeof *e->reported_dead);
    if (e->state == ELECTION_PRECANDIDATE || e->state == ELECTION_CANDIDATE)
        election_step(e, now_ms, ELECTION_EVENT_REGROUPED);
    election_check(e);
}

void election_leader_lost(struct election *e, int64_t now_ms) {
    if (!election_is_searching(e))
        election_step(e, now_ms, ELECTION_EVENT_LOST);
    e->connecting = false;
    e->connect_ms = INT64_MIN / 2; // the agent that it tried to join does not answer
    election_check(e);
}

// ---- a connection that broke ----

void election_disconnected(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_FOLLOWER || e->disconnected)
        return;
    e->disconnected = true;
    e->next_resume_ms = now_ms;
    e->request_backoff_ms = e->config.request_ms;
    election_try_resume(e, now_ms);
    election_check(e);
}

void election_try_resume(struct election *e, int64_t now_ms) {
    if (!e->disconnected || now_ms < e->next_resume_ms)
        return;
    e->next_resume_ms = now_ms + e->request_backoff_ms;
    int64_t most = e->config.silent_ms_max / RESUMES_PER_SILENCE;
    e->request_backoff_ms = e->request_backoff_ms * 2 < most ? e->request_backoff_ms * 2 : most;
    election_push(e, ELECTION_RESUME)->peer = e->leader;
}

void election_resumed(struct election *e, int64_t now_ms) {
    if (!e->disconnected)
        return;
    e->disconnected = false;
    e->heard_ms = now_ms;
    election_check(e);
}

// ---- deaths ----

// The proof is fresh: no later round can have begun without this agent.
static void prove_leader_dead(struct election *e, int64_t now_ms) {
    int at = quorum_find(&e->electorate, e->leader.incarnation);
    bool fresh = now_ms - e->acked_ms <= e->config.silent_ms_max &&
                 is_this_round(e, e->leader_round_term, e->leader_round);
    if (!election_is_searching(e) || e->leader_dead_ms > 0 || !fresh || e->leader.incarnation == 0)
        return;
    e->leader_dead_ms = now_ms;
    e->next_request_ms = now_ms;
    if (at >= 0)
        e->electorate.voters[at].dead = true;
}

// True: this agent has not known it before, and the report counts.
static bool report_dead(struct election *e, int64_t now_ms, int64_t incarnation) {
    int at = quorum_find(&e->electorate, incarnation);
    bool votes = quorum_find(&e->electorate, e->config.incarnation) >= 0;
    bool in_time = e->leader_dead_ms > 0 && now_ms - e->acked_ms < e->config.lease_ms;
    if (!election_is_searching(e) || (votes && !in_time) || at < 0 || e->reported_dead[at])
        return false;
    e->reported_dead[at] = true;
    return true;
}

static void take_death(struct election *e, int64_t now_ms, const struct election_peer *peer) {
    if (peer->incarnation == e->config.incarnation)
        return; // no report proves the death of the agent that reads it
    bool led = peer->incarnation == e->leader.incarnation;
    if (led && e->state == ELECTION_FOLLOWER && e->disconnected) {
        election_push(e, ELECTION_LEADER_LOST)->dead = true;
        election_step(e, now_ms, ELECTION_EVENT_DIED);
    }
    if (led)
        prove_leader_dead(e, now_ms);
    bool stands = e->state == ELECTION_PRECANDIDATE || e->state == ELECTION_CANDIDATE;
    if (report_dead(e, now_ms, peer->incarnation) && stands)
        election_count_votes(e, now_ms);
}

// An agent that joined after the round began knows a group without any living voter. The group
// cannot continue, and this agent has no vote in it. The agent forgets the group, so that a new one
// can begin.
static void forget_dead_group(struct election *e, int64_t now_ms) {
    if (!election_is_searching(e) || e->electorate.count == 0 ||
        e->peer_count != e->electorate.count ||
        quorum_find(&e->electorate, e->config.incarnation) >= 0)
        return;
    for (int i = 0; i < e->electorate.count; i++)
        if (quorum_counts(&e->electorate, i) && !e->reported_dead[i] &&
            !e->electorate.voters[i].dead)
            return;
    memmove(e->peers, e->peers + e->peer_count, (size_t)e->seed_count * sizeof *e->peers);
    e->peer_count = 0;
    quorum_fini(&e->electorate);
    e->counters = (struct election_counters){.attempt = -1};
    e->leader = (struct election_peer){0};
    election_step(e, now_ms, ELECTION_EVENT_GROUP_DIED);
    election_begin_search(e, now_ms);
}

// Agents that were started again have the addresses of those before them.
void election_take_deaths(struct election *e, int64_t now_ms, const struct election_peer *peer,
                          int64_t lives) {
    if (peer->incarnation != 0 && peer->incarnation != lives)
        take_death(e, now_ms, peer);
    for (int i = 0; i < e->peer_count; i++)
        if (election_same_address(&e->peers[i], peer) && e->peers[i].incarnation != lives)
            take_death(e, now_ms, &e->peers[i]);
    forget_dead_group(e, now_ms);
}

bool election_is_unanimous(const struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        if (quorum_counts(&e->electorate, i) && !e->votes[i] && !e->reported_dead[i] &&
            !e->electorate.voters[i].dead)
            return false;
    return e->leader_dead_ms > 0;
}

int election_reported_dead_count(const struct election *e) {
    int n = 0;
    for (int i = 0; i < e->electorate.count; i++)
        n += e->reported_dead[i] && !e->electorate.voters[i].dead;
    return n;
}

void election_exclude_dead(struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        e->electorate.voters[i].dead |= e->reported_dead[i];
}
