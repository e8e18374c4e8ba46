// SPDX-License-Identifier: Apache-2.0
// HTTP requests, many at a time, by libcurl. A request that fails for a reason that passes is made
// again over a new connection, by the rules of http_retry.h. One thread; callbacks come from
// http_step alone.
//
//     struct http *h = http_open(ca, len, e);
//     struct http_call c = {.method = "GET", .url = url, .body_max = 1 << 20};
//     http_run(h, &c, e); // c.status, c.etag, c.body
//     http_call_close(&c); http_close(h);
#ifndef OBJECT_HTTP_H
#define OBJECT_HTTP_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_CONNECT_MS_MAX = 10000,
    HTTP_STALL_S_MAX = 30, // without a byte
    HTTP_REDIRECTS_MAX = 5,
    HTTP_ERROR_BYTES_MAX = 64 << 10,
    HTTP_HEADERS_MAX = 20,
    HTTP_CONNECTIONS_MAX = 32,
};

struct http;
struct http_call;
struct curl_slist;

struct http_header {
    const char *name, *value;
};

struct http_call {
    // Set by the caller. Strings stay valid until the end.
    const char *method, *url;
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    const void *body_out; // sent; NULL: none
    size_t body_out_len;
    size_t body_max;      // of an answer that goes into `body`
    bool follow;          // redirects, to https alone
    bool once;            // no second try
    bool direct;          // not through a proxy
    int64_t total_ms_max; // of one try; 0: HTTP_STALL_S_MAX alone limits it
    // Called before each try, to discard the bytes of the last one and to set headers. A negative
    // result ends the call with the error. May be NULL.
    int (*on_try)(struct http_call *c, struct err *e);
    // Bytes of an answer with a status of 2xx; the answer's fields are set. NULL: into `body`. A
    // negative result ends the call with the error.
    int (*on_data)(struct http_call *c, const void *p, size_t len, struct err *e);
    void (*on_end)(struct http_call *c, const struct err *e); // e->code ERR_NONE: 2xx
    void *ctx;

    // The answer.
    long status;
    char etag[160], range[96], region[32], request_id[80];
    int64_t length; // -1: not given
    bool kms;       // encrypted with a key of KMS: the ETag is no MD5
    char code[64];  // the server's word for an error
    struct strbuf body;

    // Of http.c.
    struct http *http;
    void *easy;
    struct curl_slist *list;
    struct err err;
    int tries;
    int64_t again_ms;
    struct http_call *next;
    bool ended, refused; // refused: by on_try
    char why[256];
};

// ca: certificates as PEM, which outlive h.
struct http *http_open(const char *ca, size_t ca_len, struct err *e);
void http_close(struct http *h); // calls that are under way get no callback
void http_begin(struct http *h, struct http_call *c);
// Works for at most timeout_ms and returns the number of calls under way; -1: an error of curl.
int http_step(struct http *h, int timeout_ms, struct err *e);
// The same, and it returns as soon as `fd` is readable.
int http_step_or(struct http *h, int fd, int timeout_ms, struct err *e);
void http_wake(struct http *h); // from any thread: http_step returns at once
// One call to its end.
int http_run(struct http *h, struct http_call *c, struct err *e);
void http_call_close(struct http_call *c);       // frees the answer
uint64_t http_again_count(const struct http *h); // tries that were not the first one

#endif
