// SPDX-License-Identifier: Apache-2.0
// Which agent coordinates, as one agent sees it. Pure: events and the time go in, actions come out.
// Every agent of a run owns one; together they make sure that the run has a coordinator again when
// one is lost, and never two that can both start workers.
//
//     election_open(&e, &config, now);     looks for a coordinator at its seeds, or founds
//     election_joined(&e, now, …)            JOINED came: it follows a coordinator, or is it
//     election_heartbeat_acked(&e, now, …)            the coordinator answered a beat
//     election_set_electorate(&e, now, …)           a round began, these are its nodes
//     election_disconnected(&e, now)                the connection to the coordinator broke
//     election_resumed(&e, now)            and another one goes on with the session
//     election_leader_lost(&e, now)               the coordinator has hung up, or will not have it
//     back election_requested(&e, now, &ask, &answer), election_answered(&e, now, &answer) while
//     (election_next(&e, &action)) { carry it out } wake up again at election_deadline(&e) and call
//     election_tick(&e, now)
//
// The theory of operation is at the top of election.c.
#ifndef RENDEZVOUS_ELECTION_H
#define RENDEZVOUS_ELECTION_H

#include "rendezvous/quorum.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ELECTION_NAME_BYTES_MAX = 256,
    ELECTION_ADDRESS_BYTES_MAX = 64,
    ELECTION_CANDIDATES_MAX = 16, // the first nodes of a round, which may coordinate
    ELECTION_SEEDS_MAX = 16,      // addresses that were given at the start
    // A term that is further from the last known one is no term: so none can use them up.
    ELECTION_TERM_STEP_MAX = 1 << 30,
};

struct election_config {
    int64_t incarnation;         // of this agent
    int64_t silent_ms_max;       // a coordinator that says nothing for longer is lost
    int64_t lease_ms;            // and may have run workers so long after its last word; >= silent
    int64_t request_ms;          // between two rounds of questions
    int64_t stagger_ms;          // each stand-in waits so much longer than the one before it
    int64_t election_timeout_ms; // for whom this agent voted, to win
    int64_t request_ms_max;      // up to this the questions of others than stand-ins get rarer
    int64_t connect_ms_max;      // from CONNECT to the coordinator's answer
    int64_t join_ms_max;         // until the first coordinator is found
    int64_t give_up_ms;          // without one, later
    bool may_bootstrap;     // coordinates without having been elected, when there is no group yet:
    bool bootstrap_at_once; // without asking; else every seed must say that it knows of none
};

// What must survive a coordinator, as far as this agent has been told.
struct election_counters {
    int attempt; // the highest number a round has had
    int restarts, crashes;
};

struct election_peer {   // where an agent can be asked
    int64_t incarnation; // 0: unknown
    char name[ELECTION_NAME_BYTES_MAX], address[ELECTION_ADDRESS_BYTES_MAX];
    int port;
};

enum election_state { ELECTION_SEARCHING, ELECTION_FOLLOWER, ELECTION_LEADER };
enum election_request_kind { REQUEST_STATUS, REQUEST_PREVOTE, REQUEST_VOTE, REQUEST_ANNOUNCE };

struct election_request {
    enum election_request_kind kind;
    int64_t term; // of QUERY: that the asker has voted in; LEAD: of the winner
    int64_t round_term;
    int round; // the last round that the asker knows
    struct election_peer from;
};

struct election_response {
    enum election_request_kind kind; // of the question
    int64_t request_term;
    int64_t term; // the highest that the answering agent has seen
    bool granted;
    bool unaffiliated;   // it has been in no round and is not joining a group
    int64_t incarnation; // who answers
    int64_t age_ms;      // since it heard a coordinator
    int64_t leader_term; // 0: it knows no coordinator now
    struct election_peer leader;
    struct election_counters counters;
};

enum election_action_kind {
    ELECTION_NONE,
    ELECTION_SEND_REQUEST, // question to place: ask
    ELECTION_CONNECT,      // to the coordinator at place, and join
    ELECTION_RESUME,       // the session with it, over a new connection
    ELECTION_TAKE_OVER, // coordinate: term, not_before_ms, exclusive_until_ms, facts; term 1: a new
                        // group
    ELECTION_LEADER_LOST, // the coordinator is silent (silent_ms), or this one must not be it any
                          // more
    ELECTION_GIVE_UP,     // nobody was found in time
};

