// SPDX-License-Identifier: Apache-2.0
// One simulated node: the shell around its election and its rendezvous, its workers and their
// guard. Included once, by sim_rendezvous.c.
#ifndef TESTS_SIM_NODE_H
#define TESTS_SIM_NODE_H

#include "base/arena.h"
#include "tests/sim/network.h"

#include <stdio.h>
#include <string.h>

static void node_pump(struct world *w, int at);

static bool runs(const struct node *n) {
    return n->workers == WORKERS_RUN || n->workers == WORKERS_STOPPING;
}

static struct election_place place_of(const struct world *w, int at) {
    struct election_place p = {.incarnation = w->nodes[at].incarnation, .port = at};
    snprintf(p.name, sizeof p.name, "n%d", at);
    return p;
}

static void node_start(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct election_config c = {.silent_ms_max = SILENT_MS,
                                .lease_ms = w->mutation == MUTATION_VOTE_AT_ONCE ? 0 : LEASE_MS,
                                .ask_ms = 100,
                                .ask_ms_max = 1000,
                                .stagger_ms = 200,
                                .patience_ms = 600,
                                .connect_ms_max = 3000,
                                .join_ms_max = END_MS,
                                .give_up_ms = END_MS,
                                .founds = at == 0,
                                .founds_at_once = false};
    char name[16];
    c.incarnation = n->incarnation = ++w->incarnation;
    n->up = true;
    n->frozen = n->told_over = n->joined = n->joining = n->round_failed = n->lease_over = false;
    n->conn = 0;
    n->stamp = 0;
    n->round = -1;
    election_open(&n->election, &c, clock_of(w, n));
    snprintf(name, sizeof name, "n%d", at);
    election_self(&n->election, name, "", at);
    for (int i = 0; i < NODES; i++)
        if (i != at)
            election_seed(&n->election, "", i);
}

// ---- its connection to the coordinator ----

static void say(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    m->from = at;
    m->to = n->conn_to;
    m->conn = n->conn;
    if (n->conn)
        post(w, m);
}

static void close_conn(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct message m = {.kind = CLOSED};
    say(w, at, &m);
    n->conn = 0;
    n->joined = n->joining = false;
}

static void send_join(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    n->joining = false;
    n->join_sent = clock_of(w, n);
    struct message m = {.kind = TO_JOIN,
                        .term = n->election.term,
                        .round = n->round,
                        .to_incarnation = 0};
    say(w, at, &m);
}

static void connect_to(struct world *w, int at, int to) {
    struct node *n = &w->nodes[at];
    if (n->conn)
        close_conn(w, at);
    n->conn = ++w->conn;
    n->conn_to = to;
    n->joining = true;
    n->stamp = 0;
    n->seq = 0;
    if (!runs(n))
        send_join(w, at);
}

static void send_beat(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct message m = {.kind = TO_BEAT,
                        .stamp = n->stamp,
                        .sent = n->seq,
                        .round_term = n->election.electorate.term,
                        .round = n->election.electorate.round};
    n->sent[n->seq++ % 16] = clock_of(w, n);
    n->beat_at = clock_of(w, n) + BEAT_MS;
    say(w, at, &m);
}

// ---- coordinating ----

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
    post(w, m);
}

static void send_electorate(struct world *w, int at, int id, enum kind kind) {
    struct node *n = &w->nodes[at];
    const struct rendezvous_member *x = rendezvous_member(n->r, id);
    struct message m = {.kind = kind,
                        .term = rendezvous_term(n->r),
                        .round = rendezvous_round(n->r),
                        .left = rendezvous_left_ms(n->r),
                        .rank = x->rank};
    if (w->mutation == MUTATION_NO_LEASE)
        m.left = LEASE_MS;
    quorum_copy(&m.electorate, rendezvous_electorate(n->r));
    rendezvous_facts(n->r, &m.facts);
    post_member(w, at, id, &m);
}

static void stop_coordinating(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    for (int id = 0; id < MEMBERS && n->r; id++)
        if (rendezvous_member(n->r, id)) {
            struct message m = {.kind = CLOSED};
            post_member(w, at, id, &m);
        }
    struct election_facts facts;
    if (n->r) {
        rendezvous_facts(n->r, &facts);
        election_facts(&n->election, &facts);
    }
    rendezvous_close(n->r);
    n->r = NULL;
}

