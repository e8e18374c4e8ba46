// SPDX-License-Identifier: Apache-2.0
// A whole run under seeded bad luck: nodes that join late, die, hang, lose their network, come
// back; messages with random delays; a coordinator that stalls. The rendezvous is the real one;
// agents are modelled by the rules that agent_*.c and the guard keep (stop on STOP, stop when the
// lease is over).
//
// Safety, checked after every step: all workers that run anywhere belong to one round, no rank runs
// twice, and a round never has fewer than nodes_min nodes. Liveness: when bad luck ends, the run
// ends with the right verdict.
//
//     sim_rendezvous [SEED [COUNT]]     a failure prints its seed
#include "base/arena.h"
#include "elastic/rendezvous.h"
#include "tests/tap.h"

enum {
    NODES = 6,
    BEAT_MS = 300,
    LEASE_MS = 2000,
    SILENT_MS = 1500,
    CALM_MS = 60000,
    END_MS = 300000,
    EVENTS_MAX = 4096
};

enum agent_state { AGENT_DOWN, AGENT_IDLE, AGENT_RUNNING, AGENT_STOPPING, AGENT_DONE };

struct agent {
    enum agent_state state;
    int64_t incarnation, acked_ms, stop_at, end_at, up_at;
    int round, rank, nproc;
    bool cut, frozen, told_over, ends_badly;
    int epoch; // of its connection: older messages are dropped
};

enum kind {
    TO_JOIN,
    TO_BEAT,
    TO_FAILED,
    TO_DONE,
    TO_STOPPED,
    TO_CLOSED,
    FROM_ACK,
    FROM_ROUND,
    FROM_STOP,
    FROM_OVER,
    FROM_REFUSED
};

struct event {
    int64_t at, sent, order;
    enum kind kind;
    int node, epoch, round, rank;
};

struct sim {
    uint64_t rng, seed;
    int64_t now, order;
    struct rendezvous *r;
    struct rendezvous_config config;
    struct agent agents[NODES];
    int node_of[1024], epoch_of[1024]; // by member id: whose connection it came in on
    struct event queue[EVENTS_MAX];
    int queued;
    int64_t stall_until;
    int trouble, rounds, losses;
    const char *broken;
};

