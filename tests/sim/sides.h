// SPDX-License-Identifier: Apache-2.0
// Sessions of the simulated world: a message is kept until the other side has it. Included once, by
// connect.h.
#ifndef TESTS_SIM_SIDES_H
#define TESTS_SIM_SIDES_H

#include "base/arena.h"
#include "tests/sim/sim_network.h"

#include <string.h>

static bool is_kept(enum kind kind) {
    return kind == TO_FAILED || kind == TO_DONE || kind == TO_STOPPED || kind == FROM_ROUND ||
           kind == FROM_STOP || kind == FROM_OVER;
}

static void side_open(struct side *s, int64_t id) {
    replay_open(&s->session, id);
    s->told = s->heard = s->newest = 0;
}

static void side_close(struct side *s) {
    replay_close(&s->session);
    s->told = s->heard = 0;
}

// m: its destination is set. The session stores the number of a copy that the world keeps.
static void side_tell(struct world *w, struct side *s, struct message *m) {
    if (s->session.open) {
        int32_t number = w->kept_count++;
        must(number < KEPT_MAX);
        m->serial = ++s->told;
        w->kept[number] = *m;
        w->kept[number].electorate = (struct electorate){0};
        quorum_copy(&w->kept[number].electorate, &m->electorate);
        replay_keep(&s->session, &number, sizeof number);
    }
    if (m->conn && !s->session.cut)
        post(w, m);
    else
        message_free(m);
}

static void side_tell_again(struct world *w, struct side *s, int conn) {
    size_t at = 0, len;
    const char *number;
    while (w->mutation != MUTATION_RESEND_NONE &&
           (number = replay_unacked(&s->session, &at, &len))) {
        int32_t i;
        memcpy(&i, number, sizeof i);
        struct message m = w->kept[i];
        m.electorate = (struct electorate){0};
        quorum_copy(&m.electorate, &w->kept[i].electorate);
        m.conn = conn;
        post(w, &m);
    }
}

static void side_acked(struct world *w, struct side *s, int64_t taken) {
    struct err e;
    if (w->mutation != MUTATION_RESEND_ALL && replay_acked(&s->session, taken, &e) < 0)
        w->broken = "more was taken than was told";
}

// Each message once, and in order.
static void side_hears(struct world *w, struct side *s, const struct message *m) {
    if (!is_kept(m->kind) || !s->session.open)
        return;
    replay_take(&s->session);
    if (m->serial != ++s->heard)
        w->broken = m->serial < s->heard ? "a message came twice" : "a message is missing";
}

// ---- connections that break ----

// Loses messages in transit from some point on, in each direction. Mostly both ends learn of the
// break, at different times; sometimes neither does, as behind a middlebox that drops its state.
static void break_conn(struct world *w, int conn, int a, int b) {
    int64_t last[2] = {w->now + between(w, 0, 60), w->now + between(w, 0, 60)};
    for (int i = w->queued - 1; i >= 0; i--)
        if (w->queue[i].conn == conn && w->queue[i].at > last[w->queue[i].from == a]) {
            message_free(&w->queue[i]);
            w->queue[i] = w->queue[--w->queued];
        }
    w->dead[conn] = true;
    w->breaks++;
    for (int side = 0; side < 2; side++) {
        struct message m = {
            .kind = CLOSED, .from = side ? a : b, .to = side ? b : a, .conn = conn, .torn = true};
        if (w->luck == LUCK_FLAPS || chance(w, 85))
            post(w, &m);
    }
}

// A forged request for the session of a member: with a guess, or an old request sent again.
static void forge(struct world *w) {
    if (w->request_count == 0)
        return;
    const struct message *old = &w->requests[between(
        w, 0, (w->request_count < REQUESTS ? w->request_count : REQUESTS) - 1)];
    struct message m = {.kind = TO_RESUME,
                        .from = old->from,
                        .to = old->to,
                        .conn = ++w->conn,
                        .forged = true,
                        .taken = old->taken,
                        .resume = old->resume};
    if (chance(w, 50)) {
        m.from = (int)between(w, 0, NODES - 1);
        m.guessed = true;
        m.resume.session = between(w, 1, 1000000);
        m.resume.connection += 1000;
    }
    w->forged++;
    post(w, &m);
}

#endif
