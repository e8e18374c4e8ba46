// SPDX-License-Identifier: Apache-2.0
// Health checks over HTTP: which requests get which answers, and how many clients there may be.
#include "agent/health_check.h"

#include "sys/net.h"
#include "tests/tap.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG_BYTES = HEALTH_REQUEST_BYTES_MAX, WAIT_MS = 10000 };

static struct err e;
static struct loop *loop;
static struct health health;

static void test_answers(void) {
    static const char alive[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                "Content-Length: 6\r\nCache-Control: no-store\r\n"
                                "Connection: close\r\n\r\n";
    static const struct {
        const char *in, *status, *body; // status NULL: more is needed
    } cases[] = {{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "alive\n"},
                 {"GET /any HTTP/1.0\n\n", "200 OK", "alive\n"},
                 {"HEAD / HTTP/1.1\r\n\r\n", "200 OK", ""},
                 {"POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "GET and HEAD only\n"},
                 {"GETS\n\n", "405 Method Not Allowed", "GET and HEAD only\n"},
                 {"HEADS\n\n", "405 Method Not Allowed", "GET and HEAD only\n"},
                 {"GET\n\n", "405 Method Not Allowed", "GET and HEAD only\n"},
                 {"\n\n", "405 Method Not Allowed", "GET and HEAD only\n"},
                 {"GET / HTTP/1.1\r\n", NULL, NULL},
                 {"GET / HTTP/1.1\r\n\r", NULL, NULL},
                 {"", NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf out = {0};
        bool answered = health_answer(cases[i].in, strlen(cases[i].in), &out);
        is_int(answered, cases[i].status != NULL, "request %zu is answered when it is whole", i);
        const char *text = strbuf_cstr(&out);
        if (cases[i].status) {
            const char *line = text + strlen("HTTP/1.1 "), *end = strstr(text, "\r\n\r\n");
            is_int(strncmp(line, cases[i].status, strlen(cases[i].status)), 0,
                   "request %zu has the status %s", i, cases[i].status);
            is_str(end ? end + 4 : NULL, cases[i].body, "request %zu has its body", i);
        }
        if (i == 2)
            is_str(text, alive, "the head has all fields");
        strbuf_fini(&out);
    }
    struct strbuf out = {0};
    char text[LONG_BYTES];
    memset(text, 'x', sizeof text);
    ok(!health_answer(text, LONG_BYTES - 1, &out), "a long request may be whole later");
    ok(health_answer(text, LONG_BYTES, &out), "a longer one is answered");
    has_str(strbuf_cstr(&out), "HTTP/1.1 431 Request Header Fields Too Large\r\n",
            "a request has a limit");
    strbuf_fini(&out);
}

static int client(void) {
    struct net_address to;
    if (net_resolve("127.0.0.1", health.port, &to, &e) < 0)
        bail_out("%s", e.text);
    int fd = net_connect(&to, WAIT_MS, &e);
    if (fd < 0)
        bail_out("%s", e.text);
    return fd;
}

static void accept_clients(uint64_t count) {
    for (int i = 0; i < 1000 && health.served < count; i++)
        loop_once(loop, 10);
}

// The bytes that the server sends until it hangs up.
static size_t answer(int fd, char *text, size_t room) {
    size_t len = 0;
    for (int i = 0; i < 1000; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        loop_once(loop, 0);
        if (poll(&p, 1, 10) != 1)
            continue;
        ssize_t n = read(fd, text + len, room - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';
    return len;
}

static bool is_closed(int fd) {
    char byte;
    loop_once(loop, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

static void test_server(void) {
    static const char request[] = "GET / HTTP/1.1\r\n\r\n";
    int fds[HEALTH_CLIENTS_MAX + 1];
    char text[1024];
    if (health_open(&health, loop, 0, &e) < 0)
        bail_out("%s", e.text);
    ok(health.port > 0, "the server has a port");
    fds[0] = client();
    ok(write(fds[0], request, 5) == 5, "a request may come in two parts");
    accept_clients(1);
    ok(write(fds[0], request + 5, sizeof request - 6) > 0, "the rest is sent");
    answer(fds[0], text, sizeof text);
    has_str(text, "HTTP/1.1 200 OK", "the agent is alive");
    close(fds[0]);
    loop_once(loop, 0);
    for (int i = 0; i < HEALTH_CLIENTS_MAX; i++)
        fds[i] = client();
    accept_clients(1 + HEALTH_CLIENTS_MAX);
    ok(!is_closed(fds[0]) && !is_closed(fds[HEALTH_CLIENTS_MAX - 1]),
       "silent clients have their places");
    fds[HEALTH_CLIENTS_MAX] = client();
    accept_clients(2 + HEALTH_CLIENTS_MAX);
    ok(is_closed(fds[0]), "a further client takes the place of the oldest one");
    for (int i = 1; i <= HEALTH_CLIENTS_MAX; i++)
        if (is_closed(fds[i]))
            fail("client %d has lost its place", i);
    health_close(&health);
    ok(is_closed(fds[1]) && is_closed(fds[HEALTH_CLIENTS_MAX]), "the end closes all connections");
    health_close(&health);
    for (int i = 0; i <= HEALTH_CLIENTS_MAX; i++)
        close(fds[i]);
}

static void test_port(void) {
    struct health other = {0};
    if (health_open(&health, loop, 0, &e) < 0)
        bail_out("%s", e.text);
    is_int(health_open(&other, loop, health.port, &e), -1, "a port that is in use is refused");
    health_close(&other);
    health_close(&health);
}

int main(void) {
    loop = loop_open(&e);
    if (!loop)
        bail_out("%s", e.text);
    test_answers();
    test_server();
    test_port();
    loop_close(loop);
    return done_testing();
}
