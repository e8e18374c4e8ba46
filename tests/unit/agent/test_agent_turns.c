// SPDX-License-Identifier: Apache-2.0
// A coordinator that breaks the order of messages: its round begins no worker before it has taken
// the agent in.
#include "agent/agent.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/listener.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60 * 1000, LINKS_MAX = 64, LEADER = 77, NODE_MS = 100 };

static struct err e;
static struct channel_secret secret = {.run = "x"};
static struct channel links[LINKS_MAX];
static struct loop *loop;
static char folder[] = "/tmp/test_agent_turns.XXXXXX", mark[sizeof folder + 8];
static int link_count, port, joins, hung_up;
static bool takes_in; // the agent, before its round

static void answer(struct channel *l, const struct wire_msg *m) {
    struct wire_msg r = {.type = WIRE_ANSWER,
                         .kind = m->kind,
                         .seq = m->term,
                         .term = 1,
                         .incarnation = LEADER,
                         .leader_term = 1,
                         .leader = LEADER,
                         .name = "leader",
                         .address = "127.0.0.1",
                         .port = port};
    channel_send(l, &r);
}

static void take_join(struct channel *l) {
    struct wire_node node = {.name = "leader", .address = "127.0.0.1"};
    struct wire_msg joined = {.type = WIRE_JOINED,
                              .present = 2,
                              .expected = 2,
                              .name = "leader",
                              .term = 1,
                              .incarnation = LEADER,
                              .attempt = -1,
                              .round = -1,
                              .session = 1};
    struct wire_msg round = {.type = WIRE_ROUND,
                             .group_rank = 1,
                             .group_world = 2,
                             .rank = 1,
                             .world_size = 2,
                             .role_rank = 1,
                             .role_world = 2,
                             .master_addr = "127.0.0.1",
                             .master_port = port,
                             .left_ms = WAIT_MS_MAX,
                             .round_term = 1,
                             .nodes = &node,
                             .node_count = 0};
    joins++;
    if (takes_in)
        channel_send(l, &joined);
    channel_send(l, &round);
}

static void on_ready(struct channel *l) {
    (void)l;
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    if (m->type == WIRE_ASK)
        answer(l, m);
    else if (m->type == WIRE_BEAT)
        channel_send(l, &(struct wire_msg){
                            .type = WIRE_BEAT, .seq = m->seq, .stamp = 1, .left_ms = WAIT_MS_MAX});
    else if (m->type == WIRE_JOIN)
        take_join(l);
}

static void on_end(struct channel *l, const struct err *why) {
    (void)l;
    (void)why;
    hung_up += joins > 0;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    (void)l;
    (void)peer;
    if (link_count == LINKS_MAX || channel_open(&links[link_count], loop, fd, CHANNEL_COORDINATOR,
                                                false, &secret, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    link_count++;
}

static int open_port(int *number) {
    int fd;
    if (net_listen("127.0.0.1", 0, &fd, number, &e) < 0)
        bail_out("no port: %s", e.text);
    return fd;
}

// An agent whose only worker makes the file mark.
static pid_t start_agent(void) {
    const char *command[] = {"touch", mark, NULL};
    int own_port, listen_fd = open_port(&own_port);
    static const unsigned char streams[1];
    static const bool on_console[1];
    struct agent_config c = {
        .run = "x",
        .name = "node",
        .role = "default",
        .node_rank = -1,
        .coordinator = {.rendezvous = {.nodes_min = 2,
                                       .nodes_max = 2,
                                       .join_timeout_ms = WAIT_MS_MAX,
                                       .rejoin_timeout_ms = WAIT_MS_MAX,
                                       .silent_ms_max = WAIT_MS_MAX,
                                       .lease_ms = WAIT_MS_MAX,
                                       .stop_ms_max = WAIT_MS_MAX,
                                       .note_ms = WAIT_MS_MAX},
                        .secret = secret,
                        .shutdown_timeout_ms = NODE_MS},
        .address = "127.0.0.1",
        .beat_ms = NODE_MS,
        .listen_fd = listen_fd,
        .listen_port = own_port,
        .endpoints = {{.host = "127.0.0.1", .port = port}},
        .endpoint_count = 1,
        .join_timeout_ms = WAIT_MS_MAX,
        .workers = {.command = command,
                    .env = environ,
                    .nproc = 1,
                    .streams_to_file = streams,
                    .streams_to_both = streams,
                    .on_console = on_console,
                    .role = "default",
                    .host = "node"},
        .notice_file = "",
        .health_port = -1,
        .door_fd = -1,
        .title = "x",
        .signals_text = "",
    };
    sigemptyset(&c.signals);
    pid_t pid = fork();
    if (pid == 0) {
        int status = agent_run(&c, &e);
        _exit(status < 0 ? 1 : status);
    }
    close(listen_fd);
    return pid;
}

// Until the agent's worker has run, or the agent has given this coordinator up.
static void coordinate(bool in_order) {
    takes_in = in_order;
    joins = hung_up = 0;
    pid_t pid = start_agent();
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX;
         !hung_up && !file_exists(mark) && clock_mono_ms() < until;)
        loop_once(loop, 20);
    ok(joins > 0, "an agent asks to join");
    ok(file_exists(mark) == in_order, "a round %s",
       in_order ? "begins workers" : "before that begins none");
    ok(hung_up == !in_order, "the agent %s its connection", in_order ? "keeps" : "closes");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void) {
    struct listener listener = {0};
    log_open("test", LOG_ERROR, LOG_PLAIN);
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    snprintf(mark, sizeof mark, "%s/mark", folder);
    loop = loop_open(&e);
    int fd = open_port(&port);
    if (!loop || listener_open(&listener, loop, fd, "agents", on_accept, &e) < 0)
        bail_out("no listener: %s", e.text);
    coordinate(false);
    coordinate(true);
    unlink(mark);
    rmdir(folder);
    listener_close(&listener);
    for (int i = 0; i < link_count; i++)
        channel_close(&links[i]);
    loop_close(loop);
    return done_testing();
}
