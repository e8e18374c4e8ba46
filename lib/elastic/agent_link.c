// SPDX-License-Identifier: Apache-2.0
// The agent's connection to the coordinator: opening it (again and again until the time is over),
// heartbeats both ways, and the lease that they renew.
//
// The lease counts from when an answered beat was *sent*: the coordinator heard it later than that,
// so a node's workers are gone before the coordinator may believe so.
#include "elastic/agent_state.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEATS_KEPT = sizeof((struct agent *)0)->beats / sizeof(int64_t) };

static const struct link_events link_table;

static void on_beat(struct timer *t) {
    struct agent *a = container_of(t, struct agent, beat);
    int64_t now = clock_mono_ms();
    if (!link_is_open(&a->link))
        return;
    if (!a->coordinator && now - a->acked_ms > AGENT_SILENT_MS_MAX) {
        link_close(&a->link);
        agent_coordinator_lost(a, "it is silent", now - a->acked_ms);
        return;
    }
    a->beats[a->seq % BEATS_KEPT] = now;
    struct wire_msg m = {.type = WIRE_BEAT, .seq = a->seq++};
    link_send(&a->link, &m);
    timer_start(a->loop, &a->beat, AGENT_BEAT_MS, on_beat);
}

static void beat_answered(struct agent *a, int64_t seq) {
    if (seq < 0 || seq >= a->seq || a->seq - seq > BEATS_KEPT)
        return;
    int64_t sent = a->beats[seq % BEATS_KEPT];
    if (sent > a->acked_ms)
        a->acked_ms = sent;
    if (!a->coordinator && a->group_world > 1)
        workers_lease(&a->workers, a->acked_ms + AGENT_LEASE_MS);
}

void agent_send(struct agent *a, const struct wire_msg *m) {
    link_send(&a->link, m);
}

void agent_link_join(struct agent *a) {
    struct err e;
    int port = agent_open_store(a, &e);
    if (port < 0) {
        agent_end(a, NODE_FAILED, e.text, NULL, 0);
        return;
    }
    struct wire_msg m = {.type = WIRE_JOIN,
                         .incarnation = a->incarnation,
                         .name = a->config->name,
                         .node_rank = a->config->node_rank,
                         .address = a->address,
                         .port = a->config->listen_port,
                         .store_port = port,
                         .nproc = a->config->workers.nproc,
                         .role = a->config->role,
                         .round = a->round};
    link_send(&a->link, &m);
    agent_set_state(a, NODE_JOINING, "");
}

// The address that this host uses towards the leader, if none was given.
static void learn_address(struct agent *a) {
    struct net_address local;
    struct err e;
    if (a->address[0])
        return;
    if (a->coordinator)
        snprintf(a->address, sizeof a->address, "127.0.0.1");
    else if (net_route_source(&a->leader, &local, &e) == 0)
        net_format(&local, a->address);
}

static void on_ready(struct link *l) {
    struct agent *a = l->ctx;
    a->acked_ms = clock_mono_ms();
    a->connect_error[0] = '\0';
    learn_address(a);
    on_beat(&a->beat);
    if (workers_is_idle(&a->workers) && !agent_devices_waits(a))
        agent_link_join(a);
    else
        a->rejoin = true; // as soon as the old round's workers are gone
}

static void on_message(struct link *l, const struct wire_msg *m) {
    struct agent *a = l->ctx;
    if (m->type == WIRE_BEAT)
        beat_answered(a, m->seq);
    else
        agent_on_message(a, m);
}

static void on_retry(struct timer *t);

static void retry_later(struct agent *a) {
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    int64_t now = clock_mono_ms();
    if (a->over)
        return;
    if (now + a->retry_ms > a->retry_until_ms) {
        snprintf(
            text, sizeof text,
            "no coordinator at %s port %d: %s (is that the first node, does dtrun run there, may "
            "the port be reached?)",
            a->config->leader_host, a->config->leader_port, a->connect_error);
        agent_end(a, NODE_FAILED, text, NULL, 0);
        return;
    }
    timer_start(a->loop, &a->retry, a->retry_ms, on_retry);
    a->retry_ms = a->retry_ms * 2 < AGENT_RETRY_MS_MAX ? a->retry_ms * 2 : AGENT_RETRY_MS_MAX;
}

