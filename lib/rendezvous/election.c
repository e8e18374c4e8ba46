// SPDX-License-Identifier: Apache-2.0
// Theory of operation
//
// A run has terms, one coordinator at most in each, and rounds. The nodes of the last round are the
// electorate (quorum.h). Each agent follows the coordinator of a term, or is it, or looks for one.
//
// Leases. An agent sends beats; the coordinator answers with a stamp of its own clock, and the next
// beat carries that stamp back: then the coordinator knows that the agent has heard it at that time
// or later. An agent votes for nobody before lease_ms have passed since it heard its coordinator.
// So from the latest time at which a quorum is known to have heard it, a coordinator has lease_ms
// in which no other can be elected; it starts rounds only then, and steps down when they are over.
// Each answer says how much of that time is left, and the workers of the agent that gets it live
// that long at most, counted from when the beat was *sent*; the guard ends them. When another
// coordinator is elected, every worker that the last one could have kept alive is dead, or will be
// within lease_ms of the last time that one of the voters heard it: that is the fence, before which
// the new one starts nothing. No clock is compared with another; only their rates must agree, to
// within a sixteenth of the lease (which also covers how long a guard takes).
//
// Elections (as in Raft: Ongaro and Ousterhout 2014, with its pre-vote). An agent that has lost its
// coordinator asks the first nodes of the last round whether they know one. Those, the stand-ins,
// wait in their order and then ask for votes, first without obligation (so that one that is cut off
// does not raise terms and disturb the others later). A voter votes once in a term, after its
// lease, and for nobody who knows an older round than it does. Silence is never a proof of death:
// without a quorum an agent stops its workers and goes on looking until give_up_ms.
//
// Proof. When the coordinator's host itself says that the process is gone (it refuses a new
// connection to the port that the agent held while it lived, or another agent answers there), the
// coordinator needs no lease any more and is not counted: of two nodes the other goes on. The proof
// counts only for an agent that heard it until just now (silent_ms_max since it sent an answered
// beat) and was in its newest round: no later round can have begun without this agent then, because
// it would have had to wait for this agent's lease. Likewise a round is not committed before every
// voter of the last one knows of it or is silent for that long (leader_lease.c).
//
// Other voters. What the host of any other voter says counts, too, when it says it in time:
//
// - To a coordinator, while the lease holds that the voter's last known word gives: until then the
//   voter has voted for nobody else, and being dead it never will. So a quorum of some later term
//   can only be made of the others, and of these more than half of the others are needed on either
//   side: of the same living nodes, two such quorums have one in common, also if one side counts a
//   dead node as missing and the other does not.
// - To an agent that has proof of its coordinator's death, within lease_ms of the last word that
//   was answered: no round has begun without this agent until then, as above, so that the dead
//   voter has begun none and has left nobody behind that does. But it may have voted for another
//   one that lives. So this counts only when all others that live agree; one that has been elected
//   does not, nor does one that stands, before it gives its own term up. The same holds for one
//   that has just been elected, and those that die before they have joined it. Votes that the dead
//   gave each other use terms up: whoever stands goes past them, and stands anew for each new one.
//
// So a run whose agents died but for one goes on with that one, and with those that are started
// again. Where a host does not answer (no power, no way to it), a majority is needed as ever. A
// box that refuses connections in the name of hosts that live would forge such proofs: dtrun takes
// "connection refused" as the word of the host.
//
// Connections. One that breaks does not say whether the coordinator died or only the way to it. The
// agent tries to resume its session (session.h) until the coordinator has been silent for
// silent_ms_max, and follows it all that time, with workers that live as long as their lease; a
// host that refuses the new connection proves that the coordinator is gone, as above. Resumed, it
// has missed nothing: a round, a stop or a verdict that was on its way comes again, once.
//
// State that survives: numbers of rounds, restarts and crashes travel with rounds and stops, and
// back with votes; the highest count.
#include "rendezvous/election_impl.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The gone may have voted in terms that nobody else knows: each in so many at most, in its time.
enum { TERMS_OF_THE_GONE = 64 };

