// SPDX-License-Identifier: Apache-2.0
// The store's sockets: clients that come, wait for each other, do not read, misbehave and go, and
// those that are refused.
#include "base/bytes.h"
#include "tcpstore/store_protocol.h"
#include "tcpstore/store_server.h"
#include "tests/tap.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/said.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 20 };

static struct screen screen;
static struct loop *loop;
static struct store_server *server;
static struct net_address far, member; // addresses of other hosts
static struct err e;

static void turn(void) {
    for (int i = 0; i < 20; i++)
        loop_once(loop, 0);
}

// Sends all of it, and lets the server read.
static void send_bytes(int fd, const void *p, size_t len) {
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(fd, (const char *)p + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        sent += n > 0 ? (size_t)n : 0;
        turn();
    }
    turn();
}

static void put_text(struct strbuf *b, const void *p, size_t len) {
    unsigned char n[8];
    bytes_store(n, len, sizeof n);
    strbuf_add(b, n, sizeof n);
    strbuf_add(b, p, len);
}

static void request(int fd, int op, const char *key, const void *value, size_t len) {
    struct strbuf b = {0};
    strbuf_addc(&b, (char)op);
    if (op == STORE_OP_WAIT) {
        unsigned char one[8];
        bytes_store(one, 1, sizeof one);
        strbuf_add(&b, one, sizeof one);
    }
    put_text(&b, key, strlen(key));
    if (value)
        put_text(&b, value, len);
    send_bytes(fd, b.data, b.len);
    strbuf_fini(&b);
}

