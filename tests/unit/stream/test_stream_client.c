// SPDX-License-Identifier: Apache-2.0
// A reader whose bytes do not come: an object of this computer after its dtctl has gone.
#include "stream/stream_server_impl.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// In place of libcurl's: no object of a server is read here.
void http_begin(struct http *h, struct http_call *c) {
    (void)h;
    (void)c;
    abort();
}
int http_step_or(struct http *h, int fd, int timeout_ms, struct err *e) {
    (void)h;
    (void)fd;
    (void)timeout_ms;
    return err_set(e, ERR_FAILED, "no server");
}
void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}
uint64_t http_again_count(const struct http *h) {
    (void)h;
    return 0;
}
struct http *http_open(const char *ca, size_t ca_len, struct err *e) {
    (void)ca;
    (void)ca_len;
    err_set(e, ERR_FAILED, "no server");
    return NULL;
}
void http_wake(struct http *h) {
    (void)h;
}
void http_close(struct http *h) {
    (void)h;
}

struct place {
    char dir[64];
    struct loop *loop;
    struct stream_server server;
    struct stream_client client;
    int peer;
};

static bool place_open(struct place *p, bool keep_alive) {
    static const struct object_want want = {.name = "part-1", .etag = "", .file = 1, .size = 100};
    struct err e = {0};
    int pair[2];
    *p = (struct place){.dir = "/tmp/dtctl-stream-XXXXXX"};
    if (!mkdtemp(p->dir) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    p->loop = loop_open(&e);
    p->server.loop = p->loop;
    p->peer = pair[1];
    if (!p->loop || stream_store_open(&p->server.store, p->dir, &e) < 0 ||
        !stream_store_input(&p->server.store, "set", &e) ||
        stream_store_add(&p->server.store, &want, "part-1", 0, &e) < 0 ||
        stream_store_scan(&p->server.store, &e) < 0 ||
        stream_client_open(&p->client, &p->server, pair[0], &e) < 0) {
        printf("# %s\n", e.text);
        return false;
    }
    p->client.answers = true;
    p->client.request.keep_alive = keep_alive;
    p->client.since_ms = 1000;
    stream_reader_begin(&p->server.store, &p->client.reader, &p->server.store.objects[0], 0, 100);
    return true;
}

static void place_close(struct place *p) {
    struct err e = {0};
    stream_client_close(&p->client);
    stream_store_close(&p->server.store);
    loop_close(p->loop);
    close(p->peer);
    is_int(file_remove_tree(p->dir, &e), 0, "the store is removed");
}

static size_t answer(const struct place *p, char *text, size_t room) {
    ssize_t n = recv(p->peer, text, room - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static void before_its_head(void) {
    struct place p;
    char text[1024];
    if (!ok(place_open(&p, true), "a reader waits for an object"))
        return;
    stream_client_late(&p.client, 1000 + STREAM_WAIT_MS_MAX);
    is_uint(answer(&p, text, sizeof text), 0, "within five minutes the reader gets no answer");
    stream_client_late(&p.client, 1000 + STREAM_WAIT_MS_MAX + 1);
    answer(&p, text, sizeof text);
    has_str(text, "HTTP/1.1 504 Gateway Timeout\r\n", "after five minutes the answer is 504");
    has_str(text, "\r\n\r\nthe object has not come within the time limit\n",
            "the answer has the reason");
    ok(p.client.used && !p.client.answers, "the connection takes another request");
    place_close(&p);
}

static void after_its_head(void) {
    struct place p;
    char text[1024];
    if (!ok(place_open(&p, true), "a reader has a part of an object"))
        return;
    p.client.begun = true;
    stream_client_late(&p.client, 1000 + STREAM_WAIT_MS_MAX + 1);
    is_uint(answer(&p, text, sizeof text), 0, "an answer that has begun gets no second status");
    ok(!p.client.used && recv(p.peer, text, 1, MSG_DONTWAIT) == 0, "the connection ends");
    place_close(&p);
}

int main(void) {
    before_its_head();
    after_its_head();
    return done_testing();
}
