// SPDX-License-Identifier: Apache-2.0
// One agent's election in a test's hands: its rounds, the questions it gets and the answers, and
// what it wants done. Included once by a test.
#ifndef TESTS_UNIT_ELECTION_NODE_H
#define TESTS_UNIT_ELECTION_NODE_H

#include "elastic/election.h"
#include "tests/tap.h"

enum {
    SILENT = 1500,
    LEASE = 2200,
    ASK = 100,
    ASK_MAX = 1000,
    STAGGER = 200,
    PATIENCE = 600,
    CONNECT = 3000,
    JOIN = 20000,
    GIVE_UP = 30000,
    T = 1000000, // when the coordinator was heard
    TERM = 1,    // its term
    ROUND = 3,   // and its last round
    NODES_MAX = 20,
};

static int count[ELECTION_GIVE_UP + 1], asks[ASK_LEAD + 1]; // since the last drain()
static struct election_action last[ELECTION_GIVE_UP + 1];

TAP_UNUSED static void drain(struct election *e) {
    struct election_action a;
    memset(count, 0, sizeof count);
    memset(asks, 0, sizeof asks);
    while (election_next(e, &a)) {
        count[a.kind]++;
        last[a.kind] = a;
        if (a.kind == ELECTION_ASK)
            asks[a.ask.kind]++;
    }
}

// Nodes are called 1, 2, … in the order of their ranks; those are their incarnations, too.
static struct election_place place(int node) {
    struct election_place p = {.incarnation = node, .port = 29400 + node};
    snprintf(p.name, sizeof p.name, "n%d", node);
    snprintf(p.address, sizeof p.address, "10.0.0.%d", node);
    return p;
}

TAP_UNUSED static void open_node(struct election *e, int self, bool founds, bool at_once) {
    struct election_config c = {.incarnation = self,
                                .silent_ms_max = SILENT,
                                .lease_ms = LEASE,
                                .ask_ms = ASK,
                                .stagger_ms = STAGGER,
                                .patience_ms = PATIENCE,
                                .ask_ms_max = ASK_MAX,
                                .connect_ms_max = CONNECT,
                                .join_ms_max = JOIN,
                                .give_up_ms = GIVE_UP,
                                .founds = founds,
                                .founds_at_once = at_once};
    struct election_place p = place(self);
    election_open(e, &c, T);
    election_self(e, p.name, p.address, p.port);
}

TAP_UNUSED static void begin_round(struct election *e, int nodes, int leader,
                                   unsigned rounds_of_last, int places_known) {
    struct election_place places[NODES_MAX];
    struct voter voters[NODES_MAX] = {0};
    struct electorate of = {.term = TERM,
                            .round = ROUND,
                            .committed = true,
                            .holder = leader,
                            .voters = voters,
                            .count = nodes};
    struct election_facts facts = {.attempt = ROUND};
    for (int i = 0; i < nodes; i++) {
        places[i] = place(i + 1);
        voters[i] = (struct voter){.incarnation = i + 1, .rounds = QUORUM_THIS};
    }
    voters[nodes - 1].rounds = rounds_of_last;
    election_facts(e, &facts);
    election_round(e, T, &of, places, places_known, nodes);
}

// A node that is in a round of that many and has heard its coordinator (or is it) at T.
TAP_UNUSED static void follow(struct election *e, int self, int nodes, int leader) {
    struct election_place p = place(leader);
    open_node(e, self, false, false);
    election_join(e, T, T, TERM, &p);
    begin_round(e, nodes, leader, QUORUM_THIS, nodes);
    election_word(e, T, T, LEASE);
    election_word_of_round(e, TERM, ROUND, true);
    drain(e);
}

// And loses it then, or has the proof that it is dead.
TAP_UNUSED static void follow_and_lose(struct election *e, int self, int nodes, int leader,
                                       bool dead) {
    struct election_place p = place(leader);
    follow(e, self, nodes, leader);
    election_lost(e, T + SILENT);
    if (dead)
        election_nobody(e, T + SILENT, &p);
    drain(e);
}

// Ticks when it wants to be; the time of the first action like that, or -1.
TAP_UNUSED static int64_t when(struct election *e, int64_t until, enum election_action_kind kind,
                               enum election_kind ask) {
    for (int64_t now = election_deadline(e); now <= until; now = election_deadline(e)) {
        election_tick(e, now);
        drain(e);
        if (kind == ELECTION_ASK ? asks[ask] > 0 : count[kind] > 0)
            return now;
    }
    return -1;
}

TAP_UNUSED static struct election_answer ask(struct election *e, int64_t now,
                                             enum election_kind kind, int64_t term, int from) {
    struct election_ask q = {
        .kind = kind, .term = term, .round_term = TERM, .round = ROUND, .from = place(from)};
    struct election_answer a;
    election_asked(e, now, &q, &a);
    return a;
}

TAP_UNUSED static void tell(struct election *e, int64_t now, int from, enum election_kind kind,
                            bool granted, int64_t age) {
    struct election_place p = place(from);
    struct election_answer a = {.kind = kind,
                                .asked_term = e->term,
                                .term = e->term_seen,
                                .granted = granted,
                                .incarnation = from,
                                .age_ms = age};
    election_told(e, now, &p, &a);
}

#endif
