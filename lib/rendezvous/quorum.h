// SPDX-License-Identifier: Apache-2.0
// How many nodes of a round must agree on a decision for the run. Pure.
//
// The electorate of a round is its nodes. More than half of them are a quorum. Exactly half of them
// are a quorum if they include the tie breaker, the node that coordinated when the round began. So
// two quorums have a node in common, and two halves of a network never both have a quorum.
//
// When a round follows another, its electorate counts only once it is committed, that is, known to
// a quorum of both; until then a quorum of both is needed (joint consensus: Ongaro and Ousterhout,
// In Search of an Understandable Consensus Algorithm, 2014, section 6).
//
// Agents whose death is proven are not counted; silence is no proof (docs/rendezvous.md). When the
// tie breaker is dead, the first of the other voters breaks a tie.
#ifndef RENDEZVOUS_QUORUM_H
#define RENDEZVOUS_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

// A lease of this length, counted on another host's clock or kept by its guard, is over after so
// long: rates of clocks may differ.
static inline int64_t lease_over_ms(int64_t lease_ms) {
    return lease_ms + lease_ms / 16;
}

enum { QUORUM_THIS = 1, QUORUM_LAST = 2 }; // of which round a voter is

struct voter {
    int64_t incarnation; // of its agent process; a restarted agent is another voter
    unsigned rounds;
    bool dead; // proven
};

struct electorate { // zero-initialised: before the first round; any set is a quorum
    int64_t term;   // of the coordinator that started the round
    int round;
    bool committed;
    int64_t tie_breaker, tie_breaker_last; // of this round and the last one
    struct voter *voters;                  // in rank order, those of this round first; heap, owned
    int count;
};

void quorum_fini(struct electorate *e);
void quorum_copy(struct electorate *to, const struct electorate *from);
int quorum_find(const struct electorate *e, int64_t incarnation); // index, or -1
bool quorum_counts(const struct electorate *e, int at);           // the vote of that voter counts
// That agent is the only living voter left.
bool quorum_is_single(const struct electorate *e, int64_t incarnation);
// The voters with yes (by index) are a quorum.
bool quorum_agrees(const struct electorate *e, const bool *yes);
// The latest time since which a quorum has spoken, given when each voter spoke last; INT64_MAX when
// no voter is needed. starts_ms: the least time of this round's voters.
int64_t quorum_time(const struct electorate *e, const int64_t *spoke_ms, int64_t starts_ms);

#endif
