// SPDX-License-Identifier: Apache-2.0
// Theory of operation: members sit in slots (their ids); events change one member or the phase, and
// then rendezvous_settle looks whether the phase is complete. Actions go into a queue that the
// owner empties. Nothing here blocks, allocates per event (actions aside), or looks at a clock.
#include "base/arena.h"
#include "rendezvous/rank_order.h"
#include "rendezvous/rendezvous_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Silence is looked for so often, over all members at once, whatever their number.
enum { SCANS_PER_SILENCE = 8 };

struct rendezvous_action *rendezvous_push(struct rendezvous *r, enum rendezvous_action_kind kind) {
    if (r->queue_len == r->queue_room) {
        r->queue_room = r->queue_room ? r->queue_room * 2 : 8;
        r->queue = heap_realloc(r->queue, r->queue_room * sizeof *r->queue);
    }
    struct rendezvous_action *a = &r->queue[r->queue_len++];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->id = -1;
    return a;
}

static void set_reason(struct rendezvous *r, const char *why) {
    snprintf(r->reason, sizeof r->reason, "%s", why);
}

// After a loss: are there enough nodes left, or may it wait for others?
static bool goes_on(const struct rendezvous *r, int left) {
    const struct rendezvous_config *c = &r->config;
    return left >= c->nodes_min || c->max_restarts > 0 || c->nodes_min < c->nodes_max;
}

bool rendezvous_can_hand_over(const struct rendezvous *r) {
    return r->phase != PHASE_OVER && r->verdict_next == VERDICT_NONE && r->round >= 0 &&
           r->member_count > 1 && goes_on(r, r->member_count - 1);
}

struct rendezvous *rendezvous_open(const struct rendezvous_config *c, int64_t now_ms) {
    struct rendezvous *r = heap_alloc(sizeof *r);
    r->config = *c;
    r->round = -1;
    r->quorate_since_ms = r->lease_counted_ms = -1;
    r->gather_ms = r->note_ms = r->scan_ms = r->now_ms = r->opened_ms = now_ms;
    r->not_before_ms = r->backoff_until_ms = r->round_ms = INT64_MIN / 2;
    r->term = 1;
    r->confirmed = true;
    return r;
}

static int this_round(const struct electorate *e) {
    int n = 0;
    for (int i = 0; i < e->count; i++)
        n += (e->voters[i].rounds & QUORUM_THIS) != 0;
    return n;
}

struct rendezvous *rendezvous_take_over(const struct rendezvous_config *c, int64_t now_ms,
                                        const struct rendezvous_history *history) {
    struct rendezvous *r = rendezvous_open(c, now_ms);
    r->round = history->counters.attempt;
    r->restarts = history->counters.restarts;
    r->crashes = history->counters.crashes;
    r->not_before_ms = history->not_before_ms;
    r->exclusive_until_ms = history->exclusive_until_ms;
    if (r->crashes > 1)
        r->backoff_until_ms = now_ms + c->backoff_ms * (r->crashes - 1);
    r->term = history->term;
    if (history->counters.attempt < 0) // nothing has begun
        return r;
    set_reason(r, history->why);
    leader_lease_take_over(r, history);
    int before = this_round(history->electorate);
    if (before > 0 && !goes_on(r, before - 1))
        rendezvous_stop(r, now_ms, VERDICT_FAILED, history->why);
    return r;
}

static int count_in(const struct rendezvous *r, enum rendezvous_state state) {
    int n = 0;
    for (int i = 0; i < r->slot_count; i++)
        n += r->slots[i] && r->slots[i]->state == state;
    return n;
}

// ---- joining ----

static int free_slot(struct rendezvous *r) {
    if (r->member_count == r->slot_count) {
        int old = r->slot_count;
        r->slot_count = old ? old * 2 : 16;
        r->slots = heap_realloc(r->slots, (size_t)r->slot_count * sizeof *r->slots);
        memset(r->slots + old, 0, (size_t)(r->slot_count - old) * sizeof *r->slots);
        r->incarnations =
            heap_realloc(r->incarnations, (size_t)r->slot_count * sizeof *r->incarnations);
        memset(r->incarnations + old, 0, (size_t)(r->slot_count - old) * sizeof *r->incarnations);
        return old;
    }
    int i = 0;
    while (r->slots[i])
        i++;
    return i;
}