static void note_error(struct agent *a, const char *text) {
    int64_t now = clock_mono_ms();
    if (strncmp(a->connect_error, text, 200) != 0 || now >= a->noted_ms + AGENT_NOTE_MS) {
        a->noted_ms = now;
        log_warn("the coordinator cannot be reached", "endpoint=%s:%d reason=%s",
                 a->config->leader_host, a->config->leader_port, text);
    }
    snprintf(a->connect_error, sizeof a->connect_error, "%.200s", text);
}

static void on_end(struct link *l, const struct err *e) {
    struct agent *a = l->ctx;
    const char *why = e->code == ERR_NONE ? "its connection closed" : e->text;
    bool greeted = a->beat.loop != NULL;
    timer_stop(&a->beat);
    if (a->over)
        return;
    if (l->refused_final || (e->code == ERR_AUTH && !greeted)) {
        agent_end(a, NODE_FAILED, why, NULL, 0);
        return;
    }
    note_error(a, why);
    if (greeted)
        agent_coordinator_lost(a, why, 0);
    else
        retry_later(a);
}

static const struct link_events link_table = {on_ready, on_message, on_end};

static void connect_now(struct agent *a) {
    struct err e;
    int fd = net_connect_start(&a->leader, &e);
    a->link.ctx = a;
    if (fd >= 0 && link_open(&a->link, a->loop, fd, LINK_AGENT, true,
                             &a->config->coordinator.secret, &link_table, &e) == 0)
        return;
    if (fd >= 0)
        close(fd);
    note_error(a, e.text);
    retry_later(a);
}

static void on_retry(struct timer *t) {
    connect_now(container_of(t, struct agent, retry));
}

// The connection was lost: try again from the start, for a while.
static void reconnect(struct agent *a) {
    a->retry_ms = AGENT_RETRY_FIRST_MS;
    a->retry_until_ms = clock_mono_ms() + a->config->coordinator.rendezvous.rejoin_timeout_ms;
    timer_start(a->loop, &a->retry, 0, on_retry);
}

void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    timer_stop(&a->beat);
    if (a->over)
        return;
    log_warn("the coordinator is lost", "reason=%s silent_ms=%lld", why, (long long)silent_ms);
    struct json_out *j = events_begin(&a->events, EVENT_LEADER_LOST);
    json_str(j, "peer", a->config->leader_host);
    json_int(j, "silent_ms", silent_ms);
    json_str(j, "reason", why);
    events_end(&a->events);
    if (a->coordinator) { // its own coordinator never goes away by itself
        agent_end(a, NODE_FAILED, why, NULL, 0);
        return;
    }
    int64_t left = a->acked_ms + AGENT_LEASE_MS - clock_mono_ms();
    agent_stop_workers(a, SIGTERM, left > 0 ? left : 0, "the coordinator is lost");
    a->round_failed = true; // whatever the workers end with now is not theirs
    reconnect(a);
}

static int open_local(struct agent *a, struct err *e) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket pair");
    a->link.ctx = a;
    coordinator_adopt(a->coordinator, pair[0], NULL);
    if (link_open(&a->link, a->loop, pair[1], LINK_AGENT, false, &a->config->coordinator.secret,
                  &link_table, e) < 0) {
        close(pair[1]);
        return -1;
    }
    return 0;
}

int agent_link_open(struct agent *a, struct err *e) {
    hash_random(&a->incarnation, sizeof a->incarnation);
    a->incarnation &= INT64_MAX;
    if (a->coordinator)
        return open_local(a, e);
    if (net_resolve(a->config->leader_host, a->config->leader_port, &a->leader, e) < 0)
        return err_wrap(e, "coordinator");
    a->retry_ms = AGENT_RETRY_FIRST_MS;
    a->retry_until_ms = clock_mono_ms() + a->config->join_timeout_ms;
    connect_now(a);
    return 0;
}

void agent_link_close(struct agent *a) {
    timer_stop(&a->retry);
    timer_stop(&a->beat);
    link_close(&a->link);
}
