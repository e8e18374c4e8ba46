// SPDX-License-Identifier: Apache-2.0
// The coordinator's right to coordinate. It lasts lease_ms from the latest time at which a quorum
// of the electorate is known to have heard the coordinator. Every answer to a heartbeat passes on
// the rest of it. docs/rendezvous.md says why this is safe.
//
// The voters of a round count as having heard the coordinator when the round began: a voter that
// knows of the round has heard of it then or later. The voters of the round before count, too,
// until the round is committed: known to a quorum of both electorates, and to every voter that was
// not silent for lease_ms. Such a voter could still hold a proof against this coordinator.
#include "base/arena.h"
#include "rendezvous/rendezvous_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT_KEPT_MS = 50 }; // all voters are counted again at most so often

// A voter that has died has prolonged the lease until then. That part of the lease stays valid.
static int64_t count_lease_end(struct rendezvous *r) {
    struct electorate *e = &r->electorate;
    int64_t *spoke = heap_alloc((size_t)(e->count + 1) * sizeof *spoke);
    for (int i = 0; i < e->count; i++)
        spoke[i] = r->voters[i].acked_ms;
    int64_t starts_ms = e->term == r->term ? r->round_ms : INT64_MIN;
    int64_t at = quorum_time(e, spoke, starts_ms);
    for (int i = 0; i < e->count; i++)
        e->voters[i].dead &= !r->voters[i].died_in_lease;
    int64_t before = quorum_time(e, spoke, starts_ms);
    for (int i = 0; i < e->count; i++)
        e->voters[i].dead |= r->voters[i].died_in_lease;
    at = before > at ? before : at;
    free(spoke);
    return at >= INT64_MAX - r->config.lease_ms ? INT64_MAX : at + r->config.lease_ms;
}

// True when no voter can outvote this coordinator: no round has begun, or it is the only living
// voter.
static bool is_unopposed(const struct rendezvous *r) {
    return r->electorate.count == 0 || quorum_is_single(&r->electorate, r->config.incarnation);
}

static int64_t lease_end(struct rendezvous *r) {
    if (is_unopposed(r))
        return INT64_MAX;
    if (r->lease_counted_ms < 0 || r->now_ms - r->lease_counted_ms >= COUNT_KEPT_MS ||
        r->lease_end_ms <= r->now_ms) {
        r->lease_end_ms = count_lease_end(r);
        r->lease_counted_ms = r->now_ms;
    }
    return r->lease_end_ms;
}

bool leader_lease_holds(struct rendezvous *r) {
    return r->phase != PHASE_DEPOSED && lease_end(r) > r->now_ms;
}

static void check_committed(struct rendezvous *r) {
    struct electorate *e = &r->electorate;
    if (e->committed)
        return;
    bool *knows = heap_alloc((size_t)(e->count + 1) * sizeof *knows), silent = true;
    for (int i = 0; i < e->count && silent; i++) {
        const struct rendezvous_voter *v = &r->voters[i];
        knows[i] = v->knows_round;
        silent = v->knows_round || v->left || e->voters[i].dead ||
                 r->now_ms - v->heard_ms >= r->config.lease_ms;
    }
    e->committed = silent && quorum_agrees(e, knows);
    free(knows);
    r->lease_counted_ms = -1;
}

bool leader_lease_may_start(struct rendezvous *r) {
    if (r->electorate.count == 0)
        return true;
    check_committed(r);
    return r->electorate.committed && leader_lease_holds(r);
}

static void fill_voters(struct rendezvous *r) {
    int count = r->electorate.count;
    free(r->voters);
    r->voters = heap_alloc((size_t)(count + 1) * sizeof *r->voters);
    for (int i = 0; i < count; i++)
        r->voters[i] = (struct rendezvous_voter){.acked_ms = INT64_MIN / 2, .heard_ms = r->now_ms};
    r->lease_counted_ms = -1;
}

void leader_lease_take_over(struct rendezvous *r, const struct rendezvous_history *history) {
    r->confirmed = false;
    quorum_copy(&r->electorate, history->electorate);
    fill_voters(r);
}

// The voters of this round come by rank, then those of the last round that are not in this one.
void leader_lease_start(struct rendezvous *r) {
    struct electorate old = r->electorate, *e = &r->electorate;
    struct rendezvous_voter *old_voters = r->voters;
    if (r->config.incarnation == 0)
        return;
    *e = (struct electorate){.term = r->term,
                             .round = r->round,
                             .tie_breaker = r->config.incarnation,
                             .tie_breaker_last = old.tie_breaker,
                             .committed = old.count == 0};
    e->voters = heap_alloc((size_t)(r->active_count + old.count + 1) * sizeof *e->voters);
    for (int i = 0; i < r->active_count; i++)
        e->voters[e->count++] = (struct voter){
            .incarnation = rendezvous_slot(r, r->active[i])->incarnation, .rounds = QUORUM_THIS};
    int *from = heap_alloc((size_t)(r->active_count + old.count + 1) * sizeof *from);
    for (int i = 0; i < r->active_count; i++)
        from[i] = -1;
    for (int i = 0; i < old.count; i++) {
        if (!(old.voters[i].rounds & QUORUM_THIS))
            continue;
        int at = quorum_find(e, old.voters[i].incarnation);
        if (at < 0) {
            at = e->count++;
            e->voters[at] = (struct voter){.incarnation = old.voters[i].incarnation,
                                           .dead = old.voters[i].dead};
        }
        e->voters[at].rounds |= QUORUM_LAST;
        from[at] = i;
    }
    r->voters = NULL;
    fill_voters(r);
    for (int i = 0; i < e->count; i++)
        if (from[i] >= 0) {
            r->voters[i] = old_voters[from[i]];
            r->voters[i].knows_round = false;
        }
    for (int i = 0; i < r->slot_count; i++)
        if (r->slots[i])
            leader_lease_join(r, r->slots[i]);
    free(from);
    free(old_voters);
    quorum_fini(&old);
}

