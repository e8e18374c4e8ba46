// SPDX-License-Identifier: Apache-2.0
// Members that are silent, and those whose connection broke. The end of a connection does not say
// what ended: the agent, or only the way to it. The kernel of a host answers for an agent that
// died, with the end of its connections, but so does a box on the way that forgets them; a host
// that is gone and a way that swallows everything answer nothing. So:
//
// - Its host is asked at once, and again while it is cut. It refuses a connection to the agent's
//   port, or another agent is there: the agent is dead, and lost now.
// - It resumes its session with a new connection: nothing has happened.
// - Neither: it is lost when it has been silent for as long as any other member may be.
//
// Nothing of this touches safety: a lost member's workers are still waited for until the end of
// their lease, and a member that is not lost has had no word that would prolong it.
#include "rendezvous/rendezvous_impl.h"

#include <stdio.h>

struct rendezvous_member *rendezvous_find(const struct rendezvous *r, int64_t incarnation) {
    for (int i = 0; i < r->slot_count && incarnation != 0; i++)
        if (r->incarnations[i] == incarnation)
            return r->slots[i];
    return NULL;
}

// After a stall of this process some may be silent for long and not yet be known as lost.
bool rendezvous_is_silent(const struct rendezvous *r, const struct rendezvous_member *m) {
    bool own = r->config.incarnation != 0 && m->incarnation == r->config.incarnation;
    return !own && r->now_ms - m->heard_ms > r->config.silent_ms_max;
}

void rendezvous_disconnected(struct rendezvous *r, int64_t now_ms, int id, const char *why) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    if (!m || m->disconnect_reason[0])
        return;
    if (m->leaving || m->port <= 0 || m->session == 0) {
        rendezvous_lost(r, now_ms, id, why);
        return;
    }
    r->now_ms = now_ms;
    snprintf(m->disconnect_reason, sizeof m->disconnect_reason, "its connection broke: %.80s", why);
    struct rendezvous_action *a = rendezvous_push(r, ACTION_DISCONNECTED);
    a->id = id;
    a->counted = true;
    snprintf(a->reason, sizeof a->reason, "%s", why);
}

int rendezvous_resume(struct rendezvous *r, int64_t now_ms, const struct rendezvous_resume *x,
                      int *id, struct err *e) {
    struct rendezvous_member *m = rendezvous_find(r, x->incarnation);
    if (!m || r->deposed || m->session == 0 || m->session != x->session)
        return err_set(e, ERR_NOT_FOUND, "there is no such session any more");
    if (x->connection <= m->connection)
        return err_set(e, ERR_NOT_FOUND, "this session has a newer connection");
    r->now_ms = now_ms;
    m->connection = x->connection;
    m->heard_ms = now_ms;
    m->disconnect_reason[0] = '\0';
    *id = m->id;
    rendezvous_settle(r);
    return 0;
}

void rendezvous_process_dead(struct rendezvous *r, int64_t now_ms, int64_t incarnation, bool dead,
                             const char *why) {
    struct rendezvous_member *m = rendezvous_find(r, incarnation);
    if (dead &&
        (!m ||
         m->disconnect_reason[0])) { // a late word about one that is connected again is nothing
        r->now_ms = now_ms;
        leader_lease_dead(r, incarnation);
    }
    if (m && m->disconnect_reason[0])
        rendezvous_lost(r, now_ms, m->id, why);
}

// Loses all of them before the phase is looked at: no round may start with one of them.
void rendezvous_scan(struct rendezvous *r) {
    for (int i = 0; i < r->slot_count; i++) {
        struct rendezvous_member *m = r->slots[i];
        if (!m)
            continue;
        bool stuck = m->state == MEMBER_STOPPING && r->now_ms - r->stop_ms > r->config.stop_ms_max;
        if (rendezvous_is_silent(r, m))
            rendezvous_lose(r, m, m->disconnect_reason[0] ? m->disconnect_reason : "it is silent");
        else if (stuck)
            rendezvous_lose(r, m, "it did not stop its workers in time");
        else if (m->disconnect_reason[0])
            rendezvous_push(r, ACTION_DISCONNECTED)->id = m->id;
    }
    leader_lease_probe(r);
}
