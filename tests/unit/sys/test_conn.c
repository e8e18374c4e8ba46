// SPDX-License-Identifier: Apache-2.0
// lib/sys/conn and net: TCP on loopback, back-pressure, limits, timeouts, ends.
#include "sys/conn.h"
#include "sys/net.h"
#include "tests/tap.h"

#include <unistd.h>

enum { BIG = 8 << 20 };

static struct loop *loop;
static struct err e;
static struct conn client, server;
static struct watch listener;
static size_t received, client_opens;
static bool order_ok = true, paused;
static int drains, client_end = -1, server_end = -1;
static unsigned char *big;

static void on_accept(struct watch *w, unsigned events);

static void server_data(struct conn *c) {
    if (paused)
        return;
    for (size_t i = 0; i < c->in.len; i++)
        order_ok = order_ok && (unsigned char)c->in.data[i] == big[received + i];
    received += c->in.len;
    strbuf_consume(&c->in, c->in.len);
}
static void client_open(struct conn *c) {
    client_opens++;
    conn_send(c, big, BIG);
    conn_finish(c);
}
static void ignore_data(struct conn *c) {
    strbuf_consume(&c->in, c->in.len);
}
static void client_drain(struct conn *c) {
    (void)c;
    drains++;
}
static void on_client_end(struct conn *c, const struct err *why) {
    (void)c;
    client_end = (int)why->code;
}
static void on_server_end(struct conn *c, const struct err *why) {
    (void)c;
    server_end = (int)why->code;
}

static const struct conn_events client_events = {client_open, ignore_data, client_drain,
                                                 on_client_end};
static const struct conn_events server_events = {NULL, server_data, NULL, on_server_end};

static void on_accept(struct watch *w, unsigned events) {
    (void)events;
    struct net_address peer;
    int fd = net_accept(w->fd, &peer, &e);
    if (fd < 0)
        return;
    ok(net_is_loopback(&peer), "the peer is on loopback");
    conn_open(&server, loop, fd, &server_events, 100000, 1000, &e);
    watch_stop(w);
}

static int start_pair(int64_t connect_ms) {
    int fd, port;
    struct net_address to;
    if (net_listen("127.0.0.1", 0, &fd, &port, &e) < 0 ||
        watch_start(loop, &listener, fd, LOOP_READ, on_accept, &e) < 0 ||
        net_resolve("127.0.0.1", port, &to, &e) < 0)
        bail_out("%s", e.text);
    int c = net_connect_start(&to, &e);
    conn_open_connecting(&client, loop, c, &client_events, 1000, BIG, connect_ms, &e);
    return fd;
}

static void on_unpause(struct timer *t) {
    (void)t;
    paused = false;
    conn_resume(&server);
}

static void test_bulk(void) {
    paused = true;
    struct timer t = {0};
    int fd = start_pair(5000);
    timer_start(loop, &t, 50, on_unpause);
    loop_run(loop);
    is_int(client_opens, 1, "the connection opens once");
    is_uint(received, BIG, "every byte of 8 MiB arrived through a 100 kB buffer");
    ok(order_ok, "the bytes arrive in order");
    is_int(drains, 1, "the drain callback is called");
    is_int(server_end, ERR_NONE, "the end of the file is clean");
    is_int(client_end, ERR_NONE, "both sides see the end of file");
    close(fd);
}

static void test_output_limit(void) {
    int p[2];
    if (pipe(p) < 0)
        bail_out("no pipe");
    client_end = -1;
    conn_open(&client, loop, p[1], &client_events, 1000, 100000, &e);
    conn_send(&client, big, 90000);
    conn_send(&client, big, 90000);
    is_int(client_end, -1, "send calls no callback");
    loop_run(loop);
    is_int(client_end, ERR_LIMIT, "a peer that does not read ends the conn by its limit");
    close(p[0]);
}

// Input that is not taken stays within its limit, in pieces of any size, up to the end.
static void test_input_limit(void) {
    enum { ROOM = 1000, SENT = 2500, PIECE = 300 };
    int p[2];
    if (pipe(p) < 0)
        bail_out("no pipe");
    paused = true;
    server_end = -1;
    received = 0;
    conn_open(&server, loop, p[0], &server_events, ROOM, 100, &e);
    for (size_t sent = 0; sent < SENT; sent += PIECE) {
        size_t more = SENT - sent < PIECE ? SENT - sent : PIECE;
        if (write(p[1], big + sent, more) != (ssize_t)more)
            bail_out("a pipe takes no bytes");
        loop_once(loop, 10);
        size_t want = sent + more < ROOM ? sent + more : ROOM;
        is_uint(server.in.len, want, "the input has no more than its limit");
    }
    paused = false;
    for (size_t had = 0; had < SENT; had = received) {
        conn_resume(&server);
        loop_once(loop, 100);
        if (received - had > ROOM || received == had)
            break;
    }
    is_uint(received, SENT, "all of it comes when it is taken");
    ok(order_ok, "the bytes are those that were sent");
    paused = true;
    ok(write(p[1], big, 2 * ROOM) == 2 * ROOM, "the pipe takes more than the limit");
    loop_once(loop, 100);
    close(p[1]);
    loop_run(loop);
    is_int(server_end, ERR_NONE, "a full input ends when the other side hangs up");
}

