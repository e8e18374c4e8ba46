// SPDX-License-Identifier: Apache-2.0
// Elects the leader (coordinator), as seen by one agent. Pure: events and the time go in, actions
// come out. Every agent of a run owns one election. Together they give a run that has lost its
// leader a new one, and never two that can both start workers.
//
//     election_open(&e, &config, now);          // asks its seeds for a leader, or begins a group
//     election_joined(&e, now, …)               // JOINED came: it follows a leader, or leads
//     election_heartbeat_acked(&e, now, …)      // the leader answered a heartbeat
//     election_set_electorate(&e, now, …)       // a round began; these are its nodes
//     election_disconnected(&e, now)            // the connection to the leader broke
//     election_resumed(&e, now)                 // the session continues over another connection
//     election_leader_lost(&e, now)             // the leader has hung up, or refuses the session
//     election_requested(&e, now, &request, &response); election_answered(&e, now, &peer,
//     &response) while (election_next(&e, &action)) { carry it out } wake up again at
//     election_deadline(&e) and call election_tick(&e, now)
//
// election.c begins with the table of states. docs/rendezvous.md has the theory.
#ifndef RENDEZVOUS_ELECTION_H
#define RENDEZVOUS_ELECTION_H

#include "base/array.h"
#include "rendezvous/quorum.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ELECTION_NAME_BYTES_MAX = 256,
    ELECTION_ADDRESS_BYTES_MAX = 64,
    ELECTION_CANDIDATES_MAX = 16,     // the first nodes of a round, which may lead
    ELECTION_SEEDS_MAX = 16,          // addresses that were given at the start
    ELECTION_TERM_STEP_MAX = 1 << 30, // a term that leaps further is ignored: terms do not run out
    ELECTION_COUNTER_MAX = 1 << 30,   // a higher count of a peer is ignored
};

struct election_config {
    int64_t incarnation;         // of this agent
    int64_t silent_ms_max;       // a leader that is not heard for longer is lost
    int64_t lease_ms;            // workers outlive the last heartbeat so long; >= silent_ms_max
    int64_t request_ms;          // between two requests to the same peer
    int64_t stagger_ms;          // each candidate waits so much longer than the one before it
    int64_t election_timeout_ms; // for the agent that got this agent's vote, to win
    int64_t
        request_ms_max; // limit of the back-off between requests of an agent that is no candidate
    int64_t connect_ms_max; // from CONNECT to the leader's answer
    int64_t join_ms_max;    // until the first leader is found
    int64_t give_up_ms;     // without a leader, later
    bool may_bootstrap;     // leads without an election while there is no group,
    bool bootstrap_at_once; // without asking; else every seed must know of no group
};

// Counts that must survive the leader. Messages carry them; the highest ones count.
struct election_counters {
    int attempt; // the highest number that a round has had; -1: there was none
    int restarts, crashes;
};

struct election_peer {   // an agent and its address
    int64_t incarnation; // 0: unknown
    char name[ELECTION_NAME_BYTES_MAX], address[ELECTION_ADDRESS_BYTES_MAX];
    int port;
};

enum election_state {
    ELECTION_SEARCHING,    // has no leader, and asks its peers for one
    ELECTION_PRECANDIDATE, // asks the voters whether they would vote for it
    ELECTION_CANDIDATE,    // has voted for itself, and asks the voters for their votes
    ELECTION_FOLLOWER,
    ELECTION_LEADER,
};

enum election_request_kind {
    REQUEST_STATUS, // asks for the leader
    REQUEST_PREVOTE,
    REQUEST_VOTE,
    REQUEST_ANNOUNCE, // the sender has won
};

struct election_request {
    enum election_request_kind kind;
    int64_t term; // STATUS: in which the sender has voted; ANNOUNCE: of the winner
    int64_t round_term;
    int round; // the last round that the sender knows
    struct election_peer from;
};

struct election_response {
    enum election_request_kind kind; // of the request
    int64_t request_term;
    int64_t term; // the highest that the sender has seen
    bool granted;
    bool unaffiliated;   // the sender has been in no round and is not joining a group
    int64_t incarnation; // of the sender
    int64_t age_ms;      // since it heard a leader
    int64_t leader_term; // 0: it knows no leader now
    struct election_peer leader;
    struct election_counters counters;
};

enum election_action_kind {
    ELECTION_NONE,
    ELECTION_SEND_REQUEST, // request, to peer
    ELECTION_CONNECT,      // to the leader at peer, and join
    ELECTION_RESUME,       // the session with it, over a new connection
    ELECTION_TAKE_OVER,   // lead: term, not_before_ms, exclusive_until_ms, counters; 1: a new group
    ELECTION_LEADER_LOST, // the leader is silent (silent_ms), or this agent must not lead any more
    ELECTION_GIVE_UP,     // no leader was found in time
};

