// SPDX-License-Identifier: Apache-2.0
// Rendezvous: the members of each round, their ranks, and when all of them start and stop. Pure:
// events and the time go in, actions come out; no clock, no socket. The coordinator's agent owns
// one.
//
//     rendezvous_join(r, now, &node, &id, e);  …  rendezvous_failed(r, now, id, round);
//     while (rendezvous_next(r, &action)) { carry it out }
//     wake up again at rendezvous_deadline(r) and call rendezvous_tick(r, now)
//
// A run is a sequence of rounds. rendezvous.c begins with the table of phases:
//     GATHER    nodes join. A round starts when nodes_max are there, or all that are expected, or
//               nodes_min and the last call is over
//     RUN       workers run on every active member
//     STOP      every member of the round stops its workers. The phase ends when each member has
//               reported that, or is lost
//     OVER      finished, failed or stopped
//     DEPOSED   this agent may not coordinate any more
//
// Rules:
// - A worker that fails, a node that is lost or leaves, or a node that joins while there is room
//   stops the round on every member. Only failures of workers count against max_restarts.
// - A node dies; workers of other nodes fail because of it, often before its silence is noticed.
//   So a failure is judged when every member has stopped. If a member is lost that was not heard
//   later than RENDEZVOUS_BLAME_MS after the failure, its loss was the cause: the failure does not
//   count.
// - A node whose connection breaks is not lost yet. It may resume its session until it has been
//   silent for silent_ms_max, or until its host reports that its agent is dead. A round that starts
//   meanwhile includes the node.
// - A lost node may still run workers until its lease is over; then its guard ends them. No round
//   starts before that: two groups never train at the same time.
// - Ranks follow node_rank where it is given, else names in natural order, else order of joining.
// - The coordinator starts a round only while a quorum of the last one is known to hear it, and
//   steps down when none does (leader_lease.c, election.h).
// - A node whose workers are all done is no longer needed, unless it hosts the store.
#ifndef RENDEZVOUS_RENDEZVOUS_H
#define RENDEZVOUS_RENDEZVOUS_H

#include "base/err.h"
#include "rendezvous/election.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RENDEZVOUS_NAME_BYTES_MAX = 256,
    RENDEZVOUS_ADDRESS_BYTES_MAX = 64,
    RENDEZVOUS_ROLE_BYTES_MAX = 64,
    RENDEZVOUS_REASON_BYTES_MAX = 512,
    RENDEZVOUS_MEMBERS_MAX = 16384,
    RENDEZVOUS_ROLES_MAX = 64,
    RENDEZVOUS_DISCONNECT_BYTES_MAX = 128,
    RENDEZVOUS_BLAME_MS = 500, // between a failure and the last word of the node that caused it
};

struct rendezvous_config {
    int64_t incarnation; // of the coordinating agent; 0: no other node can take over
    int nodes_min, nodes_max;
    int nodes_expected; // by the roster; 0: unknown
    int max_restarts;
    int64_t join_timeout_ms;   // for nodes_min to come, from the start of a gathering
    int64_t rejoin_timeout_ms; // the same after a loss
    int64_t last_call_ms;      // from nodes_min on, for more nodes to come: the first round
    int64_t regroup_call_ms;   // and later rounds
    int64_t silent_ms_max;     // a member that is not heard for longer is lost
    int64_t lease_ms;          // its workers are gone so long after it was heard last
    int64_t stop_ms_max;       // from STOP to its answer
    int64_t note_ms;           // between two WAITING notes
    int64_t crash_ms;          // a round that fails sooner than this is a crash; 0: none is
    int crashes_max;           // so many in a row end the run
    int64_t backoff_ms;        // added before each start after the second crash in a row
};

struct rendezvous_node { // a request to join; copied
    const char *name, *address, *role;
    int node_rank; // -1: none given
    int64_t incarnation;
    int64_t session;    // that begins when it is accepted; 0: it cannot be resumed
    int64_t connection; // its number among the agent's
    int port, store_port, nproc;
    int64_t term;   // that it has voted in
    int last_round; // that it has taken part in; -1: none
};

struct rendezvous_resume { // a request to resume a session
    int64_t incarnation, session, connection;
};

struct rendezvous_history {     // of a run whose coordinator was lost
    int64_t term;               // of the new one
    int64_t not_before_ms;      // no round before
    int64_t exclusive_until_ms; // until then no other round can have begun; 0: unknown
    struct election_counters counters;
    const struct electorate *electorate;
    const struct election_peer *peers; // of its voters
    const char *why; // in one line, for the reason of the next round or of the end
};

enum rendezvous_state {
    MEMBER_WAITING, // joined, takes part in the next round if there is room
    MEMBER_ACTIVE,  // workers run
    MEMBER_DONE,    // workers have all ended with 0
    MEMBER_STOPPING // stops its workers
};

struct rendezvous_member {
    int id;
    enum rendezvous_state state;
    char name[RENDEZVOUS_NAME_BYTES_MAX];
    char address[RENDEZVOUS_ADDRESS_BYTES_MAX];
    char role[RENDEZVOUS_ROLE_BYTES_MAX];
    int node_rank, port, store_port, nproc;
    int64_t incarnation, session, connection, seq, heard_ms;
    int64_t acked_ms; // the newest time stamp of the coordinator that it acknowledged
    char disconnect_reason[RENDEZVOUS_DISCONNECT_BYTES_MAX]; // "": it is connected
    char *leaving; // why it leaves when its workers are stopped; NULL: it stays
    bool in_round; // of the current or last round
    bool coordinates;
    int voter; // in the electorate; -1: none
    // of the current round
    int group_rank, rank, role_rank, role_world;
};