static void take_electorate(struct world *w, int at, struct message *m) {
    struct election_place places[2 * NODES] = {0};
    struct node *n = &w->nodes[at];
    if (w->mutation == MUTATION_NO_LAST_ROUND)
        m->electorate.committed = true;
    for (int i = 0; i < m->electorate.count; i++) {
        places[i].incarnation = m->electorate.voters[i].incarnation;
        for (int k = 0; k < NODES; k++)
            if (w->nodes[k].incarnation == places[i].incarnation)
                places[i].port = k;
    }
    election_facts(&n->election, &m->facts);
    election_round(&n->election, &m->electorate, places, m->electorate.count, m->electorate.count);
}

// The coordinator's own election knows of the round before anybody else does.
static void on_start(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct message own = {0};
    quorum_copy(&own.electorate, rendezvous_electorate(n->r));
    rendezvous_facts(n->r, &own.facts);
    take_electorate(w, at, &own);
    message_free(&own);
    w->rounds++;
    if (rendezvous_active_count(n->r) < w->config.nodes_min)
        w->broken = "a round with too few nodes";
    for (int i = 0; i < rendezvous_active_count(n->r); i++)
        send_electorate(w, at, rendezvous_active(n->r, i)->id, FROM_ROUND);
}

static void carry_out(struct world *w, int at, const struct rendezvous_action *a) {
    struct node *n = &w->nodes[at];
    if (a->kind == ACTION_START)
        on_start(w, at);
    if (a->kind == ACTION_OVER)
        w->verdict = rendezvous_verdict(n->r);
    for (int id = 0; id < MEMBERS; id++) {
        const struct rendezvous_member *x = rendezvous_member(n->r, id);
        struct message m = {.round = rendezvous_round(n->r), .final = a->final};
        m.kind = a->kind == ACTION_OVER ? FROM_OVER : FROM_STOP;
        rendezvous_facts(n->r, &m.facts);
        if (x && (a->kind == ACTION_OVER ||
                  (a->kind == ACTION_STOP && x->state == MEMBER_STOPPING)))
            post_member(w, at, id, &m);
    }
    if (a->kind == ACTION_LOST) {
        struct message m = {.kind = FROM_DROPPED};
        post_member(w, at, a->id, &m);
    }
}

