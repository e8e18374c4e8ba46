// SPDX-License-Identifier: Apache-2.0
// One simulated node: the shell around its election, its workers and their guard. Included once, by
// sim_rendezvous.c.
#ifndef TESTS_SIM_NODE_H
#define TESTS_SIM_NODE_H

#include "tests/sim/lead.h"

static void node_pump(struct world *w, int at);

static struct election_peer peer_of(const struct world *w, int at) {
    struct election_peer p = {.incarnation = w->nodes[at].incarnation, .port = at};
    snprintf(p.name, sizeof p.name, "n%d", at);
    return p;
}

// The coordinator is lost, or what was taken for it. The workers end now, at the latest with their
// lease.
static void lose(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    if (n->r)
        stop_coordinating(w, at, FROM_DROPPED);
    close_conn(w, at, TO_BYE);
    election_leader_lost(&n->election, clock_of(w, n));
    if (n->workers == WORKERS_RUN) {
        n->workers = WORKERS_STOPPING;
        n->stop_at = clock_of(w, n) + between(w, 1, 400);
    }
    n->round_failed = true;
    if (n->workers == WORKERS_DONE)
        n->workers = WORKERS_NONE;
    if (w->mutation == MUTATION_SILENCE_IS_PROOF) {
        n->election.acked_ms = clock_of(w, n);
        election_process_dead(&n->election, clock_of(w, n), &n->election.leader);
    }
}

static void take_joined(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    struct election_peer leader = peer_of(w, m->from);
    leader.incarnation = m->from_incarnation;
    if (!election_joined(&n->election, clock_of(w, n), n->join_sent, m->term, &leader)) {
        close_conn(w, at, TO_BYE);
        election_leader_lost(&n->election, clock_of(w, n));
        return;
    }
    n->joined = true;
    n->side.session.id = m->session;
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
    election_heartbeat_acked(&n->election, now, 0, m->left);
    send_beat(w, at);
    n->lease_ms = election_lease_end(&n->election);
    if (now >= n->lease_ms) { // news from before a long silence
        lose(w, at);
        return;
    }
    n->workers = WORKERS_RUN;
    n->round_failed = false;
    n->group_term = m->term;
    n->round = m->round;
    n->rank = m->rank;
    n->end_at = now + (w->luck == LUCK_FLAPS ? between(w, 20000, 30000) : between(w, 2000, 12000));
    n->ends_badly = w->luck == LUCK_ALL && w->now < CALM_MS && chance(w, 15);
}

static void take_ack(struct world *w, struct node *n, const struct message *m) {
    struct election *e = &n->election;
    int64_t now = clock_of(w, n);
    if (!n->joined || m->sent < 0 || m->sent >= n->seq || n->seq - m->sent > 16)
        return;
    n->stamp = m->stamp;
    side_acked(w, &n->side, m->taken);
    election_heartbeat_acked(e, now, n->sent[m->sent % 16], m->left);
    election_leader_round(e, m->round_term, m->round, m->committed);
    if (runs(n) && !n->round_failed)
        n->lease_ms = election_lease_end(e);
}

static void take_stop(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (!n->joined || m->round != n->round)
        return;
    election_merge_counters(&n->election, &m->counters);
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
                        .peer = m->peer};
    struct election_request request = m->request;
    election_requested(&n->election, clock_of(w, n), &request, &r.response);
    post(w, &r);
}

static void take_answer(struct world *w, struct node *n, const struct message *m) {
    bool follows = m->response.leader_term != 0 && m->response.leader.incarnation == n->incarnation;
    election_answered(&n->election, clock_of(w, n), &m->peer, &m->response);
    bool dead = m->response.incarnation != m->peer.incarnation;
    if (n->r && (dead || !follows) && m->peer.incarnation != 0)
        rendezvous_process_dead(n->r, clock_of(w, n), m->peer.incarnation, dead,
                                "it has gone its way");
}

// The port of the dead coordinator is free: this is the proof of its death.
static void take_nobody(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->conn && m->conn == n->conn && !n->side.session.cut)
        lose(w, at);
    if (n->r) {
        const struct electorate *e = rendezvous_electorate(n->r);
        int voter = quorum_find(e, m->peer.incarnation);
        bool counted = voter >= 0 && !e->voters[voter].dead;
        rendezvous_process_dead(n->r, clock_of(w, n), m->peer.incarnation, true, "dead");
        w->buried += counted && e->voters[voter].dead;
    }
    bool before = n->election.leader_dead_ms != 0;
    election_process_dead(&n->election, clock_of(w, n), &m->peer);
    w->proofs += !before && n->election.leader_dead_ms != 0;
}

// Its connection is gone, and perhaps the coordinator.
static void take_cut(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    if (!n->joined || n->conn_to == at || w->mutation == MUTATION_NO_RESUME) {
        lose(w, at);
        return;
    }
    n->conn = 0;
    n->side.session.cut = true;
    election_disconnected(&n->election, clock_of(w, n));
    if (w->mutation == MUTATION_CUT_IS_PROOF)
        election_process_dead(&n->election, clock_of(w, n), &n->election.leader);
}

static void at_member(struct world *w, int at, struct message *m) {
    struct node *n = &w->nodes[at];
    if (m->conn != n->conn)
        return;
    side_hears(w, &n->side, m);
    switch (m->kind) {
    case FROM_JOINED: take_joined(w, at, m); break;
    case FROM_ACK: take_ack(w, n, m); break;
    case FROM_ROUND: take_round(w, at, m); break;
    case FROM_STOP: take_stop(w, at, m); break;
    case FROM_OVER: n->told_over = true; break;
    case FROM_RESUMED: take_resumed(w, at, m); break;
    case FROM_DROPPED: lose(w, at); break;
    case CLOSED: take_cut(w, at); break;
    default: break;
    }
}

static void node_take(struct world *w, struct message *m) {
    struct node *n = &w->nodes[m->to];
    bool right = m->to_incarnation == 0 || m->to_incarnation == n->incarnation;
    if (!n->up || (!right && m->kind != ASKED)) {
        answer_for_nobody(w, m);
    } else if (m->kind == ASKED) {
        take_question(w, m->to, m);
    } else if (m->kind == ANSWERED) {
        take_answer(w, n, m);
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
                            .to = a.peer.port,
                            .to_incarnation = a.peer.incarnation,
                            .request = a.request,
                            .peer = a.peer};
        switch (a.kind) {
        case ELECTION_SEND_REQUEST: post(w, &m); break;
        case ELECTION_CONNECT: connect_to(w, at, a.peer.port); break;
        case ELECTION_TAKE_OVER: take_over(w, at, &a); break;
        case ELECTION_RESUME: try_resume(w, at, &a.peer); break;
        case ELECTION_LEADER_LOST: lose(w, at); break;
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
        w->failures += n->ends_badly;
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
        lose(w, at); // it cannot continue with this round
    n->lease_over = false;
    workers_step(w, at);
    if (election_deadline(&n->election) <= now)
        election_tick(&n->election, now);
    if (n->r && rendezvous_deadline(n->r) <= now)
        rendezvous_tick(n->r, now);
    node_pump(w, at);
    if (n->joined && !n->side.session.cut && now >= n->beat_at)
        send_beat(w, at);
}

#endif
