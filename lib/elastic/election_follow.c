// SPDX-License-Identifier: Apache-2.0
// Following a coordinator: its words, the lease that they give, its rounds, and its loss.
#include "base/arena.h"
#include "elastic/election_state.h"

#include <stdlib.h>
#include <string.h>

// So often at least a new connection is tried. A host that takes longer to answer is not reached.
enum { RESUMES_PER_SILENCE = 5 };

static bool is_this_round(const struct election *e, int64_t term, int round) {
    return e->electorate.term == term && e->electorate.round == round;
}

bool election_is_term(const struct election *e, int64_t term) {
    return term <= e->term_seen + ELECTION_TERM_STEP_MAX;
}

bool election_is_alone(const struct election *e) {
    return e->state == ELECTION_LEAD && quorum_is_one(&e->electorate);
}

bool election_join(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                   const struct election_place *leader) {
    if (term < e->term || !election_is_term(e, term))
        return false;
    bool own = leader->incarnation == e->config.incarnation;
    e->connecting = e->cut = false;
    e->term = term;
    if (term > e->term_seen)
        e->term_seen = term;
    e->voted = leader->incarnation; // in this term for nobody else
    e->leader = *leader;
    e->leader_term = term;
    e->state = own ? ELECTION_LEAD : ELECTION_FOLLOW;
    e->heard_ms = now_ms;
    e->word_ms = sent_ms;
    e->lease_ms = INT64_MIN / 2;
    e->leader_round_term = -1; // not known yet
    e->proof_ms = 0;
    if (e->gone)
        memset(e->gone, 0, (size_t)e->electorate.count * sizeof *e->gone);
    return true;
}

void election_word(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t left_ms) {
    if (e->state == ELECTION_LOOK)
        return;
    e->heard_ms = now_ms;
    if (sent_ms > e->word_ms)
        e->word_ms = sent_ms;
    int64_t most = e->config.lease_ms;
    if (left_ms > 0 && e->word_ms + (left_ms < most ? left_ms : most) > e->lease_ms)
        e->lease_ms = e->word_ms + (left_ms < most ? left_ms : most);
}

void election_word_of_round(struct election *e, int64_t round_term, int round, bool committed) {
    if (e->state == ELECTION_LOOK)
        return;
    e->leader_round_term = round_term;
    e->leader_round = round;
    if (committed && is_this_round(e, round_term, round))
        e->electorate.committed = true;
}

int64_t election_lease(const struct election *e) {
    return election_is_alone(e) ? INT64_MAX : e->lease_ms;
}

void election_round(struct election *e, int64_t now_ms, const struct electorate *electorate,
                    const struct election_place *places, int place_count, int total) {
    int at = quorum_find(electorate, e->config.incarnation);
    struct election_place *all =
        heap_alloc((size_t)(place_count + e->seed_count + 1) * sizeof *all);
    memcpy(all, places, (size_t)place_count * sizeof *all);
    if (e->seed_count > 0)
        memcpy(all + place_count, e->places + e->place_count, (size_t)e->seed_count * sizeof *all);
    free(e->places);
    e->places = all;
    e->place_count = place_count;
    if (e->state != ELECTION_LOOK && electorate->count > 0) { // the coordinator has just said so
        e->heard_ms = now_ms; // or this agent is it: the round's leases count from here on
        e->leader_round_term = electorate->term;
        e->leader_round = electorate->round;
    }
    quorum_copy(&e->electorate, electorate);
    e->may_stand = place_count == total && at >= 0 && at < ELECTION_STAND_INS_MAX &&
                   (electorate->voters[at].rounds & QUORUM_THIS) != 0;
    e->yes = heap_realloc(e->yes, (size_t)(electorate->count + 1) * sizeof *e->yes);
    free(e->gone);
    e->gone = heap_alloc((size_t)(electorate->count + 1) * sizeof *e->gone);
}

void election_look(struct election *e, int64_t now_ms) {
    e->state = ELECTION_LOOK;
    e->stage = ASK_QUERY;
    e->lost_ms = e->ask_at_ms = now_ms;
    e->connect_ms = INT64_MIN / 2;
    e->connecting = e->cut = false;
    e->step_ms = e->config.ask_ms;
}

