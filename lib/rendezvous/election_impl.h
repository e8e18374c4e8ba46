// SPDX-License-Identifier: Apache-2.0
// Inside the election. Only election*.c and the test of the transition table include this.
#ifndef RENDEZVOUS_ELECTION_IMPL_H
#define RENDEZVOUS_ELECTION_IMPL_H

#include "rendezvous/election.h"

enum election_event {
    ELECTION_EVENT_JOINED,      // another agent, the leader, has accepted this one
    ELECTION_EVENT_JOINED_SELF, // this agent leads, and has joined itself
    ELECTION_EVENT_LOST,        // the connection to the leader is given up
    ELECTION_EVENT_SILENT,      // the leader has not been heard for silent_ms_max
    ELECTION_EVENT_DIED,        // the host of the leader says that its agent is dead
    ELECTION_EVENT_LATER_TERM,  // another agent has voted in a later term
    ELECTION_EVENT_GROUP_DIED,  // no voter of the known group lives
    ELECTION_EVENT_STAND,       // its turn as candidate; no lease or vote binds it
    ELECTION_EVENT_VOTED,       // this agent has voted for another one
    ELECTION_EVENT_VOTER_DIED,  // a voter has died since this agent asked for votes
    ELECTION_EVENT_REGROUPED,   // the electorate has changed
    ELECTION_EVENT_QUORUM,      // a quorum has granted the request
    ELECTION_EVENT_BOOTSTRAP,   // there is no group yet, and this agent may begin one
    ELECTION_EVENT_COUNT
};

struct election_transition {
    enum election_state from;
    enum election_event event;
    enum election_state to;
    const char *action;
};

// election.c
const struct election_transition *election_transitions(int *count);
const char *election_state_name(enum election_state state);
const char *election_event_name(enum election_event event);
// Changes the state as the table says. The table must have a row for the state and the event.
void election_step(struct election *e, int64_t now_ms, enum election_event event);
void election_check(const struct election *e);                  // the invariants
void election_begin_search(struct election *e, int64_t now_ms); // its timers start anew
bool election_is_searching(const struct election *e);
struct election_action *election_push(struct election *e, enum election_action_kind kind);
bool election_term_is_plausible(const struct election *e, int64_t term);
// The higher counts; counts that no run can have are ignored.
void election_counters_merge(struct election_counters *own, const struct election_counters *c);
// The caller changes the state.
void election_accept_leader(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                            const struct election_peer *leader);
void election_connect(struct election *e, int64_t now_ms, const struct election_peer *p);

// election_candidate.c
// After this time the lost leader cannot have prolonged a lease because of this agent.
int64_t election_last_contact(const struct election *e);
void election_take_vote(struct election *e, int64_t now_ms, const struct election_response *a);
void election_count_votes(struct election *e, int64_t now_ms);
void election_consider_standing(struct election *e, int64_t now_ms);
void election_send_requests(struct election *e, enum election_request_kind kind);
enum election_request_kind election_request_of(const struct election *e); // of its state

// election_follower.c
bool election_is_sole_voter(const struct election *e); // it leads, and no voter can outvote it
// A host says that the agent at that peer's address is dead; lives: the incarnation that it found
// there instead, 0: none.
void election_take_deaths(struct election *e, int64_t now_ms, const struct election_peer *peer,
                          int64_t lives);
int election_reported_dead_count(const struct election *e);
// Every voter but the dead and the reported dead agrees.
bool election_is_unanimous(const struct election *e);
void election_exclude_dead(struct election *e); // the reported dead count as dead
void election_try_resume(struct election *e, int64_t now_ms);

#endif
