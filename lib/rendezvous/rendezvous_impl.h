// SPDX-License-Identifier: Apache-2.0
// Inside the rendezvous. Only rendezvous*.c includes this.
#ifndef RENDEZVOUS_RENDEZVOUS_IMPL_H
#define RENDEZVOUS_RENDEZVOUS_IMPL_H

#include "base/array.h"
#include "rendezvous/rendezvous.h"

#include <stddef.h>

enum rendezvous_event {
    RENDEZVOUS_EVENT_READY,         // enough members have joined, and the coordinator may start
    RENDEZVOUS_EVENT_END,           // too few members came in time, or a stop was requested
    RENDEZVOUS_EVENT_ALL_DONE,      // the workers of all members have ended with 0
    RENDEZVOUS_EVENT_INTERRUPT,     // a failure, a loss, a leave, a join, or a requested stop
    RENDEZVOUS_EVENT_STOPPED,       // all members have stopped; the run continues
    RENDEZVOUS_EVENT_STOPPED_FINAL, // all members have stopped; the run ends
    RENDEZVOUS_EVENT_DEPOSE,        // the right to coordinate is over
    RENDEZVOUS_EVENT_COUNT
};

struct rendezvous_transition {
    enum rendezvous_phase from;
    enum rendezvous_event event;
    enum rendezvous_phase to;
    const char *action;
};

struct rendezvous {
    struct rendezvous_config config;
    enum rendezvous_phase phase;
    enum rendezvous_verdict verdict;
    enum rendezvous_verdict verdict_next; // to which STOP leads; NONE: to another round
    int round, restarts, world_size;
    int64_t now_ms, opened_ms, round_ms;     // round_ms: when the round began
    int64_t gather_ms, stop_ms;              // when the phase began
    int64_t quorate_since_ms;                // since when nodes_min have joined; -1: fewer
    int64_t not_before_ms, backoff_until_ms; // no round begins before either
    int64_t note_ms, scan_ms;                // of the last WAITING; of the last scan
    int crashes;                             // rounds in a row that failed soon after their start
    struct {
        bool open; // a failure stopped the round, and a loss may excuse it. The values before it:
        int restarts, crashes;
        int64_t backoff_until_ms;
    } blame;
    int64_t seq;
    int64_t term;
    struct electorate electorate;           // of the round, or of the last one
    struct rendezvous_voter *voters;        // by index in it
    int64_t lease_end_ms, lease_counted_ms; // when the right to coordinate ends, as of when
    int64_t exclusive_until_ms;
    bool confirmed; // it has had a quorum since it was opened
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    struct rendezvous_member **slots;
    int64_t *incarnations; // of the members in slots; 0: none there
    int slot_count, member_count;
    int *active; // ids by group rank, -1 when lost
    int active_count;
    struct array_queue actions;
};

struct rendezvous_voter {
    int64_t acked_ms;   // the newest time stamp of the coordinator that the voter acknowledged
    int64_t heard_ms;   // when the coordinator heard the voter
    bool knows_round;   // of this electorate
    bool left;          // in good order
    bool reported_dead; // by its host, before it joined this coordinator
    bool died_in_lease; // by its host, while its lease bound it
};

// rendezvous.c
const struct rendezvous_transition *rendezvous_transitions(int *count);
const char *rendezvous_phase_name(enum rendezvous_phase phase);
const char *rendezvous_event_name(enum rendezvous_event event);
void rendezvous_check(const struct rendezvous *r);         // the invariants, in constant time
void rendezvous_check_members(const struct rendezvous *r); // those of all members
// True when the run may continue, or wait for other nodes, with this many members left after a
// loss.
bool rendezvous_may_go_on(const struct rendezvous *r, int members_left);
// Stops the round. verdict VERDICT_NONE: to start another one.
void rendezvous_begin_stop(struct rendezvous *r, enum rendezvous_verdict verdict, bool counted,
                           const char *why);
void rendezvous_settle(
    struct rendezvous *r); // enters the next phase if the current one is complete
struct rendezvous_action *rendezvous_push(struct rendezvous *r, enum rendezvous_action_kind kind);

// rendezvous_members.c
struct rendezvous_member *rendezvous_find(const struct rendezvous *r, int64_t incarnation);
bool rendezvous_is_silent(const struct rendezvous *r, const struct rendezvous_member *m);
void rendezvous_lose(struct rendezvous *r, struct rendezvous_member *m, const char *why);
void rendezvous_scan(struct rendezvous *r); // loses the silent members

// rendezvous_restarts.c
// In PHASE_STOP, before the member is dropped. If a failure has stopped the round and the loss of
// this member caused it, the round ends with this verdict and reason instead.
void rendezvous_excuse(struct rendezvous *r, const struct rendezvous_member *m,
                       enum rendezvous_verdict verdict, const char *why);

// leader_lease.c
void leader_lease_take_over(struct rendezvous *r, const struct rendezvous_history *history);
void leader_lease_start(struct rendezvous *r); // a round has begun
void leader_lease_join(struct rendezvous *r, struct rendezvous_member *m);
bool leader_lease_votes(const struct rendezvous *r, const struct rendezvous_member *m);
bool leader_lease_holds(struct rendezvous *r);     // may coordinate now
bool leader_lease_may_start(struct rendezvous *r); // a round may begin now
void leader_lease_left(struct rendezvous *r, const struct rendezvous_member *m);
void leader_lease_dead(struct rendezvous *r, int64_t incarnation); // its host says so, now
void leader_lease_probe(struct rendezvous *r); // asks for voters that have not joined
void leader_lease_tick(struct rendezvous *r);  // steps down in time
int64_t leader_lease_deadline(const struct rendezvous *r);

static inline struct rendezvous_member *rendezvous_slot(const struct rendezvous *r, int id) {
    return id >= 0 && id < r->slot_count ? r->slots[id] : NULL;
}

#endif
