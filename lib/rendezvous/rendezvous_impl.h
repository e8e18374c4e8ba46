// SPDX-License-Identifier: Apache-2.0
// Inside the rendezvous. Only rendezvous*.c includes this.
#ifndef RENDEZVOUS_RENDEZVOUS_IMPL_H
#define RENDEZVOUS_RENDEZVOUS_IMPL_H

#include "rendezvous/rendezvous.h"

#include <stddef.h>

struct rendezvous {
    struct rendezvous_config config;
    enum rendezvous_phase phase;
    enum rendezvous_verdict verdict, verdict_next; // next: what STOP leads to, if final
    int round, restarts, world_size;
    int64_t gather_ms, quorate_since_ms, not_before_ms, stop_ms, note_ms, scan_ms,
        now_ms; // quorate_since_ms -1: not yet
    int64_t round_ms,
        backoff_until_ms; // when the round began; nothing starts before backoff_until_ms (back-off)
    int crashes;          // rounds in a row that failed soon after their start
    struct {
        bool open; // a failure stopped the round; what was before it:
        int restarts, crashes;
        int64_t backoff_until_ms;
    } blame;
    int64_t seq;
    int64_t term;
    struct electorate electorate;           // of the round, or of the last one
    struct rendezvous_voter *voters;        // by index in it
    int64_t lease_end_ms, lease_counted_ms; // when the right to coordinate ends, as of when
    int64_t opened_ms, exclusive_until_ms;
    bool confirmed, deposed; // it has had a quorum since it was opened; it has stepped down
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    struct rendezvous_member **slots;
    int64_t *incarnations; // of the members in slots; 0: none there
    int slot_count, member_count;
    int *active; // ids by group rank, -1 when lost
    int active_count;
    struct rendezvous_action *queue;
    size_t queue_first, queue_len, queue_room;
};

struct rendezvous_voter {
    int64_t acked_ms, heard_ms; // the last word that it is known to have heard; its own last word
    bool knows_round, left;     // of this round; it has left in good order
    bool reported_dead, died_in_lease; // its host says so: before it joined, or while it was bound
};

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

// rendezvous_cut.c
struct rendezvous_member *rendezvous_find(const struct rendezvous *r, int64_t incarnation);
bool rendezvous_is_silent(const struct rendezvous *r, const struct rendezvous_member *m);
void rendezvous_scan(struct rendezvous *r); // loses the silent ones

// rendezvous_failed.c
// In PHASE_STOP: a member goes, before it is dropped. If a failure has stopped the round, and that
// was the cause, the round ends with this verdict and reason instead.
void rendezvous_excuse(struct rendezvous *r, const struct rendezvous_member *m,
                       enum rendezvous_verdict verdict, const char *why);

// rendezvous.c
// Stops the round. verdict VERDICT_NONE: to start another one.
void rendezvous_begin_stop(struct rendezvous *r, enum rendezvous_verdict verdict, bool counted,
                           const char *why);
void rendezvous_settle(struct rendezvous *r); // looks whether the phase is complete
void rendezvous_lose(struct rendezvous *r, struct rendezvous_member *m, const char *why);
struct rendezvous_action *rendezvous_push(struct rendezvous *r, enum rendezvous_action_kind kind);

static inline struct rendezvous_member *rendezvous_slot(const struct rendezvous *r, int id) {
    return id >= 0 && id < r->slot_count ? r->slots[id] : NULL;
}

#endif
