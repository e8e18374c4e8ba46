// SPDX-License-Identifier: Apache-2.0
// One agent's election in a test's hands: its rounds, the questions it gets and the answers, and
// what it wants done. Included once by a test.
#ifndef TESTS_UNIT_ELECTION_NODE_H
#define TESTS_UNIT_ELECTION_NODE_H

#include "rendezvous/election.h"
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
    T = 1000000, // time of the coordinator's last message
    TERM = 1,    // its term
    ROUND = 3,   // and its last round
    NODES_MAX = 20,
};

static int count[ELECTION_GIVE_UP + 1], asks[REQUEST_ANNOUNCE + 1]; // since the last drain()
static struct election_action last[ELECTION_GIVE_UP + 1];

TAP_UNUSED static void drain(struct election *e) {
    struct election_action a;
    memset(count, 0, sizeof count);
    memset(asks, 0, sizeof asks);
    while (election_next(e, &a)) {
        count[a.kind]++;
        last[a.kind] = a;
        if (a.kind == ELECTION_SEND_REQUEST)
            asks[a.request.kind]++;
    }
}

// Nodes are called 1, 2, … in the order of their ranks; those are their incarnations, too.
static struct election_peer peer(int node) {
    struct election_peer p = {.incarnation = node, .port = 29400 + node};
    snprintf(p.name, sizeof p.name, "n%d", node);
    snprintf(p.address, sizeof p.address, "10.0.0.%d", node);
    return p;
}

TAP_UNUSED static void open_node(struct election *e, int self, bool may_bootstrap, bool at_once) {
    struct election_config c = {.incarnation = self,
                                .silent_ms_max = SILENT,
                                .lease_ms = LEASE,
                                .request_ms = ASK,
                                .stagger_ms = STAGGER,
                                .election_timeout_ms = PATIENCE,
                                .request_ms_max = ASK_MAX,
                                .connect_ms_max = CONNECT,
                                .join_ms_max = JOIN,
                                .give_up_ms = GIVE_UP,
                                .may_bootstrap = may_bootstrap,
                                .bootstrap_at_once = at_once};
    struct election_peer p = peer(self);
    election_open(e, &c, T);
    election_self(e, p.name, p.address, p.port);
}

TAP_UNUSED static void begin_round(struct election *e, int nodes, int leader,
                                   unsigned rounds_of_last, int peers_known) {
    struct election_peer peers[NODES_MAX];
    struct voter voters[NODES_MAX] = {0};
    struct electorate of = {.term = TERM,
                            .round = ROUND,
                            .committed = true,
                            .tie_breaker = leader,
                            .voters = voters,
                            .count = nodes};
    struct election_counters counters = {.attempt = ROUND};
    for (int i = 0; i < nodes; i++) {
        peers[i] = peer(i + 1);
        voters[i] = (struct voter){.incarnation = i + 1, .rounds = QUORUM_THIS};
    }
    voters[nodes - 1].rounds = rounds_of_last;
    election_merge_counters(e, &counters);
    election_set_electorate(e, T, &of, peers, peers_known, nodes);
}

// A node of a round of `nodes` nodes with the coordinator's last message (or as coordinator) at T.
TAP_UNUSED static void follow(struct election *e, int self, int nodes, int leader) {
    struct election_peer p = peer(leader);
    open_node(e, self, false, false);
    election_joined(e, T, T, TERM, &p);
    begin_round(e, nodes, leader, QUORUM_THIS, nodes);
    election_heartbeat_acked(e, T, T, LEASE);
    election_leader_round(e, TERM, ROUND, true);
    drain(e);
}

// And loses it then, or has the proof that it is dead.
TAP_UNUSED static void follow_and_lose(struct election *e, int self, int nodes, int leader,
                                       bool dead) {
    struct election_peer p = peer(leader);
    follow(e, self, nodes, leader);
    election_leader_lost(e, T + SILENT);
    if (dead)
        election_process_dead(e, T + SILENT, &p);
    drain(e);
}

// Ticks when it wants to be; the time of the first action like that, or -1.
TAP_UNUSED static int64_t when(struct election *e, int64_t until, enum election_action_kind kind,
                               enum election_request_kind ask) {
    for (int64_t now = election_deadline(e); now <= until; now = election_deadline(e)) {
        election_tick(e, now);
        drain(e);
        if (kind == ELECTION_SEND_REQUEST ? asks[ask] > 0 : count[kind] > 0)
            return now;
    }
    return -1;
}

TAP_UNUSED static struct election_response
ask(struct election *e, int64_t now, enum election_request_kind kind, int64_t term, int from) {
    struct election_request q = {
        .kind = kind, .term = term, .round_term = TERM, .round = ROUND, .from = peer(from)};
    struct election_response a;
    election_requested(e, now, &q, &a);
    return a;
}

TAP_UNUSED static void tell(struct election *e, int64_t now, int from,
                            enum election_request_kind kind, bool granted, int64_t age) {
    struct election_peer p = peer(from);
    struct election_response a = {.kind = kind,
                                  .request_term = e->term,
                                  .term = e->highest_term,
                                  .granted = granted,
                                  .incarnation = from,
                                  .age_ms = age};
    election_answered(e, now, &p, &a);
}

#endif
