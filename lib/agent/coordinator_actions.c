// SPDX-License-Identifier: Apache-2.0
// Carries out the actions of the rendezvous: frames to agents, events, the timer.
#include "agent/coordinator_impl.h"
#include "base/arena.h"
#include "base/log.h"
#include "copies/replica_placement.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_BYTES_MAX = 1024 };

static void send_to(struct coordinator *c, int id, const struct wire_msg *m) {
    struct peer *p = coordinator_peer(c, id);
    if (p)
        coordinator_send(p, m);
}

void coordinator_election_peers(const struct coordinator *c, struct election_peer *peers,
                                int count) {
    for (int i = 0; i < count; i++) {
        const struct wire_node *n = &c->nodes[i];
        peers[i] = (struct election_peer){.incarnation = n->incarnation, .port = (int)n->port};
        snprintf(peers[i].name, sizeof peers[i].name, "%s", n->name);
        snprintf(peers[i].address, sizeof peers[i].address, "%s", n->address);
    }
}

int64_t coordinator_rounds(const struct voter *v) {
    return v->rounds | (v->dead ? WIRE_ROUNDS_DEAD : 0);
}

// Collects names and addresses of the new electorate: from its members, and from the previous one.
static void gather_nodes(struct coordinator *c) {
    const struct rendezvous *r = c->rendezvous;
    const struct electorate *e = rendezvous_electorate(r);
    struct arena texts = {0};
    struct wire_node *old = c->nodes, *nodes = heap_alloc((size_t)(e->count + 1) * sizeof *nodes);
    int active = rendezvous_active_count(r);
    for (int i = 0, k = 0; i < e->count; i++) {
        const struct rendezvous_member *m = i < active ? rendezvous_active(r, i) : NULL;
        while (!m && old[k].incarnation != e->voters[i].incarnation)
            k++; // lost nodes keep their order
        nodes[i] =
            (struct wire_node){.node_rank = m ? m->node_rank : old[k].node_rank,
                               .port = m ? m->port : old[k].port,
                               .incarnation = e->voters[i].incarnation,
                               .rounds = coordinator_rounds(&e->voters[i]),
                               .name = arena_strdup(&texts, m ? m->name : old[k].name),
                               .address = arena_strdup(&texts, m ? m->address : old[k].address)};
    }
    free(old);
    arena_fini(&c->nodes_arena);
    c->nodes = nodes;
    c->node_count = e->count;
    c->nodes_term = e->term;
    c->nodes_round = e->round;
    c->nodes_arena = texts;
}

// Adds the electorate to the message. After the begin of a round this agent learns it first.
static void put_electorate(struct coordinator *c, int voter, struct wire_msg *m) {
    const struct electorate *e = rendezvous_electorate(c->rendezvous);
    if (e->count > 0 && (c->nodes_term != e->term || c->nodes_round != e->round)) {
        gather_nodes(c);
        c->on->on_round(c);
    }
    bool all = voter >= 0 && voter < COORDINATOR_CANDIDATES_MAX;
    m->round_term = e->term;
    m->round = e->round;
    m->tie_breaker = e->tie_breaker;
    m->tie_breaker_last = e->tie_breaker_last;
    m->committed = e->committed;
    m->members = e->count;
    m->nodes = c->nodes;
    m->node_count =
        all || e->count < COORDINATOR_CANDIDATES_MAX ? e->count : COORDINATOR_CANDIDATES_MAX;
}

static void do_joined(struct coordinator *c, const struct rendezvous_action *a) {
    const struct rendezvous_member *m = rendezvous_member(c->rendezvous, a->id);
    if (!m)
        return;
    struct election_counters counters;
    rendezvous_counters(c->rendezvous, &counters);
    struct wire_msg r = {.type = WIRE_JOINED,
                         .present = a->present,
                         .expected = a->expected,
                         .name = c->events->node,
                         .term = rendezvous_term(c->rendezvous),
                         .incarnation = c->config.rendezvous.incarnation,
                         .session = m->session,
                         .attempt = counters.attempt,
                         .restarts = counters.restarts,
                         .crashes = counters.crashes};
    put_electorate(c, m->voter, &r);
    // rendezvous_join returns the id of the peer; pump runs after that.
    struct peer *p = coordinator_peer(c, a->id);
    if (p)
        channel_send(&p->link, &r);
    log_info("a node has joined", "node=%s address=%s present=%d of=%d", m->name, m->address,
             a->present, a->expected);
    struct json_out *j = events_begin(c->events, EVENT_PRESENT);
    json_str(j, "peer", m->name);
    json_str(j, "address", m->address);
    json_int(j, "present", a->present);
    json_int(j, "expected", a->expected);
    events_end(c->events);
}

