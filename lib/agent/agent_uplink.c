// SPDX-License-Identifier: Apache-2.0
// The agent's connection to the coordinator on any node: opening, heartbeats in both directions,
// and the lease that they renew (see election_follower.c).
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEATS_KEPT = sizeof((struct agent *)0)->beats / sizeof(int64_t) };

static const struct channel_events link_table;

static void on_beat(struct timer *t) {
    agent_link_beat(container_of(t, struct agent, beat));
}

static void send_beat(struct agent *a) {
    a->beats[a->seq % BEATS_KEPT] = clock_mono_ms();
    struct wire_msg m = {.type = WIRE_BEAT,
                         .seq = a->seq++,
                         .stamp = a->stamp,
                         .round_term = a->election.electorate.term,
                         .round = a->election.electorate.round,
                         .taken = a->session.taken};
    channel_send(&a->link, &m);
    timer_start(a->loop, &a->beat, a->config->beat_ms, on_beat);
}

void agent_link_beat(struct agent *a) {
    if (channel_is_open(&a->link) && !a->session.cut)
        send_beat(a);
}

void agent_link_renew(struct agent *a) {
    int64_t until = election_lease_end(&a->election);
    if (a->joined && !workers_is_idle(&a->workers))
        workers_lease(&a->workers, until == INT64_MAX ? 0 : until);
}

static void on_answer(struct agent *a, const struct wire_msg *m) {
    struct err e;
    if (replay_acked(&a->session, m->taken, &e) < 0) {
        agent_coordinator_lost(a, e.text, 0);
        return;
    }
    if (!a->joined || m->seq < 0 || m->seq >= a->seq || a->seq - m->seq > BEATS_KEPT)
        return;
    bool first = a->stamp == 0;
    a->stamp = m->stamp;
    election_heartbeat_acked(&a->election, clock_mono_ms(), a->beats[m->seq % BEATS_KEPT],
                             m->left_ms);
    election_leader_round(&a->election, m->round_term, (int)m->round, m->committed != 0);
    agent_link_renew(a);
    if (first)
        agent_link_beat(a); // shows the coordinator that its messages arrive
}

void agent_send(struct agent *a, const struct wire_msg *m) {
    channel_send_kept(&a->link, &a->session, m);
}

void agent_link_join(struct agent *a) {
    struct err e;
    int port = agent_open_store(a, &e);
    if (port < 0) {
        agent_end(a, NODE_FAILED, e.text, NULL, 0);
        return;
    }
    struct wire_msg m = {.type = WIRE_JOIN,
                         .incarnation = a->election.config.incarnation,
                         .name = a->config->name,
                         .node_rank = a->config->node_rank,
                         .address = a->address,
                         .port = a->config->listen_port,
                         .store_port = port,
                         .nproc = a->config->workers.nproc,
                         .role = a->config->role,
                         .round = a->round,
                         .term = a->election.term,
                         .connection = ++a->connections};
    a->join_ms = clock_mono_ms();
    replay_open(&a->session, 0); // JOINED sets its id
    channel_send(&a->link, &m);
    agent_set_state(a, NODE_JOINING, "");
}

// Determines the local address of the route to the coordinator, if none was configured.
static void learn_address(struct agent *a) {
    struct net_address to, local;
    struct err e;
    if (a->address[0])
        return;
    if (a->coordinator)
        snprintf(a->address, sizeof a->address, "127.0.0.1");
    else if (net_resolve(a->peer.address, a->peer.port, &to, &e) == 0 &&
             net_route_source(&to, &local, &e) == 0)
        net_format(&local, a->address);
    election_self(&a->election, a->config->name, a->address, a->config->listen_port);
}

