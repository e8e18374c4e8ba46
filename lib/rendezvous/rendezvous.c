// SPDX-License-Identifier: Apache-2.0
// The state machine of the rendezvous: its transition table, its invariants, and when a phase is
// complete. rendezvous_members.c has the members, leader_lease.c the right to coordinate.
//
// Members are in slots; the slot is the member's id. Each event changes one member or the phase.
// Then rendezvous_settle checks whether the phase is complete. Actions go into a queue, which the
// owner empties. This module never blocks or reads a clock.
#include "base/arena.h"
#include "rendezvous/rank_order.h"
#include "rendezvous/rendezvous_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(from, event, to, action)                                                               \
    { PHASE_##from, RENDEZVOUS_EVENT_##event, PHASE_##to, action }

static const struct rendezvous_transition transitions[] = {
    ROW(GATHER, READY, RUN, "START: assign ranks, begin the next round"),
    ROW(GATHER, END, OVER, "OVER"),
    ROW(GATHER, DEPOSE, DEPOSED, "STEP_DOWN"),
    ROW(RUN, ALL_DONE, OVER, "OVER: finished"),
    ROW(RUN, INTERRUPT, STOP, "STOP: all members of the round stop their workers"),
    ROW(RUN, DEPOSE, DEPOSED, "STEP_DOWN"),
    ROW(STOP, INTERRUPT, STOP, "STOP again, for good"),
    ROW(STOP, STOPPED, GATHER, "wait for members"),
    ROW(STOP, STOPPED_FINAL, OVER, "OVER"),
    ROW(STOP, DEPOSE, DEPOSED, "STEP_DOWN"),
    ROW(OVER, DEPOSE, DEPOSED, "STEP_DOWN"),
};

enum {
    TRANSITIONS = sizeof transitions / sizeof *transitions,
    SCANS_PER_SILENCE = 8, // silent members are looked for so often, all at once
};

const struct rendezvous_transition *rendezvous_transitions(int *count) {
    *count = TRANSITIONS;
    return transitions;
}

const char *rendezvous_phase_name(enum rendezvous_phase phase) {
    static const char *const names[] = {"GATHER", "RUN", "STOP", "OVER", "DEPOSED"};
    return names[phase];
}

const char *rendezvous_event_name(enum rendezvous_event event) {
    static const char *const names[RENDEZVOUS_EVENT_COUNT] = {
        "READY", "END", "ALL_DONE", "INTERRUPT", "STOPPED", "STOPPED_FINAL", "DEPOSE"};
    return names[event];
}

struct rendezvous_action *rendezvous_push(struct rendezvous *r, enum rendezvous_action_kind kind) {
    struct rendezvous_action *a = array_queue_push(&r->actions, sizeof *a);
    a->kind = kind;
    a->id = -1;
    return a;
}

bool rendezvous_next(struct rendezvous *r, struct rendezvous_action *out) {
    return array_queue_take(&r->actions, out, sizeof *out);
}

// Gives the reason of the stop or of the end.
static struct rendezvous_action *push_reason(struct rendezvous *r,
                                             enum rendezvous_action_kind kind) {
    struct rendezvous_action *a = rendezvous_push(r, kind);
    snprintf(a->reason, sizeof a->reason, "%s", r->reason);
    return a;
}

// ---- phases: nothing else changes the phase ----

static void become_gather(struct rendezvous *r) {
    r->phase = PHASE_GATHER;
    r->gather_ms = r->note_ms = r->now_ms;
    r->quorate_since_ms = -1;
}

static bool is_ready(const struct rendezvous *r, const struct rendezvous_member *m) {
    return !m->leaving && !rendezvous_is_silent(r, m);
}

// A member that has a vote in the last round gets a place in this one, or is lost. The next round
// waits until every voter knows of this one, and a voter learns of it when it joins.
static void become_run(struct rendezvous *r) {
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

static void become_stop(struct rendezvous *r) {
    r->phase = PHASE_STOP;
    r->stop_ms = r->now_ms;
    for (int i = 0; i < r->slot_count; i++)
        if (r->slots[i] &&
            (r->slots[i]->state == MEMBER_ACTIVE || r->slots[i]->state == MEMBER_DONE))
            r->slots[i]->state = MEMBER_STOPPING;
}

static void become_over(struct rendezvous *r) {
    r->phase = PHASE_OVER;
    r->verdict = r->verdict_next;
    push_reason(r, ACTION_OVER);
}

static void become_deposed(struct rendezvous *r) {
    r->phase = PHASE_DEPOSED;
}

static void (*const become[])(struct rendezvous *) = {[PHASE_GATHER] = become_gather,
                                                      [PHASE_RUN] = become_run,
                                                      [PHASE_STOP] = become_stop,
                                                      [PHASE_OVER] = become_over,
                                                      [PHASE_DEPOSED] = become_deposed};

static void step(struct rendezvous *r, enum rendezvous_event event) {
    const struct rendezvous_transition *row = transitions;
    while (row < transitions + TRANSITIONS && (row->from != r->phase || row->event != event))
        row++;
    must(row < transitions + TRANSITIONS);
    become[row->to](r);
    rendezvous_check_members(r);
}

void rendezvous_check(const struct rendezvous *r) {
    must(r->phase == PHASE_OVER ? r->verdict != VERDICT_NONE
                                : r->phase == PHASE_DEPOSED || r->verdict == VERDICT_NONE);
    must(r->verdict_next == VERDICT_NONE || r->phase == PHASE_STOP || r->phase == PHASE_OVER ||
         r->phase == PHASE_DEPOSED);
    must(r->phase != PHASE_RUN || (r->active_count > 0 && r->world_size > 0 && r->round >= 0));
    must(!r->blame.open || r->phase == PHASE_STOP || r->phase == PHASE_DEPOSED);
    must(r->round >= -1 && r->restarts >= 0 && r->crashes >= 0 && r->member_count >= 0);
    must(r->member_count <= r->slot_count && r->actions.first <= r->actions.len);
}

static bool fits_phase(const struct rendezvous *r, const struct rendezvous_member *m) {
    switch (r->phase) {
    case PHASE_GATHER: return m->state == MEMBER_WAITING;
    case PHASE_RUN: return m->state != MEMBER_STOPPING;
    case PHASE_STOP: return m->state == MEMBER_WAITING || m->state == MEMBER_STOPPING;
    case PHASE_OVER:
    case PHASE_DEPOSED: break;
    }
    return true;
}

void rendezvous_check_members(const struct rendezvous *r) {
    int count = 0;
    for (int i = 0; i < r->slot_count; i++) {
        const struct rendezvous_member *m = r->slots[i];
        must(r->incarnations[i] == (m ? m->incarnation : 0));
        count += m != NULL;
        must(!m || (m->id == i && m->voter < r->electorate.count && fits_phase(r, m)));
    }
    must(count == r->member_count);
    for (int i = 0; i < r->active_count; i++) {
        const struct rendezvous_member *m = rendezvous_slot(r, r->active[i]);
        must(r->active[i] == -1 || (m && m->group_rank == i));
    }
}

// ---- beginning ----

bool rendezvous_may_go_on(const struct rendezvous *r, int members_left) {
    const struct rendezvous_config *c = &r->config;
    return members_left >= c->nodes_min || c->max_restarts > 0 || c->nodes_min < c->nodes_max;
}

bool rendezvous_can_hand_over(const struct rendezvous *r) {
    return r->phase != PHASE_OVER && r->verdict_next == VERDICT_NONE && r->round >= 0 &&
           r->member_count > 1 && rendezvous_may_go_on(r, r->member_count - 1);
}

struct rendezvous *rendezvous_open(const struct rendezvous_config *c, int64_t now_ms) {
    struct rendezvous *r = heap_alloc(sizeof *r);
    r->config = *c;
    r->round = -1;
    r->now_ms = r->scan_ms = r->opened_ms = now_ms;
    r->lease_counted_ms = -1;
    r->not_before_ms = r->backoff_until_ms = r->round_ms = INT64_MIN / 2;
    r->term = 1;
    r->confirmed = true;
    become_gather(r);
    return r;
}

static int count_voters(const struct electorate *e) {
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
    if (history->counters.attempt < 0) // no round has begun
        return r;
    snprintf(r->reason, sizeof r->reason, "%s", history->why);
    leader_lease_take_over(r, history);
    int before = count_voters(history->electorate);
    if (before > 0 && !rendezvous_may_go_on(r, before - 1))
        rendezvous_stop(r, now_ms, VERDICT_FAILED, history->why);
    return r;
}

void rendezvous_close(struct rendezvous *r) {
    if (!r)
        return;
    for (int i = 0; i < r->slot_count; i++) {
        if (r->slots[i])
            free(r->slots[i]->leaving);
        free(r->slots[i]);
    }
    free(r->slots);
    free(r->incarnations);
    free(r->active);
    free(r->voters);
    quorum_fini(&r->electorate);
    array_queue_fini(&r->actions);
    free(r);
}

// ---- ending ----

void rendezvous_begin_stop(struct rendezvous *r, enum rendezvous_verdict verdict, bool counted,
                           const char *why) {
    if (r->phase == PHASE_OVER || r->phase == PHASE_DEPOSED)
        return;
    if (verdict == VERDICT_STOPPED)
        r->blame.open = false;
    bool again = r->phase == PHASE_STOP;
    if (again && r->verdict_next != VERDICT_NONE) {
        if (verdict == VERDICT_STOPPED) // a second request may give less time
            push_reason(r, ACTION_STOP)->final = true;
        return;
    }
    if (again && verdict == VERDICT_NONE) // but a final stop overtakes one for a restart
        return;
    snprintf(r->reason, sizeof r->reason, "%s", why);
    if (r->phase == PHASE_GATHER && verdict == VERDICT_NONE)
        return;
    r->verdict_next = verdict;
    if (r->phase == PHASE_GATHER) {
        step(r, RENDEZVOUS_EVENT_END);
        return;
    }
    if (counted && verdict == VERDICT_NONE)
        r->restarts++;
    step(r, RENDEZVOUS_EVENT_INTERRUPT);
    struct rendezvous_action *a = push_reason(r, ACTION_STOP);
    a->final = verdict != VERDICT_NONE;
    a->tentative = r->blame.open;
    a->counted = counted;
}

void rendezvous_stop(struct rendezvous *r, int64_t now_ms, enum rendezvous_verdict verdict,
                     const char *why) {
    r->now_ms = now_ms;
    rendezvous_begin_stop(r, verdict, false, why);
    rendezvous_settle(r);
}

void rendezvous_depose(struct rendezvous *r, const char *why) {
    if (r->phase == PHASE_DEPOSED)
        return;
    step(r, RENDEZVOUS_EVENT_DEPOSE);
    struct rendezvous_action *a = rendezvous_push(r, ACTION_STEP_DOWN);
    snprintf(a->reason, sizeof a->reason, "%s", why);
    rendezvous_check(r);
}

// ---- is the phase complete? ----

static int count_in(const struct rendezvous *r, enum rendezvous_state state) {
    int n = 0;
    for (int i = 0; i < r->slot_count; i++)
        n += r->slots[i] && r->slots[i]->state == state;
    return n;
}

static int count_ready(const struct rendezvous *r) {
    int n = 0;
    for (int i = 0; i < r->slot_count; i++)
        n += r->slots[i] && is_ready(r, r->slots[i]);
    return n;
}

static int64_t last_call(const struct rendezvous *r) {
    return r->round < 0 ? r->config.last_call_ms : r->config.regroup_call_ms;
}

static int64_t gather_limit(const struct rendezvous *r) {
    return r->round < 0 ? r->config.join_timeout_ms : r->config.rejoin_timeout_ms;
}

static void settle_gather(struct rendezvous *r) {
    const struct rendezvous_config *c = &r->config;
    // Fewer members than nodes_min need no count of the ready ones. With ten thousand nodes that
    // saves a hundred million looks.
    int ready = r->member_count < c->nodes_min ? 0 : count_ready(r);
    if (ready < c->nodes_min) {
        r->quorate_since_ms = -1;
        if (r->now_ms - r->gather_ms < gather_limit(r))
            return;
        char text[RENDEZVOUS_REASON_BYTES_MAX];
        snprintf(text, sizeof text, "%d of %d nodes came within %lld s%s%.300s", count_ready(r),
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
        step(r, RENDEZVOUS_EVENT_READY);
}

static void settle_run(struct rendezvous *r) {
    int active = count_in(r, MEMBER_ACTIVE), done = count_in(r, MEMBER_DONE);
    if (active == 0) {
        snprintf(r->reason, sizeof r->reason, "every worker ended with 0");
        r->verdict_next = VERDICT_FINISHED;
        step(r, RENDEZVOUS_EVENT_ALL_DONE);
        return;
    }
    if (done > 0 || active >= r->config.nodes_max || count_ready(r) <= active)
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
    step(r, r->verdict_next == VERDICT_NONE ? RENDEZVOUS_EVENT_STOPPED
                                            : RENDEZVOUS_EVENT_STOPPED_FINAL);
}

void rendezvous_settle(struct rendezvous *r) {
    enum rendezvous_phase before;
    do {
        before = r->phase;
        switch (r->phase) {
        case PHASE_GATHER: settle_gather(r); break;
        case PHASE_RUN: settle_run(r); break;
        case PHASE_STOP: settle_stop(r); break;
        case PHASE_OVER:
        case PHASE_DEPOSED: break;
        }
    } while (r->phase != before);
    rendezvous_check(r);
}

void rendezvous_tick(struct rendezvous *r, int64_t now_ms) {
    r->now_ms = now_ms;
    if (r->phase == PHASE_OVER)
        return;
    leader_lease_tick(r);
    if (r->phase == PHASE_DEPOSED)
        return;
    if (now_ms - r->scan_ms >= r->config.silent_ms_max / SCANS_PER_SILENCE) {
        r->scan_ms = now_ms;
        rendezvous_scan(r);
        rendezvous_check_members(r);
    }
    rendezvous_settle(r);
    if (r->phase == PHASE_GATHER && now_ms - r->note_ms >= r->config.note_ms) {
        r->note_ms = now_ms;
        struct rendezvous_action *a = rendezvous_push(r, ACTION_WAITING);
        a->present = count_ready(r);
        a->expected = r->config.nodes_max;
    }
}

static void earlier(int64_t *at, int64_t other) {
    if (other < *at)
        *at = other;
}

int64_t rendezvous_deadline(const struct rendezvous *r) {
    if (r->phase == PHASE_OVER || r->phase == PHASE_DEPOSED)
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

// ---- queries --------------------

enum rendezvous_phase rendezvous_phase(const struct rendezvous *r) {
    return r->phase;
}
enum rendezvous_verdict rendezvous_verdict(const struct rendezvous *r) {
    return r->verdict;
}
const char *rendezvous_reason(const struct rendezvous *r) {
    return r->reason;
}
int rendezvous_round(const struct rendezvous *r) {
    return r->round;
}
int rendezvous_restarts(const struct rendezvous *r) {
    return r->restarts;
}
int64_t rendezvous_term(const struct rendezvous *r) {
    return r->term;
}
const struct electorate *rendezvous_electorate(const struct rendezvous *r) {
    return &r->electorate;
}
int rendezvous_world_size(const struct rendezvous *r) {
    return r->world_size;
}
int rendezvous_member_count(const struct rendezvous *r) {
    return r->member_count;
}
int rendezvous_active_count(const struct rendezvous *r) {
    return r->active_count;
}