enum rendezvous_phase { PHASE_GATHER, PHASE_RUN, PHASE_STOP, PHASE_OVER, PHASE_DEPOSED };
enum rendezvous_verdict { VERDICT_NONE, VERDICT_FINISHED, VERDICT_FAILED, VERDICT_STOPPED };

enum rendezvous_action_kind {
    ACTION_NONE,
    ACTION_JOINED,  // id was accepted
    ACTION_WAITING, // report to all members which nodes are missing: present, expected, reason
    ACTION_START,   // send the round to every active member (rendezvous_active)
    ACTION_STOP,    // send it to every stopping member: reason, final (tentative: unless excused)
    ACTION_EXCUSED, // a loss caused the failure that stopped the round: reason. The run continues
    ACTION_DISCONNECTED, // id's connection broke: ask its host whether the agent lives. Comes
                         // again. counted: for the first time
    ACTION_PROBE,        // the same for the voter of that number, which has not joined
    ACTION_LOST,         // id is lost (silent for silent_ms); its connection can be closed
    ACTION_LEFT,         // id left on its own
    ACTION_OVER,         // send the verdict and its reason to every member
    ACTION_STEP_DOWN     // this agent may not coordinate any more: reason. The last action
};

struct rendezvous_action {
    enum rendezvous_action_kind kind;
    int id;
    int present, expected;
    int64_t silent_ms;
    bool final, tentative, counted;
    char name[RENDEZVOUS_NAME_BYTES_MAX];
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
};

struct rendezvous;

struct rendezvous *rendezvous_open(const struct rendezvous_config *c, int64_t now_ms);
// Goes on with a run that another agent has coordinated until now.
struct rendezvous *rendezvous_take_over(const struct rendezvous_config *c, int64_t now_ms,
                                        const struct rendezvous_history *history);
void rendezvous_close(struct rendezvous *r);

// ERR_BUSY: may be tried again later (the node rank is taken by an agent that is still alive);
// other errors are final.
int rendezvous_join(struct rendezvous *r, int64_t now_ms, const struct rendezvous_node *n, int *id,
                    struct err *e);
// The following ignore an unknown id and another round.
void rendezvous_heard(struct rendezvous *r, int64_t now_ms, int id);
// The member has received the message of acked_ms (0: none yet), and knows of that round. Returns
// the time that its workers may live, counted from the sending of this heartbeat.
int64_t rendezvous_heartbeat(struct rendezvous *r, int64_t now_ms, int id, int64_t acked_ms,
                             int64_t round_term, int round);
int64_t rendezvous_lease_left_ms(struct rendezvous *r); // of the right to coordinate
// A member without a port or a session, and one that is leaving, is lost at once.
void rendezvous_disconnected(struct rendezvous *r, int64_t now_ms, int id, const char *why);
// The member continues over another connection. ERR_NOT_FOUND: no such session, or the request is
// older than the member's connection.
int rendezvous_resume(struct rendezvous *r, int64_t now_ms, const struct rendezvous_resume *x,
                      int *id, struct err *e);
// The host of a disconnected member says that its agent is dead, or the agent says that it has
// another coordinator. The vote of a dead member is not needed any more.
void rendezvous_process_dead(struct rendezvous *r, int64_t now_ms, int64_t incarnation, bool dead,
                             const char *why);
void rendezvous_lost(struct rendezvous *r, int64_t now_ms, int id, const char *why);
void rendezvous_leave(struct rendezvous *r, int64_t now_ms, int id, const char *why);
void rendezvous_failed(struct rendezvous *r, int64_t now_ms, int id, int round, const char *why);
void rendezvous_done(struct rendezvous *r, int64_t now_ms, int id, int round);
void rendezvous_stopped(struct rendezvous *r, int64_t now_ms, int id, int round, int store_port);
void rendezvous_stop(struct rendezvous *r, int64_t now_ms, enum rendezvous_verdict verdict,
                     const char *why); // the whole run, on request
// This agent may not coordinate any more: ACTION_STEP_DOWN comes, and nothing after it.
void rendezvous_depose(struct rendezvous *r, const char *why);
void rendezvous_tick(struct rendezvous *r, int64_t now_ms);
int64_t rendezvous_deadline(const struct rendezvous *r); // when to tick next; INT64_MAX: never

// Next action in order; false when there is none.
bool rendezvous_next(struct rendezvous *r, struct rendezvous_action *out);

enum rendezvous_phase rendezvous_phase(const struct rendezvous *r);
enum rendezvous_verdict rendezvous_verdict(const struct rendezvous *r);
const char *rendezvous_reason(const struct rendezvous *r); // of the last stop or of the end
int rendezvous_round(const struct rendezvous *r);          // 0 is the first; -1 before it
int rendezvous_restarts(const struct rendezvous *r);
int64_t rendezvous_term(const struct rendezvous *r);
void rendezvous_counters(const struct rendezvous *r, struct election_counters *out);
const struct electorate *rendezvous_electorate(const struct rendezvous *r);
int rendezvous_world_size(const struct rendezvous *r);
int rendezvous_member_count(const struct rendezvous *r);
// True when the other nodes of the last round can continue without this coordinator.
bool rendezvous_can_hand_over(const struct rendezvous *r);
const struct rendezvous_member *rendezvous_member(const struct rendezvous *r, int id); // or NULL
// Members of the current round by group rank; NULL past the end or where one was lost.
const struct rendezvous_member *rendezvous_active(const struct rendezvous *r, int group_rank);
int rendezvous_active_count(const struct rendezvous *r);

#endif
