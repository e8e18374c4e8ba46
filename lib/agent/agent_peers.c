// SPDX-License-Identifier: Apache-2.0
// The I/O of the election (election.h): requests to other agents and answers to theirs, over
// authenticated connections, and the actions of the election.
#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ASKERS_MAX = WIRE_NODES_MAX,
    ASKER_IDLE_MS_MAX = 3000,
    ANSWERER_IDLE_MS_MAX = 10000,
};

struct asker { // a connection to another agent for requests; kept while requests are open
    struct channel link;
    struct agent *agent;
    struct asker *next;
    struct timer idle;
    struct election_peer peer;
    struct election_request request; // the last request
    struct deferred gone;
};

struct answerer {
    struct channel link;
    struct newcomer newcomer;
    struct agent *agent;
    struct answerer *next;
    struct timer idle;
    struct deferred gone;
};

static void on_elect(struct timer *t) {
    struct agent *a = container_of(t, struct agent, elect);
    if (!a->over)
        election_tick(&a->election, clock_mono_ms());
    agent_elect_pump(a);
}

// ---- asking ----

static void put_ask(struct asker *k) {
    const struct election_request *q = &k->request;
    struct wire_msg m = {.type = WIRE_ASK,
                         .kind = q->kind,
                         .term = q->term,
                         .round_term = q->round_term,
                         .round = q->round,
                         .incarnation = q->from.incarnation,
                         .name = q->from.name,
                         .address = q->from.address,
                         .port = q->from.port};
    channel_send(&k->link, &m);
}

static void asker_free(struct deferred *d) {
    free(container_of(d, struct asker, gone));
}

// Frees the memory later, since a callback of the link may be running.
static void asker_end(struct asker *k) {
    struct asker **at = &k->agent->askers;
    if (k->gone.loop)
        return;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    k->agent->asker_count--;
    channel_close(&k->link);
    timer_stop(&k->idle);
    loop_defer(k->agent->loop, &k->gone, asker_free);
}

static void on_asker_ready(struct channel *l) {
    put_ask(l->ctx);
}

// from: the address of the sending host.
static void take_peer(struct election_peer *p, int64_t incarnation, const struct wire_msg *m,
                      const char *from) {
    *p = (struct election_peer){.incarnation = incarnation, .port = (int)m->port};
    snprintf(p->name, sizeof p->name, "%s", m->name);
    snprintf(p->address, sizeof p->address, "%s", net_sent_address(m->address, from));
}

// The host at this address reports that no agent is listening.
static void process_dead(struct agent *a, const struct election_peer *peer) {
    election_process_dead(&a->election, clock_mono_ms(), peer);
    if (a->coordinator)
        coordinator_process_dead(a->coordinator, peer->incarnation, true,
                                 "its agent died: no process listens at its port");
}

// Decides whether a broken connection to this agent can come back.
static void report_to_coordinator(struct agent *a, const struct election_peer *peer,
                                  const struct election_response *answer) {
    if (!a->coordinator || peer->incarnation == 0 ||
        election_is_echo(&a->election, peer, answer->incarnation))
        return;
    if (answer->incarnation != peer->incarnation)
        coordinator_process_dead(a->coordinator, peer->incarnation, true,
                                 "its agent died: another one is at its port");
    else if (answer->leader_term == 0 ||
             answer->leader.incarnation != a->election.config.incarnation)
        coordinator_process_dead(a->coordinator, peer->incarnation, false,
                                 "its agent has given this coordinator up");
}

static void on_answer(struct channel *l, const struct wire_msg *m) {
    struct asker *k = l->ctx;
    if (m->type != WIRE_ANSWER || m->kind < REQUEST_STATUS || m->kind > REQUEST_ANNOUNCE)
        return;
    struct election_response answer = {
        .kind = (enum election_request_kind)m->kind,
        .request_term = m->seq,
        .term = m->term,
        .granted = m->granted != 0,
        .unaffiliated = m->unaffiliated != 0,
        .incarnation = m->incarnation,
        .age_ms = m->age_ms > 0 ? m->age_ms : 0,
        .leader_term = m->leader_term,
        .counters = {(int)m->attempt, (int)m->restarts, (int)m->crashes}};
    take_peer(&answer.leader, m->leader, m, k->peer.address);
    // An agent without an own address is at the address where it was asked.
    if (!answer.leader.address[0] && answer.leader.incarnation == answer.incarnation)
        memcpy(answer.leader.address, k->peer.address, sizeof answer.leader.address);
    election_answered(&k->agent->election, clock_mono_ms(), &k->peer, &answer);
    report_to_coordinator(k->agent, &k->peer, &answer);
    agent_elect_pump(k->agent);
}

