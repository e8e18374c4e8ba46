// SPDX-License-Identifier: Apache-2.0
// Inside the rendezvous. Only rendezvous*.c includes this.
#ifndef ELASTIC_RENDEZVOUS_STATE_H
#define ELASTIC_RENDEZVOUS_STATE_H

#include "elastic/rendezvous.h"

#include <stddef.h>

struct rendezvous {
    struct rendezvous_config config;
    enum rendezvous_phase phase;
    enum rendezvous_verdict verdict, verdict_next; // next: what STOP leads to, if final
    int round, restarts, world_size;
    int64_t gather_ms, min_ms, fence_ms, stop_ms, note_ms, scan_ms, now_ms; // min_ms -1: not yet
    int64_t round_ms, hold_ms; // when the round began; nothing starts before hold_ms (back-off)
    int crashes;               // rounds in a row that failed soon after their start
    int64_t seq;
    char reason[RENDEZVOUS_REASON_BYTES_MAX];
    struct rendezvous_member **slots;
    int slot_count, member_count;
    int *active; // ids by group rank, -1 when lost
    int active_count;
    struct rendezvous_action *queue;
    size_t queue_first, queue_len, queue_room;
};

static inline struct rendezvous_member *rendezvous_slot(const struct rendezvous *r, int id) {
    return id >= 0 && id < r->slot_count ? r->slots[id] : NULL;
}

#endif
