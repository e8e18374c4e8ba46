// SPDX-License-Identifier: Apache-2.0
// Each frame of a peer becomes an event of the rendezvous. coordinator_pump then carries out the
// resulting actions and sets the timer for the next one. The failures of the current round are kept
// here in order of time for the verdict.
#include "agent/coordinator.h"

#include "agent/coordinator_impl.h"
#include "agent/failure_report.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct channel_events link_table;

int64_t coordinator_now_ms(void) {
    return clock_mono_ms();
}

// Nodes of an electorate that came from another agent keep their names.
static void take_nodes(struct coordinator *c, const struct rendezvous_history *history) {
    const struct electorate *e = history->electorate;
    c->nodes = heap_alloc((size_t)(e->count + 1) * sizeof *c->nodes);
    c->node_count = e->count;
    c->nodes_term = e->term;
    c->nodes_round = e->round;
    for (int i = 0; i < e->count; i++)
        c->nodes[i] =
            (struct wire_node){.node_rank = -1,
                               .port = history->peers[i].port,
                               .incarnation = e->voters[i].incarnation,
                               .rounds = coordinator_rounds(&e->voters[i]),
                               .name = arena_strdup(&c->nodes_arena, history->peers[i].name),
                               .address = arena_strdup(&c->nodes_arena, history->peers[i].address)};
}

struct coordinator *coordinator_open(struct loop *loop, const struct coordinator_config *config,
                                     const struct rendezvous_history *history, struct events *log,
                                     const struct coordinator_events *events, void *ctx) {
    must(config->rendezvous.incarnation != 0);
    struct coordinator *c = heap_alloc(sizeof *c);
    c->loop = loop;
    c->config = *config;
    c->events = log;
    c->on = events;
    c->ctx = ctx;
    c->stop_signal = SIGTERM;
    c->stop_grace_ms = config->shutdown_timeout_ms;
    c->took_over = history && history->counters.attempt >= 0;
    if (c->took_over)
        take_nodes(c, history);
    c->rendezvous = history
                        ? rendezvous_take_over(&config->rendezvous, coordinator_now_ms(), history)
                        : rendezvous_open(&config->rendezvous, coordinator_now_ms());
    coordinator_pump(c);
    return c;
}

static void peer_freed(struct deferred *d) {
    free(container_of(d, struct peer, gone));
}

// Frees the memory later, since a callback of the peer's own connection may be running.
static void peer_free(struct peer *p) {
    struct coordinator *c = p->coordinator;
    channel_close(&p->link);
    replay_close(&p->session);
    *(p->prev ? &p->prev->next : &c->peers) = p->next;
    if (p->next)
        p->next->prev = p->prev;
    coordinator_name_peer(p, -1);
    admission_leave(&p->newcomer);
    loop_defer(c->loop, &p->gone, peer_freed);
}

void coordinator_close(struct coordinator *c) {
    if (!c)
        return;
    timer_stop(&c->timer);
    while (c->peers) {
        channel_refuse(&c->peers->link, false, "its agent does not coordinate any more");
        peer_free(c->peers);
    }
    rendezvous_close(c->rendezvous);
    arena_fini(&c->arena);
    arena_fini(&c->nodes_arena);
    free(c->nodes);
    free(c->failures);
    free(c->by_id);
    free(c);
}

const struct rendezvous *coordinator_rendezvous(const struct coordinator *c) {
    return c->rendezvous;
}

void *coordinator_ctx(const struct coordinator *c) {
    return c->ctx;
}

struct peer *coordinator_peer(struct coordinator *c, int id) {
    return id >= 0 && (size_t)id < c->by_id_room ? c->by_id[id] : NULL;
}

void coordinator_name_peer(struct peer *p, int id) {
    struct coordinator *c = p->coordinator;
    if (p->id >= 0)
        c->by_id[p->id] = NULL;
    if (id >= 0) {
        array_grow(c->by_id, &c->by_id_room, (size_t)id + 1);
        c->by_id[id] = p;
    }
    p->id = id;
    admission_leave(&p->newcomer);
}