static bool rank_is_here(const struct coordinator *c, int rank) {
    for (const struct peer *p = c->peers; p; p = p->next) {
        const struct rendezvous_member *m = rendezvous_member(c->rendezvous, p->id);
        if (m && m->node_rank == rank)
            return true;
    }
    return false;
}

// Text "here: a b; missing: c".
static void describe_members(const struct coordinator *c, struct strbuf *out) {
    strbuf_adds(out, "here:");
    for (const struct peer *p = c->peers; p; p = p->next) {
        const struct rendezvous_member *m = rendezvous_member(c->rendezvous, p->id);
        if (m)
            strbuf_addf(out, " %s", m->name);
    }
    if (!c->config.expected_names)
        return;
    strbuf_adds(out, "; missing:");
    for (int i = 0; c->config.expected_names[i]; i++)
        if (!rank_is_here(c, i))
            strbuf_addf(out, " %s", c->config.expected_names[i]);
}

static void do_waiting(struct coordinator *c, const struct rendezvous_action *a) {
    struct strbuf text;
    strbuf_init(&text, NAMES_BYTES_MAX);
    describe_members(c, &text);
    struct wire_msg m = {.type = WIRE_WAITING,
                         .present = a->present,
                         .expected = a->expected,
                         .reason = strbuf_cstr(&text)};
    for (struct peer *p = c->peers; p; p = p->next)
        if (p->id >= 0)
            coordinator_send(p, &m);
    strbuf_fini(&text);
}

// The heirs of the nodes that the last round had; before put_electorate replaces them. NULL: none.
static const char **find_heirs(struct coordinator *c, struct arena *a) {
    const struct rendezvous *r = c->rendezvous;
    int count = rendezvous_active_count(r), last_count = 0;
    if (!c->config.copies || c->nodes_round < 0)
        return NULL;
    const char **last = arena_new(a, const char *, (size_t)c->node_count + 1);
    const char **now = arena_new(a, const char *, (size_t)count + 1);
    const char **heirs = arena_new(a, const char *, (size_t)count + 1);
    for (int i = 0; i < c->node_count; i++)
        if (c->nodes[i].rounds & QUORUM_THIS)
            last[last_count++] = arena_strdup(a, c->nodes[i].name);
    for (int i = 0; i < count; i++)
        now[i] = rendezvous_active(r, i)->name;
    replica_placement_heirs(last, last_count, now, count, heirs);
    return heirs;
}

static struct wire_node node_of(const struct rendezvous_member *x) {
    return (struct wire_node){.node_rank = x->node_rank,
                              .port = x->port,
                              .incarnation = x->incarnation,
                              .name = x->name,
                              .address = x->address};
}

// The nodes that follow a member in the order of ranks, then those that stand by: they may have
// files of inputs.
static void send_ring(struct coordinator *c, int i, const char *heir_of) {
    const struct rendezvous *r = c->rendezvous;
    int ring[REPLICA_PEERS_MAX];
    struct wire_node nodes[REPLICA_PEERS_MAX];
    int most = c->config.deals ? REPLICA_PEERS_MAX : REPLICA_RING_MAX;
    int count = replica_placement_ring(rendezvous_active_count(r), i, ring, most);
    for (int k = 0; k < count; k++)
        nodes[k] = node_of(rendezvous_active(r, ring[k]));
    for (const struct peer *p = c->peers; p && c->config.deals && count < most; p = p->next) {
        const struct rendezvous_member *x = rendezvous_member(r, p->id);
        if (x && x->state == MEMBER_WAITING && x->port > 0)
            nodes[count++] = node_of(x);
    }
    const struct rendezvous_member *self = rendezvous_active(r, i);
    struct wire_msg m = {.type = WIRE_COPIES,
                         .round = rendezvous_round(r),
                         .group_rank = self->group_rank,
                         .group_world = rendezvous_active_count(r),
                         .name = heir_of,
                         .nodes = nodes,
                         .node_count = count};
    send_to(c, self->id, &m);
}

