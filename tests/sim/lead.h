// SPDX-License-Identifier: Apache-2.0
// A simulated node while it coordinates: the shell around its rendezvous. Included once, by node.h.
#ifndef TESTS_SIM_LEAD_H
#define TESTS_SIM_LEAD_H

#include "tests/sim/connect.h"

static int member_of(const struct node *n, int conn) {
    for (int id = 0; id < MEMBERS; id++)
        if (n->conns[id] == conn && rendezvous_member(n->r, id))
            return id;
    return -1;
}

static void post_member(struct world *w, int at, int id, struct message *m) {
    struct node *n = &w->nodes[at];
    m->from = at;
    m->to = n->nodes[id];
    m->conn = n->conns[id];
    if (is_kept(m->kind))
        side_tell(w, &n->sides[id], m);
    else if (m->conn)
        post(w, m);
}

static void send_electorate(struct world *w, int at, int id, enum kind kind) {
    struct node *n = &w->nodes[at];
    const struct rendezvous_member *x = rendezvous_member(n->r, id);
    struct message m = {.kind = kind,
                        .term = rendezvous_term(n->r),
                        .round = rendezvous_round(n->r),
                        .left = rendezvous_lease_left_ms(n->r),
                        .rank = x->rank,
                        .session = x->session};
    if (w->mutation == MUTATION_NO_LEASE)
        m.left = LEASE_MS;
    quorum_copy(&m.electorate, rendezvous_electorate(n->r));
    rendezvous_counters(n->r, &m.counters);
    post_member(w, at, id, &m);
}

static void forget_members(struct node *n) {
    memset(n->conns, 0, sizeof n->conns);
    for (int id = 0; id < MEMBERS; id++)
        side_close(&n->sides[id]);
}

// how: FROM_DROPPED on its own; CLOSED by its kernel.
static void stop_coordinating(struct world *w, int at, enum kind how) {
    struct node *n = &w->nodes[at];
    for (int id = 0; id < MEMBERS && n->r; id++)
        if (rendezvous_member(n->r, id)) {
            struct message m = {.kind = how};
            post_member(w, at, id, &m);
        }
    forget_members(n);
    struct election_counters counters;
    if (n->r) {
        rendezvous_counters(n->r, &counters);
        election_merge_counters(&n->election, &counters);
    }
    rendezvous_close(n->r);
    n->r = NULL;
}

static void take_electorate(struct world *w, int at, struct message *m) {
    struct election_peer peers[2 * NODES] = {0};
    struct node *n = &w->nodes[at];
    if (w->mutation == MUTATION_NO_LAST_ROUND)
        m->electorate.committed = true;
    for (int i = 0; i < m->electorate.count; i++) {
        peers[i].incarnation = m->electorate.voters[i].incarnation;
        for (int k = 0; k < NODES; k++)
            if (w->nodes[k].incarnation == peers[i].incarnation)
                peers[i].port = k;
    }
    election_merge_counters(&n->election, &m->counters);
    election_set_electorate(&n->election, clock_of(w, n), &m->electorate, peers,
                            m->electorate.count, m->electorate.count);
}

// The coordinator's own election learns of the round first.
static void on_start(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct message own = {0};
    quorum_copy(&own.electorate, rendezvous_electorate(n->r));
    rendezvous_counters(n->r, &own.counters);
    take_electorate(w, at, &own);
    message_free(&own);
    w->rounds++;
    if (rendezvous_active_count(n->r) < w->config.nodes_min)
        w->broken = "a round with too few nodes";
    if (rendezvous_restarts(n->r) > w->failures)
        w->broken = "more restarts than failures";
    for (int i = 0; i < rendezvous_active_count(n->r) && !w->broken; i++)
        if (!rendezvous_active(n->r, i))
            w->broken = "a round with a member that is gone";
    for (int i = 0; i < rendezvous_active_count(n->r) && !w->broken; i++)
        send_electorate(w, at, rendezvous_active(n->r, i)->id, FROM_ROUND);
}

