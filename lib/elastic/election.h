// SPDX-License-Identifier: Apache-2.0
// Which agent coordinates, as one agent sees it. Pure: events and the time go in, actions come out.
// Every agent of a run owns one; together they make sure that the run has a coordinator again when
// one is lost, and never two that can both start workers.
//
//     election_open(&e, &config, now);     looks for a coordinator at its seeds, or founds
//     election_join(&e, now, …)            JOINED came: it follows a coordinator, or is it
//     election_word(&e, now, …)            the coordinator answered a beat
//     election_round(&e, now, …)           a round began, these are its nodes
//     election_cut(&e, now)                the connection to the coordinator broke
//     election_resumed(&e, now)            and another one goes on with the session
//     election_lost(&e, now)               the coordinator has hung up, or will not have it back
//     election_asked(&e, now, &ask, &answer), election_told(&e, now, &answer)
//     while (election_next(&e, &action)) { carry it out }
//     wake up again at election_deadline(&e) and call election_tick(&e, now)
//
// The theory of operation is at the top of election.c.
#ifndef ELASTIC_ELECTION_H
#define ELASTIC_ELECTION_H

#include "elastic/quorum.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ELECTION_NAME_BYTES_MAX = 256,
    ELECTION_ADDRESS_BYTES_MAX = 64,
    ELECTION_STAND_INS_MAX = 16, // the first nodes of a round, which may coordinate
    ELECTION_SEEDS_MAX = 16,     // addresses that were given at the start
    // A term that is further from the last known one is no term: so none can use them up.
    ELECTION_TERM_STEP_MAX = 1 << 30,
};

struct election_config {
    int64_t incarnation;    // of this agent
    int64_t silent_ms_max;  // a coordinator that says nothing for longer is lost
    int64_t lease_ms;       // and may have run workers so long after its last word; >= silent
    int64_t ask_ms;         // between two rounds of questions
    int64_t stagger_ms;     // each stand-in waits so much longer than the one before it
    int64_t patience_ms;    // for whom this agent voted, to win
    int64_t ask_ms_max;     // up to this the questions of others than stand-ins get rarer
    int64_t connect_ms_max; // from CONNECT to the coordinator's answer
    int64_t join_ms_max;    // until the first coordinator is found
    int64_t give_up_ms;     // without one, later
    bool founds;            // coordinates without having been elected, when there is no group yet:
    bool founds_at_once;    // without asking; else every seed must say that it knows of none
};

// What must survive a coordinator, as far as this agent has been told.
struct election_facts {
    int attempt; // the highest number a round has had
    int restarts, crashes;
};

struct election_place {  // where an agent can be asked
    int64_t incarnation; // 0: unknown
    char name[ELECTION_NAME_BYTES_MAX], address[ELECTION_ADDRESS_BYTES_MAX];
    int port;
};

enum election_state { ELECTION_LOOK, ELECTION_FOLLOW, ELECTION_LEAD };
enum election_kind { ASK_QUERY, ASK_PREVOTE, ASK_VOTE, ASK_LEAD };

struct election_ask {
    enum election_kind kind;
    int64_t term; // of QUERY: that the asker has voted in; LEAD: of the winner
    int64_t round_term;
    int round; // the last round that the asker knows
    struct election_place from;
};

struct election_answer {
    enum election_kind kind; // of the question
    int64_t asked_term;
    int64_t term; // the highest that the answering agent has seen
    bool granted;
    bool stranger;       // it has been in no round and is not joining a group
    int64_t incarnation; // who answers
    int64_t age_ms;      // since it heard a coordinator
    int64_t leader_term; // 0: it knows no coordinator now
    struct election_place leader;
    struct election_facts facts;
};

enum election_action_kind {
    ELECTION_NONE,
    ELECTION_ASK,       // question to place: ask
    ELECTION_CONNECT,   // to the coordinator at place, and join
    ELECTION_RESUME,    // the session with it, over a new connection
    ELECTION_TAKE_OVER, // coordinate: term, fence_ms, proof_until_ms, facts; term 1: a new group
    ELECTION_LOST,    // the coordinator is silent (silent_ms), or this one must not be it any more
    ELECTION_GIVE_UP, // nobody was found in time
};

