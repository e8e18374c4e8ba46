// SPDX-License-Identifier: Apache-2.0
// Many agents join one coordinator on this machine: from the first connection until every agent has
// its ranks. Authenticated with a key and with node ranks given, as in dtctl's runs. The floor
// beside it: as many bare TCP connections, opened, accepted, one byte back. The coordinator is one
// process, all agents another. bytes: what went over all connections, both ways.
//
//     bench_rendezvous [AGENTS…]     default 100 1000 10000; JSON lines
#include "agent/coordinator.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    IN_FLIGHT = 512, // the listen queue is finite
    FIRST = 1000,    // incarnation of the first agent, which coordinates
};

static const unsigned char key[32] = "a key of thirty-two bytes, for a";
static const struct channel_secret secret = {.run = "bench", .key = key, .key_len = sizeof key};
static struct loop *loop;
static struct err e;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench_rendezvous: %s: %s\n", what, e.text);
    exit(1);
}

// ---- the coordinator's process ----

static struct coordinator *coordinator;

static void on_idle(struct coordinator *c) {
    (void)c;
    loop_stop(loop);
}

static void on_round(struct coordinator *c) {
    (void)c;
}

static const struct coordinator_events coordinator_table = {.on_idle = on_idle,
                                                            .on_round = on_round};

static void on_listen(struct watch *w, unsigned events) {
    (void)events;
    for (int i = 0; i < 256; i++) {
        struct net_address peer;
        int fd = net_accept(w->fd, &peer, &e);
        if (fd < 0)
            return;
        coordinator_adopt(coordinator, fd, &peer);
    }
}

static _Noreturn void coordinate(int listen_fd, int agents) {
    struct watch listen = {0};
    struct events events;
    struct coordinator_config c = {.secret = secret,
                                   .shutdown_timeout_ms = 1000,
                                   .rendezvous = {.incarnation = FIRST,
                                                  .nodes_min = agents,
                                                  .nodes_max = agents,
                                                  .join_timeout_ms = 60000,
                                                  .rejoin_timeout_ms = 1000,
                                                  .silent_ms_max = 60000,
                                                  .lease_ms = 60000,
                                                  .stop_ms_max = 10000,
                                                  .note_ms = 60000}};
    loop = loop_open(&e);
    events_open(&events, NULL, "bench", &e);
    coordinator = coordinator_open(loop, &c, NULL, &events, &coordinator_table, NULL);
    if (watch_start(loop, &listen, listen_fd, LOOP_READ, on_listen, &e) < 0)
        die("listen");
    loop_run(loop);
    exit(0);
}

// ---- the agents' process ----

static struct net_address address;
static struct agent_link {
    struct channel link;
    int number;
} * links;
static int wanted, begun, answered, joined;

static void begin_more(void);

static void on_ready(struct channel *l) {
    struct agent_link *a = l->ctx;
    char name[32];
    snprintf(name, sizeof name, "node%d", a->number);
    struct wire_msg m = {.type = WIRE_JOIN,
                         .name = name,
                         .node_rank = a->number,
                         .round = -1,
                         .incarnation = FIRST + a->number,
                         .address = "127.0.0.1",
                         .role = "default",
                         .nproc = 8};
    channel_send(l, &m);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    (void)l;
    if (m->type == WIRE_JOINED) {
        joined++;
        begin_more();
    } else if (m->type == WIRE_ROUND && ++answered == wanted) {
        loop_stop(loop);
    }
}

static void on_end(struct channel *l, const struct err *why) {
    (void)l;
    e = *why;
    die("an agent lost its connection");
}

static const struct channel_events link_table = {on_ready, on_message, on_end};

static void begin_more(void) {
    while (begun < wanted && begun - joined < IN_FLIGHT) {
        struct agent_link *a = &links[begun];
        a->number = begun++;
        a->link.ctx = a;
        int fd = net_connect_start(&address, &e);
        if (fd < 0 ||
            channel_open(&a->link, loop, fd, CHANNEL_AGENT, true, &secret, &link_table, &e) < 0)
            die("connect");
    }
}