struct election_action *election_push(struct election *e, enum election_action_kind kind) {
    if (e->queue_len == e->queue_room) {
        e->queue_room = e->queue_room ? e->queue_room * 2 : 8;
        e->queue = heap_realloc(e->queue, (size_t)e->queue_room * sizeof *e->queue);
    }
    struct election_action *a = &e->queue[e->queue_len++];
    *a = (struct election_action){.kind = kind};
    return a;
}

bool election_next(struct election *e, struct election_action *out) {
    if (e->queue_first == e->queue_len) {
        e->queue_first = e->queue_len = 0;
        return false;
    }
    *out = e->queue[e->queue_first++];
    return true;
}

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
    free(e->queue);
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

static void merge(struct election_counters *own, const struct election_counters *f) {
    if (f->attempt > own->attempt)
        own->attempt = f->attempt;
    if (f->restarts > own->restarts || (f->restarts == own->restarts && f->crashes > own->crashes))
        own->crashes = f->crashes;
    if (f->restarts > own->restarts)
        own->restarts = f->restarts;
}

void election_merge_counters(struct election *e, const struct election_counters *counters) {
    merge(&e->counters, counters);
}

// ---- voting ----

// After this the lost coordinator cannot have prolonged any lease because of this agent.
static int64_t last_word(const struct election *e) {
    return e->leader_dead_ms > e->heard_ms ? e->leader_dead_ms : e->heard_ms;
}

static bool may_vote(const struct election *e, int64_t now_ms) {
    bool free_to = e->leader_dead_ms > 0 || now_ms - e->heard_ms >= e->config.lease_ms;
    return e->state == ELECTION_SEARCHING && free_to &&
           now_ms - e->voted_ms >= e->config.election_timeout_ms;
}

static bool knows_as_much(const struct election *e, const struct election_request *request) {
    if (request->round_term != e->electorate.term)
        return request->round_term > e->electorate.term;
    return request->round >= e->electorate.round;
}

static bool grant(struct election *e, int64_t now_ms, const struct election_request *request) {
    bool again = request->kind == REQUEST_VOTE && request->term == e->term && request->term > 0 &&
                 e->voted_for == request->from.incarnation && e->state == ELECTION_SEARCHING;
    if (again)
        return true;
    if (request->term <= e->term || !knows_as_much(e, request) || !may_vote(e, now_ms))
        return false;
    if (request->kind == REQUEST_PREVOTE)
        return true;
    e->term = request->term;
    e->voted_for = request->from.incarnation;
    e->voted_ms = now_ms;
    e->stage = REQUEST_STATUS;
    return true;
}

static void connect_to(struct election *e, int64_t now_ms, const struct election_peer *p) {
    if (e->state != ELECTION_SEARCHING || now_ms - e->connect_ms < e->config.election_timeout_ms)
        return;
    e->connect_ms = now_ms;
    e->connecting = true;
    election_push(e, ELECTION_CONNECT)->peer = *p;
}

static bool heed(struct election *e, int64_t now_ms, const struct election_request *request) {
    bool granted = false;
    if (request->kind == REQUEST_PREVOTE || request->kind == REQUEST_VOTE)
        granted = grant(e, now_ms, request);
    else if (request->kind == REQUEST_ANNOUNCE && request->term >= e->term)
        connect_to(e, now_ms, &request->from);
    if (request->kind != REQUEST_PREVOTE && request->term > e->highest_term)
        e->highest_term = request->term;
    // Somebody voted in a later term and cannot follow this one. A pre-vote is for the term after.
    bool later = request->kind == REQUEST_PREVOTE
                     ? request->term > e->term + 1
                     : request->kind == REQUEST_STATUS && request->term > e->term;
    if (e->state == ELECTION_LEADER && later) {
        election_push(e, ELECTION_LEADER_LOST);
        election_search(e, now_ms);
    }
    return granted;
}

