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
// voter of the last one knows of it or is silent for that long (rendezvous_lease.c).
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
#include "elastic/election_state.h"

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
                           .word_ms = INT64_MIN / 2,
                           .lease_ms = INT64_MIN / 2,
                           .connect_ms = INT64_MIN / 2,
                           .voted_ms = INT64_MIN / 2,
                           .lost_ms = now_ms,
                           .ask_at_ms = now_ms,
                           .step_ms = config->ask_ms,
                           .facts.attempt = -1};
}

void election_close(struct election *e) {
    quorum_fini(&e->electorate);
    free(e->places);
    free(e->yes);
    free(e->gone);
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
    size_t count = (size_t)e->place_count + (size_t)e->seed_count;
    e->places = heap_realloc(e->places, (count + 1) * sizeof *e->places);
    struct election_place *p = &e->places[count];
    *p = (struct election_place){.port = port};
    snprintf(p->address, sizeof p->address, "%s", address);
    e->seed_count++;
}

static void merge(struct election_facts *own, const struct election_facts *f) {
    if (f->attempt > own->attempt)
        own->attempt = f->attempt;
    if (f->restarts > own->restarts || (f->restarts == own->restarts && f->crashes > own->crashes))
        own->crashes = f->crashes;
    if (f->restarts > own->restarts)
        own->restarts = f->restarts;
}

void election_facts(struct election *e, const struct election_facts *facts) {
    merge(&e->facts, facts);
}

// ---- voting ----

// After this the lost coordinator cannot have prolonged any lease because of this agent.
static int64_t last_word(const struct election *e) {
    return e->proof_ms > e->heard_ms ? e->proof_ms : e->heard_ms;
}

static bool may_vote(const struct election *e, int64_t now_ms) {
    bool free_to = e->proof_ms > 0 || now_ms - e->heard_ms >= e->config.lease_ms;
    return e->state == ELECTION_LOOK && free_to && now_ms - e->voted_ms >= e->config.patience_ms;
}

static bool knows_as_much(const struct election *e, const struct election_ask *ask) {
    if (ask->round_term != e->electorate.term)
        return ask->round_term > e->electorate.term;
    return ask->round >= e->electorate.round;
}

static bool grant(struct election *e, int64_t now_ms, const struct election_ask *ask) {
    bool again = ask->kind == ASK_VOTE && ask->term == e->term && ask->term > 0 &&
                 e->voted == ask->from.incarnation && e->state == ELECTION_LOOK;
    if (again)
        return true;
    if (ask->term <= e->term || !knows_as_much(e, ask) || !may_vote(e, now_ms))
        return false;
    if (ask->kind == ASK_PREVOTE)
        return true;
    e->term = ask->term;
    e->voted = ask->from.incarnation;
    e->voted_ms = now_ms;
    e->stage = ASK_QUERY;
    return true;
}

static void connect_to(struct election *e, int64_t now_ms, const struct election_place *p) {
    if (e->state != ELECTION_LOOK || now_ms - e->connect_ms < e->config.patience_ms)
        return;
    e->connect_ms = now_ms;
    e->connecting = true;
    election_push(e, ELECTION_CONNECT)->place = *p;
}

static bool heed(struct election *e, int64_t now_ms, const struct election_ask *ask) {
    bool granted = false;
    if (ask->kind == ASK_PREVOTE || ask->kind == ASK_VOTE)
        granted = grant(e, now_ms, ask);
    else if (ask->kind == ASK_LEAD && ask->term >= e->term)
        connect_to(e, now_ms, &ask->from);
    if (ask->kind != ASK_PREVOTE && ask->term > e->term_seen)
        e->term_seen = ask->term;
    // Somebody voted in a later term and cannot follow this one. A pre-vote is for the term after.
    bool later = ask->kind == ASK_PREVOTE ? ask->term > e->term + 1
                                          : ask->kind == ASK_QUERY && ask->term > e->term;
    if (e->state == ELECTION_LEAD && later) {
        election_push(e, ELECTION_LOST);
        election_look(e, now_ms);
    }
    return granted;
}