static _Noreturn void greet_bare(int listen_fd) {
    struct pollfd p = {.fd = listen_fd, .events = POLLIN};
    for (;;) {
        struct net_address peer;
        int c = net_accept(listen_fd, &peer, &e);
        if (c < 0)
            poll(&p, 1, -1);
        else if (send(c, "x", 1, MSG_NOSIGNAL) != 1)
            die("floor");
    }
}

static int64_t bare_connections(int agents) {
    int port, fd, *fds = heap_alloc((size_t)agents * sizeof *fds);
    if (net_listen("127.0.0.1", 0, &fd, &port, &e) < 0)
        die("floor");
    pid_t pid = fork();
    if (pid == 0)
        greet_bare(fd);
    net_resolve("127.0.0.1", port, &address, &e);
    int64_t begin = clock_mono_ns();
    char byte;
    for (int i = 0; i < agents; i++) {
        fds[i] = net_connect(&address, 5000, &e);
        if (fds[i] < 0 || recv(fds[i], &byte, 1, 0) != 1)
            die("floor");
    }
    int64_t took = clock_mono_ns() - begin;
    for (int i = 0; i < agents; i++)
        close(fds[i]);
    close(fd);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    free(fds);
    return took;
}

static double bytes_exchanged(int agents) {
    double sum = 0;
    for (int i = 0; i < agents; i++) {
        struct tcp_info info;
        socklen_t len = sizeof info;
        if (getsockopt(links[i].link.conn.watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
            die("TCP_INFO");
        sum += (double)info.tcpi_bytes_acked + (double)info.tcpi_bytes_received;
    }
    return sum;
}

static double rss_mb(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        die("statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void measure(int agents) {
    int fd, port;
    int64_t floor_ns = bare_connections(agents);
    if (net_listen("127.0.0.1", 0, &fd, &port, &e) < 0)
        die("listen");
    pid_t pid = fork();
    if (pid == 0)
        coordinate(fd, agents);
    close(fd);
    net_resolve("127.0.0.1", port, &address, &e);
    loop = loop_open(&e);
    links = heap_alloc((size_t)agents * sizeof *links);
    wanted = agents;
    begun = joined = answered = 0;
    int64_t begin = clock_mono_ns();
    begin_more();
    loop_run(loop);
    double took = (double)(clock_mono_ns() - begin) / 1e9;
    double bytes = bytes_exchanged(agents), agents_mb = rss_mb();
    struct rusage use;
    for (int i = 0; i < agents; i++)
        channel_close(&links[i].link);
    kill(pid, SIGKILL);
    wait4(pid, NULL, 0, &use);
    double cpu = (double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    printf("{\"bench\":\"rendezvous\",\"agents\":%d,\"s\":%.3f,\"floor_s\":%.3f,"
           "\"ratio\":%.2f,\"coordinator_cpu_s\":%.3f,\"coordinator_rss_mb\":%.1f,"
           "\"agents_rss_mb\":%.1f,\"bytes\":%.0f,\"bytes_per_agent\":%.0f}\n",
           agents, took, (double)floor_ns / 1e9, took * 1e9 / (double)floor_ns, cpu,
           (double)use.ru_maxrss / 1024, agents_mb, bytes, bytes / agents);
    fflush(stdout);
    free(links);
    loop_close(loop);
}

int main(int argc, char **argv) {
    static const int usual[] = {100, 1000, 10000};
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    log_open("bench", LOG_ERROR, LOG_PLAIN);
    for (int i = 1; i < argc; i++)
        measure((int)strtol(argv[i], NULL, 10));
    for (size_t i = 0; argc < 2 && i < sizeof usual / sizeof *usual; i++)
        measure(usual[i]);
    return 0;
}