void election_requested(struct election *e, int64_t now_ms, const struct election_request *request,
                        struct election_response *answer) {
    *answer = (struct election_response){.kind = request->kind,
                                         .request_term = request->term,
                                         .incarnation = e->config.incarnation,
                                         .counters = e->counters};
    if (election_term_is_plausible(e, request->term))
        answer->granted = heed(e, now_ms, request);
    answer->term = e->highest_term;
    answer->unaffiliated =
        e->state == ELECTION_SEARCHING && !e->connecting && e->counters.attempt < 0;
    answer->age_ms = now_ms - last_word(e);
    if (e->state != ELECTION_SEARCHING) {
        answer->leader_term = e->term;
        answer->leader = e->leader;
    }
}

// ---- standing ----

static bool *clear_yes(struct election *e) {
    memset(e->votes, 0, (size_t)(e->electorate.count + 1) * sizeof *e->votes);
    return e->votes;
}

static int gone_count(const struct election *e) {
    int n = 0;
    for (int i = 0; i < e->electorate.count; i++)
        n += e->reported_dead[i] && !e->electorate.voters[i].dead;
    return n;
}

static void enter(struct election *e, int64_t now_ms, enum election_request_kind stage) {
    e->stage = stage;
    e->next_request_ms = now_ms;
    clear_yes(e)[quorum_find(&e->electorate, e->config.incarnation)] = true;
    e->not_before_base_ms = last_word(e);
    if (stage != REQUEST_VOTE)
        return;
    e->reported_before = gone_count(e);
    e->highest_term += (int64_t)e->reported_before * TERMS_OF_THE_GONE;
    e->term = ++e->highest_term;
    e->voted_for = e->config.incarnation;
    e->voted_ms = now_ms;
}

static bool same_address(const struct election_peer *a, const struct election_peer *b) {
    return a->port == b->port && strcmp(a->address, b->address) == 0;
}

// A seed that is one of the round's nodes is asked as that.
static bool is_asked_already(const struct election *e, const struct election_peer *seed) {
    for (int i = 0; i < e->peer_count; i++)
        if (same_address(&e->peers[i], seed))
            return i < ELECTION_CANDIDATES_MAX || e->stage != REQUEST_STATUS;
    return false;
}

static void ask_all(struct election *e) {
    int voters = e->stage == REQUEST_STATUS ? 0 : e->electorate.count;
    int total = e->peer_count + e->seed_count;
    for (int i = 0; i < total; i++) {
        bool voter = i < voters;
        const struct election_peer *p = &e->peers[i];
        if (p->incarnation == e->config.incarnation ||
            (voter && (e->electorate.voters[i].dead || e->reported_dead[i])))
            continue;
        if (!voter && i < e->peer_count && i >= ELECTION_CANDIDATES_MAX)
            continue;
        if (i >= e->peer_count && is_asked_already(e, p))
            continue;
        struct election_action *a = election_push(e, ELECTION_SEND_REQUEST);
        a->peer = *p;
        a->request = (struct election_request){.kind = voter ? e->stage : REQUEST_STATUS,
                                               .term = e->term,
                                               .round_term = e->electorate.term,
                                               .round = e->electorate.round,
                                               .from = e->self};
        if (voter && e->stage == REQUEST_PREVOTE)
            a->request.term = e->highest_term + 1;
    }
}

static void win(struct election *e, int64_t now_ms) {
    if (election_is_unanimous(e))
        election_exclude_dead(e);
    election_merge_counters(e, &e->vote_counters);
    e->stage = REQUEST_ANNOUNCE;
    ask_all(e);
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    a->term = e->term;
    a->not_before_ms = e->not_before_base_ms + e->config.lease_ms + e->config.lease_ms / 16;
    a->exclusive_until_ms = e->leader_dead_ms > 0 ? e->acked_ms + e->config.lease_ms : 0;
    a->counters = e->counters;
    struct election_peer self = e->self;
    election_joined(e, now_ms, now_ms, e->term, &self);
}

static bool agrees(const struct election *e) {
    return quorum_agrees(&e->electorate, e->votes) || election_is_unanimous(e);
}