void election_asked(struct election *e, int64_t now_ms, const struct election_ask *ask,
                    struct election_answer *answer) {
    *answer = (struct election_answer){.kind = ask->kind,
                                       .asked_term = ask->term,
                                       .incarnation = e->config.incarnation,
                                       .facts = e->facts};
    if (election_is_term(e, ask->term))
        answer->granted = heed(e, now_ms, ask);
    answer->term = e->term_seen;
    answer->stranger = e->state == ELECTION_LOOK && !e->connecting && e->facts.attempt < 0;
    answer->age_ms = now_ms - last_word(e);
    if (e->state != ELECTION_LOOK) {
        answer->leader_term = e->term;
        answer->leader = e->leader;
    }
}

// ---- standing ----

static bool *clear_yes(struct election *e) {
    memset(e->yes, 0, (size_t)(e->electorate.count + 1) * sizeof *e->yes);
    return e->yes;
}

static int gone_count(const struct election *e) {
    int n = 0;
    for (int i = 0; i < e->electorate.count; i++)
        n += e->gone[i] && !e->electorate.voters[i].dead;
    return n;
}

static void enter(struct election *e, int64_t now_ms, enum election_kind stage) {
    e->stage = stage;
    e->ask_at_ms = now_ms;
    clear_yes(e)[quorum_find(&e->electorate, e->config.incarnation)] = true;
    e->fence_base_ms = last_word(e);
    if (stage != ASK_VOTE)
        return;
    e->gone_before = gone_count(e);
    e->term_seen += (int64_t)e->gone_before * TERMS_OF_THE_GONE;
    e->term = ++e->term_seen;
    e->voted = e->config.incarnation;
    e->voted_ms = now_ms;
}

static bool same_place(const struct election_place *a, const struct election_place *b) {
    return a->port == b->port && strcmp(a->address, b->address) == 0;
}

// A seed that is one of the round's nodes is asked as that.
static bool is_asked_already(const struct election *e, const struct election_place *seed) {
    for (int i = 0; i < e->place_count; i++)
        if (same_place(&e->places[i], seed))
            return i < ELECTION_STAND_INS_MAX || e->stage != ASK_QUERY;
    return false;
}

static void ask_all(struct election *e) {
    int voters = e->stage == ASK_QUERY ? 0 : e->electorate.count;
    int total = e->place_count + e->seed_count;
    for (int i = 0; i < total; i++) {
        bool voter = i < voters;
        const struct election_place *p = &e->places[i];
        if (p->incarnation == e->config.incarnation ||
            (voter && (e->electorate.voters[i].dead || e->gone[i])))
            continue;
        if (!voter && i < e->place_count && i >= ELECTION_STAND_INS_MAX)
            continue;
        if (i >= e->place_count && is_asked_already(e, p))
            continue;
        struct election_action *a = election_push(e, ELECTION_ASK);
        a->place = *p;
        a->ask = (struct election_ask){.kind = voter ? e->stage : ASK_QUERY,
                                       .term = e->term,
                                       .round_term = e->electorate.term,
                                       .round = e->electorate.round,
                                       .from = e->self};
        if (voter && e->stage == ASK_PREVOTE)
            a->ask.term = e->term_seen + 1;
    }
}

static void win(struct election *e, int64_t now_ms) {
    if (election_is_unanimous(e))
        election_bury(e);
    election_facts(e, &e->gathered);
    e->stage = ASK_LEAD;
    ask_all(e);
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    a->term = e->term;
    a->fence_ms = e->fence_base_ms + e->config.lease_ms + e->config.lease_ms / 16;
    a->proof_until_ms = e->proof_ms > 0 ? e->word_ms + e->config.lease_ms : 0;
    a->facts = e->facts;
    struct election_place self = e->self;
    election_join(e, now_ms, now_ms, e->term, &self);
}

static bool agrees(const struct election *e) {
    return quorum_agrees(&e->electorate, e->yes) || election_is_unanimous(e);
}