// Bytes that have come; *over: the server has closed the connection.
static size_t receive(int fd, void *p, size_t room, bool *over) {
    size_t got = 0;
    *over = false;
    while (got < room) {
        turn();
        ssize_t n = recv(fd, (char *)p + got, room - got, MSG_DONTWAIT);
        *over = n == 0 || (n < 0 && errno == ECONNRESET);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

static bool is_over(int fd) {
    char byte;
    bool over;
    return receive(fd, &byte, 1, &over) == 0 && over;
}

static bool answers(int fd, const char *value) {
    char got[64];
    unsigned char len[8];
    bool over;
    size_t n = receive(fd, got, sizeof got, &over);
    bytes_store(len, strlen(value), sizeof len);
    return n == 8 + strlen(value) && memcmp(got, len, 8) == 0 &&
           memcmp(got + 8, value, strlen(value)) == 0;
}

static int greet(int fd) {
    unsigned char magic[5] = {STORE_OP_VALIDATE};
    bytes_store(magic + 1, STORE_WIRE_MAGIC, 4);
    send_bytes(fd, magic, sizeof magic);
    return fd;
}

// A client of that host.
static int client(const struct net_address *from) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        bail_out("no sockets");
    store_server_adopt(server, fds[1], from);
    return greet(fds[0]);
}

static void begin(const struct store_limits *limits) {
    said_clear();
    server = store_server_open(loop, NULL, -1, limits, &e);
    if (!server)
        bail_out("%s", e.text);
}

static void test_clients(void) {
    int fds[3], before = descriptors();
    begin(NULL);
    for (int i = 0; i < 3; i++)
        fds[i] = client(&far);
    request(fds[0], STORE_OP_SET, "k", "v0", 2);
    request(fds[2], STORE_OP_GET, "k", NULL, 0);
    ok(answers(fds[2], "v0"), "a client reads what another one has set");
    request(fds[2], STORE_OP_WAIT, "later", NULL, 0);
    bool over;
    char byte;
    is_uint(receive(fds[2], &byte, 1, &over), 0, "a client waits for a key that is not there");
    request(fds[0], STORE_OP_SET, "later", "v1", 2);
    is_uint(receive(fds[2], &byte, 1, &over), 1, "another client ends its waiting");
    close(fds[1]); // in the middle of the list
    turn();
    is_int(descriptors(), before + 4, "the server closes a client that has gone");
    request(fds[0], STORE_OP_GET, "later", NULL, 0);
    ok(answers(fds[0], "v1"), "an older client is served");
    request(fds[2], STORE_OP_GET, "later", NULL, 0);
    ok(answers(fds[2], "v1"), "a newer client is served");
    close(fds[2]);
    turn();
    fds[1] = client(&far);
    close(fds[0]);
    turn();
    request(fds[1], STORE_OP_GET, "k", NULL, 0);
    ok(answers(fds[1], "v0"), "the client that is left is served");
    is_str(said(), "", "clients that go are no news");
    store_server_close(server);
    ok(is_over(fds[1]), "at the end clients are closed");
    close(fds[1]);
    is_int(descriptors(), before, "no descriptor is left");
    store_server_close(NULL);
}

static void test_hostile(void) {
    begin(NULL);
    for (int i = 0; i < 7; i++) {
        int fd = client(&far);
        send_bytes(fd, "\xff", 1);
        ok(is_over(fd), "a client that sends no request is closed");
        close(fd);
    }
    int lines = 0;
    for (const char *p = said(); (p = strstr(p, "store: a client was closed reason=")); p++)
        lines++;
    is_int(lines, LOG_LIMIT_LINES, "the log has some of them");
    store_server_close(server);
}

// A client that asks for much and reads nothing is not read from any more.
static void test_unread(void) {
    static char value[LARGE_BYTES];
    enum { ASKED = 64 };
    begin(NULL);
    int fd = client(&far), asked = 0;
    request(fd, STORE_OP_SET, "k", value, sizeof value);
    struct strbuf b = {0};
    strbuf_addc(&b, STORE_OP_GET);
    put_text(&b, "k", 1);
    while (asked < ASKED && send(fd, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        asked++;
        turn();
    }
    is_int(asked, ASKED, "requests are sent ahead");
    int unread = 0;
    ok(ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0, "the server does not read them yet");
    size_t got = 0;
    static char answer[8 + LARGE_BYTES];
    bool over = false;
    for (int i = 0; i < ASKED; i++)
        got += receive(fd, answer, sizeof answer, &over);
    is_uint(got, ASKED * sizeof answer, "each request has its answer in the end");
    request(fd, STORE_OP_SET, "k", "v", 1);
    request(fd, STORE_OP_GET, "k", NULL, 0);
    ok(answers(fd, "v"), "the client is served as before");
    strbuf_fini(&b);
    close(fd);
    store_server_close(server);
}

static void test_refused(void) {
    static const struct store_limits none = {.sessions_max = 1};
    begin(NULL);
    store_server_allow(server, &member, 1);
    int stranger = client(&far), good = client(&member);
    ok(is_over(stranger), "a host that is no member is refused");
    has_str(said(), "store: refused a client peer=203.0.113.9 reason=not a member\n",
            "the log has its address");
    request(good, STORE_OP_SET, "k", "v", 1);
    request(good, STORE_OP_GET, "k", NULL, 0);
    ok(answers(good, "v"), "a member is served, whatever its port");
    store_server_allow(server, &member, 0);
    int late = client(&member);
    ok(is_over(late), "without members no other host is served");
    close(stranger);
    close(good);
    close(late);
    store_server_close(server);
    begin(&none);
    good = client(&far);
    late = client(&far);
    ok(is_over(late) && !is_over(good), "one client more than the limit is refused");
    has_str(said(), "store: refused a client peer=203.0.113.9 reason=", "the log has the reason");
    close(good);
    close(late);
    store_server_close(server);
}

// Whether a process of the user gets an answer over loopback.
static bool is_served(uid_t uid) {
    struct net_address here;
    if (net_resolve("127.0.0.1", store_server_port(server), &here, &e) < 0)
        bail_out("%s", e.text);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char got[16];
        unsigned char magic[5] = {STORE_OP_VALIDATE};
        if (uid != geteuid() && setuid(uid) < 0)
            _exit(2);
        int fd = net_connect(&here, 10000, &e);
        bytes_store(magic + 1, STORE_WIRE_MAGIC, 4);
        struct strbuf b = {0};
        strbuf_add(&b, magic, sizeof magic);
        strbuf_addc(&b, STORE_OP_SET);
        put_text(&b, "k", 1);
        put_text(&b, "v", 1);
        strbuf_addc(&b, STORE_OP_GET);
        put_text(&b, "k", 1);
        bool sent = net_send_all(fd, b.data, b.len, 10000, &e) == 0;
        _exit(sent && net_recv_all(fd, got, 9, 10000, &e) == 0 ? 0 : 1);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0)
        loop_once(loop, 10);
    if (WEXITSTATUS(status) > 1)
        bail_out("no such user");
    return status == 0;
}

static void test_users(void) {
    said_clear();
    server = store_server_open(loop, "127.0.0.1", 0, NULL, &e);
    if (!server)
        bail_out("%s", e.text);
    ok(store_server_port(server) > 0, "the server has a port");
    ok(is_served(geteuid()), "a process of the user is served over loopback");
    store_server_allow(server, &member, 1);
    ok(is_served(geteuid()), "a process of the user on this host is served, member or not");
    is_str(said(), "", "nothing is in the log");
    if (geteuid() == 0) {
        ok(!is_served(65534), "a process of another user is refused");
        has_str(said(), "peer=127.0.0.1 reason=not a process of the run's user\n",
                "the log has the reason");
    } else {
        skip(2, "only root can be another user");
    }
    struct err why = {0};
    struct store_server *second =
        store_server_open(loop, "127.0.0.1", store_server_port(server), NULL, &why);
    ok(!second, "a port that is taken cannot be had");
    has_str(why.text, "store: ", "the error says who wants it");
    store_server_close(second);
    store_server_close(server);
}

int main(void) {
    loop = loop_open(&e);
    if (!loop || net_resolve("203.0.113.9", 1, &far, &e) < 0 ||
        net_resolve("203.0.113.10", 7, &member, &e) < 0)
        bail_out("%s", e.text);
    said_open(&screen);
    test_clients();
    test_hostile();
    test_unread();
    test_refused();
    test_users();
    said_close(&screen);
    loop_close(loop);
    return done_testing();
}