// A voter that has gone since this agent stood may have elected another one of the gone in this
// term.
static void stand_anew(struct election *e, int64_t now_ms) {
    if (e->stage != REQUEST_VOTE || quorum_agrees(&e->electorate, e->votes) ||
        gone_count(e) == e->reported_before)
        return;
    enter(e, now_ms, REQUEST_PREVOTE);
    e->vote_counters = e->counters;
}

static void count(struct election *e, int64_t now_ms) {
    if (!agrees(e))
        return;
    stand_anew(e, now_ms);
    if (!agrees(e))
        return;
    if (e->stage == REQUEST_PREVOTE) {
        enter(e, now_ms, REQUEST_VOTE);
        if (agrees(e)) // nobody else is needed
            win(e, now_ms);
        else
            ask_all(e);
        e->next_request_ms = now_ms + e->config.request_ms;
    } else {
        win(e, now_ms);
    }
}

static bool is_news(const struct election *e, const struct election_response *a) {
    bool lost_it =
        a->leader.incarnation == e->leader.incarnation && a->leader_term == e->leader_term;
    return a->leader_term > 0 && a->leader_term >= e->term &&
           (!lost_it || a->incarnation == a->leader.incarnation);
}

static void note_seed(struct election *e, const struct election_peer *p, bool unaffiliated) {
    for (int i = 0; i < e->seed_count; i++) {
        const struct election_peer *seed = &e->peers[e->peer_count + i];
        if (same_address(p, seed))
            e->seed_unaffiliated[i] = unaffiliated;
    }
}

static void take_death(struct election *e, int64_t now_ms, const struct election_peer *peer) {
    bool led = peer->incarnation == e->leader.incarnation;
    if (led && e->state == ELECTION_FOLLOWER && e->disconnected) {
        election_push(e, ELECTION_LEADER_LOST)->dead = true;
        election_search(e, now_ms);
    }
    if (led)
        election_prove_leader_dead(e, now_ms);
    bool standing = e->stage == REQUEST_PREVOTE || e->stage == REQUEST_VOTE;
    if (election_take_dead_voter(e, now_ms, peer->incarnation) && standing)
        count(e, now_ms);
}

// Agents that were started again are at the same place as those before them: there, only that
// incarnation lives; 0: none.
static void take_deaths(struct election *e, int64_t now_ms, const struct election_peer *peer,
                        int64_t lives) {
    if (peer->incarnation != 0 && peer->incarnation != lives)
        take_death(e, now_ms, peer);
    for (int i = 0; i < e->peer_count; i++)
        if (same_address(&e->peers[i], peer) && e->peers[i].incarnation != lives)
            take_death(e, now_ms, &e->peers[i]);
    election_forget_dead_group(e, now_ms);
}

void election_process_dead(struct election *e, int64_t now_ms, const struct election_peer *peer) {
    note_seed(e, peer, true);
    take_deaths(e, now_ms, peer, 0);
}

void election_answered(struct election *e, int64_t now_ms, const struct election_peer *peer,
                       const struct election_response *a) {
    if (a->term > e->highest_term && election_term_is_plausible(e, a->term))
        e->highest_term = a->term;
    if (e->state != ELECTION_SEARCHING)
        return;
    note_seed(e, peer, a->unaffiliated);
    take_deaths(e, now_ms, peer, a->incarnation);
    if (is_news(e, a))
        connect_to(e, now_ms, &a->leader);
    int at = quorum_find(&e->electorate, a->incarnation);
    bool mine = e->stage != REQUEST_STATUS && a->kind == e->stage &&
                (a->kind == REQUEST_PREVOTE || a->request_term == e->term);
    if (!a->granted || !mine || at < 0)
        return;
    e->votes[at] = true;
    if (now_ms - a->age_ms > e->not_before_base_ms)
        e->not_before_base_ms = now_ms - a->age_ms;
    merge(&e->vote_counters, &a->counters);
    count(e, now_ms);
}

