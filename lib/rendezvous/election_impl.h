// SPDX-License-Identifier: Apache-2.0
// Inside the election. Only election*.c includes this.
#ifndef RENDEZVOUS_ELECTION_IMPL_H
#define RENDEZVOUS_ELECTION_IMPL_H

#include "rendezvous/election.h"

struct election_action *election_push(struct election *e, enum election_action_kind kind);

// election_follower.c
bool election_term_is_plausible(const struct election *e, int64_t term); // can there be one yet
bool election_is_sole_voter(const struct election *e); // coordinates, and nobody can outvote it
void election_search(struct election *e, int64_t now_ms);
void election_prove_leader_dead(struct election *e, int64_t now_ms); // the lost coordinator is dead
// So is that voter. True: this agent has not known it before, and it counts.
bool election_take_dead_voter(struct election *e, int64_t now_ms, int64_t incarnation);
void election_forget_dead_group(struct election *e,
                                int64_t now_ms); // a group without living voters
// Every voter but the dead and the gone agrees; then the gone are dead.
bool election_is_unanimous(const struct election *e);
void election_exclude_dead(struct election *e);
bool election_may_bootstrap(const struct election *e); // no agent has ever been in a round
void election_try_resume(struct election *e, int64_t now_ms);

#endif