static void do_start(struct coordinator *c) {
    const struct rendezvous *r = c->rendezvous;
    struct arena texts = {0};
    const char **heirs = find_heirs(c, &texts);
    int count = rendezvous_active_count(r);
    const struct rendezvous_member *host = rendezvous_active(r, 0);
    struct election_counters counters;
    rendezvous_counters(r, &counters);
    c->failure_count = 0;
    arena_reset(&c->arena);
    struct wire_msg allow = {.type = WIRE_ALLOW};
    put_electorate(c, 0, &allow);
    allow.node_count = count;
    send_to(c, host->id, &allow);
    struct wire_msg m = {.type = WIRE_ROUND,
                         .restarts = counters.restarts,
                         .crashes = counters.crashes,
                         .max_restarts = c->config.rendezvous.max_restarts,
                         .group_world = count,
                         .world_size = rendezvous_world_size(r),
                         .master_addr = host->address,
                         .master_port = host->store_port,
                         .left_ms = rendezvous_lease_left_ms(c->rendezvous),
                         .reason = rendezvous_reason(r)};
    // In order of ranks: the first nodes are candidates and should know the round first.
    for (int i = 0; i < count; i++) {
        const struct rendezvous_member *x = rendezvous_active(r, i);
        put_electorate(c, x->voter, &m);
        m.round = rendezvous_round(r);
        m.group_rank = x->group_rank;
        m.rank = x->rank;
        m.role_rank = x->role_rank;
        m.role_world = x->role_world;
        if (c->config.copies || c->config.deals)
            send_ring(c, i, heirs ? heirs[i] : NULL);
        send_to(c, x->id, &m);
    }
    arena_fini(&texts);
    log_info("a round starts", "round=%d nodes=%d world_size=%d leader=%s restarts=%d",
             rendezvous_round(r), count, rendezvous_world_size(r), host->name,
             rendezvous_restarts(r));
}

static void note_restart(struct coordinator *c, const struct rendezvous_action *a) {
    struct json_out *j = events_begin(c->events, EVENT_RESTART);
    json_int(j, "round", rendezvous_round(c->rendezvous));
    json_int(j, "restarts", rendezvous_restarts(c->rendezvous));
    json_int(j, "max_restarts", c->config.rendezvous.max_restarts);
    json_str(j, "reason", a->reason);
    events_end(c->events);
}

static void do_stop(struct coordinator *c, const struct rendezvous_action *a) {
    struct wire_msg m = {.type = WIRE_STOP,
                         .round = rendezvous_round(c->rendezvous),
                         .final = a->final && !a->tentative,
                         .reason = a->reason,
                         .signal = a->final ? c->stop_signal : SIGTERM,
                         .grace_ms = a->final ? c->stop_grace_ms : c->config.shutdown_timeout_ms};
    struct election_counters counters;
    rendezvous_counters(c->rendezvous, &counters);
    m.restarts = counters.restarts;
    m.crashes = counters.crashes;
    for (struct peer *p = c->peers; p; p = p->next) {
        const struct rendezvous_member *x = rendezvous_member(c->rendezvous, p->id);
        if (x && x->state == MEMBER_STOPPING)
            coordinator_send(p, &m);
    }
    log_info(a->final ? "the run is being stopped" : "the round is stopped to start again",
             "reason=%s", a->reason);
    if (!a->final)
        note_restart(c, a);
}

static void do_excused(struct coordinator *c, const struct rendezvous_action *a) {
    log_info("the failure was caused by a lost node; the run continues", "reason=%s", a->reason);
    note_restart(c, a);
}

static void do_disconnected(struct coordinator *c, const struct rendezvous_action *a) {
    const struct rendezvous_member *m = rendezvous_member(c->rendezvous, a->id);
    struct election_peer peer = {0};
    if (!m)
        return;
    peer.incarnation = m->incarnation;
    peer.port = m->port;
    snprintf(peer.name, sizeof peer.name, "%s", m->name);
    snprintf(peer.address, sizeof peer.address, "%s", m->address);
    if (a->counted)
        log_warn("the connection to a node broke", "node=%s reason=%s", m->name, a->reason);
    c->on->on_disconnected(c, &peer);
}

static void do_probe(struct coordinator *c, const struct rendezvous_action *a) {
    const struct wire_node *n = &c->nodes[a->id];
    struct election_peer peer = {.incarnation = n->incarnation, .port = (int)n->port};
    snprintf(peer.name, sizeof peer.name, "%s", n->name);
    snprintf(peer.address, sizeof peer.address, "%s", n->address);
    c->on->on_disconnected(c, &peer);
}

static void do_gone(struct coordinator *c, const struct rendezvous_action *a) {
    bool lost = a->kind == ACTION_LOST;
    struct peer *p = coordinator_peer(c, a->id);
    if (rendezvous_phase(c->rendezvous) != PHASE_OVER) {
        log_warn(lost ? "a node is lost" : "a node has left", "node=%s silent_ms=%lld reason=%s",
                 a->name, (long long)a->silent_ms, a->reason);
        struct json_out *j = events_begin(c->events, lost ? EVENT_NODE_LOST : EVENT_NODE_LEFT);
        json_str(j, "peer", a->name);
        if (lost)
            json_int(j, "silent_ms", a->silent_ms);
        json_str(j, "reason", a->reason);
        events_end(c->events);
    }
    if (p) {
        coordinator_name_peer(p, -1); // the rendezvous has freed the id
        channel_refuse(&p->link, false, a->reason);
        coordinator_peer_gone(p, a->reason);
    }
}

