// SPDX-License-Identifier: Apache-2.0
// What is the case, what is to be done, and the end: the outer side of the rendezvous.
#include "rendezvous/rendezvous_impl.h"

#include <stdlib.h>

bool rendezvous_next(struct rendezvous *r, struct rendezvous_action *out) {
    if (r->queue_first == r->queue_len) {
        r->queue_first = r->queue_len = 0;
        return false;
    }
    *out = r->queue[r->queue_first++];
    return true;
}

enum rendezvous_phase rendezvous_phase(const struct rendezvous *r) {
    return r->phase;
}
enum rendezvous_verdict rendezvous_verdict(const struct rendezvous *r) {
    return r->verdict;
}
const char *rendezvous_reason(const struct rendezvous *r) {
    return r->reason;
}
int rendezvous_round(const struct rendezvous *r) {
    return r->round;
}
int rendezvous_restarts(const struct rendezvous *r) {
    return r->restarts;
}
int64_t rendezvous_term(const struct rendezvous *r) {
    return r->term;
}
const struct electorate *rendezvous_electorate(const struct rendezvous *r) {
    return &r->electorate;
}
// A failure that a loss may still excuse is not told: of what agents know, the highest count lives
// on under the next coordinator.
void rendezvous_counters(const struct rendezvous *r, struct election_counters *out) {
    bool open = r->blame.open;
    *out = (struct election_counters){r->round, open ? r->blame.restarts : r->restarts,
                                      open ? r->blame.crashes : r->crashes};
}
int rendezvous_world_size(const struct rendezvous *r) {
    return r->world_size;
}
int rendezvous_member_count(const struct rendezvous *r) {
    return r->member_count;
}
int rendezvous_active_count(const struct rendezvous *r) {
    return r->active_count;
}

const struct rendezvous_member *rendezvous_member(const struct rendezvous *r, int id) {
    return rendezvous_slot(r, id);
}

const struct rendezvous_member *rendezvous_active(const struct rendezvous *r, int group_rank) {
    return group_rank >= 0 && group_rank < r->active_count
               ? rendezvous_slot(r, r->active[group_rank])
               : NULL;
}

void rendezvous_close(struct rendezvous *r) {
    if (!r)
        return;
    for (int i = 0; i < r->slot_count; i++) {
        if (r->slots[i])
            free(r->slots[i]->leaving);
        free(r->slots[i]);
    }
    free(r->slots);
    free(r->incarnations);
    free(r->active);
    free(r->voters);
    quorum_fini(&r->electorate);
    free(r->queue);
    free(r);
}