static void test_idle(void) {
    int p[2];
    if (pipe(p) < 0)
        bail_out("no pipe");
    client_end = -1;
    conn_open(&client, loop, p[0], &client_events, 1000, 100, &e);
    conn_idle_limit(&client, 20);
    loop_run(loop);
    is_int(client_end, ERR_TIMEOUT, "an idle conn ends");
    close(p[1]);
}

static void test_refused(void) {
    int fd, port;
    struct net_address to;
    net_listen("127.0.0.1", 0, &fd, &port, &e);
    net_resolve("127.0.0.1", port, &to, &e);
    close(fd); // nothing listens on the port any more
    client_end = -1;
    int c = net_connect_start(&to, &e);
    if (c >= 0) {
        conn_open_connecting(&client, loop, c, &client_events, 10, 10, 1000, &e);
        loop_run(loop);
        is_int(client_end, ERR_NET, "a refused connection is an error");
    } else {
        is_int(e.code, ERR_NET, "a refused connection is an error");
    }
    is_int(net_connect(&to, 1000, &e), -1, "a blocking connect is refused");
    has_str(e.text, "refused", "the error says 'refused'");
}

static void test_addresses(void) {
    char host[NET_HOST_BYTES_MAX], text[NET_ADDRESS_BYTES_MAX];
    int port;
    struct net_address a, b, local;
    is_int(net_split("gpu01:29400", 7, host, &port, &e), 0, "host:port is split");
    is_str(host, "gpu01", "the host is found");
    is_int(port, 29400, "the port is found");
    is_int(net_split("[::1]:80", 7, host, &port, &e), 0, "[v6]:port is split");
    is_str(host, "::1", "the IPv6 host is found");
    is_int(net_split("fe80::1", 7, host, &port, &e), 0, "a bare IPv6 address is accepted");
    is_int(port, 7, "a bare IPv6 address has no port");
    is_int(net_split("[::1", 7, host, &port, &e), -1, "a bracket that does not close is refused");
    is_int(net_split("a:70000", 7, host, &port, &e), -1, "a port above 65535 is refused");
    net_resolve("127.0.0.2", 5, &a, &e);
    net_resolve("::ffff:127.0.0.2", 6, &b, &e);
    ok(net_same_host(&a, &b), "a v4-mapped address is the v4 one");
    is_str(net_format(&b, text), "127.0.0.2", "a v4-mapped address is printed as IPv4");
    is_int(net_route_source(&a, &local, &e), 0, "the route to a loopback address is found");
    ok(net_is_loopback(&local), "a route to loopback begins at loopback");
    char ifname[NET_IFNAME_BYTES_MAX];
    is_int(net_interface_of(&a, ifname, &e), 0, "an address of 127/8 has an interface");
    is_str(ifname, "lo", "the interface is the loopback one");
}

static void test_sent_address(void) {
    static const struct {
        const char *address, *from, *seen;
    } cases[] = {
        {"127.0.0.1", "10.0.0.1", "10.0.0.1"},   {"::1", "10.0.0.1", "10.0.0.1"},
        {"127.3.2.1", "fd00::1", "fd00::1"},     {"10.0.0.2", "10.0.0.1", "10.0.0.2"},
        {"127.0.0.1", "127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "::1", "127.0.0.1"},
        {"127.0.0.1", "", "127.0.0.1"},          {"", "10.0.0.1", ""},
        {"10.0.0.2", "127.0.0.1", "10.0.0.2"},   {"localhost", "10.0.0.1", "localhost"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(net_sent_address(cases[i].address, cases[i].from), cases[i].seen,
               "'%s', sent by '%s', is replaced where it has to be", cases[i].address,
               cases[i].from);
}

int main(void) {
    test_sent_address();
    loop = loop_open(&e);
    big = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (unsigned char)(i * 2654435761u >> 13);
    test_bulk();
    test_output_limit();
    test_input_limit();
    test_idle();
    test_refused();
    test_addresses();
    loop_close(loop);
    free(big);
    return done_testing();
}