// Stand-ins stand in the order of the round, without those that are lost; should this agent itself
// have been the coordinator, it comes last. Several that have lost different ones do not collide
// for ever.
static int64_t wait_ms(const struct election *e) {
    uint64_t noise =
        ((uint64_t)e->config.incarnation + (uint64_t)e->highest_term) * 0x9e3779b97f4a7c15u;
    int64_t stagger_ms = e->config.stagger_ms;
    int peer = 0, last = 0;
    for (int i = 0; i < e->electorate.count && i < ELECTION_CANDIDATES_MAX; i++) {
        const struct voter *v = &e->electorate.voters[i];
        if (v->incarnation == e->config.incarnation)
            peer = last;
        last += v->incarnation != e->leader.incarnation && !e->reported_dead[i];
    }
    bool was_leader = e->leader.incarnation == e->config.incarnation;
    int64_t jitter_ms = e->voted_ms > e->searching_since_ms
                            ? (int64_t)((noise >> 33) % 1000) * stagger_ms / 1000
                            : 0;
    return (was_leader ? last : peer) * stagger_ms + jitter_ms;
}

static void consider_standing(struct election *e, int64_t now_ms) {
    const struct election_config *c = &e->config;
    bool connecting = now_ms - e->connect_ms < c->election_timeout_ms;
    if (!e->may_stand || connecting || !may_vote(e, now_ms))
        return;
    int64_t from_ms = e->leader_dead_ms > 0 ? e->leader_dead_ms : e->heard_ms + c->lease_ms;
    if (e->voted_ms + c->election_timeout_ms > from_ms)
        from_ms = e->voted_ms + c->election_timeout_ms;
    if (now_ms < from_ms + wait_ms(e))
        return;
    if (e->stage != REQUEST_PREVOTE) {
        enter(e, now_ms, REQUEST_PREVOTE);
        e->vote_counters = e->counters;
        count(e, now_ms);
    }
}

// No agent of the run has ever been in a round: the first one coordinates.
static bool consider_founding(struct election *e, int64_t now_ms) {
    if (!election_may_bootstrap(e))
        return false;
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    struct election_peer self = e->self;
    a->term = e->highest_term + 1;
    a->not_before_ms = now_ms;
    a->counters = e->counters;
    election_joined(e, now_ms, now_ms, a->term, &self);
    memset(e->seed_unaffiliated, 0, sizeof e->seed_unaffiliated);
    return true;
}

static void tick_look(struct election *e, int64_t now_ms) {
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
    if (consider_founding(e, now_ms) || now_ms < e->next_request_ms)
        return;
    e->next_request_ms = now_ms + e->request_backoff_ms;
    if (!ever && !e->seed_tried && !e->config.may_bootstrap && e->seed_count > 0) {
        e->seed_tried = true; // where it will be nearly always
        connect_to(e, now_ms, &e->peers[e->peer_count]);
        return;
    }
    if (!e->may_stand && e->request_backoff_ms < e->config.request_ms_max)
        e->request_backoff_ms *= 2;
    consider_standing(e, now_ms);
    if (e->state == ELECTION_SEARCHING)
        ask_all(e);
}

void election_tick(struct election *e, int64_t now_ms) {
    if (e->state == ELECTION_SEARCHING) {
        tick_look(e, now_ms);
        return;
    }
    if (election_is_sole_voter(e) || now_ms - e->heard_ms <= e->config.silent_ms_max) {
        election_try_resume(e, now_ms);
        return;
    }
    election_push(e, ELECTION_LEADER_LOST)->silent_ms = now_ms - e->heard_ms;
    election_search(e, now_ms);
}

int64_t election_deadline(const struct election *e) {
    if (e->state == ELECTION_SEARCHING)
        return e->next_request_ms;
    int64_t silent_ms = e->heard_ms + e->config.silent_ms_max + 1;
    if (e->disconnected && e->resume_at_ms < silent_ms)
        return e->resume_at_ms;
    return election_is_sole_voter(e) ? INT64_MAX : silent_ms;
}
