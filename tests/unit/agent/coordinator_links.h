// SPDX-License-Identifier: Apache-2.0
// A coordinator whose connections are stand-ins: a test sends messages as agents do, and gets all
// that the coordinator sends as one text.
#ifndef TESTS_UNIT_AGENT_COORDINATOR_LINKS_H
#define TESTS_UNIT_AGENT_COORDINATOR_LINKS_H

#include "agent/coordinator.h"

#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OWN = 11, LINKS_MAX = 24, GRACE_MS = 7000, SILENT_MS = 1500, LEASE_MS = 2000 };

static struct err fault;
static struct loop *test_loop;
static struct coordinator *coordinator;
static struct coordinator_config config;
static struct admission admission;
static struct events event_log;
static struct channel *links[LINKS_MAX]; // by number; NULL: closed
static int link_count;
static bool opens = true;
static struct wire_msg last;             // the last message; its lists are not kept
static struct worker_failure verdict[4]; // the failures of the last verdict
static const struct channel_events *table;

// ---- stand-ins ----------------------------------------------------------------------------------

static int number_of(const struct channel *l) {
    for (int i = 0; i < link_count; i++)
        if (links[i] == l)
            return i;
    return -1;
}

int channel_open(struct channel *l, struct loop *loop, int fd, enum channel_side side,
                 bool connecting, const struct channel_secret *secret,
                 const struct channel_events *events, struct err *e) {
    (void)loop, (void)secret;
    if (side != CHANNEL_COORDINATOR || connecting || link_count == LINKS_MAX)
        bail_out("a channel of another kind");
    if (!opens)
        return err_set(e, ERR_SYS, "no memory");
    table = events;
    l->conn.watch.fd = fd;
    links[link_count++] = l;
    return 0;
}

static void show(const char *how, const struct channel *l, const struct wire_msg *m) {
    last = *m;
    note("%d%s%s", number_of(l), how, frame_name(m->type));
    if (m->type == WIRE_JOINED)
        note(" %d/%d", (int)m->present, (int)m->expected);
    if (m->type == WIRE_ROUND)
        note(" %d rank %d of %d, group %d of %d", (int)m->round, (int)m->rank, (int)m->world_size,
             (int)m->group_rank, (int)m->group_world);
    if (m->type == WIRE_STOP)
        note(" %d%s by %d in %d", (int)m->round, m->final ? " for good" : "", (int)m->signal,
             (int)m->grace_ms);
    for (int64_t i = 0; m->type == WIRE_FINISH && i < m->failure_count && i < 4; i++)
        verdict[i] = m->failures[i];
    if (m->type == WIRE_FINISH)
        note(" %d with %d", (int)m->state, (int)m->failure_count);
    if (m->reason && m->reason[0])
        note(": %s", m->reason);
    if (m->type == WIRE_COPIES || m->type == WIRE_ALLOW)
        for (int64_t i = 0; i < m->node_count; i++)
            note(" %s", m->nodes[i].name);
    if (m->type == WIRE_COPIES && m->name)
        note(" heir of %s", m->name);
    note(";");
}

void channel_send(struct channel *l, const struct wire_msg *m) {
    show(" ", l, m);
}

void channel_send_kept(struct channel *l, struct replay *s, const struct wire_msg *m) {
    (void)s;
    show(" ", l, m);
}

void channel_send_again(struct channel *l, const struct replay *s) {
    (void)s;
    note("%d again;", number_of(l));
}

void channel_refuse(struct channel *l, bool final, const char *reason) {
    note("%d refused%s: %s;", number_of(l), final ? " for good" : "", reason);
}

void channel_close(struct channel *l) {
    int i = number_of(l);
    if (i < 0)
        bail_out("a channel is closed twice");
    close(l->conn.watch.fd);
    links[i] = NULL;
    note("%d closed;", i);
}

// ---- events of the coordinator ------------------------------------------------------------------

static void on_idle(struct coordinator *c) {
    (void)c;
    note("idle;");
}

static void on_deposed(struct coordinator *c, const char *why) {
    (void)c;
    note("deposed: %s;", why);
}

static void on_round(struct coordinator *c) {
    (void)c;
    note("begin;");
}

static int member_reports;

static void on_members(struct coordinator *c) {
    (void)c;
    member_reports++;
}