void coordinator_send(struct peer *p, const struct wire_msg *m) {
    channel_send_kept(&p->link, &p->session, m);
}

static void on_evict(struct newcomer *g) {
    peer_free(container_of(g, struct peer, newcomer));
}

void coordinator_adopt(struct coordinator *c, int fd, const struct net_address *peer) {
    struct err e;
    struct peer *p = heap_alloc(sizeof *p);
    p->coordinator = c;
    p->id = -1;
    p->local = peer == NULL;
    if (peer)
        p->address = *peer;
    p->link.ctx = p;
    if (channel_open(&p->link, c->loop, fd, CHANNEL_COORDINATOR, false, &c->config.secret,
                     &link_table, &e) < 0) {
        if (log_admits(&c->strangers))
            log_warn("cannot serve an agent", "reason=%s", e.text);
        close(fd);
        free(p);
        return;
    }
    p->next = c->peers;
    if (p->next)
        p->next->prev = p;
    c->peers = p;
    if (peer)
        admission_add(c->config.admission, &p->newcomer, peer, on_evict);
}

void coordinator_end_run(struct coordinator *c, enum rendezvous_verdict verdict, const char *reason,
                         int signal, int64_t grace_ms) {
    if (c->over)
        return;
    c->stop_signal = signal;
    c->stop_grace_ms = grace_ms;
    rendezvous_stop(c->rendezvous, coordinator_now_ms(), verdict, reason);
    coordinator_pump(c);
}

void coordinator_process_dead(struct coordinator *c, int64_t incarnation, bool dead,
                              const char *why) {
    rendezvous_process_dead(c->rendezvous, coordinator_now_ms(), incarnation, dead, why);
    coordinator_pump(c);
}

void coordinator_depose(struct coordinator *c) {
    rendezvous_depose(c->rendezvous, "another agent coordinates");
    timer_stop(&c->timer);
    c->deposed = true;
}

// ---- messages of agents -

static void on_join(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    char observed[NET_ADDRESS_BYTES_MAX];
    struct err e;
    struct rendezvous_node n = {.name = m->name,
                                .address = m->address,
                                .role = m->role,
                                .node_rank = (int)m->node_rank,
                                .incarnation = m->incarnation,
                                .connection = m->connection,
                                .port = (int)m->port,
                                .store_port = (int)m->store_port,
                                .term = m->term,
                                .last_round = (int)m->round,
                                .nproc = (int)m->nproc};
    if (!p->local) {
        net_format(&p->address, observed);
        n.address = n.address[0] ? net_sent_address(n.address, observed) : observed;
    }
    if (p->id >= 0 || m->nproc < 1 || m->nproc > 1 << 16 || m->node_rank < -1 ||
        m->node_rank > 1 << 24 || m->round < -1 || m->round > 1 << 30 || !n.name[0] ||
        !net_is_numeric(n.address)) {
        channel_refuse(&p->link, true, "a malformed request to join");
        peer_free(p);
        return;
    }
    int id;
    if (!p->local)
        hash_random(&n.session, sizeof n.session);
    n.session |= !p->local;
    if (rendezvous_join(c->rendezvous, coordinator_now_ms(), &n, &id, &e) < 0) {
        channel_refuse(&p->link, e.code != ERR_BUSY, e.text);
        peer_free(p);
        return;
    }
    coordinator_name_peer(p, id);
    replay_open(&p->session, n.session);
}

// A member resumes over another connection; its old connection may not have failed yet.
static void on_resume(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    struct rendezvous_resume x = {m->incarnation, m->session, m->connection};
    struct err e;
    int id;
    if (p->id >= 0) {
        coordinator_peer_gone(p, "it broke the protocol");
        return;
    }
    if (rendezvous_resume(c->rendezvous, coordinator_now_ms(), &x, &id, &e) < 0) {
        channel_refuse(&p->link, false, e.text);
        peer_free(p);
        return;
    }
    struct peer *old = coordinator_peer(c, id);
    if (replay_acked(&old->session, m->taken, &e) < 0 || !replay_can_resume(&old->session)) {
        channel_refuse(&p->link, false, "too much was sent meanwhile");
        peer_free(p);
        coordinator_pump(c); // a round may be about to begin with this member
        coordinator_peer_gone(old, "its session cannot be resumed");
        return;
    }
    p->session = old->session;
    old->session = (struct replay){0};
    peer_free(old);
    coordinator_name_peer(p, id);
    struct wire_msg r = {.type = WIRE_RESUMED,
                         .incarnation = c->config.rendezvous.incarnation,
                         .taken = p->session.taken};
    channel_send(&p->link, &r);
    channel_send_again(&p->link, &p->session);
    log_warn("a node is connected again without loss", "node=%s",
             rendezvous_member(c->rendezvous, id)->name);
}