// A voter that has gone since this agent stood may have elected another one of the gone in this
// term.
static void stand_anew(struct election *e, int64_t now_ms) {
    if (e->stage != ASK_VOTE || quorum_agrees(&e->electorate, e->yes) ||
        gone_count(e) == e->gone_before)
        return;
    enter(e, now_ms, ASK_PREVOTE);
    e->gathered = e->facts;
}

static void count(struct election *e, int64_t now_ms) {
    if (!agrees(e))
        return;
    stand_anew(e, now_ms);
    if (!agrees(e))
        return;
    if (e->stage == ASK_PREVOTE) {
        enter(e, now_ms, ASK_VOTE);
        if (agrees(e)) // nobody else is needed
            win(e, now_ms);
        else
            ask_all(e);
        e->ask_at_ms = now_ms + e->config.ask_ms;
    } else {
        win(e, now_ms);
    }
}

static bool is_news(const struct election *e, const struct election_answer *a) {
    bool lost_it =
        a->leader.incarnation == e->leader.incarnation && a->leader_term == e->leader_term;
    return a->leader_term > 0 && a->leader_term >= e->term &&
           (!lost_it || a->incarnation == a->leader.incarnation);
}

static void note_seed(struct election *e, const struct election_place *p, bool stranger) {
    for (int i = 0; i < e->seed_count; i++) {
        const struct election_place *seed = &e->places[e->place_count + i];
        if (same_place(p, seed))
            e->strangers[i] = stranger;
    }
}

static void take_death(struct election *e, int64_t now_ms, const struct election_place *place) {
    bool led = place->incarnation == e->leader.incarnation;
    if (led && e->state == ELECTION_FOLLOW && e->cut) {
        election_push(e, ELECTION_LOST)->gone = true;
        election_look(e, now_ms);
    }
    if (led)
        election_take_proof(e, now_ms);
    bool standing = e->stage == ASK_PREVOTE || e->stage == ASK_VOTE;
    if (election_take_gone(e, now_ms, place->incarnation) && standing)
        count(e, now_ms);
}

// Agents that were started again are at the same place as those before them: there, only that
// incarnation lives; 0: none.
static void take_deaths(struct election *e, int64_t now_ms, const struct election_place *place,
                        int64_t lives) {
    if (place->incarnation != 0 && place->incarnation != lives)
        take_death(e, now_ms, place);
    for (int i = 0; i < e->place_count; i++)
        if (same_place(&e->places[i], place) && e->places[i].incarnation != lives)
            take_death(e, now_ms, &e->places[i]);
    election_forget_dead(e, now_ms);
}

void election_nobody(struct election *e, int64_t now_ms, const struct election_place *place) {
    note_seed(e, place, true);
    take_deaths(e, now_ms, place, 0);
}

void election_told(struct election *e, int64_t now_ms, const struct election_place *place,
                   const struct election_answer *a) {
    if (a->term > e->term_seen && election_is_term(e, a->term))
        e->term_seen = a->term;
    if (e->state != ELECTION_LOOK)
        return;
    note_seed(e, place, a->stranger);
    take_deaths(e, now_ms, place, a->incarnation);
    if (is_news(e, a))
        connect_to(e, now_ms, &a->leader);
    int at = quorum_find(&e->electorate, a->incarnation);
    bool mine = e->stage != ASK_QUERY && a->kind == e->stage &&
                (a->kind == ASK_PREVOTE || a->asked_term == e->term);
    if (!a->granted || !mine || at < 0)
        return;
    e->yes[at] = true;
    if (now_ms - a->age_ms > e->fence_base_ms)
        e->fence_base_ms = now_ms - a->age_ms;
    merge(&e->gathered, &a->facts);
    count(e, now_ms);
}

