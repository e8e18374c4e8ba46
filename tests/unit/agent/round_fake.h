// SPDX-License-Identifier: Apache-2.0
// An agent in a round, for agent_round.c: workers, stores, the election and the rest of the agent
// are stand-ins that note what they are asked to do.
#ifndef TESTS_UNIT_AGENT_ROUND_FAKE_H
#define TESTS_UNIT_AGENT_ROUND_FAKE_H

#include "agent/agent_impl.h"

#include "agent/failure_report.h"
#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/agent/done.h"

enum { ROUND = 5, WORKERS = 2, FAILED_EXIT = 3 << 8 };

static struct err fault;
static struct agent agent;
static struct agent_config config;
static struct sagemaker tree;
static struct worker workers[WORKERS];
static const char *command[] = {"prog", NULL};
static bool idle, waits_for_devices, starts, takes_in, notice, copies_wait;
static int64_t lease_left_ms;
static int stores_open, local_store; // local_store: a store opens on all addresses alone

// ---- stand-ins ----------------------------------------------------------------------------------

#define NOTES(name)                                                                                \
    void name(struct agent *a) {                                                                   \
        (void)a;                                                                                   \
        note("%s;", &#name[6]);                                                                    \
    }
NOTES(agent_copies_env)
NOTES(agent_devices_wait)
NOTES(agent_link_beat)
NOTES(agent_link_join)
NOTES(agent_maybe_leave_loop)
NOTES(agent_notice_joined)
NOTES(agent_stuck_watch)
NOTES(agent_write_status)

void agent_write_status_soon(struct agent *a) {
    (void)a;
}

#define TAKES(name)                                                                                \
    void name(struct agent *a, const struct wire_msg *m) {                                         \
        (void)a, (void)m;                                                                          \
        note("%s;", &#name[6]);                                                                    \
    }
TAKES(agent_copies_ring)
TAKES(agent_elect_round)
TAKES(agent_notice_received)

bool agent_copies_wait(struct agent *a) {
    (void)a;
    return copies_wait;
}

bool agent_devices_waits(const struct agent *a) {
    (void)a;
    return waits_for_devices;
}

bool agent_elect_joined(struct agent *a, const struct wire_msg *m) {
    (void)a, (void)m;
    return takes_in;
}

bool agent_notice_takes(struct agent *a, const struct worker *x) {
    (void)a, (void)x;
    return notice;
}

void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    (void)a;
    note("lost %s %d;", why, (int)silent_ms);
}

void agent_end(struct agent *a, enum node_state state, const char *reason,
               const struct worker_failure *failures, int64_t count) {
    (void)a, (void)failures;
    note("end %d %s %d;", (int)state, reason, (int)count);
}

void agent_send(struct agent *a, const struct wire_msg *m) {
    (void)a;
    note("send %s %d", frame_name(m->type), (int)m->round);
    if (m->type == WIRE_STOPPED)
        note(" %d", (int)m->store_port);
    for (int64_t i = 0; i < m->failure_count; i++)
        note(" %s %d", m->failures[i].message, (int)m->failures[i].status);
    note(";");
}

void agent_set_state(struct agent *a, enum node_state state, const char *reason) {
    a->state = state;
    note("state %s;", reason);
}

void election_heartbeat_acked(struct election *e, int64_t now, int64_t sent_ms, int64_t left_ms) {
    (void)e, (void)now;
    note("acked %d %d;", (int)sent_ms, (int)left_ms);
}

int64_t election_lease_end(const struct election *e) {
    (void)e;
    return lease_left_ms == INT64_MAX ? INT64_MAX : clock_mono_ms() + lease_left_ms;
}

void election_merge_counters(struct election *e, const struct election_counters *c) {
    (void)e;
    note("counters %d %d %d;", c->attempt, c->restarts, c->crashes);
}

void failure_report_event(struct events *ev, const struct worker_failure *f, int64_t round,
                          bool is_root) {
    (void)ev;
    note("failure %s %d %d;", f->message, (int)round, is_root);
}

void file_timers_clear(struct file_timers *t) {
    (void)t;
    note("clear;");
}

void file_timers_hold(struct file_timers *t, bool held) {
    (void)t;
    note("%s;", held ? "hold" : "let go");
}

struct store_server *store_server_open(struct loop *loop, const char *host, int port,
                                       const struct store_limits *limits, struct err *e) {
    (void)loop, (void)limits;
    note("store %s %d;", host ? host : "all", port);
    if (local_store && host)
        return err_set(e, ERR_NET, "no port"), NULL;
    stores_open++;
    return (struct store_server *)(void *)&stores_open;
}

void store_server_close(struct store_server *s) {
    stores_open -= s != NULL;
}

int store_server_port(const struct store_server *s) {
    return s ? 5100 : -1;
}

void store_server_allow(struct store_server *s, const struct net_address *hosts, size_t count) {
    (void)s, (void)hosts;
    note("allow %d;", (int)count);
}

int workers_start(struct workers *w, const struct worker_facts *f, int64_t lease_ms,
                  struct err *e) {
    (void)w;
    note("start %d%s", f->round, lease_ms ? " with a lease" : "");
    for (int i = 0; f->addresses && i <= f->group_world; i++)
        note(" %s", f->addresses[i] ? f->addresses[i] : "end");
    note(";");
    return starts ? 0 : err_set(e, ERR_SYS, "no process");
}

void workers_stop(struct workers *w, int signal, int64_t grace_ms) {
    w->stopping = true;
    note("stop %d %d;", signal, (int)grace_ms);
}

bool workers_is_idle(const struct workers *w) {
    (void)w;
    return idle;
}

bool worker_succeeded(const struct worker *x) {
    return x->ended && x->status == 0;
}

void workers_failure(struct workers *w, const struct worker *x, struct arena *a,
                     struct worker_failure *out) {
    (void)w, (void)a;
    *out = (struct worker_failure){.rank = x->rank, .status = 3, .message = "bad"};
}

// ---- an agent -----------------------------------------------------------------------------------

static void begin(void) {
    events_close(&agent.events);
    arena_fini(&agent.round_texts);
    arena_fini(&agent.workers.arena);
    config = (struct agent_config){
        .name = "n1",
        .role = "default",
        .coordinator = {.shutdown_timeout_ms = 3000},
        .listen_port = 4100,
        .workers = {.nproc = WORKERS, .command = command, .sagemaker = &tree}};
    agent = (struct agent){.config = &config,
                           .address = "10.0.0.1",
                           .round = ROUND,
                           .joined = true,
                           .leader = "n0",
                           .inputs_round = -1,
                           .facts = {.round = ROUND},
                           .peer = {.address = "127.0.0.1"}};
    agent.workers.ctx = &agent;
    agent.workers.list = workers;
    agent.workers.count = WORKERS;
    for (int i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.rank = 6 + i, .local_rank = i};
    if (events_open(&agent.events, NULL, "n1", &fault) < 0)
        bail_out("%s", fault.text);
    idle = starts = takes_in = true;
    waits_for_devices = notice = copies_wait = false;
    lease_left_ms = INT64_MAX;
    local_store = 0;
    done[0] = '\0';
}

static void is_event(const char *want) {
    has_str(strbuf_cstr(&agent.events.line), want, "the event has %s", want);
}

static void message(enum wire_type type, const struct wire_msg *m) {
    struct wire_msg copy = *m;
    copy.type = type;
    copy.reason = copy.reason ? copy.reason : "";
    copy.name = copy.name ? copy.name : "";
    agent_on_message(&agent, &copy);
}

#endif