struct election_action {
    enum election_action_kind kind;
    struct election_peer peer;
    struct election_request request;
    int64_t term, not_before_ms, silent_ms; // TAKE_OVER: no round may begin before not_before_ms
    int64_t exclusive_until_ms; // TAKE_OVER: until then no other round can have begun; 0: unknown
    bool dead;                  // LEADER_LOST: its host says that it died
    struct election_counters counters;
};

struct election {
    struct election_config config;
    enum election_state state;  // election_step changes it
    int64_t term, highest_term; // in which it has voted, or which it follows; highest known
    int64_t voted_for;          // in term; 0: no vote
    struct election_peer self, leader;
    struct electorate electorate; // complete only if may_stand
    bool may_stand;
    struct election_peer *peers; // of the electorate by index, or its first ones; then the seeds
    int peer_count, seed_count;
    struct election_counters counters;
    int64_t heard_ms, acked_ms; // when the leader was heard; when the heartbeat that it answered
    int64_t lease_end_ms;       // last was sent
    int64_t leader_term, leader_round_term; // the leader's term; the newest round that it has begun
    int leader_round;
    int64_t searching_since_ms, voted_ms, next_request_ms, connect_ms;
    int64_t leader_dead_ms; // when the death of the lost leader was proven; 0: it is not
    // PRECANDIDATE, CANDIDATE
    int64_t not_before_base_ms;  // the latest time at which a voter of this agent heard a leader
    bool *votes, *reported_dead; // by voter; reported_dead: by its host, in time
    int reported_before;         // how many were when it asked for votes
    struct election_counters vote_counters;
    int64_t request_backoff_ms;
    bool seed_tried;        // it has tried to join at the first seed without asking
    bool disconnected;      // FOLLOWER: without a connection
    int64_t next_resume_ms; // when it tries another connection then
    bool connecting;        // the leader of the last CONNECT has not answered yet
    bool seed_unaffiliated[ELECTION_SEEDS_MAX]; // by seed: knows of no group, or has no agent
    bool seed_alias[ELECTION_SEEDS_MAX];        // is the seed before it, at another address
    // out
    struct array_queue actions;
};

void election_open(struct election *e, const struct election_config *config, int64_t now_ms);
void election_close(struct election *e);
void election_self(struct election *e, const char *name, const char *address, int port);
void election_seed(struct election *e, const char *address, int port);
void election_seed_alias(struct election *e); // the last seed is the one before, elsewhere

// The request to join was sent at sent_ms. False: this agent has voted in a later term, and the
// connection must be closed.
bool election_joined(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                     const struct election_peer *leader);
// The answer to a heartbeat that was sent at sent_ms (0: to none) gives a lease of left_ms.
void election_heartbeat_acked(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t left_ms);
// The newest round that the leader has begun.
void election_leader_round(struct election *e, int64_t round_term, int round, bool committed);
// Until when this agent's workers may live; INT64_MAX: no other agent could start workers.
int64_t election_lease_end(const struct election *e);
// peers: of the electorate's voters in order, or of the first ones; total: how many there are.
void election_set_electorate(struct election *e, int64_t now_ms,
                             const struct electorate *electorate, const struct election_peer *peers,
                             int peer_count, int total);
void election_merge_counters(struct election *e, const struct election_counters *counters);
void election_leader_lost(struct election *e, int64_t now_ms);
// RESUME comes now and again until the session is resumed or the leader is lost.
void election_disconnected(struct election *e, int64_t now_ms);
void election_resumed(struct election *e, int64_t now_ms);

void election_requested(struct election *e, int64_t now_ms, const struct election_request *request,
                        struct election_response *response);
// peer: as it was in the action.
void election_answered(struct election *e, int64_t now_ms, const struct election_peer *peer,
                       const struct election_response *response);
bool election_same_address(const struct election_peer *a, const struct election_peer *b);
// That incarnation, which answers at the peer's address, is this agent, and the address is not its
// own: it leads back here, as a loopback address does, and the answer says nothing about the peer.
bool election_is_echo(const struct election *e, const struct election_peer *peer,
                      int64_t incarnation);
// The host of that peer says that no agent listens there.
void election_process_dead(struct election *e, int64_t now_ms, const struct election_peer *peer);
void election_tick(struct election *e, int64_t now_ms);
int64_t election_deadline(const struct election *e);
bool election_next(struct election *e, struct election_action *out);

#endif
