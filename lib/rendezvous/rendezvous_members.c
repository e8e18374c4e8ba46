// SPDX-License-Identifier: Apache-2.0
// Members of the rendezvous: joining, reporting, leaving, and being lost.
//
// The end of a connection does not say what ended, the agent or only the route to it. The kernel
// of a host closes the connections of an agent that died, but so does a box on the route that
// forgets them; a host without power and a route that drops packets close nothing. So:
//
// - The coordinator checks the agent's host at once, and again while the member is disconnected. If
// the host refuses a connection to the agent's port, or another agent uses it, the agent is dead,
// and the member is lost.
// - If the agent resumes its session over a new connection, the member is unaffected.
// - Otherwise the member is lost after the silence limit.
//
// Safety does not depend on this: no round starts before the lease of a lost member is over, and a
// member that is not heard gets no longer lease.
#include "rendezvous/rendezvous_impl.h"

#include "base/arena.h"
#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- finding members ----

struct rendezvous_member *rendezvous_find(const struct rendezvous *r, int64_t incarnation) {
    for (int i = 0; i < r->slot_count && incarnation != 0; i++)
        if (r->incarnations[i] == incarnation)
            return r->slots[i];
    return NULL;
}

// A silent member may not be lost yet, for example after a stall of this process.
bool rendezvous_is_silent(const struct rendezvous *r, const struct rendezvous_member *m) {
    bool own = r->config.incarnation != 0 && m->incarnation == r->config.incarnation;
    return !own && r->now_ms - m->heard_ms > r->config.silent_ms_max;
}

// ---- joining ----

static int free_slot(struct rendezvous *r) {
    if (r->member_count == r->slot_count) {
        int old = r->slot_count;
        size_t slots = (size_t)old, incarnations = slots;
        array_grow(r->slots, &slots, (size_t)old + 1);
        array_grow(r->slots, &slots, slots);
        array_grow(r->incarnations, &incarnations, slots);
        r->slot_count = (int)slots;
        return old;
    }
    int i = 0;
    while (r->slots[i])
        i++;
    return i;
}

static int check_join(struct rendezvous *r, const struct rendezvous_node *n, struct err *e) {
    if (r->verdict != VERDICT_NONE || r->verdict_next != VERDICT_NONE)
        return err_set(e, ERR_FAILED, "the run is over: %s", r->reason);
    if (r->phase == PHASE_DEPOSED)
        return err_set(e, ERR_BUSY, "this node does not coordinate any more");
    if (n->term > r->term + ELECTION_TERM_STEP_MAX)
        return err_set(e, ERR_FORMAT, "the term of the node cannot be");
    if (n->term > r->term) { // it has voted since: this agent was out of touch
        rendezvous_depose(r, "another node has taken over");
        return err_set(e, ERR_BUSY, "the coordinator is being replaced");
    }
    if (r->member_count >= RENDEZVOUS_MEMBERS_MAX)
        return err_set(e, ERR_LIMIT, "the run has %d nodes already", RENDEZVOUS_MEMBERS_MAX);
    const struct rendezvous_member *same = rendezvous_find(r, n->incarnation);
    if (same && n->connection <= same->connection)
        return err_set(e, ERR_BUSY, "%s has joined with a newer connection", same->name);
    for (int i = 0; i < r->slot_count && n->node_rank >= 0; i++) {
        const struct rendezvous_member *m = r->slots[i];
        if (m && m != same && m->node_rank == n->node_rank)
            return err_set(e, ERR_BUSY, "node rank %d is taken by %s at %s", n->node_rank, m->name,
                           m->address);
    }
    return 0;
}