static void rendezvous_pump(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct rendezvous_action a;
    while (n->r && rendezvous_next(n->r, &a)) {
        if (a.kind == ACTION_STEP_DOWN && w->mutation != MUTATION_NO_LEASE) {
            stop_coordinating(w, at);
            election_lost(&n->election, clock_of(w, n));
            close_conn(w, at);
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
    if (a->facts.attempt >= 0 && *other && *other != n->incarnation)
        w->broken = "two coordinators in one term";
    *other = n->incarnation;
    memset(n->conns, 0, sizeof n->conns);
    int64_t now = clock_of(w, n);
    struct rendezvous_past past = {.term = a->term,
                                   .fence_ms = w->mutation == MUTATION_NO_FENCE ? now : a->fence_ms,
                                   .facts = a->facts,
                                   .electorate = &n->election.electorate,
                                   .why = "the coordinator was lost"};
    w->take_overs += a->term > 1;
    n->r = rendezvous_take_over(&c, now, &past);
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
    if (rendezvous_member(n->r, id)->state == MEMBER_WAITING) // else ROUND comes right after it
        send_electorate(w, at, id, FROM_JOINED);
}

static void take_beat(struct world *w, int at, int id, const struct message *m) {
    struct node *n = &w->nodes[at];
    const struct electorate *e = rendezvous_electorate(n->r);
    int64_t now = clock_of(w, n);
    int64_t left = rendezvous_beat(n->r, now, id, m->stamp, m->round_term, m->round);
    struct message r = {.kind = FROM_ACK,
                        .sent = m->sent,
                        .stamp = now,
                        .left = w->mutation == MUTATION_NO_LEASE ? LEASE_MS : left,
                        .round_term = e->term,
                        .round = e->round,
                        .committed = e->committed};
    post_member(w, at, id, &r);
}

static void at_coordinator(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->kind == TO_JOIN) {
        take_join(w, at, m);
        return;
    }
    int id = n->r ? member_of(n, m->conn) : -1;
    int64_t now = clock_of(w, n);
    if (id < 0)
        return;
    switch (m->kind) {
    case TO_BEAT: take_beat(w, at, id, m); break;
    case TO_FAILED: rendezvous_failed(n->r, now, id, m->round, "failed"); break;
    case TO_DONE: rendezvous_done(n->r, now, id, m->round); break;
    case TO_STOPPED: rendezvous_stopped(n->r, now, id, m->round, 1); break;
    case CLOSED: rendezvous_lost(n->r, now, id, "closed"); break;
    default: break;
    }
}

// ---- as a member ----

// The coordinator is lost, or what was taken for it. The workers end now, at the latest with their
// lease.
static void lose(struct world *w, int at, bool closed_by_host) {
    struct node *n = &w->nodes[at];
    int to = n->conn_to;
    if (n->r)
        stop_coordinating(w, at);
    close_conn(w, at);
    election_lost(&n->election, clock_of(w, n));
    if (n->workers == WORKERS_RUN) {
        n->workers = WORKERS_STOPPING;
        n->stop_at = clock_of(w, n) + between(w, 1, 400);
    }
    n->round_failed = true;
    if (n->workers == WORKERS_DONE)
        n->workers = WORKERS_NONE;
    if (closed_by_host && to != at) { // does the host still know the process?
        struct message m = {.kind = ASKED,
                            .from = at,
                            .to = to,
                            .to_incarnation = n->election.leader.incarnation,
                            .place = n->election.leader};
        post(w, &m);
    }
    if (w->mutation == MUTATION_SILENCE_IS_PROOF) {
        n->election.word_ms = clock_of(w, n);
        election_nobody(&n->election, clock_of(w, n), &n->election.leader);
    }
}

static void take_joined(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    struct election_place leader = place_of(w, m->from);
    leader.incarnation = m->from_incarnation;
    if (!election_join(&n->election, clock_of(w, n), n->join_sent, m->term, &leader)) {
        close_conn(w, at);
        election_lost(&n->election, clock_of(w, n));
        return;
    }
    n->joined = true;
    take_electorate(w, at, m);
    send_beat(w, at);
}

static void take_round(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    int64_t now = clock_of(w, n);
    if (runs(n)) {
        w->broken = "a round began on a node that still runs workers";
        return;
    }
    if (!n->joined)
        take_joined(w, at, m);
    if (!n->joined)
        return;
    take_electorate(w, at, m);
    election_word(&n->election, now, 0, m->left);
    send_beat(w, at);
    n->lease_ms = election_lease(&n->election);
    if (now >= n->lease_ms) { // news from before a long silence
        lose(w, at, false);
        return;
    }
    n->workers = WORKERS_RUN;
    n->round_failed = false;
    n->group_term = m->term;
    n->round = m->round;
    n->rank = m->rank;
    n->end_at = now + between(w, 2000, 12000);
    n->ends_badly = w->now < CALM_MS && chance(w, 15);
}

static void take_ack(struct world *w, struct node *n, const struct message *m) {
    struct election *e = &n->election;
    int64_t now = clock_of(w, n);
    if (!n->joined || m->sent < 0 || m->sent >= n->seq || n->seq - m->sent > 16)
        return;
    n->stamp = m->stamp;
    election_word(e, now, n->sent[m->sent % 16], m->left);
    election_word_of_round(e, m->round_term, m->round, m->committed);
    if (runs(n) && !n->round_failed)
        n->lease_ms = election_lease(e);
}

static void take_stop(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (!n->joined || m->round != n->round)
        return;
    election_facts(&n->election, &m->facts);
    n->round_failed = true;
    if (n->workers == WORKERS_RUN) {
        n->workers = WORKERS_STOPPING;
        n->stop_at = clock_of(w, n) + between(w, 1, 400);
    } else if (!runs(n)) {
        struct message r = {.kind = TO_STOPPED, .round = n->round};
        n->workers = WORKERS_NONE;
        say(w, at, &r);
    }
}

static void take_question(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    struct message r = {.kind = ANSWERED,
                        .from = at,
                        .to = m->from,
                        .to_incarnation = m->from_incarnation,
                        .place = m->place};
    struct election_ask ask = m->ask;
    election_asked(&n->election, clock_of(w, n), &ask, &r.answer);
    post(w, &r);
}

// Nobody has that port any more: of the coordinator that is a proof.
static void take_nobody(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->conn && m->conn == n->conn)
        lose(w, at, false);
    bool before = n->election.proof_ms != 0;
    election_nobody(&n->election, clock_of(w, n), &m->place);
    w->proofs += !before && n->election.proof_ms != 0;
}