struct election_action {
    enum election_action_kind kind;
    struct election_place place;
    struct election_ask ask;
    int64_t term, fence_ms, silent_ms;
    int64_t proof_until_ms; // TAKE_OVER: until then no other round can have begun; 0: unknown
    bool gone;              // LOST: its host says that it died
    struct election_facts facts;
};

struct election {
    struct election_config config;
    enum election_state state;
    int64_t term, term_seen; // that it has voted in or followed; highest known
    int64_t voted;           // for whom in term; 0: nobody
    struct election_place self, leader;
    struct electorate electorate; // complete only if may_stand
    bool may_stand;
    struct election_place *places; // of the electorate by index, or its first ones; then the seeds
    int place_count, seed_count;
    struct election_facts facts;
    int64_t heard_ms, word_ms; // last word of the coordinator: when it came; what it answers left
    int64_t lease_ms;
    int64_t leader_term, leader_round_term; // its term; the newest round it spoke of
    int leader_round;
    int64_t lost_ms, voted_ms, proof_ms, ask_at_ms, connect_ms;
    // standing
    enum election_kind stage;
    int64_t fence_base_ms;
    bool *yes, *gone; // by voter; gone: its host says so, in time (election_take_gone)
    int gone_before;  // how many were when it asked for votes
    struct election_facts gathered;
    int64_t step_ms;
    bool tried;                         // to join at the first seed without asking
    bool cut;                           // FOLLOW: without a connection
    int64_t resume_at_ms;               // when to try another one then
    bool connecting;                    // what CONNECT asked for is neither joined nor lost yet
    bool strangers[ELECTION_SEEDS_MAX]; // seeds that know of no group, or where no agent is
    bool same[ELECTION_SEEDS_MAX];      // seeds that are the one before, at another address
    // out
    struct election_action *queue;
    int queue_first, queue_len, queue_room;
};

void election_open(struct election *e, const struct election_config *config, int64_t now_ms);
void election_close(struct election *e);
void election_self(struct election *e, const char *name, const char *address, int port);
void election_seed(struct election *e, const char *address, int port);
void election_seed_same(struct election *e); // the last one is the one before, elsewhere

// False: this agent has voted in a later term, the connection must be closed.
// The request to join was sent at sent_ms.
bool election_join(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t term,
                   const struct election_place *leader);
// An answer to what was sent at sent_ms (0: to nothing) leaves left_ms; round: the newest that the
// coordinator has started.
void election_word(struct election *e, int64_t now_ms, int64_t sent_ms, int64_t left_ms);
void election_word_of_round(struct election *e, int64_t round_term, int round, bool committed);
// Until when this agent's workers may live; INT64_MAX: nobody else could start others.
int64_t election_lease(const struct election *e);
// places: of the electorate's voters in order, or of the first ones; total: how many there are.
void election_round(struct election *e, int64_t now_ms, const struct electorate *electorate,
                    const struct election_place *places, int place_count, int total);
void election_facts(struct election *e, const struct election_facts *facts); // the higher ones
void election_lost(struct election *e, int64_t now_ms);
// The connection broke: RESUME comes now and then, until it is resumed or the coordinator is lost.
void election_cut(struct election *e, int64_t now_ms);
void election_resumed(struct election *e, int64_t now_ms);

void election_asked(struct election *e, int64_t now_ms, const struct election_ask *ask,
                    struct election_answer *answer);
// place: as it was in the action.
void election_told(struct election *e, int64_t now_ms, const struct election_place *place,
                   const struct election_answer *answer);
// The host of that place says that no agent listens there.
void election_nobody(struct election *e, int64_t now_ms, const struct election_place *place);
void election_tick(struct election *e, int64_t now_ms);
int64_t election_deadline(const struct election *e);
bool election_next(struct election *e, struct election_action *out);

#endif