// Logs the error of the first endpoint before a group exists.
static void note_first(struct agent *a, const struct election_peer *peer, const char *text) {
    const struct election *n = &a->election;
    if (!a->leader[0] && n->peer_count == 0 && n->seed_count > 0 &&
        election_same_address(peer, &n->peers[0]))
        agent_link_note(a, peer, text);
}

static void on_asker_end(struct channel *l, const struct err *e) {
    struct asker *k = l->ctx;
    struct agent *a = k->agent;
    note_first(a, &k->peer, e->code == ERR_NONE ? "its connection closed" : e->text);
    bool refused = l->conn.error == ECONNREFUSED && e->code == ERR_NET;
    asker_end(k);
    if (refused)
        process_dead(a, &k->peer);
    agent_elect_pump(a);
}

static const struct channel_events asker_table = {on_asker_ready, on_answer, on_asker_end};

static void on_asker_idle(struct timer *t) {
    asker_end(container_of(t, struct asker, idle));
}

static struct asker *asker_open(struct agent *a, const struct election_peer *to) {
    struct net_address address;
    struct err e;
    if (a->asker_count >= ASKERS_MAX || !net_is_numeric(to->address) ||
        net_resolve(to->address, to->port, &address, &e) < 0)
        return NULL;
    int fd = net_connect_start(&address, &e);
    if (fd < 0 && errno == ECONNREFUSED) // the kernel of this host reports it at once
        process_dead(a, to);
    if (fd < 0) {
        note_first(a, to, e.text);
        return NULL;
    }
    struct asker *k = heap_alloc(sizeof *k);
    k->agent = a;
    k->peer = *to;
    k->link.ctx = k;
    if (channel_open(&k->link, a->loop, fd, CHANNEL_AGENT, true, &a->config->coordinator.secret,
                     &asker_table, &e) < 0) {
        close(fd);
        free(k);
        return NULL;
    }
    k->next = a->askers;
    a->askers = k;
    a->asker_count++;
    return k;
}

static void ask(struct agent *a, const struct election_action *action) {
    struct asker *k = a->askers;
    while (k && !election_same_address(&k->peer, &action->peer))
        k = k->next;
    bool fresh = !k;
    if (!k)
        k = asker_open(a, &action->peer);
    if (!k)
        return;
    k->peer = action->peer;
    k->request = action->request;
    timer_start(a->loop, &k->idle, ASKER_IDLE_MS_MAX, on_asker_idle);
    if (!fresh && k->link.stage == CHANNEL_READY)
        put_ask(k);
}

void agent_elect_probe(struct agent *a, const struct election_peer *peer) {
    struct election_action action = {.kind = ELECTION_SEND_REQUEST, .peer = *peer};
    action.request = (struct election_request){.kind = REQUEST_STATUS,
                                               .term = a->election.term,
                                               .round_term = a->election.electorate.term,
                                               .round = a->election.electorate.round,
                                               .from = a->election.self};
    ask(a, &action);
}

// ---- answering ----

void agent_elect_answer(struct agent *a, struct channel *l, const struct net_address *from,
                        const struct wire_msg *m) {
    char text[NET_ADDRESS_BYTES_MAX];
    struct election_request q = {.kind = (enum election_request_kind)m->kind,
                                 .term = m->term,
                                 .round_term = m->round_term,
                                 .round = (int)m->round};
    struct election_response r;
    if (a->over || m->kind < REQUEST_STATUS || m->kind > REQUEST_ANNOUNCE)
        return;
    take_peer(&q.from, m->incarnation, m, net_format(from, text));
    election_requested(&a->election, clock_mono_ms(), &q, &r);
    struct wire_msg answer = {.type = WIRE_ANSWER,
                              .kind = r.kind,
                              .seq = r.request_term,
                              .term = r.term,
                              .granted = r.granted,
                              .unaffiliated = r.unaffiliated,
                              .incarnation = r.incarnation,
                              .age_ms = r.age_ms,
                              .leader_term = r.leader_term,
                              .leader = r.leader.incarnation,
                              .name = r.leader.name,
                              .address = r.leader.address,
                              .port = r.leader.port,
                              .attempt = r.counters.attempt,
                              .restarts = r.counters.restarts,
                              .crashes = r.counters.crashes};
    channel_send(l, &answer);
    agent_elect_pump(a);
}

