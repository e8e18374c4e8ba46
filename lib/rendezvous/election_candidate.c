// SPDX-License-Identifier: Apache-2.0
// Votes of the election: when to stand as candidate, granting them to others, asking for them,
// counting them, winning.
#include "rendezvous/election_impl.h"

// ---- this agent's vote ----

int64_t election_last_contact(const struct election *e) {
    return e->leader_dead_ms > e->heard_ms ? e->leader_dead_ms : e->heard_ms;
}

static bool may_vote(const struct election *e, int64_t now_ms) {
    bool unbound = e->leader_dead_ms > 0 || now_ms - e->heard_ms >= e->config.lease_ms;
    return election_is_searching(e) && unbound &&
           now_ms - e->voted_ms >= e->config.election_timeout_ms;
}

static bool knows_as_much(const struct election *e, const struct election_request *request) {
    if (request->round_term != e->electorate.term)
        return request->round_term > e->electorate.term;
    return request->round >= e->electorate.round;
}

static bool grant(struct election *e, int64_t now_ms, const struct election_request *request) {
    bool again = request->kind == REQUEST_VOTE && request->term == e->term && request->term > 0 &&
                 e->voted_for == request->from.incarnation && election_is_searching(e);
    if (again)
        return true;
    if (request->term <= e->term || !knows_as_much(e, request) || !may_vote(e, now_ms))
        return false;
    if (request->kind == REQUEST_PREVOTE)
        return true;
    e->term = request->term;
    e->voted_for = request->from.incarnation;
    e->voted_ms = now_ms;
    election_step(e, now_ms, ELECTION_EVENT_VOTED);
    return true;
}

// ---- requests of other agents ----

static bool take_request(struct election *e, int64_t now_ms,
                         const struct election_request *request) {
    bool granted = false;
    if (request->kind == REQUEST_PREVOTE || request->kind == REQUEST_VOTE)
        granted = grant(e, now_ms, request);
    else if (request->kind == REQUEST_ANNOUNCE && request->term >= e->term)
        election_connect(e, now_ms, &request->from);
    if (request->kind != REQUEST_PREVOTE && request->term > e->highest_term)
        e->highest_term = request->term;
    // An agent that has voted in a later term cannot follow this one. A pre-vote names the term
    // after the last one.
    bool later = request->kind == REQUEST_PREVOTE
                     ? request->term > e->term + 1
                     : request->kind == REQUEST_STATUS && request->term > e->term;
    if (e->state == ELECTION_LEADER && later) {
        election_push(e, ELECTION_LEADER_LOST);
        election_step(e, now_ms, ELECTION_EVENT_LATER_TERM);
    }
    return granted;
}

void election_requested(struct election *e, int64_t now_ms, const struct election_request *request,
                        struct election_response *response) {
    *response = (struct election_response){.kind = request->kind,
                                           .request_term = request->term,
                                           .incarnation = e->config.incarnation,
                                           .counters = e->counters};
    if (election_term_is_plausible(e, request->term))
        response->granted = take_request(e, now_ms, request);
    response->term = e->highest_term;
    response->unaffiliated = election_is_searching(e) && !e->connecting && e->counters.attempt < 0;
    response->age_ms = now_ms - election_last_contact(e);
    if (!election_is_searching(e)) {
        response->leader_term = e->term;
        response->leader = e->leader;
    }
    election_check(e);
}

// ---- this agent's requests ----

enum election_request_kind election_request_of(const struct election *e) {
    return e->state == ELECTION_PRECANDIDATE ? REQUEST_PREVOTE
           : e->state == ELECTION_CANDIDATE  ? REQUEST_VOTE
                                             : REQUEST_STATUS;
}

// A seed that is a node of the round gets that node's request.
static bool is_known_peer(const struct election *e, const struct election_peer *seed,
                          enum election_request_kind kind) {
    for (int i = 0; i < e->peer_count; i++)
        if (election_same_address(&e->peers[i], seed))
            return i < ELECTION_CANDIDATES_MAX || kind != REQUEST_STATUS;
    return false;
}

// Voters get the request; the first nodes of the round and the seeds, at least a status request.
void election_send_requests(struct election *e, enum election_request_kind kind) {
    int voters = kind == REQUEST_STATUS ? 0 : e->electorate.count;
    int total = e->peer_count + e->seed_count;
    for (int i = 0; i < total; i++) {
        bool voter = i < voters;
        const struct election_peer *p = &e->peers[i];
        if (p->incarnation == e->config.incarnation ||
            (voter && (e->electorate.voters[i].dead || e->reported_dead[i])))
            continue;
        if (!voter && i < e->peer_count && i >= ELECTION_CANDIDATES_MAX)
            continue;
        if (i >= e->peer_count && is_known_peer(e, p, kind))
            continue;
        struct election_action *a = election_push(e, ELECTION_SEND_REQUEST);
        a->peer = *p;
        a->request = (struct election_request){.kind = voter ? kind : REQUEST_STATUS,
                                               .term = e->term,
                                               .round_term = e->electorate.term,
                                               .round = e->electorate.round,
                                               .from = e->self};
        if (voter && kind == REQUEST_PREVOTE)
            a->request.term = e->highest_term + 1;
    }
}

