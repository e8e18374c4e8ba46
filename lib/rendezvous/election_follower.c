// SPDX-License-Identifier: Apache-2.0
// Following a coordinator: its words, the lease that they give, its rounds, and its loss.
#include "base/arena.h"
#include "rendezvous/election_impl.h"

#include <stdlib.h>
#include <string.h>

// So often at least a new connection is tried. A host that takes longer to answer is not reached.
enum { RESUMES_PER_SILENCE = 5 };

static bool is_this_round(const struct election *e, int64_t term, int round) {
    return e->electorate.term == term && e->electorate.round == round;
}

bool election_term_is_plausible(const struct election *e, int64_t term) {
    return term <= e->highest_term + ELECTION_TERM_STEP_MAX;
}

bool election_is_sole_voter(const struct election *e) {
    return e->state == ELECTION_LEADER && quorum_is_single(&e->electorate);
}

bool election_joined(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                     const struct election_peer *leader) {
    if (term < e->term || !election_term_is_plausible(e, term))
        return false;
    bool own = leader->incarnation == e->config.incarnation;
    e->connecting = e->disconnected = false;
    e->term = term;
    if (term > e->highest_term)
        e->highest_term = term;
    e->voted_for = leader->incarnation; // in this term for nobody else
    e->leader = *leader;
    e->leader_term = term;
    e->state = own ? ELECTION_LEADER : ELECTION_FOLLOWER;
    e->heard_ms = now_ms;
    e->acked_ms = sent_ms;
    e->lease_end_ms = INT64_MIN / 2;
    e->leader_round_term = -1; // not known yet
    e->leader_dead_ms = 0;
    if (e->reported_dead)
        memset(e->reported_dead, 0, (size_t)e->electorate.count * sizeof *e->reported_dead);
    return true;
}

void election_heartbeat_acked(struct election *e, int64_t now_ms, int64_t sent_ms,
                              int64_t left_ms) {
    if (e->state == ELECTION_SEARCHING)
        return;
    e->heard_ms = now_ms;
    if (sent_ms > e->acked_ms)
        e->acked_ms = sent_ms;
    int64_t most = e->config.lease_ms;
    if (left_ms > 0 && e->acked_ms + (left_ms < most ? left_ms : most) > e->lease_end_ms)
        e->lease_end_ms = e->acked_ms + (left_ms < most ? left_ms : most);
}

void election_leader_round(struct election *e, int64_t round_term, int round, bool committed) {
    if (e->state == ELECTION_SEARCHING)
        return;
    e->leader_round_term = round_term;
    e->leader_round = round;
    if (committed && is_this_round(e, round_term, round))
        e->electorate.committed = true;
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
    if (e->state != ELECTION_SEARCHING &&
        electorate->count > 0) { // the coordinator has just said so
        e->heard_ms = now_ms;    // or this agent is it: the round's leases count from here on
        e->leader_round_term = electorate->term;
        e->leader_round = electorate->round;
    }
    quorum_copy(&e->electorate, electorate);
    e->may_stand = peer_count == total && at >= 0 && at < ELECTION_CANDIDATES_MAX &&
                   (electorate->voters[at].rounds & QUORUM_THIS) != 0;
    e->votes = heap_realloc(e->votes, (size_t)(electorate->count + 1) * sizeof *e->votes);
    free(e->reported_dead);
    e->reported_dead = heap_alloc((size_t)(electorate->count + 1) * sizeof *e->reported_dead);
}

void election_search(struct election *e, int64_t now_ms) {
    e->state = ELECTION_SEARCHING;
    e->stage = REQUEST_STATUS;
    e->searching_since_ms = e->next_request_ms = now_ms;
    e->connect_ms = INT64_MIN / 2;
    e->connecting = e->disconnected = false;
    e->request_backoff_ms = e->config.request_ms;
}

void election_leader_lost(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_SEARCHING)
        election_search(e, now_ms);
    e->connecting = false;
    e->connect_ms = INT64_MIN / 2; // what was to be joined does not answer
}

// ---- a connection that broke ----

void election_disconnected(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_FOLLOWER || e->disconnected)
        return;
    e->disconnected = true;
    e->resume_at_ms = now_ms;
    e->request_backoff_ms = e->config.request_ms;
    election_try_resume(e, now_ms);
}

void election_try_resume(struct election *e, int64_t now_ms) {
    if (!e->disconnected || now_ms < e->resume_at_ms)
        return;
    e->resume_at_ms = now_ms + e->request_backoff_ms;
    int64_t most = e->config.silent_ms_max / RESUMES_PER_SILENCE;
    e->request_backoff_ms = e->request_backoff_ms * 2 < most ? e->request_backoff_ms * 2 : most;
    election_push(e, ELECTION_RESUME)->peer = e->leader;
}

void election_resumed(struct election *e, int64_t now_ms) {
    if (!e->disconnected)
        return;
    e->disconnected = false;
    e->heard_ms = now_ms;
}

void election_prove_leader_dead(struct election *e, int64_t now_ms) {
    int at = quorum_find(&e->electorate, e->leader.incarnation);
    bool fresh = now_ms - e->acked_ms <= e->config.silent_ms_max &&
                 is_this_round(e, e->leader_round_term, e->leader_round);
    if (e->state != ELECTION_SEARCHING || e->leader_dead_ms > 0 || !fresh ||
        e->leader.incarnation == 0)
        return;
    e->leader_dead_ms = now_ms;
    e->next_request_ms = now_ms;
    if (at >= 0)
        e->electorate.voters[at].dead = true;
}

bool election_take_dead_voter(struct election *e, int64_t now_ms, int64_t incarnation) {
    int at = quorum_find(&e->electorate, incarnation);
    bool votes = quorum_find(&e->electorate, e->config.incarnation) >= 0;
    bool in_time = e->leader_dead_ms > 0 && now_ms - e->acked_ms < e->config.lease_ms;
    if (e->state != ELECTION_SEARCHING || (votes && !in_time) || at < 0 || e->reported_dead[at] ||
        incarnation == e->config.incarnation)
        return false;
    e->reported_dead[at] = true;
    return true;
}

// An agent that came after the round began knows of a group in which nobody lives any more. Nobody
// of it can go on, this agent has no vote in it, and it shall not keep others from founding one.
void election_forget_dead_group(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_SEARCHING || e->electorate.count == 0 ||
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
    election_search(e, now_ms);
}

bool election_is_unanimous(const struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        if (quorum_counts(&e->electorate, i) && !e->votes[i] && !e->reported_dead[i] &&
            !e->electorate.voters[i].dead)
            return false;
    return e->leader_dead_ms > 0;
}

void election_exclude_dead(struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        e->electorate.voters[i].dead |= e->reported_dead[i];
}

void election_seed_alias(struct election *e) {
    if (e->seed_count > 1)
        e->seed_alias[e->seed_count - 1] = true;
}

// Every seed says so, at one of its addresses at least: of another one there may be no way to it.
bool election_may_bootstrap(const struct election *e) {
    if (!e->config.may_bootstrap || e->counters.attempt >= 0)
        return false;
    for (int i = 0; i < e->seed_count && !e->config.bootstrap_at_once;) {
        bool says = e->seed_unaffiliated[i];
        while (++i < e->seed_count && e->seed_alias[i])
            says |= e->seed_unaffiliated[i];
        if (!says)
            return false;
    }
    return true;
}
