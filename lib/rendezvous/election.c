// SPDX-License-Identifier: Apache-2.0
// The state machine of the election: its transition table, its invariants, searching for a leader,
// and answers to other agents. docs/rendezvous.md has the theory.
#include "rendezvous/election_impl.h"

#include "base/arena.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(from, event, to, action)                                                               \
    { ELECTION_##from, ELECTION_EVENT_##event, ELECTION_##to, action }

static const struct election_transition transitions[] = {
    ROW(SEARCHING, JOINED, FOLLOWER, "keep the leader's lease"),
    ROW(SEARCHING, JOINED_SELF, LEADER, "-"),
    ROW(SEARCHING, VOTED, SEARCHING, "wait for that agent to win"),
    ROW(SEARCHING, STAND, PRECANDIDATE, "ask all voters for pre-votes"),
    ROW(SEARCHING, BOOTSTRAP, LEADER, "TAKE_OVER a new group"),
    ROW(SEARCHING, GROUP_DIED, SEARCHING, "forget the group"),
    ROW(PRECANDIDATE, JOINED, FOLLOWER, "keep the leader's lease"),
    ROW(PRECANDIDATE, JOINED_SELF, LEADER, "-"),
    ROW(PRECANDIDATE, VOTED, SEARCHING, "wait for that agent to win"),
    ROW(PRECANDIDATE, REGROUPED, SEARCHING, "drop the pre-votes"),
    ROW(PRECANDIDATE, QUORUM, CANDIDATE, "vote for itself, ask all voters for votes"),
    ROW(PRECANDIDATE, BOOTSTRAP, LEADER, "TAKE_OVER a new group"),
    ROW(CANDIDATE, JOINED, FOLLOWER, "keep the leader's lease"),
    ROW(CANDIDATE, JOINED_SELF, LEADER, "-"),
    ROW(CANDIDATE, VOTED, SEARCHING, "wait for that agent to win"),
    ROW(CANDIDATE, REGROUPED, SEARCHING, "drop the votes"),
    ROW(CANDIDATE, STAND, PRECANDIDATE, "ask all voters for pre-votes"),
    ROW(CANDIDATE, VOTER_DIED, PRECANDIDATE, "stand anew, in a later term"),
    ROW(CANDIDATE, QUORUM, LEADER, "announce it to all voters, TAKE_OVER the group"),
    ROW(CANDIDATE, BOOTSTRAP, LEADER, "TAKE_OVER a new group"),
    ROW(FOLLOWER, JOINED, FOLLOWER, "keep the leader's lease"),
    ROW(FOLLOWER, JOINED_SELF, LEADER, "-"),
    ROW(FOLLOWER, LOST, SEARCHING, "ask for a leader"),
    ROW(FOLLOWER, SILENT, SEARCHING, "LEADER_LOST, ask for a leader"),
    ROW(FOLLOWER, DIED, SEARCHING, "LEADER_LOST, ask for a leader"),
    ROW(LEADER, JOINED, FOLLOWER, "keep the leader's lease"),
    ROW(LEADER, JOINED_SELF, LEADER, "-"),
    ROW(LEADER, LOST, SEARCHING, "ask for a leader"),
    ROW(LEADER, SILENT, SEARCHING, "LEADER_LOST, ask for a leader"),
    ROW(LEADER, LATER_TERM, SEARCHING, "LEADER_LOST, ask for a leader"),
};

enum {
    TRANSITIONS = sizeof transitions / sizeof *transitions,
    // A dead voter may have voted in terms that no other agent knows, in so many at most.
    TERMS_OF_A_DEAD_VOTER = 64,
};

const struct election_transition *election_transitions(int *count) {
    *count = TRANSITIONS;
    return transitions;
}

const char *election_state_name(enum election_state state) {
    static const char *const names[] = {"SEARCHING", "PRECANDIDATE", "CANDIDATE", "FOLLOWER",
                                        "LEADER"};
    return names[state];
}

const char *election_event_name(enum election_event event) {
    static const char *const names[ELECTION_EVENT_COUNT] = {
        "JOINED", "JOINED_SELF", "LOST",       "SILENT",    "DIED",   "LATER_TERM", "GROUP_DIED",
        "STAND",  "VOTED",       "VOTER_DIED", "REGROUPED", "QUORUM", "BOOTSTRAP"};
    return names[event];
}

// ---- states: nothing else changes the state ----

void election_begin_search(struct election *e, int64_t now_ms) {
    e->searching_since_ms = e->next_request_ms = now_ms;
    e->connect_ms = INT64_MIN / 2;
    e->connecting = e->disconnected = false;
    e->request_backoff_ms = e->config.request_ms;
}

static void become_searching(struct election *e, int64_t now_ms) {
    if (!election_is_searching(e))
        election_begin_search(e, now_ms);
    e->state = ELECTION_SEARCHING;
}

static void clear_votes(struct election *e, int64_t now_ms) {
    int own = quorum_find(&e->electorate, e->config.incarnation);
    must(own >= 0);
    memset(e->votes, 0, (size_t)(e->electorate.count + 1) * sizeof *e->votes);
    e->votes[own] = true;
    e->next_request_ms = now_ms;
    e->not_before_base_ms = election_last_contact(e);
}

static void become_precandidate(struct election *e, int64_t now_ms) {
    e->state = ELECTION_PRECANDIDATE;
    clear_votes(e, now_ms);
    e->vote_counters = e->counters;
}

static void become_candidate(struct election *e, int64_t now_ms) {
    e->state = ELECTION_CANDIDATE;
    clear_votes(e, now_ms);
    e->reported_before = election_reported_dead_count(e);
    e->highest_term += (int64_t)e->reported_before * TERMS_OF_A_DEAD_VOTER;
    e->term = ++e->highest_term;
    e->voted_for = e->config.incarnation;
    e->voted_ms = now_ms;
}

static void become_follower(struct election *e, int64_t now_ms) {
    (void)now_ms;
    e->state = ELECTION_FOLLOWER;
}

static void become_leader(struct election *e, int64_t now_ms) {
    (void)now_ms;
    e->state = ELECTION_LEADER;
}

static void (*const become[])(struct election *,
                              int64_t) = {[ELECTION_SEARCHING] = become_searching,
                                          [ELECTION_PRECANDIDATE] = become_precandidate,
                                          [ELECTION_CANDIDATE] = become_candidate,
                                          [ELECTION_FOLLOWER] = become_follower,
                                          [ELECTION_LEADER] = become_leader};

void election_step(struct election *e, int64_t now_ms, enum election_event event) {
    const struct election_transition *row = transitions;
    while (row < transitions + TRANSITIONS && (row->from != e->state || row->event != event))
        row++;
    must(row < transitions + TRANSITIONS);
    become[row->to](e, now_ms);
}

bool election_is_searching(const struct election *e) {
    return e->state != ELECTION_FOLLOWER && e->state != ELECTION_LEADER;
}

void election_check(const struct election *e) {
    bool leads = e->state == ELECTION_LEADER, follows = e->state == ELECTION_FOLLOWER;
    bool stands = e->state == ELECTION_PRECANDIDATE || e->state == ELECTION_CANDIDATE;
    must(e->term <= e->highest_term);
    must(e->seed_count <= ELECTION_SEEDS_MAX && e->actions.first <= e->actions.len);
    must(leads || follows ? e->leader_term == e->term && e->voted_for == e->leader.incarnation
                          : !e->disconnected);
    must(!leads || e->leader.incarnation == e->config.incarnation);
    must(!follows || e->leader.incarnation != e->config.incarnation);
    must(!e->disconnected || follows);
    must(!e->connecting || (!leads && !follows));
    must(e->leader_dead_ms == 0 || (!leads && !follows)); // a proof is about a lost leader
    must(!stands || e->may_stand);
    must(e->state != ELECTION_CANDIDATE || e->voted_for == e->config.incarnation);
}

// ---- one agent ----

void election_open(struct election *e, const struct election_config *config, int64_t now_ms) {
    *e = (struct election){.config = *config,
                           .self = {.incarnation = config->incarnation},
                           .heard_ms = INT64_MIN / 2,
                           .acked_ms = INT64_MIN / 2,
                           .lease_end_ms = INT64_MIN / 2,
                           .connect_ms = INT64_MIN / 2,
                           .voted_ms = INT64_MIN / 2,
                           .searching_since_ms = now_ms,
                           .next_request_ms = now_ms,
                           .request_backoff_ms = config->request_ms,
                           .counters.attempt = -1};
}

void election_close(struct election *e) {
    quorum_fini(&e->electorate);
    free(e->peers);
    free(e->votes);
    free(e->reported_dead);
    array_queue_fini(&e->actions);
}

void election_self(struct election *e, const char *name, const char *address, int port) {
    snprintf(e->self.name, sizeof e->self.name, "%s", name);
    snprintf(e->self.address, sizeof e->self.address, "%s", address);
    e->self.port = port;
}

void election_seed(struct election *e, const char *address, int port) {
    if (e->seed_count == ELECTION_SEEDS_MAX)
        return;
    size_t count = (size_t)e->peer_count + (size_t)e->seed_count;
    e->peers = heap_realloc(e->peers, (count + 1) * sizeof *e->peers);
    struct election_peer *p = &e->peers[count];
    *p = (struct election_peer){.port = port};
    snprintf(p->address, sizeof p->address, "%s", address);
    e->seed_count++;
}

void election_seed_alias(struct election *e) {
    if (e->seed_count > 1)
        e->seed_alias[e->seed_count - 1] = true;
}

struct election_action *election_push(struct election *e, enum election_action_kind kind) {
    struct election_action *a = array_queue_push(&e->actions, sizeof *a);
    a->kind = kind;
    return a;
}

bool election_next(struct election *e, struct election_action *out) {
    return array_queue_take(&e->actions, out, sizeof *out);
}

static bool is_count(int n, int least) {
    return n >= least && n <= ELECTION_COUNTER_MAX;
}

void election_counters_merge(struct election_counters *own, const struct election_counters *c) {
    if (!is_count(c->attempt, -1) || !is_count(c->restarts, 0) || !is_count(c->crashes, 0))
        return;
    if (c->attempt > own->attempt)
        own->attempt = c->attempt;
    if (c->restarts > own->restarts || (c->restarts == own->restarts && c->crashes > own->crashes))
        own->crashes = c->crashes;
    if (c->restarts > own->restarts)
        own->restarts = c->restarts;
}

void election_merge_counters(struct election *e, const struct election_counters *counters) {
    election_counters_merge(&e->counters, counters);
}

bool election_same_address(const struct election_peer *a, const struct election_peer *b) {
    return a->port == b->port && strcmp(a->address, b->address) == 0;
}

bool election_is_echo(const struct election *e, const struct election_peer *peer,
                      int64_t incarnation) {
    return incarnation == e->config.incarnation && !election_same_address(peer, &e->self);
}

bool election_term_is_plausible(const struct election *e, int64_t term) {
    return term <= e->highest_term + ELECTION_TERM_STEP_MAX;
}

// ---- searching ----

void election_connect(struct election *e, int64_t now_ms, const struct election_peer *p) {
    if (!election_is_searching(e) || now_ms - e->connect_ms < e->config.election_timeout_ms)
        return;
    e->connect_ms = now_ms;
    e->connecting = true;
    election_push(e, ELECTION_CONNECT)->peer = *p;
}

// Every seed knows of no group, by the answer from one of its addresses at least: there may be no
// route to another one.
static bool may_bootstrap(const struct election *e) {
    if (!e->config.may_bootstrap || e->counters.attempt >= 0)
        return false;
    for (int i = 0; i < e->seed_count && !e->config.bootstrap_at_once;) {
        bool unaffiliated = e->seed_unaffiliated[i];
        while (++i < e->seed_count && e->seed_alias[i])
            unaffiliated |= e->seed_unaffiliated[i];
        if (!unaffiliated)
            return false;
    }
    return true;
}

static bool consider_bootstrap(struct election *e, int64_t now_ms) {
    if (!may_bootstrap(e))
        return false;
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    struct election_peer self = e->self;
    a->term = e->highest_term + 1;
    a->not_before_ms = now_ms;
    a->counters = e->counters;
    election_accept_leader(e, now_ms, now_ms, a->term, &self);
    election_step(e, now_ms, ELECTION_EVENT_BOOTSTRAP);
    memset(e->seed_unaffiliated, 0, sizeof e->seed_unaffiliated);
    return true;
}

static void search(struct election *e, int64_t now_ms) {
    bool ever = e->leader.incarnation != 0;
    if (now_ms - e->searching_since_ms >= (ever ? e->config.give_up_ms : e->config.join_ms_max)) {
        e->searching_since_ms = now_ms;
        election_push(e, ELECTION_GIVE_UP);
        return;
    }
    if (e->connecting && now_ms - e->connect_ms > e->config.connect_ms_max) {
        election_push(e, ELECTION_LEADER_LOST)->silent_ms = now_ms - e->connect_ms;
        e->connecting = false;
    }
    if (consider_bootstrap(e, now_ms) || now_ms < e->next_request_ms)
        return;
    e->next_request_ms = now_ms + e->request_backoff_ms;
    if (!ever && !e->seed_tried && !e->config.may_bootstrap && e->seed_count > 0) {
        e->seed_tried = true; // it is almost always the leader
        election_connect(e, now_ms, &e->peers[e->peer_count]);
        return;
    }
    if (!e->may_stand && e->request_backoff_ms < e->config.request_ms_max)
        e->request_backoff_ms *= 2;
    election_consider_standing(e, now_ms);
    if (election_is_searching(e))
        election_send_requests(e, election_request_of(e));
}

void election_tick(struct election *e, int64_t now_ms) {
    if (election_is_searching(e)) {
        search(e, now_ms);
    } else if (election_is_sole_voter(e) || now_ms - e->heard_ms <= e->config.silent_ms_max) {
        election_try_resume(e, now_ms);
    } else {
        election_push(e, ELECTION_LEADER_LOST)->silent_ms = now_ms - e->heard_ms;
        election_step(e, now_ms, ELECTION_EVENT_SILENT);
    }
    election_check(e);
}

int64_t election_deadline(const struct election *e) {
    if (election_is_searching(e))
        return e->next_request_ms;
    int64_t silent_ms = e->heard_ms + e->config.silent_ms_max + 1;
    if (e->disconnected && e->next_resume_ms < silent_ms)
        return e->next_resume_ms;
    return election_is_sole_voter(e) ? INT64_MAX : silent_ms;
}

// ---- answers to this agent's requests ----

static void note_seed(struct election *e, const struct election_peer *p, bool unaffiliated) {
    for (int i = 0; i < e->seed_count; i++)
        if (election_same_address(p, &e->peers[e->peer_count + i]))
            e->seed_unaffiliated[i] = unaffiliated;
}

void election_process_dead(struct election *e, int64_t now_ms, const struct election_peer *peer) {
    note_seed(e, peer, true);
    election_take_deaths(e, now_ms, peer, 0);
    election_check(e);
}

// Another leader than the lost one; the lost one only by its own word.
static bool names_leader(const struct election *e, const struct election_response *a) {
    bool lost_it =
        a->leader.incarnation == e->leader.incarnation && a->leader_term == e->leader_term;
    return a->leader_term > 0 && a->leader_term >= e->term &&
           (!lost_it || a->incarnation == a->leader.incarnation);
}

void election_answered(struct election *e, int64_t now_ms, const struct election_peer *peer,
                       const struct election_response *response) {
    if (response->term > e->highest_term && election_term_is_plausible(e, response->term))
        e->highest_term = response->term;
    if (!election_is_searching(e))
        return;
    note_seed(e, peer, response->unaffiliated);
    if (!election_is_echo(e, peer, response->incarnation))
        election_take_deaths(e, now_ms, peer, response->incarnation);
    if (names_leader(e, response))
        election_connect(e, now_ms, &response->leader);
    election_take_vote(e, now_ms, response);
    election_check(e);
}