static void on_ready(struct channel *l) {
    struct agent *a = l->ctx;
    a->connect_error[0] = '\0';
    a->stamp = 0;
    learn_address(a);
    agent_link_beat(a);
    if (workers_is_idle(&a->workers) && !agent_devices_waits(a))
        agent_link_join(a);
    else
        a->rejoin = true; // after the workers of the old round have ended
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct agent *a = l->ctx;
    if (frame_is_kept(m->type))
        replay_take(&a->session);
    if (m->type == WIRE_BEAT)
        on_answer(a, m);
    else
        agent_on_message(a, m);
}

void agent_link_note(struct agent *a, const struct election_peer *peer, const char *text) {
    int64_t now = clock_mono_ms();
    if (strncmp(a->connect_error, text, 200) != 0 || now >= a->noted_ms + AGENT_NOTE_MS) {
        a->noted_ms = now;
        log_warn("cannot reach the coordinator", "endpoint=%s:%d reason=%s", peer->address,
                 peer->port, text);
    }
    snprintf(a->connect_error, sizeof a->connect_error, "%.200s", text);
}

// Connects to a->peer. -1: errno is ECONNREFUSED if the host refused at once.
static int open_link(struct agent *a, const struct channel_events *events, struct err *e) {
    struct net_address address;
    if (!net_is_numeric(a->peer.address))
        return err_set(e, ERR_FORMAT, "'%.60s' is not an address", a->peer.address);
    int fd = -1;
    if (net_resolve(a->peer.address, a->peer.port, &address, e) == 0)
        fd = net_connect_start(&address, e);
    if (fd < 0)
        return -1;
    int rc = channel_open(&a->link, a->loop, fd, CHANNEL_AGENT, true,
                          &a->config->coordinator.secret, events, e);
    if (rc < 0)
        close(fd);
    return rc;
}

// ---- a connection that broke ----

// A refused connection proves that the agent is gone (see "proof" in election.c).
static void process_dead(struct agent *a) {
    struct election_peer leader = a->election.leader;
    election_process_dead(&a->election, clock_mono_ms(), &leader);
    agent_elect_pump(a);
}

static void on_resume_ready(struct channel *l) {
    struct agent *a = l->ctx;
    struct wire_msg m = {.type = WIRE_RESUME,
                         .incarnation = a->election.config.incarnation,
                         .session = a->session.id,
                         .connection = ++a->connections,
                         .taken = a->session.taken};
    channel_send(l, &m);
    send_beat(a); // its answer renews the lease
}

static void on_resume_message(struct channel *l, const struct wire_msg *m) {
    struct agent *a = l->ctx;
    struct err e;
    if (m->type != WIRE_RESUMED || m->incarnation != a->election.leader.incarnation) {
        agent_coordinator_lost(a, "it answers out of turn", 0);
        return;
    }
    if (replay_acked(&a->session, m->taken, &e) < 0) {
        agent_coordinator_lost(a, e.text, 0);
        return;
    }
    log_warn("the connection to the coordinator is back without loss", "node=%s ms=%lld", a->leader,
             (long long)(clock_mono_ms() - a->cut_ms));
    l->events = &link_table;
    a->session.cut = false;
    channel_send_again(l, &a->session);
    election_resumed(&a->election, clock_mono_ms());
    agent_elect_pump(a);
}

static void on_resume_end(struct channel *l, const struct err *e) {
    struct agent *a = l->ctx;
    if (l->conn.error == ECONNREFUSED && e->code == ERR_NET)
        process_dead(a);
    else if (e->code != ERR_NONE && e->code != ERR_NET && e->code != ERR_TIMEOUT)
        agent_coordinator_lost(a, e->text, 0);
    // otherwise another attempt follows, or the silence limit ends it
}

static const struct channel_events resume_table = {on_resume_ready, on_resume_message,
                                                   on_resume_end};

void agent_link_resume(struct agent *a) {
    struct err e;
    if (channel_is_open(&a->link) && !a->link.conn.connecting)
        return; // the greeting is in progress
    channel_close(&a->link);
    a->link.ctx = a;
    if (open_link(a, &resume_table, &e) < 0 && errno == ECONNREFUSED)
        process_dead(a);
}

