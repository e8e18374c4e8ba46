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

// Heads of answers that have no object in them. "@" is the end of a line, "$" the secret.
static void heads(void) {
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"HEAD /$/set/part-1 HTTP/1.1@Host: x@@",
         "HTTP/1.1 200 OK@Content-Type: application/octet-stream@Content-Length: 100@"
         "Accept-Ranges: bytes@ETag: \"*\"@Connection: keep-alive@@"},
        {"HEAD /$/set/part-1 HTTP/1.1@Host: x@Range: bytes=10-19@Connection: close@@",
         "HTTP/1.1 206 Partial Content@Content-Type: application/octet-stream@"
         "Content-Length: 10@Accept-Ranges: bytes@ETag: \"*\"@Connection: close@"
         "Content-Range: bytes 10-19/100@@"},
        {"HEAD /$/set/part-1 HTTP/1.1@Host: x@Range: bytes=10-19@If-Range: \"other\"@@",
         "HTTP/1.1 200 OK@Content-Type: application/octet-stream@Content-Length: 100@"
         "Accept-Ranges: bytes@ETag: \"*\"@Connection: keep-alive@@"},
        {"GET /$/set/part-1 HTTP/1.1@Host: x@Range: bytes=100-@@",
         "HTTP/1.1 416 Range Not Satisfiable@Content-Type: text/plain; charset=utf-8@"
         "Content-Length: 29@Cache-Control: no-store@Connection: keep-alive@"
         "Content-Range: bytes */100@@the object has no such bytes\n"},
        {"GET /$/set/part-2 HTTP/1.1@Host: x@@",
         "HTTP/1.1 404 Not Found@Content-Type: text/plain; charset=utf-8@Content-Length: 24@"
         "Cache-Control: no-store@Connection: keep-alive@@there is no such object\n"},
        {"HEAD /$/set/part-2 HTTP/1.1@Host: x@@",
         "HTTP/1.1 404 Not Found@Content-Type: text/plain; charset=utf-8@Content-Length: 24@"
         "Cache-Control: no-store@Connection: keep-alive@@"},
        {"PUT /$/set/part-1 HTTP/1.1@Host: x@@",
         "HTTP/1.1 405 Method Not Allowed@Content-Type: text/plain; charset=utf-8@"
         "Content-Length: 19@Cache-Control: no-store@Connection: close@Allow: GET, HEAD@@"
         "Method Not Allowed\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct place p;
        struct strbuf sent = {0}, want = {0};
        char text[1024], id[HASH_HEX_BYTES];
        if (!ok(place_open(&p, true), "a reader asks (%zu)", i))
            return;
        p.client.answers = false;
        hash_hex(id, p.server.store.objects[0].want.id);
        struct stream_object *sorted[] = {&p.server.store.objects[0]};
        p.server.sorted = sorted;
        memset(p.server.secret, '5', STREAM_SECRET_DIGITS);
        for (const char *c = cases[i].request; *c; c++)
            strbuf_adds(&sent, *c == '@'   ? "\r\n"
                               : *c == '$' ? p.server.secret
                                           : (char[]){*c, '\0'});
        for (const char *c = cases[i].answer; *c; c++)
            strbuf_adds(&want, *c == '@'                  ? "\r\n"
                               : *c == '*' && c[1] == '"' ? id
                                                          : (char[]){*c, '\0'});
        must(write(p.peer, sent.data, sent.len) == (ssize_t)sent.len);
        loop_once(p.loop, 0);
        answer(&p, text, sizeof text);
        is_str(text, strbuf_cstr(&want), "request %zu has its answer", i);
        strbuf_fini(&sent);
        strbuf_fini(&want);
        place_close(&p);
    }
}

int main(void) {
    heads();
    before_its_head();
    after_its_head();
    return done_testing();
}