int rendezvous_join(struct rendezvous *r, int64_t now_ms, const struct rendezvous_node *n, int *id,
                    struct err *e) {
    r->now_ms = now_ms;
    if (check_join(r, n, e) < 0)
        return -1;
    int at = free_slot(r); // the id of its last membership stays unused
    struct rendezvous_member *before = rendezvous_find(r, n->incarnation);
    if (before)
        rendezvous_lose(r, before, "its agent joins anew");
    struct rendezvous_member *m = heap_alloc(sizeof *m);
    m->id = *id = at;
    m->state = MEMBER_WAITING;
    snprintf(m->name, sizeof m->name, "%s", n->name);
    snprintf(m->address, sizeof m->address, "%s", n->address);
    snprintf(m->role, sizeof m->role, "%s", n->role);
    m->node_rank = n->node_rank;
    m->port = n->port;
    m->store_port = n->store_port;
    m->nproc = n->nproc;
    m->incarnation = n->incarnation;
    m->session = n->session;
    m->connection = n->connection;
    m->seq = r->seq++;
    m->heard_ms = now_ms;
    m->acked_ms = INT64_MIN / 2;
    m->group_rank = -1;
    if (n->last_round > r->round && r->phase == PHASE_GATHER)
        r->round = n->last_round; // the number names a folder, and is used once
    leader_lease_join(r, m);
    r->slots[at] = m;
    r->incarnations[at] = m->incarnation;
    r->member_count++;
    struct rendezvous_action *a = rendezvous_push(r, ACTION_JOINED);
    a->id = at;
    a->present = r->member_count;
    a->expected = r->config.nodes_max;
    rendezvous_settle(r);
    return 0;
}

// ---- leaving and being lost ----

// Workers that the member may still run end with their lease: no round begins before that.
static void drop(struct rendezvous *r, struct rendezvous_member *m) {
    bool running = m->state == MEMBER_ACTIVE || m->state == MEMBER_STOPPING;
    int64_t over_ms = m->heard_ms + lease_over_ms(r->config.lease_ms);
    if (running && over_ms > r->not_before_ms)
        r->not_before_ms = over_ms;
    if (m->group_rank >= 0 && m->group_rank < r->active_count && r->active[m->group_rank] == m->id)
        r->active[m->group_rank] = -1;
    r->slots[m->id] = NULL;
    r->incarnations[m->id] = 0;
    r->member_count--;
    free(m->leaving);
    free(m);
}

// Ends the round if the member is part of it. Called before the member is dropped.
static void end_its_round(struct rendezvous *r, const struct rendezvous_member *m,
                          const char *why) {
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    bool harmless = m->state == MEMBER_WAITING || m->state == MEMBER_STOPPING ||
                    (m->state == MEMBER_DONE && m->group_rank != 0);
    enum rendezvous_verdict verdict =
        rendezvous_may_go_on(r, r->member_count - 1) ? VERDICT_NONE : VERDICT_FAILED;
    snprintf(text, sizeof text, "node %s is gone: %s", m->name, why);
    if (r->phase == PHASE_STOP)
        rendezvous_excuse(r, m, verdict, text);
    else if (r->phase == PHASE_RUN && !harmless)
        rendezvous_begin_stop(r, verdict, false, text);
}

void rendezvous_lose(struct rendezvous *r, struct rendezvous_member *m, const char *why) {
    struct rendezvous_action *a = rendezvous_push(r, m->leaving ? ACTION_LEFT : ACTION_LOST);
    why = m->leaving ? m->leaving : why; // the end of its connection follows from that
    a->id = m->id;
    a->silent_ms = r->now_ms - m->heard_ms;
    snprintf(a->name, sizeof a->name, "%s", m->name);
    snprintf(a->reason, sizeof a->reason, "%s", why);
    end_its_round(r, m, why);
    drop(r, m);
}

void rendezvous_lost(struct rendezvous *r, int64_t now_ms, int id, const char *why) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m)
        return;
    r->now_ms = now_ms;
    rendezvous_lose(r, m, why);
    rendezvous_settle(r);
}

void rendezvous_leave(struct rendezvous *r, int64_t now_ms, int id, const char *why) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || m->leaving)
        return;
    r->now_ms = now_ms;
    m->leaving = memcpy(heap_alloc(strlen(why) + 1), why, strlen(why));
    if (m->state == MEMBER_WAITING || m->state == MEMBER_DONE) {
        leader_lease_left(r, m);
        rendezvous_lost(r, now_ms, id, why);
        return;
    }
    end_its_round(r, m, why); // it stays a member until its workers are stopped
    rendezvous_settle(r);
}

// ---- a connection that broke ----