static const enum node_state verdict_states[] = {[VERDICT_FINISHED] = NODE_FINISHED,
                                                 [VERDICT_FAILED] = NODE_FAILED,
                                                 [VERDICT_STOPPED] = NODE_STOPPED};

// One message carries all failures. The first one is complete; the others share the remaining
// bytes.
enum { FAILURES_BYTES_MAX = 4 << 20, FAILURE_TEXTS = 6, FAILURE_FIXED_BYTES = 128 };
_Static_assert(FAILURES_BYTES_MAX + FAILURE_TEXTS * WIRE_TEXT_BYTES_MAX +
                       WIRE_FAILURES_MAX * FAILURE_FIXED_BYTES + 2 * WIRE_TEXT_BYTES_MAX <
                   WIRE_FRAME_BYTES_MAX,
               "every verdict fits into a frame");
_Static_assert(WIRE_NODES_MAX *(RENDEZVOUS_NAME_BYTES_MAX + RENDEZVOUS_ADDRESS_BYTES_MAX + 64) <
                   WIRE_FRAME_BYTES_MAX,
               "every round fits into a frame");

static void do_over(struct coordinator *c, const struct rendezvous_action *a) {
    const struct rendezvous *r = c->rendezvous;
    struct worker_failure *list =
        heap_alloc((size_t)(c->failure_count ? c->failure_count : 1) * sizeof *list);
    for (int i = 0; i < c->failure_count; i++) {
        list[i] = c->failures[i].f;
        list[i].age_ms = coordinator_now_ms() - c->failures[i].at_ms;
        if (i > 0)
            failure_fit(&c->arena, &list[i], FAILURES_BYTES_MAX / (size_t)c->failure_count);
    }
    bool failed = rendezvous_verdict(r) == VERDICT_FAILED;
    struct wire_msg m = {.type = WIRE_FINISH,
                         .state = verdict_states[rendezvous_verdict(r)],
                         .restarts = rendezvous_restarts(r),
                         .round = rendezvous_round(r),
                         .reason = a->reason,
                         .failures = list,
                         .failure_count = failed ? c->failure_count : 0};
    for (struct peer *p = c->peers; p; p = p->next)
        if (p->id >= 0)
            coordinator_send(p, &m);
    free(list);
    c->over = true;
    c->linger_until_ms = coordinator_now_ms() + COORDINATOR_LINGER_MS_MAX;
}

static void carry_out(struct coordinator *c, const struct rendezvous_action *a) {
    switch (a->kind) {
    case ACTION_JOINED: do_joined(c, a); break;
    case ACTION_WAITING: do_waiting(c, a); break;
    case ACTION_START: do_start(c); break;
    case ACTION_STOP: do_stop(c, a); break;
    case ACTION_EXCUSED: do_excused(c, a); break;
    case ACTION_DISCONNECTED: do_disconnected(c, a); break;
    case ACTION_PROBE: do_probe(c, a); break;
    case ACTION_LOST:
    case ACTION_LEFT: do_gone(c, a); break;
    case ACTION_OVER: do_over(c, a); break;
    case ACTION_STEP_DOWN: c->on->on_deposed(c, a->reason); break;
    case ACTION_NONE: break;
    }
}

static void on_timer(struct timer *t) {
    struct coordinator *c = container_of(t, struct coordinator, timer);
    if (!c->over)
        rendezvous_tick(c->rendezvous, coordinator_now_ms());
    coordinator_pump(c);
}

static void set_timer(struct coordinator *c) {
    int64_t at = c->over ? c->linger_until_ms : rendezvous_deadline(c->rendezvous);
    int64_t now = coordinator_now_ms();
    if (at == INT64_MAX)
        timer_stop(&c->timer);
    else if (!c->timer.loop || c->timer.due_ms != at)
        timer_start(c->loop, &c->timer, at > now ? at - now : 0, on_timer);
}

void coordinator_pump(struct coordinator *c) {
    if (c->pumping || c->deposed)
        return;
    c->pumping = true;
    struct rendezvous_action a;
    while (!c->deposed && rendezvous_next(c->rendezvous, &a)) {
        carry_out(c, &a);
        c->changed = true;
    }
    c->pumping = false;
    if (c->deposed)
        return;
    if (c->changed)
        c->on->on_members(c);
    c->changed = false;
    // After a change of coordinator some agents must still find this one to receive the verdict.
    bool received = !c->peers && !c->took_over;
    if (c->over && !c->idle && (received || coordinator_now_ms() >= c->linger_until_ms)) {
        c->idle = true;
        timer_stop(&c->timer);
        c->on->on_idle(c);
        return;
    }
    if (!c->idle)
        set_timer(c);
}
