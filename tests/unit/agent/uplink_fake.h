// SPDX-License-Identifier: Apache-2.0
// An agent with a connection to a coordinator, for agent_uplink.c: channels, the election and the
// rest of the agent are stand-ins that note what they are asked to do.
#ifndef TESTS_UNIT_AGENT_UPLINK_FAKE_H
#define TESTS_UNIT_AGENT_UPLINK_FAKE_H

#include "agent/agent_impl.h"

#include "base/clock.h"
#include "sys/net.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>
#include <unistd.h>

enum { BEAT_MS = 200, GRACE_MS = 3000, NOW_MS = 500, SENT_MAX = 8 };

static struct err fault;
static struct loop *test_loop;
static struct agent agent;
static struct agent_config config;
static struct wire_msg sent[SENT_MAX];
static int sends;
static const struct channel_events *table; // of the last channel
static int64_t lease_end_ms;
static bool idle, waits_for_devices, is_open;
static int store_port, free_port, listen_fd;

// ---- stand-ins ----------------------------------------------------------------------------------

// The descriptor of the last channel is the channel's.
static int fd_held = -1;

static void fd_let_go(void) {
    if (fd_held >= 0 && close(fd_held) < 0)
        bail_out("the descriptor of a channel was closed");
    fd_held = -1;
}

int channel_open(struct channel *l, struct loop *loop, int fd, enum channel_side side,
                 bool connecting, const struct channel_secret *secret,
                 const struct channel_events *events, struct err *e) {
    (void)e;
    table = l->events = events;
    if (loop != test_loop || side != CHANNEL_AGENT || secret != &config.coordinator.secret ||
        fd < 0)
        bail_out("a channel of another kind");
    fd_let_go();
    fd_held = fd;
    note("open%s;", connecting ? "" : " local");
    return 0;
}

static void take(const char *how, const struct wire_msg *m) {
    note("%s %s;", how, frame_name(m->type));
    sent[sends++ % SENT_MAX] = *m;
}

void channel_send(struct channel *l, const struct wire_msg *m) {
    take(l == &agent.link ? "send" : "send elsewhere", m);
}

void channel_send_kept(struct channel *l, struct replay *s, const struct wire_msg *m) {
    take(l == &agent.link && s == &agent.session ? "keep" : "keep elsewhere", m);
}

void channel_send_again(struct channel *l, const struct replay *s) {
    note(l == &agent.link && s == &agent.session ? "send again;" : "send again elsewhere;");
}

void channel_refuse(struct channel *l, bool final, const char *reason) {
    (void)reason;
    l->stage = CHANNEL_IDLE;
    note("refuse%s;", final ? " for good" : "");
}

void channel_close(struct channel *l) {
    (void)l;
    note("close;");
}

bool channel_is_open(const struct channel *l) {
    (void)l;
    return is_open;
}

void election_heartbeat_acked(struct election *e, int64_t now, int64_t sent_ms, int64_t left_ms) {
    (void)e;
    note("acked after %d left %d;", (int)(now - sent_ms), (int)left_ms);
}

void election_leader_round(struct election *e, int64_t term, int round, bool committed) {
    (void)e;
    note("round %d.%d%s;", (int)term, round, committed ? " committed" : "");
}

int64_t election_lease_end(const struct election *e) {
    (void)e;
    return lease_end_ms;
}

void election_self(struct election *e, const char *name, const char *address, int port) {
    (void)e;
    note("self %s %s:%d;", name, address, port);
}

void election_process_dead(struct election *e, int64_t now, const struct election_peer *peer) {
    (void)e;
    note("dead %s %d;", peer->name, now == clock_mono_ms());
}

void election_resumed(struct election *e, int64_t now) {
    (void)e;
    note("resumed %d;", now == clock_mono_ms());
}

void election_disconnected(struct election *e, int64_t now) {
    (void)e;
    note("disconnected %d;", now == clock_mono_ms());
}

void election_leader_lost(struct election *e, int64_t now) {
    (void)e;
    note("lost %d;", now == clock_mono_ms());
}

void agent_elect_pump(struct agent *a) {
    (void)a;
    note("pump;");
}

bool workers_is_idle(const struct workers *w) {
    (void)w;
    return idle;
}

void workers_lease(struct workers *w, int64_t mono_ms) {
    (void)w;
    note("lease %d;", (int)(mono_ms ? mono_ms - clock_mono_ms() : -1));
}

int agent_open_store(struct agent *a, struct err *e) {
    (void)a;
    return store_port < 0 ? err_set(e, ERR_SYS, "no port") : store_port;
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    (void)a;
    note("end %d %s;", state == NODE_FAILED && !failures && !count, reason);
}

void agent_set_state(struct agent *a, enum node_state state, const char *reason) {
    (void)a;
    note("state %d %s;", state == NODE_JOINING, reason);
}

bool agent_devices_waits(const struct agent *a) {
    (void)a;
    return waits_for_devices;
}

void agent_on_message(struct agent *a, const struct wire_msg *m) {
    (void)a;
    note("message %s;", frame_name(m->type));
}

void agent_lead_drop(struct agent *a) {
    (void)a;
    note("drop;");
}

void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why) {
    (void)a, (void)why;
    note("stop %d %d;", signal == SIGTERM, (int)grace_ms);
}

void coordinator_adopt(struct coordinator *c, int fd, const struct net_address *peer) {
    (void)c;
    close(fd);
    note("adopt%s;", peer ? " from afar" : "");
}

// ---- an agent -----------------------------------------------------------------------------------

static void begin(void) {
    timer_stop(&agent.beat);
    replay_close(&agent.session);
    events_close(&agent.events);
    config = (struct agent_config){.name = "n1",
                                   .role = "default",
                                   .node_rank = 3,
                                   .beat_ms = BEAT_MS,
                                   .listen_port = 4100,
                                   .workers = {.nproc = 8},
                                   .coordinator = {.shutdown_timeout_ms = GRACE_MS}};
    agent = (struct agent){.config = &config,
                           .loop = test_loop,
                           .round = 5,
                           .joined = true,
                           .leader = "n0",
                           .peer = {.name = "n0", .address = "127.0.0.1", .port = free_port}};
    agent.link.ctx = &agent;
    agent.election.config.incarnation = 11;
    agent.election.term = 4;
    agent.election.leader = (struct election_peer){.incarnation = 22, .name = "n0"};
    agent.election.electorate.term = 6;
    agent.election.electorate.round = 7;
    if (events_open(&agent.events, NULL, "n1", &fault) < 0)
        bail_out("%s", fault.text);
    agent_link_connect(&agent, &agent.peer); // for its table
    agent.joined = true;
    replay_open(&agent.session, 33);
    lease_end_ms = INT64_MAX;
    idle = is_open = true;
    waits_for_devices = false;
    store_port = 5100;
    sends = 0;
    done[0] = '\0';
}

#endif