static uint64_t random_next(struct sim *s) { // splitmix64 (Steele, Lea, Flood 2014)
    uint64_t z = s->rng += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(struct sim *s, int64_t low, int64_t high) {
    return low + (int64_t)(random_next(s) % (uint64_t)(high - low + 1));
}

static bool chance(struct sim *s, int percent) {
    return between(s, 1, 100) <= percent;
}

// Messages of one connection keep their order; of different ones not. A cut link swallows them.
static void post_on(struct sim *s, enum kind kind, int node, int epoch, int round, int rank) {
    struct agent *a = &s->agents[node];
    if (a->cut || s->queued == EVENTS_MAX)
        return;
    int64_t at = s->now + between(s, 1, s->now < CALM_MS ? 80 : 3);
    for (int i = 0; i < s->queued; i++) {
        bool same_way = (s->queue[i].kind >= FROM_ACK) == (kind >= FROM_ACK);
        if (s->queue[i].node == node && same_way && s->queue[i].at > at)
            at = s->queue[i].at;
    }
    s->queue[s->queued++] = (struct event){.at = at,
                                           .sent = s->now,
                                           .order = s->order++,
                                           .kind = kind,
                                           .node = node,
                                           .epoch = epoch,
                                           .round = round,
                                           .rank = rank};
}

static void post(struct sim *s, enum kind kind, int node, int round, int rank) {
    post_on(s, kind, node, s->agents[node].epoch, round, rank);
}

static void post_member(struct sim *s, enum kind kind, int id, int round, int rank) {
    post_on(s, kind, s->node_of[id], s->epoch_of[id], round, rank);
}

// The agent gives its connection up; the coordinator finds out by silence.
static void hang_up(struct sim *s, int node) {
    s->agents[node].epoch++;
}

static bool runs(const struct agent *a) {
    return a->state == AGENT_RUNNING || a->state == AGENT_STOPPING;
}

static void join(struct sim *s, int node) {
    struct agent *a = &s->agents[node];
    a->state = AGENT_IDLE;
    a->incarnation++;
    a->acked_ms = s->now;
    hang_up(s, node);
    post(s, TO_JOIN, node, 0, 0);
}

// ---- the coordinator's shell ----

static void carry_out(struct sim *s, const struct rendezvous_action *act) {
    if (act->kind == ACTION_START) {
        s->rounds++;
        if (rendezvous_active_count(s->r) < s->config.nodes_min)
            s->broken = "a round with too few nodes";
        for (int i = 0; i < rendezvous_active_count(s->r); i++) {
            const struct rendezvous_member *m = rendezvous_active(s->r, i);
            post_member(s, FROM_ROUND, m->id, rendezvous_round(s->r), m->rank);
        }
    }
    for (int id = 0; id < 1024; id++) {
        const struct rendezvous_member *m = rendezvous_member(s->r, id);
        if (act->kind == ACTION_STOP && m && m->state == MEMBER_STOPPING)
            post_member(s, FROM_STOP, id, rendezvous_round(s->r), act->final);
        if (act->kind == ACTION_OVER && m)
            post_member(s, FROM_OVER, id, 0, 0);
    }
    if (act->kind == ACTION_LOST) {
        s->losses++;
        post_member(s, FROM_REFUSED, act->id, 0, 0);
    }
}

static void pump(struct sim *s) {
    struct rendezvous_action act;
    while (rendezvous_next(s->r, &act))
        carry_out(s, &act);
}

static void take_join(struct sim *s, int node) {
    struct agent *a = &s->agents[node];
    struct err e;
    char name[16];
    int id;
    snprintf(name, sizeof name, "n%d", node);
    struct rendezvous_node n = {.name = name,
                                .address = "10.0.0.1",
                                .role = "r",
                                .node_rank = node,
                                .incarnation = a->incarnation,
                                .nproc = a->nproc};
    if (rendezvous_join(s->r, s->now, &n, &id, &e) < 0) {
        post(s, FROM_REFUSED, node, 0, 0);
        return;
    }
    s->node_of[id] = node;
    s->epoch_of[id] = a->epoch;
}

static int member_of(const struct sim *s, const struct event *ev) {
    for (int id = 0; id < 1024; id++)
        if (s->node_of[id] == ev->node && s->epoch_of[id] == ev->epoch &&
            rendezvous_member(s->r, id))
            return id;
    return -1;
}

static void at_coordinator(struct sim *s, const struct event *ev) {
    if (ev->kind == TO_JOIN) {
        take_join(s, ev->node);
        return;
    }
    int id = member_of(s, ev);
    if (id < 0)
        return;
    rendezvous_heard(s->r, s->now, id);
    switch (ev->kind) {
    case TO_BEAT: post_on(s, FROM_ACK, ev->node, ev->epoch, (int)ev->sent, 0); break;
    case TO_FAILED: rendezvous_failed(s->r, s->now, id, ev->round, "failed"); break;
    case TO_DONE: rendezvous_done(s->r, s->now, id, ev->round); break;
    case TO_STOPPED: rendezvous_stopped(s->r, s->now, id, ev->round, 1); break;
    case TO_CLOSED: rendezvous_lost(s->r, s->now, id, "closed"); break;
    default: break;
    }
}

// ---- agents ----

static void take_round(struct sim *s, struct agent *a, const struct event *ev) {
    if (runs(a)) {
        s->broken = "a round began on a node that still runs workers";
        return;
    }
    if (s->now >= a->acked_ms + LEASE_MS)
        return; // news from before a long silence: agent_step gives the connection up
    a->state = AGENT_RUNNING;
    a->round = ev->round;
    a->rank = ev->rank;
    a->end_at = s->now + between(s, 2000, 15000);
    a->ends_badly = s->now < CALM_MS && chance(s, 15);
}

static void at_agent(struct sim *s, const struct event *ev) {
    struct agent *a = &s->agents[ev->node];
    switch (ev->kind) {
    case FROM_ACK: // round has the time that the beat was sent
        if (ev->round > a->acked_ms)
            a->acked_ms = ev->round;
        break;
    case FROM_ROUND: take_round(s, a, ev); break;
    case FROM_STOP:
        if (ev->round != a->round)
            break;
        if (a->state == AGENT_RUNNING) {
            a->state = AGENT_STOPPING;
            a->stop_at = s->now + between(s, 1, 400);
        } else if (!runs(a)) {
            a->state = AGENT_IDLE;
            post(s, TO_STOPPED, ev->node, a->round, 0);
        }
        break;
    case FROM_OVER: a->told_over = true; break;
    case FROM_REFUSED:
        if (!runs(a))
            join(s, ev->node);
        break;
    default: break;
    }
}

// What an agent (or its guard) does by itself when time passes.
static void agent_step(struct sim *s, int node) {
    struct agent *a = &s->agents[node];
    if (a->state == AGENT_DOWN) {
        if (s->now >= a->up_at && !a->told_over)
            join(s, node);
        return;
    }
    if (runs(a) && s->now >= a->acked_ms + LEASE_MS) { // the guard's rule: also when frozen
        a->state = AGENT_IDLE;
        hang_up(s, node);
        if (!a->frozen)
            join(s, node);
        return;
    }
    if (a->frozen || a->told_over)
        return;
    if (s->now - a->acked_ms > SILENT_MS && !runs(a)) {
        join(s, node); // connection given up, a new one
        return;
    }
    if (a->state == AGENT_STOPPING && s->now >= a->stop_at) {
        a->state = AGENT_IDLE;
        post(s, TO_STOPPED, node, a->round, 0);
    }
    if (a->state == AGENT_RUNNING && s->now >= a->end_at) {
        a->state = a->ends_badly ? AGENT_STOPPING : AGENT_DONE;
        a->stop_at = s->now + between(s, 1, 400);
        post(s, a->ends_badly ? TO_FAILED : TO_DONE, node, a->round, 0);
    }
    if (s->now % BEAT_MS == 0)
        post(s, TO_BEAT, node, 0, 0);
}

static void bad_luck(struct sim *s) {
    int node = (int)between(s, 0, NODES - 1);
    struct agent *a = &s->agents[node];
    s->trouble++;
    switch (between(s, 0, 5)) {
    case 0: // the agent is killed; its guard ends the workers at once; the kernel closes the socket
        if (a->state == AGENT_DOWN)
            break;
        post(s, TO_CLOSED, node, 0, 0);
        hang_up(s, node);
        a->state = AGENT_DOWN;
        a->up_at = s->now + between(s, 100, 8000);
        break;
    case 4: // the connection is reset, the coordinator sees it first: workers run until the lease
            // ends
        post(s, TO_CLOSED, node, 0, 0);
        break;
    case 1: a->cut = !a->cut; break;
    case 2: a->frozen = !a->frozen; break;
    case 3: s->stall_until = s->now + between(s, 100, 4000); break;
    default: a->cut = a->frozen = false; break;
    }
}

static void check_safety(struct sim *s) {
    int round = -1;
    bool taken[NODES * 4] = {0};
    for (int n = 0; n < NODES; n++) {
        const struct agent *a = &s->agents[n];
        if (!runs(a))
            continue;
        if (round >= 0 && a->round != round)
            s->broken = "two rounds run at once";
        round = a->round;
        for (int k = a->rank; k < a->rank + a->nproc; k++) {
            if (taken[k])
                s->broken = "a rank runs twice";
            taken[k] = true;
        }
    }
}

static int next_event(const struct sim *s) {
    int best = -1;
    for (int i = 0; i < s->queued; i++) {
        const struct event *ev = &s->queue[i];
        bool held = ev->kind < FROM_ACK ? s->now < s->stall_until : s->agents[ev->node].frozen;
        bool earlier = best < 0 || ev->at < s->queue[best].at ||
                       (ev->at == s->queue[best].at && ev->order < s->queue[best].order);
        if (ev->at <= s->now && !held && earlier)
            best = i;
    }
    return best;
}

static void deliver(struct sim *s) {
    for (int i; (i = next_event(s)) >= 0;) {
        struct event ev = s->queue[i];
        struct agent *a = &s->agents[ev.node];
        s->queue[i] = s->queue[--s->queued];
        if (ev.kind != TO_CLOSED && (ev.epoch != a->epoch || a->state == AGENT_DOWN))
            continue;
        if (ev.kind < FROM_ACK)
            at_coordinator(s, &ev);
        else
            at_agent(s, &ev);
        pump(s);
        check_safety(s);
    }
}

static void setup(struct sim *s, uint64_t seed) {
    memset(s, 0, sizeof *s);
    s->seed = s->rng = seed;
    s->config = (struct rendezvous_config){.nodes_min = (int)between(s, 1, 4),
                                           .nodes_max = NODES,
                                           .nodes_expected = chance(s, 50) ? NODES : 0,
                                           .max_restarts = 1000,
                                           .join_timeout_ms = END_MS,
                                           .rejoin_timeout_ms = END_MS,
                                           .last_call_ms = between(s, 0, 5000),
                                           .regroup_call_ms = 500,
                                           .silent_ms_max = SILENT_MS,
                                           .lease_ms = LEASE_MS,
                                           .stop_ms_max = 20000,
                                           .note_ms = 5000};
    s->r = rendezvous_open(&s->config, 0);
    for (int n = 0; n < NODES; n++)
        s->agents[n] = (struct agent){.up_at = between(s, 0, 3000), .nproc = (int)between(s, 1, 3)};
}

static void run(struct sim *s) {
    for (s->now = 0; s->now < END_MS && !s->broken; s->now += 10) {
        for (int n = 0; n < NODES && s->now == CALM_MS; n++)
            s->agents[n].cut = s->agents[n].frozen = false;
        if (s->now < CALM_MS && chance(s, 1))
            bad_luck(s);
        deliver(s);
        for (int n = 0; n < NODES; n++)
            agent_step(s, n);
        if (s->now >= s->stall_until && rendezvous_deadline(s->r) <= s->now)
            rendezvous_tick(s->r, s->now);
        pump(s);
        check_safety(s);
        if (rendezvous_phase(s->r) == PHASE_OVER)
            break;
    }
    if (!s->broken && rendezvous_phase(s->r) != PHASE_OVER)
        s->broken = "the run did not end after bad luck had ended";
    if (!s->broken && rendezvous_verdict(s->r) != VERDICT_FINISHED)
        s->broken = "the run did not finish";
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int count = argc > 2   ? (int)strtol(argv[2], NULL, 10)
                : argc > 1 ? 1
                           : 300,
        bad = 0, rounds = 0, losses = 0;
    static struct sim s;
    for (int i = 0; i < count && bad < 5; i++) {
        setup(&s, first + (uint64_t)i);
        run(&s);
        rounds += s.rounds;
        losses += s.losses;
        if (s.broken) {
            bad++;
            diag("seed %llu at %lld ms: %s (round %d, %s)", (unsigned long long)s.seed,
                 (long long)s.now, s.broken, rendezvous_round(s.r), rendezvous_reason(s.r));
        }
        rendezvous_close(s.r);
    }
    is_int(bad, 0, "%d runs of %d nodes under bad luck: safe, and they finish", count, NODES);
    ok(count < 100 || (rounds > count && losses > count / 2),
       "with trouble in them: %d rounds, %d lost nodes", rounds, losses);
    return done_testing();
}