void rendezvous_disconnected(struct rendezvous *r, int64_t now_ms, int id, const char *why) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || m->disconnect_reason[0])
        return;
    if (m->leaving || m->port <= 0 || m->session == 0) {
        rendezvous_lost(r, now_ms, id, why);
        return;
    }
    r->now_ms = now_ms;
    snprintf(m->disconnect_reason, sizeof m->disconnect_reason, "its connection broke: %.80s", why);
    struct rendezvous_action *a = rendezvous_push(r, ACTION_DISCONNECTED);
    a->id = id;
    a->counted = true;
    snprintf(a->reason, sizeof a->reason, "%s", why);
    rendezvous_check(r);
}

int rendezvous_resume(struct rendezvous *r, int64_t now_ms, const struct rendezvous_resume *x,
                      int *id, struct err *e) {
    struct rendezvous_member *m = rendezvous_find(r, x->incarnation);
    if (!m || r->phase == PHASE_DEPOSED || m->session == 0 || m->session != x->session)
        return err_set(e, ERR_NOT_FOUND, "there is no such session any more");
    if (x->connection <= m->connection)
        return err_set(e, ERR_NOT_FOUND, "this session has a newer connection");
    r->now_ms = now_ms;
    m->connection = x->connection;
    m->heard_ms = now_ms;
    m->disconnect_reason[0] = '\0';
    *id = m->id;
    rendezvous_settle(r);
    return 0;
}

void rendezvous_process_dead(struct rendezvous *r, int64_t now_ms, int64_t incarnation, bool dead,
                             const char *why) {
    struct rendezvous_member *m = rendezvous_find(r, incarnation);
    if (dead && (!m || m->disconnect_reason[0])) { // not when it is connected again
        r->now_ms = now_ms;
        leader_lease_dead(r, incarnation);
        rendezvous_check(r);
    }
    if (m && m->disconnect_reason[0])
        rendezvous_lost(r, now_ms, m->id, why);
}

// Loses all silent members before rendezvous_settle: no round may start with one of them.
void rendezvous_scan(struct rendezvous *r) {
    for (int i = 0; i < r->slot_count; i++) {
        struct rendezvous_member *m = r->slots[i];
        if (!m)
            continue;
        bool stuck = m->state == MEMBER_STOPPING && r->now_ms - r->stop_ms > r->config.stop_ms_max;
        if (rendezvous_is_silent(r, m))
            rendezvous_lose(r, m, m->disconnect_reason[0] ? m->disconnect_reason : "it is silent");
        else if (stuck)
            rendezvous_lose(r, m, "it did not stop its workers in time");
        else if (m->disconnect_reason[0])
            rendezvous_push(r, ACTION_DISCONNECTED)->id = m->id;
    }
    leader_lease_probe(r);
}

// ---- reports of members ----

void rendezvous_done(struct rendezvous *r, int64_t now_ms, int id, int round) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || round != r->round || r->phase != PHASE_RUN || m->state != MEMBER_ACTIVE)
        return;
    r->now_ms = now_ms;
    m->state = MEMBER_DONE;
    rendezvous_settle(r);
}

void rendezvous_stopped(struct rendezvous *r, int64_t now_ms, int id, int round, int store_port) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || round != r->round || m->state != MEMBER_STOPPING)
        return;
    r->now_ms = now_ms;
    m->state = MEMBER_WAITING;
    m->store_port = store_port;
    if (m->leaving) {
        leader_lease_left(r, m);
        rendezvous_lost(r, now_ms, id, "it left");
    } else {
        rendezvous_settle(r);
    }
}

void rendezvous_heard(struct rendezvous *r, int64_t now_ms, int id) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (m)
        m->heard_ms = now_ms;
}

// ---- queries --------------------

const struct rendezvous_member *rendezvous_member(const struct rendezvous *r, int id) {
    return rendezvous_slot(r, id);
}

const struct rendezvous_member *rendezvous_active(const struct rendezvous *r, int group_rank) {
    return group_rank >= 0 && group_rank < r->active_count
               ? rendezvous_slot(r, r->active[group_rank])
               : NULL;
}

// A failure that a loss may still excuse does not count yet: agents keep the highest count for the
// next coordinator.
void rendezvous_counters(const struct rendezvous *r, struct election_counters *out) {
    bool open = r->blame.open;
    *out = (struct election_counters){r->round, open ? r->blame.restarts : r->restarts,
                                      open ? r->blame.crashes : r->crashes};
}
