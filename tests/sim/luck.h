// SPDX-License-Identifier: Apache-2.0
// Random faults of the nodes in the simulated world, and the invariants that hold in spite of them.
// Included once, by sim_rendezvous.c and by tests/tools/explore.c.
#ifndef TESTS_SIM_LUCK_H
#define TESTS_SIM_LUCK_H

#include "tests/sim/node.h"
#include "tests/tap.h"

// ---- bad luck ----

TAP_UNUSED static void kill_process(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    if (!n->up)
        return;
    stop_coordinating(w, at, CLOSED); // its kernel closes what it had open
    close_conn(w, at, CLOSED);
    election_close(&n->election);
    n->up = n->frozen = false;
    n->up_at = chance(w, 70) ? w->now + between(w, 100, 8000) : 0;
    if (w->luck == LUCK_KILLS)
        n->up_at = w->now + between(w, 100, 3000);
    n->kill_at = 0;
    // The guard ends the workers at once; should something hold it up, with their lease.
    int64_t soon = clock_of(w, n) + between(w, 0, 50);
    if ((w->luck == LUCK_KILLS || w->prompt || chance(w, 90)) && soon < n->lease_ms)
        n->lease_ms = soon;
}

TAP_UNUSED static void power_off(struct world *w, int at) {
    struct node *n = &w->nodes[at];
    if (!n->up)
        return;
    rendezvous_close(n->r);
    n->r = NULL;
    forget_members(n);
    side_close(&n->side);
    n->conn = 0;
    election_close(&n->election);
    n->up = n->frozen = n->has_host = false;
    n->workers = WORKERS_NONE;
    n->up_at = chance(w, 70) ? w->now + between(w, 3000, 12000) : 0;
}

TAP_UNUSED static void heal(struct world *w) {
    for (int i = 0; i < NODES; i++) {
        w->nodes[i].frozen = false;
        w->nodes[i].has_host = true;
        for (int k = 0; k < NODES; k++)
            w->cut[i][k] = false;
    }
}

TAP_UNUSED static void split(struct world *w, bool one_way) {
    uint64_t side = random_next(w);
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < NODES; k++)
            w->cut[i][k] = (side >> i & 1) != (side >> k & 1) && (!one_way || (side >> i & 1));
}

TAP_UNUSED static void break_some(struct world *w, int at) {
    const struct node *n = &w->nodes[at];
    if (n->up && n->conn && n->conn_to != at)
        break_conn(w, n->conn, at, n->conn_to);
}

// ---- checks ----

TAP_UNUSED static void check_safety(struct world *w) {
    int64_t term = -1;
    int round = -1, leaders = 0;
    for (int at = 0; at < NODES; at++)
        leaders +=
            w->nodes[at].up && w->nodes[at].r && clock_of(w, &w->nodes[at]) < w->nodes[at].leads_ms;
    if (leaders > 1 && w->mutation != MUTATION_NO_LEASE)
        w->broken = "two have the right to coordinate";
    bool taken[NODES * 4] = {0};
    for (int at = 0; at < NODES; at++) {
        const struct node *n = &w->nodes[at];
        if (!runs(n))
            continue;
        if (term >= 0 && (n->round != round || n->group_term != term))
            w->broken = "two groups run at once";
        term = n->group_term;
        round = n->round;
        for (int k = n->rank; k < n->rank + n->nproc && !w->broken; k++) {
            if (taken[k])
                w->broken = "a rank runs twice";
            taken[k] = true;
        }
    }
}

TAP_UNUSED static bool is_newer(const struct electorate *a, const struct electorate *b) {
    return a->term != b->term ? a->term > b->term : a->round > b->round;
}

// By what one that may coordinate knows: would all that are alive make a quorum for it?
TAP_UNUSED static bool could_win(const struct world *w, const struct electorate *e) {
    bool yes[2 * NODES] = {0};
    for (int i = 0; i < e->count; i++)
        for (int at = 0; at < NODES; at++) {
            const struct node *n = &w->nodes[at];
            if (n->up && n->incarnation == e->voters[i].incarnation)
                yes[i] = !is_newer(&n->election.electorate, e);
        }
    return quorum_agrees(e, yes);
}

TAP_UNUSED static bool could_go_on(const struct world *w) {
    bool could = false;
    for (int at = 0; at < NODES; at++) {
        const struct node *n = &w->nodes[at];
        could |= n->up && n->election.may_stand && could_win(w, &n->election.electorate);
    }
    return could;
}

TAP_UNUSED static void clear(struct world *w) {
    for (int i = 0; i < w->queued; i++)
        message_free(&w->queue[i]);
    for (int i = 0; i < w->kept_count; i++)
        message_free(&w->kept[i]);
    for (int at = 0; at < NODES; at++) {
        rendezvous_close(w->nodes[at].r);
        forget_members(&w->nodes[at]);
        side_close(&w->nodes[at].side);
        if (w->nodes[at].up)
            election_close(&w->nodes[at].election);
    }
}

#endif