static int compare_failures(const void *pa, const void *pb) {
    const struct kept_failure *a = pa, *b = pb;
    return (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms);
}

static void keep_failure(struct coordinator *c, const struct rendezvous_member *m,
                         const struct worker_failure *f) {
    if (c->failure_count >= WIRE_FAILURES_MAX)
        return;
    c->failures = heap_realloc(c->failures, (size_t)(c->failure_count + 1) * sizeof *c->failures);
    struct kept_failure *k = &c->failures[c->failure_count++];
    k->f = *f;
    k->f.group_rank = m->group_rank;
    k->f.node = arena_strdup(&c->arena, m->name);
    k->f.host = arena_strdup(&c->arena, f->host[0] ? f->host : m->name);
    k->f.error_file = arena_strdup(&c->arena, f->error_file);
    k->f.message = arena_strdup(&c->arena, f->message);
    k->f.tail = arena_strdup(&c->arena, f->tail);
    k->f.evidence = arena_strdup(&c->arena, f->evidence);
    k->at_ms = coordinator_now_ms() - (f->age_ms > 0 ? f->age_ms : 0);
    qsort(c->failures, (size_t)c->failure_count, sizeof *c->failures, compare_failures);
    failure_report_event(c->events, &k->f, rendezvous_round(c->rendezvous),
                         c->failures[0].f.rank == f->rank);
}

static void on_failed(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    const struct rendezvous_member *member = rendezvous_member(c->rendezvous, p->id);
    char why[RENDEZVOUS_REASON_BYTES_MAX];
    if (!member || m->round != rendezvous_round(c->rendezvous) || m->failure_count < 1 ||
        member->group_rank < 0)
        return;
    for (int64_t i = 0; i < m->failure_count; i++)
        keep_failure(c, member, &m->failures[i]);
    const struct worker_failure *f = &m->failures[0];
    if (f->signal)
        snprintf(why, sizeof why, "rank %lld on %s was killed by %s%s%.*s", (long long)f->rank,
                 member->name, proc_signal_name((int)f->signal), f->evidence[0] ? ": " : "",
                 (int)strcspn(f->evidence, "\n"), f->evidence);
    else
        snprintf(why, sizeof why, "rank %lld on %s ended with %lld", (long long)f->rank,
                 member->name, (long long)f->status);
    rendezvous_failed(c->rendezvous, coordinator_now_ms(), p->id, (int)m->round, why);
}

static void on_done(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    const struct rendezvous_member *member = rendezvous_member(c->rendezvous, p->id);
    if (member && m->round == rendezvous_round(c->rendezvous)) {
        struct json_out *j = events_begin(c->events, EVENT_DONE);
        json_str(j, "peer", member->name);
        json_int(j, "round", m->round);
        events_end(c->events);
    }
    rendezvous_done(c->rendezvous, coordinator_now_ms(), p->id, (int)m->round);
}

static void on_stopped(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    rendezvous_stopped(c->rendezvous, coordinator_now_ms(), p->id, (int)m->round,
                       (int)m->store_port);
}

static void on_leave(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    rendezvous_leave(c->rendezvous, coordinator_now_ms(), p->id, m->reason);
}

static void on_stop_run(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    if (m->signal > 0 && m->signal < NSIG)
        c->stop_signal = (int)m->signal;
    if (m->grace_ms >= 0)
        c->stop_grace_ms = m->grace_ms;
    rendezvous_stop(c->rendezvous, coordinator_now_ms(), VERDICT_STOPPED, m->reason);
}