struct election_action {
    enum election_action_kind kind;
    struct election_peer peer;
    struct election_request request;
    int64_t term, not_before_ms, silent_ms;
    int64_t exclusive_until_ms; // TAKE_OVER: until then no other round can have begun; 0: unknown
    bool dead;                  // LOST: its host says that it died
    struct election_counters counters;
};

struct election {
    struct election_config config;
    enum election_state state;
    int64_t term, highest_term; // that it has voted in or followed; highest known
    int64_t voted_for;          // for whom in term; 0: nobody
    struct election_peer self, leader;
    struct electorate electorate; // complete only if may_stand
    bool may_stand;
    struct election_peer *peers; // of the electorate by index, or its first ones; then the seeds
    int peer_count, seed_count;
    struct election_counters counters;
    int64_t heard_ms, acked_ms; // last word of the coordinator: when it came; what it answers left
    int64_t lease_end_ms;
    int64_t leader_term, leader_round_term; // its term; the newest round it spoke of
    int leader_round;
    int64_t searching_since_ms, voted_ms, leader_dead_ms, next_request_ms, connect_ms;
    // standing
    enum election_request_kind stage;
    int64_t not_before_base_ms;
    bool *votes,
        *reported_dead;  // by voter; gone: its host says so, in time (election_take_dead_voter)
    int reported_before; // how many were when it asked for votes
    struct election_counters vote_counters;
    int64_t request_backoff_ms;
    bool seed_tried;      // to join at the first seed without asking
    bool disconnected;    // FOLLOW: without a connection
    int64_t resume_at_ms; // when to try another one then
    bool connecting;      // what CONNECT asked for is neither joined nor lost yet
    bool seed_unaffiliated[ELECTION_SEEDS_MAX]; // seeds that know of no group, or where no agent is
    bool seed_alias[ELECTION_SEEDS_MAX];        // seeds that are the one before, at another address
    // out
    struct election_action *queue;
    int queue_first, queue_len, queue_room;
};

void election_open(struct election *e, const struct election_config *config, int64_t now_ms);
void election_close(struct election *e);
void election_self(struct election *e, const char *name, const char *address, int port);
void election_seed(struct election *e, const char *address, int port);
void election_seed_alias(struct election *e); // the last one is the one before, elsewhere

// False: this agent has voted in a later term, the connection must be closed.
// The request to join was sent at sent_ms.
bool election_joined(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                     const struct election_peer *leader);
// An answer to what was sent at sent_ms (0: to nothing) leaves left_ms; round: the newest that the
// coordinator has started.
void election_heartbeat_acked(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t left_ms);
void election_leader_round(struct election *e, int64_t round_term, int round, bool committed);
// Until when this agent's workers may live; INT64_MAX: nobody else could start others.
int64_t election_lease_end(const struct election *e);
// places: of the electorate's voters in order, or of the first ones; total: how many there are.
void election_set_electorate(struct election *e, int64_t now_ms,
                             const struct electorate *electorate, const struct election_peer *peers,
                             int peer_count, int total);
void election_merge_counters(struct election *e,
                             const struct election_counters *counters); // the higher ones
void election_leader_lost(struct election *e, int64_t now_ms);
// The connection broke: RESUME comes now and then, until it is resumed or the coordinator is lost.
void election_disconnected(struct election *e, int64_t now_ms);
void election_resumed(struct election *e, int64_t now_ms);

void election_requested(struct election *e, int64_t now_ms, const struct election_request *request,
                        struct election_response *answer);
// place: as it was in the action.
void election_answered(struct election *e, int64_t now_ms, const struct election_peer *peer,
                       const struct election_response *answer);
// The host of that place says that no agent listens there.
void election_process_dead(struct election *e, int64_t now_ms, const struct election_peer *peer);
void election_tick(struct election *e, int64_t now_ms);
int64_t election_deadline(const struct election *e);
bool election_next(struct election *e, struct election_action *out);

#endif
