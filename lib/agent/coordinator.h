// SPDX-License-Identifier: Apache-2.0
// The coordinator: connects the rendezvous of a run with the agents. It is part of the agent of one
// node and serves that agent over a socket pair like any other.
//
//     c = coordinator_open(loop, &config, history, log, &events, ctx);
//     coordinator_adopt(c, fd, &peer);            // each accepted connection of an agent
//     … on_idle when the run is over and every agent has the verdict …
//     … on_deposed when another agent coordinates, or may soon …
//     coordinator_close(c);                       // not inside a callback
#ifndef AGENT_COORDINATOR_H
#define AGENT_COORDINATOR_H

#include "agent/event_log.h"
#include "channel/admission.h"
#include "channel/channel.h"
#include "rendezvous/rendezvous.h"
#include "sys/loop.h"
#include "sys/net.h"

enum {
    COORDINATOR_LINGER_MS_MAX = 3000, // for agents to receive the verdict
    COORDINATOR_CANDIDATES_MAX =
        ELECTION_CANDIDATES_MAX, // nodes whose addresses every agent learns
};

struct coordinator;

struct coordinator_config {
    struct rendezvous_config rendezvous;
    struct channel_secret secret;
    int64_t shutdown_timeout_ms;
    const char *const *expected_names; // by node rank, NULL-terminated; NULL: unknown
    struct admission *admission;       // connections that have not joined
    bool copies;                       // agents copy their states to each other
    bool deals;                        // rounds deal inputs anew
};

struct coordinator_events {
    void (*on_idle)(struct coordinator *c);
    void (*on_deposed)(struct coordinator *c, const char *why);
    void (*on_round)(struct coordinator *c); // a round is about to begin
    // Members may have joined, left or changed their states since the last call.
    void (*on_members)(struct coordinator *c);
    // An agent asks about the coordinator, or for a vote; l is its connection.
    void (*on_ask)(struct coordinator *c, struct channel *l, const struct net_address *from,
                   const struct wire_msg *m);
    // The connection to this agent broke; on_disconnected should check whether it still exists. May
    // be repeated.
    void (*on_disconnected)(struct coordinator *c, const struct election_peer *peer);
};

// history NULL: a new run. log: destination of its events.
struct coordinator *coordinator_open(struct loop *loop, const struct coordinator_config *config,
                                     const struct rendezvous_history *history, struct events *log,
                                     const struct coordinator_events *events, void *ctx);
void coordinator_close(struct coordinator *c); // NULL is fine
// Takes a connected socket before its first byte is read. peer NULL: this process.
void coordinator_adopt(struct coordinator *c, int fd, const struct net_address *peer);
// Stops the workers of all nodes and ends the run with this verdict, unless it is ending already.
void coordinator_end_run(struct coordinator *c, enum rendezvous_verdict verdict, const char *reason,
                         int signal, int64_t grace_ms);
// Reports the result of on_disconnected: the agent is gone (dead), or follows another coordinator.
void coordinator_process_dead(struct coordinator *c, int64_t incarnation, bool dead,
                              const char *why);
// Ends the coordinator's activity. It still answers requests and must be closed.
void coordinator_depose(struct coordinator *c);
// Copies the electorate of the round for election_set_electorate: voters and the addresses of their
// agents.
void coordinator_election_peers(const struct coordinator *c, struct election_peer *peers,
                                int count);
const struct rendezvous *coordinator_rendezvous(const struct coordinator *c);
void *coordinator_ctx(const struct coordinator *c);

#endif