static void answerer_free(struct deferred *d) {
    free(container_of(d, struct answerer, gone));
}

static void answerer_end(struct answerer *w) {
    struct answerer **at = &w->agent->answerers;
    if (w->gone.loop)
        return;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    admission_leave(&w->newcomer);
    channel_close(&w->link);
    timer_stop(&w->idle);
    loop_defer(w->agent->loop, &w->gone, answerer_free);
}

static void on_evict(struct newcomer *g) {
    answerer_end(container_of(g, struct answerer, newcomer));
}

static void on_answerer_idle(struct timer *t) {
    answerer_end(container_of(t, struct answerer, idle));
}

static void on_question(struct channel *l, const struct wire_msg *m) {
    struct answerer *w = l->ctx;
    timer_start(w->agent->loop, &w->idle, ANSWERER_IDLE_MS_MAX, on_answerer_idle);
    if (m->type == WIRE_ASK) {
        agent_elect_answer(w->agent, l, &w->newcomer.from, m);
    } else if (m->type == WIRE_JOIN || m->type == WIRE_RESUME) {
        channel_refuse(l, false, "this agent does not coordinate");
        answerer_end(w);
    }
}

static void on_answerer_ready(struct channel *l) {
    (void)l;
}

static void on_answerer_end(struct channel *l, const struct err *e) {
    (void)e;
    answerer_end(l->ctx);
}

static const struct channel_events answerer_table = {on_answerer_ready, on_question,
                                                     on_answerer_end};

void agent_elect_adopt(struct agent *a, int fd, const struct net_address *peer) {
    struct err e;
    struct answerer *w = heap_alloc(sizeof *w);
    w->agent = a;
    w->link.ctx = w;
    if (channel_open(&w->link, a->loop, fd, CHANNEL_COORDINATOR, false,
                     &a->config->coordinator.secret, &answerer_table, &e) < 0) {
        close(fd);
        free(w);
        return;
    }
    w->next = a->answerers;
    a->answerers = w;
    admission_add(&a->admission, &w->newcomer, peer, on_evict);
    timer_start(a->loop, &w->idle, ANSWERER_IDLE_MS_MAX, on_answerer_idle);
}

// ---- reports of the coordinator -----------------------------------------------------------------

void agent_elect_round(struct agent *a, const struct wire_msg *m) {
    int count = (int)m->node_count;
    struct electorate e = {.term = m->round_term,
                           .round = (int)m->round,
                           .committed = m->committed != 0,
                           .tie_breaker = m->tie_breaker,
                           .tie_breaker_last = m->tie_breaker_last,
                           .count = count};
    struct election_counters counters = {m->type == WIRE_ROUND ? (int)m->round : (int)m->attempt,
                                         (int)m->restarts, (int)m->crashes};
    struct election_peer *peers = heap_alloc((size_t)(count + 1) * sizeof *peers);
    e.voters = heap_alloc((size_t)(count + 1) * sizeof *e.voters);
    for (int i = 0; i < count; i++) {
        const struct wire_node *n = &m->nodes[i];
        struct election_peer *p = &peers[i];
        e.voters[i] = (struct voter){.incarnation = n->incarnation,
                                     .rounds = (unsigned)n->rounds & (QUORUM_THIS | QUORUM_LAST),
                                     .dead = (n->rounds & WIRE_ROUNDS_DEAD) != 0};
        *p = (struct election_peer){.incarnation = n->incarnation, .port = (int)n->port};
        snprintf(p->name, sizeof p->name, "%s", n->name);
        snprintf(p->address, sizeof p->address, "%s",
                 net_sent_address(n->address, a->peer.address));
        if (n->incarnation == a->election.config.incarnation) // as seen by others
            election_self(&a->election, p->name, p->address, p->port);
    }
    election_merge_counters(&a->election, &counters);
    election_set_electorate(&a->election, clock_mono_ms(), &e, peers, count, (int)m->members);
    free(e.voters);
    free(peers);
}

bool agent_elect_joined(struct agent *a, const struct wire_msg *m) {
    struct election_peer leader = a->peer;
    leader.incarnation = m->incarnation;
    snprintf(leader.name, sizeof leader.name, "%s", m->name);
    if (!election_joined(&a->election, clock_mono_ms(), a->join_ms, m->term, &leader)) {
        agent_coordinator_lost(a, "it is not the coordinator any more", 0);
        return false;
    }
    agent_elect_round(a, m);
    agent_elect_pump(a);
    return true;
}