// ---- standing ----

static bool has_quorum(const struct election *e) {
    return quorum_agrees(&e->electorate, e->votes) || election_is_unanimous(e);
}

static void win(struct election *e, int64_t now_ms) {
    if (election_is_unanimous(e))
        election_exclude_dead(e);
    election_merge_counters(e, &e->vote_counters);
    election_send_requests(e, REQUEST_ANNOUNCE);
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    a->term = e->term;
    a->not_before_ms = e->not_before_base_ms + lease_over_ms(e->config.lease_ms);
    a->exclusive_until_ms = e->leader_dead_ms > 0 ? e->acked_ms + e->config.lease_ms : 0;
    a->counters = e->counters;
    struct election_peer self = e->self;
    election_accept_leader(e, now_ms, now_ms, e->term, &self);
    election_step(e, now_ms, ELECTION_EVENT_QUORUM);
}

// A voter that has died since this agent asked for votes may have elected another dead voter in
// this term.
static void consider_standing_anew(struct election *e, int64_t now_ms) {
    if (e->state == ELECTION_CANDIDATE && !quorum_agrees(&e->electorate, e->votes) &&
        election_reported_dead_count(e) != e->reported_before)
        election_step(e, now_ms, ELECTION_EVENT_VOTER_DIED);
}

void election_count_votes(struct election *e, int64_t now_ms) {
    if (!has_quorum(e))
        return;
    consider_standing_anew(e, now_ms);
    if (!has_quorum(e))
        return;
    if (e->state == ELECTION_CANDIDATE) {
        win(e, now_ms);
        return;
    }
    election_step(e, now_ms, ELECTION_EVENT_QUORUM);
    if (has_quorum(e)) // its own vote is enough
        win(e, now_ms);
    else
        election_send_requests(e, REQUEST_VOTE);
    e->next_request_ms = now_ms + e->config.request_ms;
}

void election_take_vote(struct election *e, int64_t now_ms, const struct election_response *a) {
    int at = quorum_find(&e->electorate, a->incarnation);
    enum election_request_kind kind = election_request_of(e);
    bool mine = kind != REQUEST_STATUS && a->kind == kind &&
                (kind == REQUEST_PREVOTE || a->request_term == e->term);
    if (!a->granted || !mine || at < 0)
        return;
    e->votes[at] = true;
    int64_t heard_ms = now_ms - (a->age_ms > 0 ? a->age_ms : 0);
    if (heard_ms > e->not_before_base_ms)
        e->not_before_base_ms = heard_ms;
    election_counters_merge(&e->vote_counters, &a->counters);
    election_count_votes(e, now_ms);
}

// Candidates stand for election in the order of the round, without lost ones. The former leader of
// the round is last. Candidates that have lost different nodes do not collide forever.
static int64_t wait_ms(const struct election *e) {
    uint64_t noise =
        ((uint64_t)e->config.incarnation + (uint64_t)e->highest_term) * 0x9e3779b97f4a7c15u;
    int64_t stagger_ms = e->config.stagger_ms;
    int turn = 0, last = 0;
    for (int i = 0; i < e->electorate.count && i < ELECTION_CANDIDATES_MAX; i++) {
        const struct voter *v = &e->electorate.voters[i];
        if (v->incarnation == e->config.incarnation)
            turn = last;
        last += v->incarnation != e->leader.incarnation && !e->reported_dead[i];
    }
    bool was_leader = e->leader.incarnation == e->config.incarnation;
    int64_t jitter_ms = e->voted_ms > e->searching_since_ms
                            ? (int64_t)((noise >> 33) % 1000) * stagger_ms / 1000
                            : 0;
    return (was_leader ? last : turn) * stagger_ms + jitter_ms;
}

void election_consider_standing(struct election *e, int64_t now_ms) {
    const struct election_config *c = &e->config;
    bool connecting = now_ms - e->connect_ms < c->election_timeout_ms;
    if (!e->may_stand || connecting || !may_vote(e, now_ms))
        return;
    int64_t from_ms = e->leader_dead_ms > 0 ? e->leader_dead_ms : e->heard_ms + c->lease_ms;
    if (e->voted_ms + c->election_timeout_ms > from_ms)
        from_ms = e->voted_ms + c->election_timeout_ms;
    if (now_ms < from_ms + wait_ms(e) || e->state == ELECTION_PRECANDIDATE)
        return;
    election_step(e, now_ms, ELECTION_EVENT_STAND);
    election_count_votes(e, now_ms);
}