void election_lost(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_LOOK)
        election_look(e, now_ms);
    e->connecting = false;
    e->connect_ms = INT64_MIN / 2; // what was to be joined does not answer
}

// ---- a connection that broke ----

void election_cut(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_FOLLOW || e->cut)
        return;
    e->cut = true;
    e->resume_at_ms = now_ms;
    e->step_ms = e->config.ask_ms;
    election_try_resume(e, now_ms);
}

void election_try_resume(struct election *e, int64_t now_ms) {
    if (!e->cut || now_ms < e->resume_at_ms)
        return;
    e->resume_at_ms = now_ms + e->step_ms;
    int64_t most = e->config.silent_ms_max / RESUMES_PER_SILENCE;
    e->step_ms = e->step_ms * 2 < most ? e->step_ms * 2 : most;
    election_push(e, ELECTION_RESUME)->place = e->leader;
}

void election_resumed(struct election *e, int64_t now_ms) {
    if (!e->cut)
        return;
    e->cut = false;
    e->heard_ms = now_ms;
}

void election_take_proof(struct election *e, int64_t now_ms) {
    int at = quorum_find(&e->electorate, e->leader.incarnation);
    bool fresh = now_ms - e->word_ms <= e->config.silent_ms_max &&
                 is_this_round(e, e->leader_round_term, e->leader_round);
    if (e->state != ELECTION_LOOK || e->proof_ms > 0 || !fresh || e->leader.incarnation == 0)
        return;
    e->proof_ms = now_ms;
    e->ask_at_ms = now_ms;
    if (at >= 0)
        e->electorate.voters[at].dead = true;
}

bool election_take_gone(struct election *e, int64_t now_ms, int64_t incarnation) {
    int at = quorum_find(&e->electorate, incarnation);
    bool votes = quorum_find(&e->electorate, e->config.incarnation) >= 0;
    bool in_time = e->proof_ms > 0 && now_ms - e->word_ms < e->config.lease_ms;
    if (e->state != ELECTION_LOOK || (votes && !in_time) || at < 0 || e->gone[at] ||
        incarnation == e->config.incarnation)
        return false;
    e->gone[at] = true;
    return true;
}

// An agent that came after the round began knows of a group in which nobody lives any more. Nobody
// of it can go on, this agent has no vote in it, and it shall not keep others from founding one.
void election_forget_dead(struct election *e, int64_t now_ms) {
    if (e->state != ELECTION_LOOK || e->electorate.count == 0 ||
        e->place_count != e->electorate.count ||
        quorum_find(&e->electorate, e->config.incarnation) >= 0)
        return;
    for (int i = 0; i < e->electorate.count; i++)
        if (quorum_counts(&e->electorate, i) && !e->gone[i] && !e->electorate.voters[i].dead)
            return;
    memmove(e->places, e->places + e->place_count, (size_t)e->seed_count * sizeof *e->places);
    e->place_count = 0;
    quorum_fini(&e->electorate);
    e->facts = (struct election_facts){.attempt = -1};
    e->leader = (struct election_place){0};
    election_look(e, now_ms);
}

bool election_is_unanimous(const struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        if (quorum_counts(&e->electorate, i) && !e->yes[i] && !e->gone[i] &&
            !e->electorate.voters[i].dead)
            return false;
    return e->proof_ms > 0;
}

void election_bury(struct election *e) {
    for (int i = 0; i < e->electorate.count; i++)
        e->electorate.voters[i].dead |= e->gone[i];
}

void election_seed_same(struct election *e) {
    if (e->seed_count > 1)
        e->same[e->seed_count - 1] = true;
}

// Every seed says so, at one of its addresses at least: of another one there may be no way to it.
bool election_may_found(const struct election *e) {
    if (!e->config.founds || e->facts.attempt >= 0)
        return false;
    for (int i = 0; i < e->seed_count && !e->config.founds_at_once;) {
        bool says = e->strangers[i];
        while (++i < e->seed_count && e->same[i])
            says |= e->strangers[i];
        if (!says)
            return false;
    }
    return true;
}
