// SPDX-License-Identifier: Apache-2.0
// Chance, clocks and messages of the simulated world. Included once, by sim_rendezvous.c.
#ifndef TESTS_SIM_SIM_NETWORK_H
#define TESTS_SIM_SIM_NETWORK_H

#include "tests/sim/world.h"

#include <stdlib.h>

static uint64_t random_next(struct world *w) { // splitmix64 (Steele, Lea, Flood 2014)
    uint64_t z = w->rng += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(struct world *w, int64_t low, int64_t high) {
    return low + (int64_t)(random_next(w) % (uint64_t)(high - low + 1));
}

static bool chance(struct world *w, int percent) {
    return between(w, 1, 100) <= percent;
}

// The node's monotonic clock: an arbitrary start, and a slightly wrong rate.
static int64_t clock_of(const struct world *w, const struct node *n) {
    return n->offset + w->now + w->now * n->rate_ppm / 1000000;
}

static void message_free(struct message *m) {
    quorum_fini(&m->electorate);
}

// Messages of one connection keep their order; of different ones not.
static void post(struct world *w, struct message *m) {
    must(w->queued < MESSAGES_MAX && w->conn < CONNS_MAX);
    if (w->dead[m->conn] && !m->torn) {
        message_free(m);
        return;
    }
    m->at = w->now + between(w, 1, w->now < CALM_MS ? 80 : 3);
    if (w->now < w->late[m->from] && !m->conn)
        m->at += between(w, 0, 700);
    for (int i = 0; i < w->queued; i++) {
        const struct message *x = &w->queue[i];
        if (m->conn && !m->torn && x->conn == m->conn && x->from == m->from && x->at > m->at)
            m->at = x->at;
    }
    m->order = w->order++;
    m->from_incarnation = w->nodes[m->from].incarnation;
    w->queue[w->queued++] = *m;
    w->next_at = m->at < w->next_at ? m->at : w->next_at;
}

// Sent again later, and all that comes behind it on its connection.
static void hold(struct world *w, struct message *m) {
    m->at = w->now + 200;
    for (int i = 0; i < w->queued; i++) {
        struct message *x = &w->queue[i];
        bool behind = m->conn && x->conn == m->conn && x->from == m->from && x->order > m->order;
        if (behind && !x->torn && x->at < m->at)
            x->at = m->at;
    }
}

// The next message that may be delivered now, taken out of the queue. A cut holds messages, as TCP
// does, and a stopped process leaves them in its buffers.
static bool next_message(struct world *w, struct message *out) {
    int best = -1;
    int64_t next_at = INT64_MAX;
    if (w->now < w->next_at)
        return false;
    for (int i = 0; i < w->queued; i++) {
        struct message *m = &w->queue[i];
        bool due = m->at <= w->now && !w->nodes[m->to].frozen;
        if (due && w->cut[m->from][m->to]) {
            hold(w, m);
            due = false;
        }
        next_at = m->at < next_at ? m->at : next_at;
        if (!due)
            continue;
        if (best < 0 || m->at < w->queue[best].at ||
            (m->at == w->queue[best].at && m->order < w->queue[best].order))
            best = i;
    }
    if (best < 0) {
        w->next_at = next_at;
        return false;
    }
    *out = w->queue[best];
    w->queue[best] = w->queue[--w->queued];
    return true;
}

// A host without power, or a process that is gone: what its kernel says, if anything. The answer to
// a forged request goes to the attacker.
static void answer_for_nobody(struct world *w, const struct message *m) {
    if (!w->nodes[m->to].has_host || m->forged ||
        (m->kind != ASKED && m->kind != TO_JOIN && m->kind != TO_RESUME))
        return;
    struct message r = {.kind = w->nodes[m->to].up ? FROM_DROPPED : NOBODY, // to another process
                        .from = m->to,
                        .to = m->from,
                        .conn = m->conn,
                        .to_incarnation = m->from_incarnation};
    r.peer = m->peer;
    post(w, &r);
}

#endif
