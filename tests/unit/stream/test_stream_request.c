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

// The limits themselves are allowed.
static void test_at_limits(void) {
    char *text = malloc(STREAM_REQUEST_BYTES_MAX + 2);
    int status = 0;
    size_t len = (size_t)snprintf(text, 100, "\r\n\nGET /a HTTP/1.1\r\n");
    for (int i = 0; i < STREAM_HEADERS_MAX; i++)
        len += (size_t)snprintf(text + len, 100, "A: %d\r\n", i);
    len += (size_t)snprintf(text + len, 100, "\r\n");
    is_int(stream_request_parse(text, len, &r, &status), (intmax_t)len,
           "64 headers are taken, and empty lines in front count");
    for (size_t all = STREAM_REQUEST_BYTES_MAX; all <= STREAM_REQUEST_BYTES_MAX + 1; all++) {
        memset(text, 'x', all);
        memcpy(text, "GET /a HTTP/1.1\r\nA: ", 20);
        memcpy(text + all - 4, "\r\n\r\n", 4);
        bool fits = all == STREAM_REQUEST_BYTES_MAX;
        status = 0;
        is_int(stream_request_parse(text, all, &r, &status), fits ? (intmax_t)all : -1,
               "a head of %zu bytes has its verdict", all);
        is_int(status, fits ? 0 : 431, "a head of %zu bytes has its status", all);
    }
    is_int(stream_request_parse(text, STREAM_REQUEST_BYTES_MAX - 1, &r, &status), 0,
           "a head that ends below the limit may have more");
    free(text);
}

// Bytes of a method, a header's name, a target, a version and a value.
static void test_bytes(void) {
    static const struct {
        const char *before, *after;
        int taken, status; // so many of 255; the status of the others
    } places[] = {
        {"G", "T /a HTTP/1.1\r\n\r\n", 77, 405}, {"GET /a HTTP/1.1\r\nA", "B: x\r\n\r\n", 78, 0},
        {"GET /", " HTTP/1.1\r\n\r\n", 94, 0},   {"GET /a HTTP/1.", "\r\n\r\n", 10, 0},
        {"GET /a HTTP/", ".1\r\n\r\n", 1, 0},    {"GET /a HTTP/1.1\r\nA: x", "y\r\n\r\n", 253, 0}};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        int taken = 0;
        for (int byte = 1; byte < 256; byte++) {
            char text[100];
            snprintf(text, sizeof text, "%s%c%s", places[k].before, byte, places[k].after);
            int status = judge(text);
            taken += status == 0 || status == places[k].status;
        }
        is_int(taken, places[k].taken, "place %zu takes its bytes", k);
    }
}

static void test_fields(void) {
    is_int(judge("GET /a%20b HTTP/1.1\r\nIf-Range: \t \"x y\" \t\r\n\r\n"), 0,
           "a condition is taken");
    is_mem(r.target, r.target_len, "/a%20b", 6, "the target is the request's");
    is_mem(r.if_range, r.if_range_len, "\"x y\"", 5, "white space around a value is left out");
    is_int(judge("GET /a HTTP/1.1\r\nA:\r\n\r\n"), 0, "an empty value is taken");
    is_int(judge("GET /a HTTP/1.1\r\nA: \t\r\n\r\n"), 0, "a value of white space is taken");
    is_int(judge("GET /a HTTP/1.1\r\nContent-Length:\r\n\r\n"), 413, "no length is not 0");
    is_int(judge("HEAD /a HTTP/1.1\r\n\r\n"), 0, "HEAD is taken");
    is_int(judge("HEAT /a HTTP/1.1\r\n\r\n"), 405, "HEAT is refused");
    is_int(judge("GETS /a HTTP/1.1\r\n\r\n"), 405, "GETS is refused");
    is_int(judge(" /a HTTP/1.1\r\n\r\n"), 400, "a request has a method");
    is_int(judge("GET /a HTTP/1.12\r\n\r\n"), 400, "a version has two digits");
    is_int(judge("GET /a HTTQ/1.1\r\n\r\n"), 400, "a version begins with HTTP/");
}

static void test_words(void) {
    static const struct {
        const char *value;
        bool stays;
    } cases[] = {{"close", false},        {"closed", true},
                 {"aclose", true},        {"a,close", false},
                 {"close,a", false},      {"CLOSE", false},
                 {"clos", true},          {"a close", false},
                 {"x, keep-alive", true}, {"keep-alive, close", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[100];
        snprintf(text, sizeof text, "GET /a HTTP/1.1\r\nConnection: %s\r\n\r\n", cases[i].value);
        judge(text);
        is_int(r.keep_alive, cases[i].stays, "a connection with '%s' has its end", cases[i].value);
    }
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
        {"bytes=-100", 206, 0, 100},
        {"bytes=-99", 206, 1, 99},
        {"bytes=10-10", 206, 10, 1},
        {"bytes=0-98", 206, 0, 99},
        {"bytes=0-99", 206, 0, 100},
        {"bytes=0-100", 206, 0, 100},
        {"bytes=99-", 206, 99, 1},
        {"bytes=0-18446744073709551615", 206, 0, 100},
        {"bytes=0-18446744073709551616", 206, 0, 100},
        {"bytes=18446744073709551615-", 416, 0, 0},
        {"bytes=18446744073709551616-18446744073709551617", 416, 0, 0},
        {"bytes=00-0000000000000000000000000000000005", 206, 0, 6},
        {"bytes=1844674407370955161-18446744073709551620", 416, 0, 0},
        {"bytes", 200, 0, 100},
        {"bytes=5", 200, 0, 100},
        {"bytes=5-9 ", 206, 5, 5},
        {"bytes= 5-9", 200, 0, 100},
        {"bytes=5-9x", 200, 0, 100},
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
    ok(path("/%4a%4A%fF", out) && strcmp(out, "/JJ\xff") == 0, "digits have two cases");
    ok(!path("/%4g", out) && !path("/%G4", out) && !path("/%:0", out), "g is no digit");
    ok(path("/a#%", out) && strcmp(out, "/a") == 0, "a fragment is not decoded");
    ok(path("/%41%42", out) && strcmp(out, "/AB") == 0, "escapes follow each other");
    ok(stream_request_path("/%4142", 3, out, 16) == false, "an escape ends with the target");
    ok(path("", out) && !*out, "an empty target is an empty path");
    ok(!path("/a%00b", out), "a NUL is refused");
    ok(path("/23456789012345", out) && !path("/234567890123456", out), "the room is kept");
}

static void test_texts(void) {
    static const int known[] = {200, 206, 400, 404, 405, 409, 413, 416,
                                417, 431, 501, 502, 503, 504, 505, 507};
    int count = 0, found = 0;
    for (int status = 100; status < 600; status++)
        count += strcmp(stream_status_text(status), "Error") != 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found += strcmp(stream_status_text(known[i]), "Error") != 0;
    ok(count == 16 && found == 16, "sixteen statuses have words");
    is_str(stream_status_text(206), "Partial Content", "a part has its words");
    is_str(stream_status_text(507), "Insufficient Storage", "a full disk has its words");
}

int main(void) {
    test_heads();
    test_limits();
    test_at_limits();
    test_bytes();
    test_fields();
    test_words();
    test_connection();
    test_ranges();
    test_paths();
    test_texts();
    return done_testing();
}