// Stand-ins stand in the order of the round, without those that are lost; should this agent itself
// have been the coordinator, it comes last. Several that have lost different ones do not collide
// for ever.
static int64_t wait_ms(const struct election *e) {
    uint64_t noise =
        ((uint64_t)e->config.incarnation + (uint64_t)e->term_seen) * 0x9e3779b97f4a7c15u;
    int64_t stagger_ms = e->config.stagger_ms;
    int place = 0, last = 0;
    for (int i = 0; i < e->electorate.count && i < ELECTION_STAND_INS_MAX; i++) {
        const struct voter *v = &e->electorate.voters[i];
        if (v->incarnation == e->config.incarnation)
            place = last;
        last += v->incarnation != e->leader.incarnation && !e->gone[i];
    }
    bool was_leader = e->leader.incarnation == e->config.incarnation;
    int64_t jitter_ms =
        e->voted_ms > e->lost_ms ? (int64_t)((noise >> 33) % 1000) * stagger_ms / 1000 : 0;
    return (was_leader ? last : place) * stagger_ms + jitter_ms;
}

static void consider_standing(struct election *e, int64_t now_ms) {
    const struct election_config *c = &e->config;
    bool connecting = now_ms - e->connect_ms < c->patience_ms;
    if (!e->may_stand || connecting || !may_vote(e, now_ms))
        return;
    int64_t from_ms = e->proof_ms > 0 ? e->proof_ms : e->heard_ms + c->lease_ms;
    if (e->voted_ms + c->patience_ms > from_ms)
        from_ms = e->voted_ms + c->patience_ms;
    if (now_ms < from_ms + wait_ms(e))
        return;
    if (e->stage != ASK_PREVOTE) {
        enter(e, now_ms, ASK_PREVOTE);
        e->gathered = e->facts;
        count(e, now_ms);
    }
}

// No agent of the run has ever been in a round: the first one coordinates.
static bool consider_founding(struct election *e, int64_t now_ms) {
    if (!election_may_found(e))
        return false;
    struct election_action *a = election_push(e, ELECTION_TAKE_OVER);
    struct election_place self = e->self;
    a->term = e->term_seen + 1;
    a->fence_ms = now_ms;
    a->facts = e->facts;
    election_join(e, now_ms, now_ms, a->term, &self);
    memset(e->strangers, 0, sizeof e->strangers);
    return true;
}

static void tick_look(struct election *e, int64_t now_ms) {
    bool ever = e->leader.incarnation != 0;
    if (now_ms - e->lost_ms >= (ever ? e->config.give_up_ms : e->config.join_ms_max)) {
        e->lost_ms = now_ms;
        election_push(e, ELECTION_GIVE_UP);
        return;
    }
    if (e->connecting && now_ms - e->connect_ms > e->config.connect_ms_max) {
        election_push(e, ELECTION_LOST)->silent_ms = now_ms - e->connect_ms;
        e->connecting = false;
    }
    if (consider_founding(e, now_ms) || now_ms < e->ask_at_ms)
        return;
    e->ask_at_ms = now_ms + e->step_ms;
    if (!ever && !e->tried && !e->config.founds && e->seed_count > 0) {
        e->tried = true; // where it will be nearly always
        connect_to(e, now_ms, &e->places[e->place_count]);
        return;
    }
    if (!e->may_stand && e->step_ms < e->config.ask_ms_max)
        e->step_ms *= 2;
    consider_standing(e, now_ms);
    if (e->state == ELECTION_LOOK)
        ask_all(e);
}

void election_tick(struct election *e, int64_t now_ms) {
    if (e->state == ELECTION_LOOK) {
        tick_look(e, now_ms);
        return;
    }
    if (election_is_alone(e) || now_ms - e->heard_ms <= e->config.silent_ms_max) {
        election_try_resume(e, now_ms);
        return;
    }
    election_push(e, ELECTION_LOST)->silent_ms = now_ms - e->heard_ms;
    election_look(e, now_ms);
}

int64_t election_deadline(const struct election *e) {
    if (e->state == ELECTION_LOOK)
        return e->ask_at_ms;
    int64_t silent_ms = e->heard_ms + e->config.silent_ms_max + 1;
    if (e->cut && e->resume_at_ms < silent_ms)
        return e->resume_at_ms;
    return election_is_alone(e) ? INT64_MAX : silent_ms;
}
