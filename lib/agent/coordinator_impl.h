// SPDX-License-Identifier: Apache-2.0
// Internals of the coordinator. Private to coordinator*.c.
#ifndef AGENT_COORDINATOR_IMPL_H
#define AGENT_COORDINATOR_IMPL_H

#include "agent/coordinator.h"

struct peer {
    struct channel link; // closed while the member is disconnected
    struct replay session;
    struct coordinator *coordinator;
    struct peer *prev, *next;
    struct deferred gone;
    int id; // member; -1: has not joined
    bool local;
    struct newcomer newcomer; // until it has joined
    struct net_address address;
};

struct kept_failure {
    struct worker_failure f; // texts in the coordinator's arena
    int64_t at_ms;           // monotonic, on this host
};

struct coordinator {
    struct loop *loop;
    struct coordinator_config config;
    struct rendezvous *rendezvous;
    struct events *events;
    const struct coordinator_events *on;
    bool took_over, deposed;
    struct wire_node *nodes; // of the electorate, by voter; texts in nodes_arena
    int node_count;
    struct arena nodes_arena;
    int64_t nodes_term;
    int nodes_round;
    struct peer *peers;
    struct peer **by_id; // peers of members, by id
    size_t by_id_room;
    struct log_limit strangers;
    struct timer timer;
    int64_t linger_until_ms;
    struct arena arena;            // texts of failures of this round
    struct kept_failure *failures; // by time
    int failure_count;
    int stop_signal;
    int64_t stop_grace_ms;
    bool pumping, over, idle;
    bool changed; // members, since the last on_members
    void *ctx;
};

// Leases count from the receipt of a message, so the clock is read after it.
int64_t coordinator_now_ms(void);
// Carries out the actions of the rendezvous and sets the timer.
void coordinator_pump(struct coordinator *c);
struct peer *coordinator_peer(struct coordinator *c, int id);
// Makes p the peer of member id; -1: of no member.
void coordinator_name_peer(struct peer *p, int id);
int64_t coordinator_rounds(const struct voter *v); // in the format of wire_node
void coordinator_peer_gone(struct peer *p, const char *why);
void coordinator_send(struct peer *p,
                      const struct wire_msg *m); // sends a message as part of the peer's session

#endif
