// SPDX-License-Identifier: Apache-2.0
// An agent among other agents, for agent_peers.c: channels, the election, the coordinator and the
// rest of the agent are stand-ins that note what they are asked to do.
#ifndef TESTS_UNIT_AGENT_PEERS_FAKE_H
#define TESTS_UNIT_AGENT_PEERS_FAKE_H

#include "agent/agent_impl.h"

#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"

#include <errno.h>
#include <sys/socket.h>

enum { OWN = 11, NOW_MS = 500, ACTIONS_MAX = 4, PEERS_MAX = 4 };

static struct err fault;
static struct loop *test_loop;
static struct agent agent;
static struct agent_config config;
static struct wire_msg sent;                   // the last message
static struct channel *opened;                 // the last channel
static struct election_peer told;              // the last leader or peer that the election got
static struct election_response answer, reply; // the last one that came; the next one to send
static struct election_request requested;      // the last one that came
static struct election_config opened_with;
static struct electorate rounds; // the last electorate
static struct voter voters[PEERS_MAX];
static struct election_peer electors[PEERS_MAX];
static int peers_count, members;
static struct election_action actions[ACTIONS_MAX]; // that the election wants
static int action_count, connect_error;
static int64_t deadline_ms;
static bool opens, joins, is_echo, is_open;

static bool is_now(int64_t ms) {
    return ms == clock_mono_ms();
}

// ---- stand-ins ----------------------------------------------------------------------------------

int connect(int fd, const struct sockaddr *address, socklen_t len) {
    (void)fd, (void)address, (void)len;
    errno = connect_error;
    return -1;
}

int channel_open(struct channel *l, struct loop *loop, int fd, enum channel_side side,
                 bool connecting, const struct channel_secret *secret,
                 const struct channel_events *events, struct err *e) {
    if (loop != test_loop || secret != &config.coordinator.secret || fd < 0 ||
        connecting != (side == CHANNEL_AGENT))
        bail_out("a channel of another kind");
    note("open %s;", connecting ? "to" : "from");
    if (!opens)
        return err_set(e, ERR_SYS, "no memory");
    opened = l;
    l->events = events;
    l->conn.watch.fd = fd;
    return 0;
}

void channel_send(struct channel *l, const struct wire_msg *m) {
    note("send %s%s;", frame_name(m->type), l == opened ? "" : " elsewhere");
    sent = *m;
}

void channel_refuse(struct channel *l, bool final, const char *reason) {
    (void)l;
    note("refuse%s %s;", final ? " for good" : "", reason);
}

void channel_close(struct channel *l) {
    note("close;");
    if (close(l->conn.watch.fd) < 0)
        bail_out("the descriptor of a channel was closed");
}

bool channel_is_open(const struct channel *l) {
    if (l != &agent.link)
        bail_out("another channel");
    return is_open;
}

void election_open(struct election *e, const struct election_config *c, int64_t now) {
    e->config = opened_with = *c;
    note("open %d;", is_now(now));
}

void election_close(struct election *e) {
    (void)e;
    note("end;");
}

void election_self(struct election *e, const char *name, const char *address, int port) {
    (void)e;
    note("self %s %s:%d;", name, address, port);
}

void election_seed(struct election *e, const char *address, int port) {
    (void)e;
    note("seed %s:%d;", address, port);
}

void election_seed_alias(struct election *e) {
    (void)e;
    note("alias;");
}

bool election_joined(struct election *e, int64_t now, int64_t sent_ms, int64_t term,
                     const struct election_peer *leader) {
    (void)e;
    note("joined %d %d %d;", is_now(now), (int)sent_ms, (int)term);
    told = *leader;
    return joins;
}

void election_set_electorate(struct election *e, int64_t now, const struct electorate *electorate,
                             const struct election_peer *peers, int peer_count, int total) {
    (void)e;
    note("electorate %d;", is_now(now));
    rounds = *electorate;
    peers_count = peer_count;
    members = total;
    for (int i = 0; i < peer_count && i < PEERS_MAX; i++) {
        voters[i] = electorate->voters[i];
        electors[i] = peers[i];
    }
}