static void at_member(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->conn != n->conn)
        return;
    switch (m->kind) {
    case FROM_JOINED: take_joined(w, at, m); break;
    case FROM_ACK: take_ack(w, n, m); break;
    case FROM_ROUND: take_round(w, at, m); break;
    case FROM_STOP: take_stop(w, at, m); break;
    case FROM_OVER: n->told_over = true; break;
    case FROM_DROPPED: lose(w, at, false); break;
    case CLOSED: lose(w, at, true); break;
    default: break;
    }
}

static void node_take(struct world *w, struct message *m) {
    struct node *n = &w->nodes[m->to];
    bool right = m->to_incarnation == 0 || m->to_incarnation == n->incarnation;
    if (!n->up || !right) {
        answer_for_nobody(w, m);
    } else if (m->kind == ASKED) {
        take_question(w, m->to, m);
    } else if (m->kind == ANSWERED) {
        election_told(&n->election, clock_of(w, n), &m->place, &m->answer);
    } else if (m->kind == NOBODY) {
        take_nobody(w, m->to, m);
    } else if (m->kind <= TO_STOPPED || (m->kind == CLOSED && m->conn != n->conn)) {
        at_coordinator(w, m->to, m);
    } else {
        at_member(w, m->to, m);
    }
    node_pump(w, m->to);
}

static void node_pump(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct election_action a;
    rendezvous_pump(w, at);
    while (n->up && election_next(&n->election, &a)) {
        struct message m = {.kind = ASKED,
                            .from = at,
                            .to = a.place.port,
                            .to_incarnation = a.place.incarnation,
                            .ask = a.ask,
                            .place = a.place};
        switch (a.kind) {
        case ELECTION_ASK: post(w, &m); break;
        case ELECTION_CONNECT: connect_to(w, at, a.place.port); break;
        case ELECTION_TAKE_OVER: take_over(w, at, &a); break;
        case ELECTION_LOST: lose(w, at, false); break;
        default: break;
        }
        rendezvous_pump(w, at);
    }
}

// ---- what happens when time passes ----

static void guard_step(struct world *w, struct node *n) {
    if (runs(n) && clock_of(w, n) >= n->lease_ms && w->mutation != MUTATION_NO_GUARD) {
        n->workers = WORKERS_NONE;
        n->round_failed = n->lease_over = true;
    }
}

static void workers_step(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    int64_t now = clock_of(w, n);
    if (n->workers == WORKERS_STOPPING && now >= n->stop_at) {
        struct message m = {.kind = TO_STOPPED, .round = n->round};
        n->workers = WORKERS_NONE;
        if (n->joined)
            say(w, at, &m);
    }
    if (n->workers == WORKERS_RUN && now >= n->end_at) {
        struct message m = {.kind = n->ends_badly ? TO_FAILED : TO_DONE, .round = n->round};
        n->workers = n->ends_badly ? WORKERS_STOPPING : WORKERS_DONE;
        n->stop_at = now + between(w, 1, 400);
        if (n->joined)
            say(w, at, &m);
    }
    if (n->joining && !runs(n))
        send_join(w, at);
}

static void node_step(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    guard_step(w, n);
    if (!n->up && n->up_at && w->now >= n->up_at && n->has_host && !runs(n))
        node_start(w, at);
    if (!n->up || n->frozen || n->told_over)
        return;
    int64_t now = clock_of(w, n);
    if (n->lease_over && n->conn)
        lose(w, at, false); // it cannot go on with this round
    n->lease_over = false;
    workers_step(w, at);
    if (election_deadline(&n->election) <= now)
        election_tick(&n->election, now);
    if (n->r && rendezvous_deadline(n->r) <= now)
        rendezvous_tick(n->r, now);
    node_pump(w, at);
    if (n->joined && now >= n->beat_at)
        send_beat(w, at);
}

#endif