static int check_join(struct rendezvous *r, const struct rendezvous_node *n, struct err *e) {
    if (r->phase == PHASE_OVER || r->verdict_next != VERDICT_NONE)
        return err_set(e, ERR_FAILED, "the run is over: %s", r->reason);
    if (r->deposed)
        return err_set(e, ERR_BUSY, "this node does not coordinate any more");
    if (n->term > r->term) { // it has voted since, so this agent was out of touch for long
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
    int at = free_slot(r); // not that of
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
        r->round = n->last_round; // numbers name folders: none is used twice
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

// ---- starting a round ----

static bool is_ready(const struct rendezvous *r, const struct rendezvous_member *m) {
    return !m->leaving && !rendezvous_is_silent(r, m);
}

// Every member that has a vote in the last round gets a place in this one, or is a member no more:
// the next round waits until it has heard of this one, and it hears of it when it joins.
static void start_round(struct rendezvous *r) {
    struct rendezvous_member **all = heap_alloc((size_t)r->member_count * sizeof(void *));
    int count = 0;
    for (int i = 0; i < r->slot_count; i++) {
        struct rendezvous_member *m = r->slots[i];
        if (m && !is_ready(r, m)) {
            rendezvous_lose(r, m, "it is silent");
        } else if (m) {
            m->in_round |= leader_lease_votes(r, m);
            all[count++] = m;
        }
    }
    count = rank_order_choose(all, count, r->config.nodes_max, r->config.incarnation);
    r->world_size = rank_order_rank(all, count);
    r->active = heap_realloc(r->active, (size_t)count * sizeof *r->active);
    r->active_count = count;
    for (int i = 0; i < count; i++) {
        all[i]->state = MEMBER_ACTIVE;
        r->active[i] = all[i]->id;
    }
    free(all);
    r->round++;
    r->round_ms = r->now_ms;
    r->phase = PHASE_RUN;
    leader_lease_start(r);
    rendezvous_push(r, ACTION_START);
}

// ---- ending ----

// For the reason that is known for the end.
static struct rendezvous_action *push_end(struct rendezvous *r, enum rendezvous_action_kind kind) {
    struct rendezvous_action *a = rendezvous_push(r, kind);
    snprintf(a->reason, sizeof a->reason, "%s", r->reason);
    return a;
}

static void end_run(struct rendezvous *r, enum rendezvous_verdict verdict) {
    r->phase = PHASE_OVER;
    r->verdict = verdict;
    push_end(r, ACTION_OVER);
}

static void begin_gather(struct rendezvous *r) {
    r->phase = PHASE_GATHER;
    r->gather_ms = r->note_ms = r->now_ms;
    r->quorate_since_ms = -1;
}

void rendezvous_begin_stop(struct rendezvous *r, enum rendezvous_verdict verdict, bool counted,
                           const char *why) {
    if (verdict == VERDICT_STOPPED)
        r->blame.open = false;
    if (r->phase == PHASE_OVER)
        return;
    if (r->phase == PHASE_STOP && r->verdict_next != VERDICT_NONE) {
        if (verdict == VERDICT_STOPPED) // who asks again may give less time
            push_end(r, ACTION_STOP)->final = true;
        return;
    }
    bool again = r->phase == PHASE_STOP; // a final stop overtakes one for a restart
    if (again && verdict == VERDICT_NONE)
        return;
    set_reason(r, why);
    r->verdict_next = verdict;
    if (r->phase == PHASE_GATHER) {
        if (verdict != VERDICT_NONE)
            end_run(r, verdict);
        return;
    }
    if (counted && verdict == VERDICT_NONE)
        r->restarts++;
    r->phase = PHASE_STOP;
    r->stop_ms = r->now_ms;
    for (int i = 0; i < r->slot_count; i++)
        if (r->slots[i] &&
            (r->slots[i]->state == MEMBER_ACTIVE || r->slots[i]->state == MEMBER_DONE))
            r->slots[i]->state = MEMBER_STOPPING;
    struct rendezvous_action *a = push_end(r, ACTION_STOP);
    a->final = verdict != VERDICT_NONE;
    a->tentative = r->blame.open;
    a->counted = counted;
}

// A member goes. Whether its workers may still run decides about the fence.
static void drop(struct rendezvous *r, struct rendezvous_member *m) {
    bool running = m->state == MEMBER_ACTIVE || m->state == MEMBER_STOPPING;
    if (running && m->heard_ms + r->config.lease_ms > r->not_before_ms)
        r->not_before_ms = m->heard_ms + r->config.lease_ms;
    if (m->group_rank >= 0 && m->group_rank < r->active_count && r->active[m->group_rank] == m->id)
        r->active[m->group_rank] = -1;
    r->slots[m->id] = NULL;
    r->incarnations[m->id] = 0;
    r->member_count--;
    free(m->leaving);
    free(m);
}

// What a member's going means for the round. Called before it is dropped.
static void member_going(struct rendezvous *r, const struct rendezvous_member *m, const char *why) {
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    bool harmless = m->state == MEMBER_WAITING || m->state == MEMBER_STOPPING ||
                    (m->state == MEMBER_DONE && m->group_rank != 0);
    enum rendezvous_verdict verdict =
        goes_on(r, r->member_count - 1) ? VERDICT_NONE : VERDICT_FAILED;
    snprintf(text, sizeof text, "node %s is gone: %s", m->name, why);
    if (r->phase == PHASE_STOP)
        rendezvous_excuse(r, m, verdict, text);
    else if (r->phase == PHASE_RUN && !harmless)
        rendezvous_begin_stop(r, verdict, false, text);
}

void rendezvous_lose(struct rendezvous *r, struct rendezvous_member *m, const char *why) {
    struct rendezvous_action *a = rendezvous_push(r, m->leaving ? ACTION_LEFT : ACTION_LOST);
    why = m->leaving ? m->leaving : why; // that its connection ended afterwards is no news
    a->id = m->id;
    a->silent_ms = r->now_ms - m->heard_ms;
    snprintf(a->name, sizeof a->name, "%s", m->name);
    snprintf(a->reason, sizeof a->reason, "%s", why);
    member_going(r, m, why);
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
    member_going(r, m, why); // it stays until its workers are stopped
    rendezvous_settle(r);
}

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

void rendezvous_stop(struct rendezvous *r, int64_t now_ms, enum rendezvous_verdict verdict,
                     const char *why) {
    r->now_ms = now_ms;
    rendezvous_begin_stop(r, verdict, false, why);
    rendezvous_settle(r);
}

void rendezvous_heard(struct rendezvous *r, int64_t now_ms, int id) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (m)
        m->heard_ms = now_ms;
}

// ---- phases ----

static int64_t last_call(const struct rendezvous *r) {
    return r->round < 0 ? r->config.last_call_ms : r->config.regroup_call_ms;
}

static int64_t gather_limit(const struct rendezvous *r) {
    return r->round < 0 ? r->config.join_timeout_ms : r->config.rejoin_timeout_ms;
}

static int ready_count(const struct rendezvous *r) {
    int n = 0;
    for (int i = 0; i < r->slot_count; i++)
        n += r->slots[i] && is_ready(r, r->slots[i]);
    return n;
}

static void settle_gather(struct rendezvous *r) {
    const struct rendezvous_config *c = &r->config;
    // Too few members are too few, whoever of them is ready: counting at each join would be for
    // ten thousand nodes a hundred million looks.
    int ready = r->member_count < c->nodes_min ? 0 : ready_count(r);
    if (ready < c->nodes_min) {
        r->quorate_since_ms = -1;
        if (r->now_ms - r->gather_ms < gather_limit(r))
            return;
        char text[RENDEZVOUS_REASON_BYTES_MAX];
        snprintf(text, sizeof text, "%d of %d nodes came within %lld s%s%.300s", ready_count(r),
                 c->nodes_min, (long long)(gather_limit(r) / 1000),
                 r->reason[0] ? "; before that: " : "", r->reason);
        rendezvous_begin_stop(r, VERDICT_FAILED, false, text);
        return;
    }
    if (r->quorate_since_ms < 0)
        r->quorate_since_ms = r->now_ms;
    bool own = c->incarnation == 0 || rendezvous_find(r, c->incarnation);
    bool all = ready >= c->nodes_max || (c->nodes_expected > 0 && ready >= c->nodes_expected);
    if (own && r->now_ms >= r->not_before_ms && r->now_ms >= r->backoff_until_ms &&
        (all || r->now_ms - r->quorate_since_ms >= last_call(r)) && leader_lease_may_start(r))
        start_round(r);
}

static void settle_run(struct rendezvous *r) {
    int active = count_in(r, MEMBER_ACTIVE), done = count_in(r, MEMBER_DONE);
    if (active == 0) {
        set_reason(r, "every worker ended with 0");
        end_run(r, VERDICT_FINISHED);
        return;
    }
    if (done > 0 || active >= r->config.nodes_max || ready_count(r) <= active)
        return;
    for (int i = 0; i < r->slot_count; i++) {
        char text[RENDEZVOUS_REASON_BYTES_MAX];
        const struct rendezvous_member *m = r->slots[i];
        if (!m || m->state != MEMBER_WAITING || m->leaving)
            continue;
        snprintf(text, sizeof text, "node %s has joined", m->name);
        rendezvous_begin_stop(r, VERDICT_NONE, false, text);
        return;
    }
}

static void settle_stop(struct rendezvous *r) {
    if (count_in(r, MEMBER_STOPPING) > 0)
        return;
    r->blame.open = false;
    if (r->verdict_next != VERDICT_NONE)
        end_run(r, r->verdict_next);
    else
        begin_gather(r);
}

void rendezvous_settle(struct rendezvous *r) {
    enum rendezvous_phase before;
    if (r->deposed)
        return;
    do {
        before = r->phase;
        switch (r->phase) {
        case PHASE_GATHER: settle_gather(r); break;
        case PHASE_RUN: settle_run(r); break;
        case PHASE_STOP: settle_stop(r); break;
        case PHASE_OVER: break;
        }
    } while (r->phase != before);
}

void rendezvous_tick(struct rendezvous *r, int64_t now_ms) {
    r->now_ms = now_ms;
    if (r->phase == PHASE_OVER)
        return;
    leader_lease_tick(r);
    if (r->deposed)
        return;
    if (now_ms - r->scan_ms >= r->config.silent_ms_max / SCANS_PER_SILENCE) {
        r->scan_ms = now_ms;
        rendezvous_scan(r);
    }
    rendezvous_settle(r);
    if (r->phase == PHASE_GATHER && now_ms - r->note_ms >= r->config.note_ms) {
        r->note_ms = now_ms;
        struct rendezvous_action *a = rendezvous_push(r, ACTION_WAITING);
        a->present = ready_count(r);
        a->expected = r->config.nodes_max;
    }
}

static void earlier(int64_t *at, int64_t candidate) {
    if (candidate < *at)
        *at = candidate;
}

int64_t rendezvous_deadline(const struct rendezvous *r) {
    if (r->phase == PHASE_OVER || r->deposed)
        return INT64_MAX;
    int64_t at = leader_lease_deadline(r);
    if (r->member_count > 0)
        earlier(&at, r->scan_ms + r->config.silent_ms_max / SCANS_PER_SILENCE);
    if (r->phase == PHASE_STOP)
        earlier(&at, r->stop_ms + r->config.stop_ms_max + 1);
    if (r->phase != PHASE_GATHER)
        return at;
    earlier(&at, r->note_ms + r->config.note_ms);
    if (r->quorate_since_ms < 0)
        earlier(&at, r->gather_ms + gather_limit(r));
    else if (r->now_ms < r->not_before_ms || r->now_ms < r->backoff_until_ms)
        earlier(&at,
                r->not_before_ms > r->backoff_until_ms ? r->not_before_ms : r->backoff_until_ms);
    else
        earlier(&at, r->quorate_since_ms + last_call(r));
    return at;
}