void leader_lease_join(struct rendezvous *r, struct rendezvous_member *m) {
    m->voter = m->group_rank >= 0 && m->group_rank < r->electorate.count &&
                       r->electorate.voters[m->group_rank].incarnation == m->incarnation
                   ? m->group_rank
                   : quorum_find(&r->electorate, m->incarnation);
    if (m->voter >= 0 && m->acked_ms > r->voters[m->voter].acked_ms)
        r->voters[m->voter].acked_ms = m->acked_ms;
}

bool leader_lease_votes(const struct rendezvous *r, const struct rendezvous_member *m) {
    return m->voter >= 0 && (r->electorate.voters[m->voter].rounds & QUORUM_THIS) != 0;
}

// Until its lease is over, a voter has voted for no other agent.
static bool is_bound(const struct rendezvous *r, int at) {
    return r->now_ms - r->voters[at].acked_ms < r->config.lease_ms;
}

static bool is_missing(const struct rendezvous *r, int at) {
    const struct voter *v = &r->electorate.voters[at];
    return quorum_counts(&r->electorate, at) && !v->dead && !r->voters[at].reported_dead &&
           v->incarnation != r->config.incarnation && !is_bound(r, at);
}

// This coordinator has not begun a round yet.
static bool is_first(const struct rendezvous *r) {
    return r->electorate.term != r->term;
}

static void exclude_dead(struct rendezvous *r) {
    for (int i = 0; i < r->electorate.count; i++)
        if (is_missing(r, i))
            return;
    for (int i = 0; i < r->electorate.count; i++)
        r->electorate.voters[i].dead |= r->voters[i].reported_dead;
    r->lease_counted_ms = -1;
}

int64_t rendezvous_heartbeat(struct rendezvous *r, int64_t now_ms, int id, int64_t acked_ms,
                             int64_t round_term, int round) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || r->phase == PHASE_DEPOSED)
        return 0;
    r->now_ms = now_ms;
    m->heard_ms = now_ms;
    if (acked_ms > m->acked_ms && acked_ms <= now_ms)
        m->acked_ms = acked_ms;
    struct rendezvous_voter *v = m->voter >= 0 ? &r->voters[m->voter] : NULL;
    if (v) {
        v->heard_ms = now_ms;
        if (m->acked_ms > v->acked_ms)
            v->acked_ms = m->acked_ms;
        bool knows = round_term == r->electorate.term && round == r->electorate.round;
        if (knows && !v->knows_round) {
            v->knows_round = true;
            check_committed(r);
        }
    }
    if (is_first(r))
        exclude_dead(r);
    if (!r->confirmed && leader_lease_holds(r)) {
        r->confirmed = true;
        rendezvous_settle(r);
    }
    rendezvous_check(r);
    return rendezvous_lease_left_ms(r);
}

int64_t rendezvous_lease_left_ms(struct rendezvous *r) {
    if (!leader_lease_holds(r))
        return 0;
    int64_t left = lease_end(r) - r->now_ms;
    return left < r->config.lease_ms ? left : r->config.lease_ms;
}

void leader_lease_left(struct rendezvous *r, const struct rendezvous_member *m) {
    if (m->voter >= 0)
        r->voters[m->voter].left = true;
}

void leader_lease_dead(struct rendezvous *r, int64_t incarnation) {
    int at = quorum_find(&r->electorate, incarnation);
    if (at < 0 || r->phase == PHASE_DEPOSED || incarnation == r->config.incarnation)
        return;
    if (is_bound(r, at))
        r->electorate.voters[at].dead = r->voters[at].died_in_lease = true;
    else if (is_first(r) && r->now_ms < r->exclusive_until_ms)
        r->voters[at].reported_dead = true;
    r->lease_counted_ms = -1;
    if (is_first(r))
        exclude_dead(r);
}

void leader_lease_probe(struct rendezvous *r) {
    bool in_time = is_first(r) && r->now_ms < r->exclusive_until_ms;
    for (int i = 0; i < r->electorate.count && in_time; i++)
        if (is_missing(r, i) && !rendezvous_find(r, r->electorate.voters[i].incarnation))
            rendezvous_push(r, ACTION_PROBE)->id = i;
}

// A coordinator that has just taken over has the time that an election takes.
void leader_lease_tick(struct rendezvous *r) {
    if (r->phase == PHASE_DEPOSED || leader_lease_holds(r) ||
        (!r->confirmed && r->now_ms - r->opened_ms < 2 * r->config.lease_ms))
        return;
    rendezvous_depose(r, "it does not hear enough nodes of the last round: more than half, "
                         "or half with the coordinator's own");
}

int64_t leader_lease_deadline(const struct rendezvous *r) {
    if (r->phase == PHASE_DEPOSED || is_unopposed(r))
        return INT64_MAX;
    return r->confirmed ? r->lease_end_ms : r->opened_ms + 2 * r->config.lease_ms;
}