// ---- actions of the election ----

static void give_up(struct agent *a) {
    const struct election *e = &a->election;
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    const char *silent =
        channel_is_open(&a->link) && !a->link.conn.connecting ? "no greeting" : "no answer";
    const struct agent_endpoint *first = a->config->endpoints;
    if (a->round < 0 && e->counters.attempt < 0)
        snprintf(text, sizeof text,
                 "no coordinator at %s port %d: %.200s (is that the first node, does dtrun run "
                 "there, may the port be reached?)",
                 a->config->endpoint_count == 0 ? "this node"
                 : first->name                  ? first->name
                                                : first->host,
                 a->config->endpoint_count ? a->config->endpoints[0].port : a->config->listen_port,
                 a->connect_error[0] ? a->connect_error : silent);
    else
        snprintf(text, sizeof text,
                 "the coordinator (%.100s) is lost, and no node may continue without it or more "
                 "than half of the nodes of the last round (waited %lld s)",
                 a->leader, (long long)(e->config.give_up_ms / 1000));
    agent_end(a, NODE_FAILED, text, NULL, 0);
}

static void carry_out(struct agent *a, const struct election_action *action) {
    switch (action->kind) {
    case ELECTION_SEND_REQUEST: ask(a, action); break;
    case ELECTION_CONNECT: agent_link_connect(a, &action->peer); break;
    case ELECTION_TAKE_OVER: agent_lead_take_over(a, action); break;
    case ELECTION_RESUME: agent_link_resume(a); break;
    case ELECTION_LEADER_LOST:
        agent_coordinator_lost(a, action->dead ? "its agent died" : "it is silent",
                               action->silent_ms);
        break;
    case ELECTION_GIVE_UP: give_up(a); break;
    case ELECTION_NONE: break;
    }
}

void agent_elect_pump(struct agent *a) {
    struct election_action action;
    while (!a->over && election_next(&a->election, &action))
        carry_out(a, &action);
    int64_t at = a->over ? INT64_MAX : election_deadline(&a->election), now = clock_mono_ms();
    if (at == INT64_MAX)
        timer_stop(&a->elect);
    else
        timer_start(a->loop, &a->elect, at > now ? at - now : 0, on_elect);
}

int agent_elect_open(struct agent *a, struct err *e) {
    const struct agent_config *c = a->config;
    const struct rendezvous_config *r = &c->coordinator.rendezvous;
    struct election_config config = {.silent_ms_max = r->silent_ms_max,
                                     .lease_ms = r->lease_ms,
                                     .request_ms = AGENT_REQUEST_MS,
                                     .request_ms_max = AGENT_REQUEST_MS_MAX,
                                     .stagger_ms = AGENT_STAGGER_MS,
                                     .election_timeout_ms = AGENT_ELECTION_TIMEOUT_MS,
                                     .connect_ms_max = LINK_CONNECT_MS_MAX + LINK_GREETING_MS_MAX,
                                     .join_ms_max = c->join_timeout_ms,
                                     .give_up_ms = r->rejoin_timeout_ms,
                                     .may_bootstrap = c->leads,
                                     .bootstrap_at_once = c->bootstrap_at_once};
    hash_random(&config.incarnation, sizeof config.incarnation);
    config.incarnation = (config.incarnation & ((1LL << AGENT_INCARNATION_BITS) - 1)) | 1;
    election_open(&a->election, &config, clock_mono_ms());
    election_self(&a->election, c->name, a->address, c->listen_port);
    for (int i = 0; i < c->endpoint_count; i++) {
        const struct agent_endpoint *p = &c->endpoints[i];
        if (!net_is_numeric(p->host))
            return err_set(e, ERR_CONFIG, "endpoint '%.100s' is not an address", p->host);
        election_seed(&a->election, p->host, p->port);
        if (p->same)
            election_seed_alias(&a->election);
    }
    election_tick(&a->election, clock_mono_ms());
    agent_elect_pump(a);
    return 0;
}

void agent_elect_close(struct agent *a) {
    timer_stop(&a->elect);
    timer_stop(&a->drop);
    while (a->askers)
        asker_end(a->askers);
    while (a->answerers)
        answerer_end(a->answerers);
    election_close(&a->election);
}