void election_merge_counters(struct election *e, const struct election_counters *c) {
    (void)e;
    note("counters %d %d %d;", c->attempt, c->restarts, c->crashes);
}

void election_requested(struct election *e, int64_t now, const struct election_request *request,
                        struct election_response *response) {
    (void)e;
    note("requested %d;", is_now(now));
    requested = *request;
    *response = reply;
}

void election_answered(struct election *e, int64_t now, const struct election_peer *peer,
                       const struct election_response *r) {
    (void)e;
    note("answered %d;", is_now(now));
    told = *peer;
    answer = *r;
}

bool election_is_echo(const struct election *e, const struct election_peer *peer,
                      int64_t incarnation) {
    (void)e, (void)peer, (void)incarnation;
    return is_echo;
}

void election_process_dead(struct election *e, int64_t now, const struct election_peer *peer) {
    (void)e;
    note("dead %s:%d %d;", peer->address, peer->port, is_now(now));
}

void election_tick(struct election *e, int64_t now) {
    (void)e;
    note("tick %d;", is_now(now));
}

int64_t election_deadline(const struct election *e) {
    (void)e;
    return deadline_ms;
}

bool election_next(struct election *e, struct election_action *out) {
    (void)e;
    if (action_count == 0)
        return false;
    *out = actions[--action_count];
    return true;
}

void coordinator_process_dead(struct coordinator *c, int64_t incarnation, bool dead,
                              const char *why) {
    (void)c;
    note("%s %d: %s;", dead ? "gone" : "away", (int)incarnation, why);
}

void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    (void)a;
    note("lost %d: %s;", (int)silent_ms, why);
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    a->over = true;
    note("end %d: %s;", state == NODE_FAILED && !failures && !count, reason);
}

void agent_lead_take_over(struct agent *a, const struct election_action *action) {
    (void)a;
    note("take over %d;", (int)action->term);
}

void agent_link_connect(struct agent *a, const struct election_peer *to) {
    (void)a;
    note("connect %s;", to->address);
}

void agent_link_resume(struct agent *a) {
    (void)a;
    note("resume;");
}

void agent_link_note(struct agent *a, const struct election_peer *peer, const char *text) {
    (void)a;
    note("note %s: %s;", peer->address, text);
}

// ---- an agent -----------------------------------------------------------------------------------

static struct election_peer peer_at(const char *address, int port) {
    struct election_peer p = {.incarnation = 22, .name = "n2", .port = port};
    snprintf(p.address, sizeof p.address, "%s", address);
    return p;
}

static bool is_peer(const struct election_peer *p, int64_t incarnation, const char *name,
                    const char *address, int port) {
    return p->incarnation == incarnation && strcmp(p->name, name) == 0 &&
           strcmp(p->address, address) == 0 && p->port == port;
}

bool election_same_address(const struct election_peer *a, const struct election_peer *b) {
    return strcmp(a->address, b->address) == 0 && a->port == b->port;
}

// The agent of before must have been closed.
static void begin(void) {
    config = (struct agent_config){.name = "n1",
                                   .listen_port = 4100,
                                   .endpoint_count = 1,
                                   .endpoints = {{.host = "10.0.0.2", .port = 4200}}};
    agent = (struct agent){.config = &config,
                           .loop = test_loop,
                           .address = "10.0.0.1",
                           .peer = {.address = "10.0.0.9", .port = 4900},
                           .admission = {.max = 4}};
    agent.election.config.incarnation = OWN;
    agent.election.counters.attempt = -1;
    agent.round = -1;
    action_count = 0;
    deadline_ms = INT64_MAX;
    connect_error = EINPROGRESS;
    opens = joins = true;
    is_echo = is_open = false;
    reply = (struct election_response){.kind = REQUEST_STATUS};
    opened = NULL;
    done[0] = '\0';
}

static void end(void) {
    agent.over = false;
    agent_elect_close(&agent);
    loop_once(test_loop, 0);
}

#endif
