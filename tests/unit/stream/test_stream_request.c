// SPDX-License-Identifier: Apache-2.0
// Requests for streamed objects: what is taken, what is refused, ranges, paths.
#include "stream/stream_request.h"

#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stream_request r;

// The status that a text is refused with; 0: it is a request, 1: it is not complete.
static int judge(const char *text) {
    int status = 0;
    ssize_t n = stream_request_parse(text, strlen(text), &r, &status);
    return n < 0 ? status : n == 0 ? 1 : 0;
}

static void test_heads(void) {
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /a HTTP/1.1\r\n\r\n", 0},
        {"GET /a HTTP/1.1\n\n", 0},
        {"\r\n\r\nGET /a HTTP/1.1\r\n\r\n", 0},
        {"GET /a HTTP/1.1\r\nHost: x\r\n", 1},
        {"GET /a HTTP/1.1", 1},
        {"", 1},
        {"GET  HTTP/1.1\r\n\r\n", 400},
        {"GET /a\r\n\r\n", 400},
        {"GET a HTTP/1.1\r\n\r\n", 400},
        {"GET http://x/a HTTP/1.1\r\n\r\n", 400},
        {"GET /a b HTTP/1.1\r\n\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", 400},
        {"G(T /a HTTP/1.1\r\n\r\n", 400},
        {"GET /a HTTP/2.0\r\n\r\n", 505},
        {"GET /a HTTP/1x1\r\n\r\n", 400},
        {"PUT /a HTTP/1.1\r\n\r\n", 405},
        {"get /a HTTP/1.1\r\n\r\n", 405},
        {"GET /a HTTP/1.1\r\nno colon\r\n\r\n", 400},
        {"GET /a HTTP/1.1\r\n: x\r\n\r\n", 400},
        {"GET /a HTTP/1.1\r\nA : x\r\n\r\n", 400},
        {"GET /a HTTP/1.1\r\nA: x\r\n folded\r\n\r\n", 400},
        {"GET /a HTTP/1.1\r\nA: x\ry\r\n\r\n", 400},
        {"GET /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 0},
        {"GET /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413},
        {"GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
        {"GET /a HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 417},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(judge(cases[i].text), cases[i].status, "head %zu", i);
}

static void test_limits(void) {
    enum { ROOM = STREAM_REQUEST_BYTES_MAX + 100 };
    char *text = malloc(ROOM + 1);
    memset(text, 'a', ROOM);
    text[ROOM] = '\0';
    memcpy(text, "GET /", 5);
    is_int(judge(text), 431, "a line without an end is refused at the limit");
    size_t len = (size_t)snprintf(text, ROOM, "GET /a HTTP/1.1\r\n");
    for (int i = 0; i <= STREAM_HEADERS_MAX; i++)
        len += (size_t)snprintf(text + len, ROOM - len, "A: %d\r\n", i);
    is_int(judge(text), 431, "too many headers are refused before the head ends");
    free(text);
}

static void test_connection(void) {
    judge("GET /a HTTP/1.1\r\n\r\n");
    ok(r.keep_alive && !r.head, "HTTP/1.1 stays open");
    judge("HEAD /a HTTP/1.1\r\nConnection: TE, Close\r\n\r\n");
    ok(!r.keep_alive && r.head, "unless it is said");
    judge("GET /a HTTP/1.0\r\n\r\n");
    ok(!r.keep_alive, "HTTP/1.0 does not");
    judge("GET /a HTTP/1.0\r\nconnection:keep-alive\r\n\r\n");
    ok(r.keep_alive, "unless it is asked to");
}

static void test_ranges(void) {
    static const struct {
        const char *value;
        int status;
        uint64_t from, len;
    } cases[] = {
        {"bytes=0-", 206, 0, 100},
        {"bytes=5-9", 206, 5, 5},
        {"Bytes=5-9", 206, 5, 5},
        {"bytes=99-1000", 206, 99, 1},
        {"bytes=99-99999999999999999999999", 206, 99, 1},
        {"bytes=-1", 206, 99, 1},
        {"bytes=-1000", 206, 0, 100},
        {"bytes=-0", 416, 0, 0},
        {"bytes=100-", 416, 0, 0},
        {"bytes=99999999999999999999999-", 416, 0, 0},
        // no single range of bytes: all of it
        {"bytes=9-5", 200, 0, 100},
        {"bytes=0-1,3-4", 200, 0, 100},
        {"bytes=", 200, 0, 100},
        {"bytes=-", 200, 0, 100},
        {"bytes=a-b", 200, 0, 100},
        {"items=0-1", 200, 0, 100},
        {"bytes=0-1\r\nRange: bytes=2-3", 200, 0, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        uint64_t from, len;
        snprintf(text, sizeof text, "GET /a HTTP/1.1\r\nRange: %s\r\n\r\n", cases[i].value);
        ok(judge(text) == 0, "a request with %s", cases[i].value);
        int status = stream_request_part(&r, 100, &from, &len);
        ok(status == cases[i].status &&
               (status == 416 || (from == cases[i].from && len == cases[i].len)),
           "  is %d", cases[i].status);
    }
    judge("GET /a HTTP/1.1\r\nRange: bytes=0-\r\n\r\n");
    uint64_t from, len;
    is_int(stream_request_part(&r, 0, &from, &len), 416, "an empty object has no range");
}

static bool path(const char *target, char *out) {
    return stream_request_path(target, strlen(target), out, 16);
}

static void test_paths(void) {
    char out[16];
    ok(path("/a%20b%2Fc?x#y", out) && strcmp(out, "/a b/c") == 0, "a path is decoded");
    ok(path("/%41", out) && strcmp(out, "/A") == 0, "an escape at the end");
    ok(!path("/%4", out) && !path("/%", out) && !path("/%zz", out), "a broken escape is refused");
    ok(!path("/a%00b", out), "a NUL is refused");
    ok(path("/23456789012345", out) && !path("/234567890123456", out), "the room is kept");
}

int main(void) {
    test_heads();
    test_limits();
    test_connection();
    test_ranges();
    test_paths();
    return done_testing();
}