// Sends a preemption notice to the workers of all nodes, also to the sender's.
static void on_notice(struct peer *p, const struct wire_msg *m) {
    for (struct peer *x = p->coordinator->peers; x; x = x->next)
        if (x->id >= 0)
            coordinator_send(x, m);
}

static void on_beat(struct peer *p, const struct wire_msg *m) {
    struct coordinator *c = p->coordinator;
    const struct electorate *e = rendezvous_electorate(c->rendezvous);
    int64_t now = coordinator_now_ms();
    struct err why;
    if (replay_acked(&p->session, m->taken, &why) < 0) {
        channel_refuse(&p->link, true, why.text);
        coordinator_peer_gone(p, "it broke the protocol");
        return;
    }
    struct wire_msg r = {.type = WIRE_BEAT,
                         .seq = m->seq,
                         .stamp = now,
                         .left_ms = rendezvous_heartbeat(c->rendezvous, now, p->id, m->stamp,
                                                         m->round_term, (int)m->round),
                         .round_term = e->term,
                         .round = e->round,
                         .committed = e->committed,
                         .taken = p->session.taken};
    channel_send(&p->link, &r);
}

static void on_ask(struct peer *p, const struct wire_msg *m) {
    p->coordinator->on->on_ask(p->coordinator, &p->link, &p->address, m);
}

typedef void peer_handler(struct peer *p, const struct wire_msg *m);
static peer_handler *const handlers[WIRE_TYPE_COUNT] = {
    [WIRE_JOIN] = on_join,     [WIRE_BEAT] = on_beat,       [WIRE_FAILED] = on_failed,
    [WIRE_DONE] = on_done,     [WIRE_STOPPED] = on_stopped, [WIRE_STOP_RUN] = on_stop_run,
    [WIRE_LEAVE] = on_leave,   [WIRE_NOTICE] = on_notice,   [WIRE_ASK] = on_ask,
    [WIRE_RESUME] = on_resume,
};

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct peer *p = l->ctx;
    struct coordinator *c = p->coordinator;
    if (!handlers[m->type] || (p->id < 0 && m->type != WIRE_JOIN && m->type != WIRE_RESUME &&
                               m->type != WIRE_BEAT && m->type != WIRE_ASK)) {
        channel_refuse(l, true, "a message out of turn");
        coordinator_peer_gone(p, "it broke the protocol");
        return;
    }
    rendezvous_heard(c->rendezvous, coordinator_now_ms(), p->id);
    if (frame_is_kept(m->type)) {
        replay_take(&p->session);
        c->changed = true;
    }
    handlers[m->type](p, m);
    coordinator_pump(c);
}

static void on_ready(struct channel *l) {
    (void)l;
}

void coordinator_peer_gone(struct peer *p, const char *why) {
    struct coordinator *c = p->coordinator;
    int id = p->id;
    peer_free(p);
    if (id >= 0)
        rendezvous_lost(c->rendezvous, coordinator_now_ms(), id, why);
    coordinator_pump(c);
}

static void on_end(struct channel *l, const struct err *e) {
    struct peer *p = l->ctx;
    struct coordinator *c = p->coordinator;
    char text[NET_ADDRESS_BYTES_MAX];
    if (p->id < 0 && e->code != ERR_NONE && !p->local && log_admits(&c->strangers))
        log_warn("a connection was not an agent of this run", "peer=%s reason=%s",
                 net_format(&p->address, text), e->text);
    const char *why = e->code == ERR_NONE ? "its agent's connection closed" : e->text;
    // Errors reported by the agent itself, and protocol errors, are final.
    bool broke = e->code == ERR_NONE || e->code == ERR_NET;
    if (p->id < 0 || p->local || !broke || !replay_can_resume(&p->session)) {
        coordinator_peer_gone(p, why);
        return;
    }
    rendezvous_disconnected(c->rendezvous, coordinator_now_ms(), p->id, why);
    coordinator_pump(c);
}

static const struct channel_events link_table = {on_ready, on_message, on_end};
