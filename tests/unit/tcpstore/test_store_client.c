// SPDX-License-Identifier: Apache-2.0
// The client against a server that follows a script: in time, late, wrongly, in part.
#include "tcpstore/store_client.h"
#include "tcpstore/store_protocol.h"
#include "tests/tap.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_MS = 60, LATE_MS = 150, STEPS_MAX = 4 };

struct step { // reads so many bytes, waits, answers
    size_t read;
    int pause_ms;
    size_t len;
    unsigned char answer[16];
};
struct server {
    int fd;
    struct step steps[STEPS_MAX];
    pthread_t thread;
};

static void *serve(void *arg) {
    struct server *s = arg;
    char sink[256];
    for (int i = 0; i < STEPS_MAX; i++) {
        const struct step *step = &s->steps[i];
        for (size_t n = 0; n < step->read;) {
            ssize_t got = recv(s->fd, sink, step->read - n, 0);
            if (got <= 0)
                return NULL;
            n += (size_t)got;
        }
        usleep((unsigned)step->pause_ms * 1000);
        if (step->len && send(s->fd, step->answer, step->len, MSG_NOSIGNAL) < 0)
            return NULL;
    }
    return NULL;
}

static struct store_client connected(struct server *s) {
    int pair[2];
    struct store_client c = {.fd = -1, .reply_ms_max = REPLY_MS, .peer = "here:1"};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        (s->fd = pair[1], pthread_create(&s->thread, NULL, serve, s)) != 0)
        bail_out("no server");
    c.fd = pair[0];
    return c;
}

static void ended(struct server *s, struct store_client *c) {
    store_client_close(c);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

enum { OF_CHECK = 1 + 8 + 8 + 1, OF_WAIT = OF_CHECK, OF_CANCEL = 1, OF_ADD = 1 + 8 + 1 + 8 };

static void waits(void) {
    struct err e = {0};
    struct server s = {.steps = {{OF_WAIT + OF_CANCEL, 0, 1, {STORE_WIRE_WAIT_CANCELED}},
                                 {OF_CHECK, 0, 1, {STORE_WIRE_READY}}}};
    struct store_client c = connected(&s);
    is_int(store_client_wait(&c, "k", 10, &e), -1, "the key does not come");
    is_int(e.code, ERR_TIMEOUT, "a timeout is reported");
    is_int(store_client_check(&c, "k", &e), 1, "the connection is of use");
    ended(&s, &c);

    struct server crossing = {
        .steps = {{OF_WAIT + OF_CANCEL, 0, 2, {STORE_WIRE_STOP_WAITING, STORE_WIRE_WAIT_CANCELED}},
                  {OF_CHECK, 0, 1, {STORE_WIRE_READY}}}};
    c = connected(&crossing);
    is_int(store_client_wait(&c, "k", 10, &e), -1, "the key comes while the wait is cancelled");
    is_int(e.code, ERR_TIMEOUT, "a timeout is reported then, too");
    is_int(store_client_check(&c, "k", &e), 1, "both answers are taken");
    ended(&crossing, &c);
}

// The answers of the late server fit the next requests: 0 is "ready", 1 "not ready".
static void late(void) {
    struct err e = {0};
    struct server s = {.steps = {{OF_WAIT + OF_CANCEL, LATE_MS, 2, {STORE_WIRE_STOP_WAITING, 1}}}};
    struct store_client c = connected(&s);
    is_int(store_client_wait(&c, "k", 10, &e), -1, "the answer to a cancelled wait is late");
    is_int(e.code, ERR_NET, "no timeout is reported: %s", e.text);
    ok(strstr(e.text, "store at here:1") != NULL, "the error names the store");
    usleep((LATE_MS + REPLY_MS) * 1000);
    is_int(store_client_check(&c, "other", &e), -1,
           "the late answer is not that of the next request");
    is_int(e.code, ERR_NET, "the error says that the connection is closed: %s", e.text);
    ended(&s, &c);

    struct server adds = {.steps = {{OF_ADD, 0, 4, {7}}}};
    int64_t sum = -1;
    c = connected(&adds);
    is_int(store_client_add(&c, "k", 1, &sum, &e), -1, "the client refuses half an answer");
    is_int(e.code, ERR_NET, "the connection is at fault: %s", e.text);
    is_int(sum, -1, "no number is given");
    is_int(c.fd, -1, "the connection is closed: fd %d", c.fd);
    ended(&adds, &c);

    struct server wrong = {.steps = {{OF_WAIT, 0, 1, {9}}}};
    c = connected(&wrong);
    is_int(store_client_wait(&c, "k", 1000, &e), -1,
           "the client refuses an answer that no wait has");
    is_int(e.code, ERR_FORMAT, "the format is at fault: %s", e.text);
    is_int(store_client_check(&c, "k", &e), -1, "the connection ends with it");
    ended(&wrong, &c);
}

int main(void) {
    waits();
    late();
    return done_testing();
}