// Is it still there?
static void ask_peer(struct world *w, int at, const struct election_peer *peer) {
    struct node *n = &w->nodes[at];
    struct message m = {.kind = ASKED,
                        .from = at,
                        .to = peer->port,
                        .to_incarnation = peer->incarnation,
                        .peer = *peer,
                        .request = {.kind = REQUEST_STATUS,
                                    .term = n->election.term,
                                    .from = {.incarnation = n->incarnation, .port = at}}};
    post(w, &m);
}

static void ask_member(struct world *w, int at, const struct rendezvous_member *x) {
    struct election_peer peer = {0};
    if (!x)
        return;
    peer.incarnation = x->incarnation;
    peer.port = w->nodes[at].nodes[x->id];
    ask_peer(w, at, &peer);
}

static void carry_out(struct world *w, int at, const struct rendezvous_action *a) {
    struct node *n = &w->nodes[at];
    if (a->kind == ACTION_START)
        on_start(w, at);
    if (a->kind == ACTION_OVER)
        w->verdict = rendezvous_verdict(n->r);
    for (int id = 0; id < MEMBERS; id++) {
        const struct rendezvous_member *x = rendezvous_member(n->r, id);
        struct message m = {.round = rendezvous_round(n->r), .final = a->final && !a->tentative};
        m.kind = a->kind == ACTION_OVER ? FROM_OVER : FROM_STOP;
        rendezvous_counters(n->r, &m.counters);
        if (x &&
            (a->kind == ACTION_OVER || (a->kind == ACTION_STOP && x->state == MEMBER_STOPPING)))
            post_member(w, at, id, &m);
    }
    if (a->kind == ACTION_LOST) {
        struct message m = {.kind = FROM_DROPPED};
        post_member(w, at, a->id, &m);
        side_close(&n->sides[a->id]);
        n->conns[a->id] = 0;
        w->lost++;
    }
    if (a->kind == ACTION_DISCONNECTED)
        ask_member(w, at, rendezvous_member(n->r, a->id));
    if (a->kind == ACTION_PROBE)
        ask_peer(w, at, &n->election.peers[a->id]);
}

static void rendezvous_pump(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct rendezvous_action a;
    while (n->r && rendezvous_next(n->r, &a)) {
        if (a.kind == ACTION_STEP_DOWN && w->mutation != MUTATION_NO_LEASE) {
            stop_coordinating(w, at, FROM_DROPPED);
            election_leader_lost(&n->election, clock_of(w, n));
            close_conn(w, at, TO_BYE);
        } else {
            carry_out(w, at, &a);
        }
    }
}

static void take_over(struct world *w, int at, const struct election_action *a) {
    struct node *n = &w->nodes[at];
    struct rendezvous_config c = w->config;
    c.incarnation = n->incarnation;
    int64_t *other = &w->terms[a->term % 4096];
    if (a->counters.attempt < 0) // all agents of earlier groups are dead
        memset(w->terms, 0, sizeof w->terms);
    if (a->counters.attempt >= 0 && *other && *other != n->incarnation)
        w->broken = "two coordinators in one term";
    *other = n->incarnation;
    forget_members(n);
    int64_t now = clock_of(w, n);
    struct rendezvous_history history = {
        .term = a->term,
        .not_before_ms = w->mutation == MUTATION_NO_FENCE ? now : a->not_before_ms,
        .exclusive_until_ms = a->exclusive_until_ms,
        .counters = a->counters,
        .electorate = &n->election.electorate,
        .why = "the coordinator was lost"};
    w->take_overs += a->term > 1;
    for (int i = 0; i < n->election.electorate.count; i++)
        w->buried += n->election.electorate.voters[i].dead && n->election.reported_dead[i];
    n->r = rendezvous_take_over(&c, now, &history);
    n->leads_ms = now;
    connect_to(w, at, at);
}