static void on_ask(struct coordinator *c, struct channel *l, const struct net_address *from,
                   const struct wire_msg *m) {
    (void)c, (void)from, (void)m;
    note("%d asks;", number_of(l));
}

static void on_disconnected(struct coordinator *c, const struct election_peer *peer) {
    (void)c;
    note("probe %s %d %s:%d;", peer->name, (int)peer->incarnation, peer->address, peer->port);
}

// ---- agents -------------------------------------------------------------------------------------

// The number of a new connection, from 10.0.0.<host>; 0: of this agent.
static int arrive(int host) {
    struct net_address from = {0};
    char text[32];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(text, sizeof text, "10.0.0.%d", host);
    if (fd < 0 || (host && net_resolve(text, 5000, &from, &fault) < 0))
        bail_out("no connection");
    coordinator_adopt(coordinator, fd, host ? &from : NULL);
    return link_count - 1;
}

static void say(int number, const struct wire_msg *m) {
    struct wire_msg copy = *m;
    copy.reason = copy.reason ? copy.reason : "";
    table->on_message(links[number], &copy);
    loop_once(test_loop, 0); // frees what has ended
}

static struct wire_msg joining(int rank) {
    static char names[LINKS_MAX][4];
    snprintf(names[rank], sizeof names[rank], "n%d", rank);
    return (struct wire_msg){.type = WIRE_JOIN,
                             .name = names[rank],
                             .address = rank ? "" : "10.0.0.9",
                             .role = "default",
                             .node_rank = rank,
                             .incarnation = rank ? 20 + rank : OWN,
                             .connection = 1,
                             .port = 4000 + rank,
                             .store_port = 5000 + rank,
                             .nproc = 2,
                             .round = -1};
}

// The connection of the node of this rank, which has asked to join.
static int join(int rank) {
    struct wire_msg m = joining(rank);
    int number = arrive(rank);
    say(number, &m);
    return number;
}

TAP_UNUSED static void hang_up(int number, enum err_code code, const char *why) {
    struct err e = {.code = ERR_NONE};
    if (code != ERR_NONE)
        err_set(&e, code, "%s", why);
    table->on_end(links[number], &e);
    loop_once(test_loop, 0);
}

static void begin(int nodes, const struct rendezvous_history *history) {
    static const struct coordinator_events on = {on_idle,    on_deposed, on_round,
                                                 on_members, on_ask,     on_disconnected};
    coordinator_close(coordinator);
    loop_once(test_loop, 0);
    events_close(&event_log);
    if (events_open(&event_log, NULL, "n0", &fault) < 0)
        bail_out("%s", fault.text);
    config.rendezvous.nodes_min = config.rendezvous.nodes_max = nodes;
    link_count = 0;
    coordinator = coordinator_open(test_loop, &config, history, &event_log, &on, NULL);
    member_reports = 0;
    done[0] = '\0';
}

static void open_test(void) {
    test_loop = loop_open(&fault);
    if (!test_loop)
        bail_out("no loop: %s", fault.text);
    clock_stop();
    admission.max = 8;
    config = (struct coordinator_config){.shutdown_timeout_ms = GRACE_MS,
                                         .admission = &admission,
                                         .rendezvous = {.incarnation = OWN,
                                                        .max_restarts = 1,
                                                        .join_timeout_ms = 60000,
                                                        .rejoin_timeout_ms = 30000,
                                                        .silent_ms_max = SILENT_MS,
                                                        .lease_ms = LEASE_MS,
                                                        .stop_ms_max = 20000,
                                                        .note_ms = 5000}};
}

static int close_test(void) {
    coordinator_close(coordinator);
    loop_once(test_loop, 0);
    events_close(&event_log);
    loop_close(test_loop);
    return done_testing();
}

// Heartbeats of nodes 0 and 1, on these connections, in round 0.
TAP_UNUSED static void beat(void) {
    struct wire_msg m = {.type = WIRE_BEAT, .stamp = clock_mono_ms(), .round_term = 1};
    say(0, &m);
    say(1, &m);
}

// A round of two nodes, on connections 0 and 1.
TAP_UNUSED static void begin_round(void) {
    begin(2, NULL);
    join(0);
    join(1);
    beat();
    done[0] = '\0';
}

// The last event.
TAP_UNUSED static void has_event(const char *want) {
    has_str(strbuf_cstr(&event_log.line), want, "the event has %s", want);
}

#endif
