// SPDX-License-Identifier: Apache-2.0
// A simulated node's start and its connection to the coordinator. Included once, by lead.h.
#ifndef TESTS_SIM_CONNECT_H
#define TESTS_SIM_CONNECT_H

#include "tests/sim/sides.h"

#include <stdio.h>
#include <string.h>

static bool runs(const struct node *n) {
    return n->workers == WORKERS_RUN || n->workers == WORKERS_STOPPING;
}

static void node_start(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    struct election_config c = {.silent_ms_max = SILENT_MS,
                                .lease_ms = w->mutation == MUTATION_VOTE_AT_ONCE ? 0 : LEASE_MS,
                                .request_ms = 100,
                                .request_ms_max = 1000,
                                .stagger_ms = 200,
                                .election_timeout_ms = 600,
                                .connect_ms_max = 3000,
                                .join_ms_max = END_MS,
                                .give_up_ms = END_MS,
                                .may_bootstrap = at == 0,
                                .bootstrap_at_once = false};
    char name[16];
    c.incarnation = n->incarnation = ++w->incarnation;
    n->up = true;
    n->frozen = n->told_over = n->joined = n->joining = n->round_failed = n->lease_over = false;
    n->conn = 0;
    n->connections = n->stamp = 0;
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
    if (is_kept(m->kind))
        side_tell(w, &n->side, m);
    else if (n->conn)
        post(w, m);
}

// how: TO_BYE on its own; CLOSED by its kernel.
static void close_conn(struct world *w, int at, enum kind how) {
    struct node *n = &w->nodes[at];
    struct message m = {.kind = how};
    say(w, at, &m);
    side_close(&n->side);
    n->conn = 0;
    n->joined = n->joining = false;
}

static void send_join(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    n->joining = false;
    n->join_sent = clock_of(w, n);
    struct message m = {
        .kind = TO_JOIN, .term = n->election.term, .round = n->round, .to_incarnation = 0};
    m.connection = ++n->connections;
    m.peer.port = n->conn_to;
    side_open(&n->side, 0);
    say(w, at, &m);
}

static void connect_to(struct world *w, int at, int to) {
    struct node *n = &w->nodes[at];
    if (n->conn)
        close_conn(w, at, TO_BYE);
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
                        .round = n->election.electorate.round,
                        .taken = n->side.session.taken};
    n->sent[n->seq++ % 16] = clock_of(w, n);
    n->beat_at = clock_of(w, n) + BEAT_MS;
    say(w, at, &m);
}

// ---- and what it does when that breaks ----

// Another connection. Requests of the last tries may still be on their way.
static void try_resume(struct world *w, int at, const struct election_peer *leader) {
    struct node *n = &w->nodes[at];
    struct message m = {.kind = TO_RESUME,
                        .taken = n->side.session.taken,
                        .peer = *leader,
                        .resume = {n->incarnation, n->side.session.id, ++n->connections}};
    n->conn = ++w->conn;
    say(w, at, &m);
    send_beat(w, at); // its answer renews the lease
    w->requests[w->request_count++ % REQUESTS] = m;
}

static void take_resumed(struct world *w, int at, const struct message *m) {
    struct node *n = &w->nodes[at];
    if (!n->side.session.cut)
        return;
    n->side.session.cut = false;
    side_acked(w, &n->side, m->taken);
    side_tell_again(w, &n->side, n->conn);
    election_resumed(&n->election, clock_of(w, n));
}

#endif
