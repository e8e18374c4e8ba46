// SPDX-License-Identifier: Apache-2.0
// A listening socket without free descriptors: connections are refused, and accepted again later.
#include "sys/listener.h"

#include "base/clock.h"
#include "tests/tap.h"

#include <sys/resource.h>
#include <unistd.h>

enum { CLIENTS = 20 };
static int accepted;

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    (void)l;
    (void)peer;
    accepted++;
    close(fd);
}

// Without a loop: a connection, none in time, none that can be accepted.
static void waits(const struct rlimit *all) {
    struct net_address to, peer;
    struct err e = {0};
    int listening, port, got;
    if (net_listen("127.0.0.1", 0, &listening, &port, &e) < 0 ||
        net_resolve("127.0.0.1", port, &to, &e) < 0)
        bail_out("no socket: %s", e.text);
    int64_t began = clock_mono_ms();
    is_int(listener_wait(listening, began + 50, &peer, &e), -1, "without a client the wait fails");
    is_int(e.code, ERR_TIMEOUT, "the wait ends with a time limit");
    ok(clock_mono_ms() - began >= 50, "the wait lasts until the deadline");
    int one = net_connect(&to, 10000, &e);
    is_int(listener_wait(listening, began, &peer, &e), -1,
           "after the deadline no client is accepted");
    got = listener_wait(listening, clock_mono_ms() + 10000, &peer, &e);
    ok(got >= 0 && net_is_loopback(&peer), "a waiting client is accepted before the deadline");
    int other = net_connect(&to, 10000, &e);
    struct rlimit few = *all;
    few.rlim_cur = (rlim_t)other + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    is_int(listener_wait(listening, clock_mono_ms() + 10000, &peer, &e), -1,
           "without descriptors the wait fails before the deadline");
    is_int(e.code, ERR_SYS, "the failure is a system error");
    has_str(e.text, "cannot accept a connection",
            "the error says that no connection can be accepted");
    setrlimit(RLIMIT_NOFILE, all);
    close(got), close(one), close(other), close(listening);
}

int main(void) {
    struct listener l;
    struct net_address to;
    struct err e;
    int clients[CLIENTS], listening, port, gone = 0;
    struct rlimit all, few;
    struct loop *loop = loop_open(&e);
    if (!loop || net_listen("127.0.0.1", 0, &listening, &port, &e) < 0 ||
        listener_open(&l, loop, listening, "tests", on_accept, &e) < 0 ||
        net_resolve("127.0.0.1", port, &to, &e) < 0)
        bail_out("no listener: %s", e.text);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = net_connect(&to, 10000, &e);
    getrlimit(RLIMIT_NOFILE, &all);
    few = all;
    few.rlim_cur = (rlim_t)clients[CLIENTS - 1] + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 0; i < CLIENTS; i++)
        loop_once(loop, 0);
    is_int(accepted, 0, "without descriptors no client is accepted");
    for (int i = 0; i < CLIENTS; i++) {
        char c;
        gone +=
            clients[i] >= 0 && net_recv_all(clients[i], &c, 1, 10000, &e) < 0 && e.code == ERR_NET;
    }
    is_int(gone, CLIENTS, "all who came are turned away");
    setrlimit(RLIMIT_NOFILE, &all);
    int one = net_connect(&to, 10000, &e);
    for (int i = 0; i < CLIENTS && accepted == 0; i++)
        loop_once(loop, 1000);
    is_int(accepted, 1, "later others are accepted again");
    close(one);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    listener_close(&l);
    listener_close(&l);
    loop_close(loop);
    waits(&all);
    return done_testing();
}