static void cut(struct agent *a, const char *why) {
    log_warn("the connection to the coordinator broke", "node=%s reason=%s", a->leader, why);
    a->cut_ms = clock_mono_ms();
    timer_stop(&a->beat);
    a->session.cut = true;
    election_disconnected(&a->election, a->cut_ms);
    agent_elect_pump(a);
}

// The coordinator cannot be joined: continue to search.
static void keep_searching(struct agent *a, const char *why) {
    agent_link_note(a, &a->peer, why);
    election_leader_lost(&a->election, clock_mono_ms());
    agent_elect_pump(a);
}

static void on_end(struct channel *l, const struct err *e) {
    struct agent *a = l->ctx;
    const char *why = e->code == ERR_NONE ? "its connection closed" : e->text;
    bool greeted = a->beat.loop != NULL;
    timer_stop(&a->beat);
    if (a->over)
        return;
    // After joining a group, answers from an old address do not count.
    bool meant = a->joined || !a->leader[0] || greeted;
    if (meant && (l->refused_final || (e->code == ERR_AUTH && !greeted)))
        agent_end(a, NODE_FAILED, why, NULL, 0);
    else if (a->joined && !a->coordinator && (e->code == ERR_NONE || e->code == ERR_NET) &&
             replay_can_resume(&a->session))
        cut(a, why);
    else if (a->joined)
        agent_coordinator_lost(a, why, 0);
    else
        keep_searching(a, why);
}

static const struct channel_events link_table = {on_ready, on_message, on_end};

static void hang_up(struct agent *a, const char *why) {
    timer_stop(&a->beat);
    if (a->link.stage == CHANNEL_READY)
        channel_refuse(&a->link, false, why);
    channel_close(&a->link);
    replay_close(&a->session);
    a->joined = a->rejoin = false;
}

void agent_link_connect(struct agent *a, const struct election_peer *to) {
    struct err e;
    hang_up(a, "its agent follows another one");
    a->peer = *to;
    a->link.ctx = a;
    if (open_link(a, &link_table, &e) < 0)
        keep_searching(a, e.text);
}

// Ends the workers, at the latest with their lease; then this agent joins the next coordinator.
void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    int64_t now = clock_mono_ms(), until = election_lease_end(&a->election);
    int64_t grace_ms = a->config->coordinator.shutdown_timeout_ms;
    bool was_joined = a->joined;
    hang_up(a, "its agent has given this coordinator up");
    if (a->over)
        return;
    if (a->coordinator)
        agent_lead_drop(a);
    if (was_joined) {
        log_warn("the coordinator is lost", "node=%s reason=%s silent_ms=%lld", a->leader, why,
                 (long long)silent_ms);
        struct json_out *j = events_begin(&a->events, EVENT_LEADER_LOST);
        json_str(j, "peer", a->leader);
        json_int(j, "silent_ms", silent_ms);
        json_str(j, "reason", why);
        events_end(&a->events);
        if (workers_is_idle(&a->workers))
            agent_set_state(a, NODE_JOINING, "the coordinator is lost");
    }
    if (until - now < grace_ms)
        grace_ms = until > now ? until - now : 0;
    agent_stop_workers(a, SIGTERM, grace_ms, "the coordinator is lost");
    a->round_failed =
        true; // exit statuses of the workers from now on are not failures of their own
    a->stop_requested = false;
    election_leader_lost(&a->election, now);
    agent_elect_pump(a);
}

int agent_link_open_local(struct agent *a, struct err *e) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket pair");
    a->peer = a->election.self;
    a->link.ctx = a;
    coordinator_adopt(a->coordinator, pair[0], NULL);
    if (channel_open(&a->link, a->loop, pair[1], CHANNEL_AGENT, false,
                     &a->config->coordinator.secret, &link_table, e) < 0) {
        close(pair[1]);
        return -1;
    }
    return 0;
}

void agent_link_close(struct agent *a, const char *why) {
    hang_up(a, why);
}