static void take_join(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    struct err e;
    char name[16];
    int id;
    snprintf(name, sizeof name, "n%d", m->from);
    struct rendezvous_node x = {.name = name,
                                .address = "10.0.0.1",
                                .role = "r",
                                .node_rank = m->from,
                                .incarnation = m->from_incarnation,
                                .session = m->from == at ? 0 : between(w, 1, INT64_MAX / 2),
                                .connection = m->connection,
                                .port = 1 + m->from,
                                .term = m->term,
                                .last_round = m->round,
                                .nproc = w->nodes[m->from].nproc};
    if (!n->r || rendezvous_join(n->r, clock_of(w, n), &x, &id, &e) < 0) {
        struct message r = {.kind = FROM_DROPPED, .from = at, .to = m->from, .conn = m->conn};
        post(w, &r);
        return;
    }
    must(id < MEMBERS);
    n->conns[id] = m->conn;
    n->nodes[id] = m->from;
    side_open(&n->sides[id], x.session);
    n->sides[id].newest = m->connection;
    if (rendezvous_member(n->r, id)->state == MEMBER_WAITING) // else ROUND comes right after it
        send_electorate(w, at, id, FROM_JOINED);
}

static void take_beat(struct world *w, int at, int id, const struct message *m) {
    struct node *n = &w->nodes[at];
    const struct electorate *e = rendezvous_electorate(n->r);
    int64_t now = clock_of(w, n);
    side_acked(w, &n->sides[id], m->taken);
    int64_t left = rendezvous_heartbeat(n->r, now, id, m->stamp, m->round_term, m->round);
    n->leads_ms = now + left;
    struct message r = {.kind = FROM_ACK,
                        .sent = m->sent,
                        .stamp = now,
                        .left = w->mutation == MUTATION_NO_LEASE ? LEASE_MS : left,
                        .round_term = e->term,
                        .round = e->round,
                        .committed = e->committed,
                        .taken = n->sides[id].session.taken};
    post_member(w, at, id, &r);
}

// The rules are the rendezvous's; the world looks whether they hold.
static void take_resume(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    struct rendezvous_resume x = m->resume;
    struct err e;
    int id;
    if (w->mutation == MUTATION_ANY_CONNECTION)
        x.connection = w->order;
    for (int i = 0; i < MEMBERS && n->r && w->mutation == MUTATION_ANY_SESSION; i++) {
        const struct rendezvous_member *y = rendezvous_member(n->r, i);
        if (y && y->incarnation == x.incarnation)
            x.session = y->session;
    }
    if (!n->r || rendezvous_resume(n->r, clock_of(w, n), &x, &id, &e) < 0) {
        struct message r = {.kind = FROM_DROPPED, .from = at, .to = m->from, .conn = m->conn};
        post(w, &r);
        return;
    }
    struct side *s = &n->sides[id];
    if (m->guessed || m->from != n->nodes[id] || m->resume.connection <= s->newest)
        w->broken = "a session was taken over";
    s->newest = m->resume.connection;
    struct message r = {.kind = FROM_RESUMED, .taken = s->session.taken};
    n->conns[id] = m->conn;
    w->resumed++;
    side_acked(w, s, m->taken);
    post_member(w, at, id, &r);
    side_tell_again(w, s, m->conn);
}

static void take_closed(struct world *w, int at, int id) {
    struct node *n = &w->nodes[at];
    n->conns[id] = 0;
    if (w->mutation == MUTATION_NO_RESUME)
        rendezvous_lost(n->r, clock_of(w, n), id, "closed");
    else
        rendezvous_disconnected(n->r, clock_of(w, n), id, "closed");
}

static void at_coordinator(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->kind == TO_RESUME) {
        take_resume(w, at, m);
        return;
    }
    if (m->kind == TO_JOIN) {
        take_join(w, at, m);
        return;
    }
    int id = n->r ? member_of(n, m->conn) : -1;
    int64_t now = clock_of(w, n);
    if (id < 0)
        return;
    side_hears(w, &n->sides[id], m);
    switch (m->kind) {
    case TO_BEAT: take_beat(w, at, id, m); break;
    case TO_FAILED: rendezvous_failed(n->r, now, id, m->round, "failed"); break;
    case TO_DONE: rendezvous_done(n->r, now, id, m->round); break;
    case TO_STOPPED: rendezvous_stopped(n->r, now, id, m->round, 1); break;
    case TO_BYE: rendezvous_lost(n->r, now, id, "bye"); break;
    case CLOSED: take_closed(w, at, id); break;
    default: break;
    }
}

#endif
