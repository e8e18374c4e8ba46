// SPDX-License-Identifier: Apache-2.0
// A store of streamed objects whose server is the test: it sees each request and sends what it
// wants of the object's content.
//
//     begin(); add("a", 20 << 20, "etag"); ready();
//     step(); is_str(asked(), "a:0-8388607", …);
//     answer(0, SIZE_MAX);    // all of the first request since then; less: so many bytes
//     end();
#ifndef DTCTL_TESTS_UNIT_STREAM_OBJECT_SERVER_H
#define DTCTL_TESTS_UNIT_STREAM_OBJECT_SERVER_H

#include "stream/stream_store_impl.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNIT = CAS_UNIT_BYTES, REQUESTS_MAX = 256 };

static char folder[] = "/tmp/test_stream_fetch.XXXXXX";
static struct arena arena;
static struct stream_store store;
static struct err error;
static struct http_call *calls[REQUESTS_MAX]; // the requests since the last begin
static size_t call_count, call_seen;
static bool ignores_ranges; // the server sends all of an object

// ---- in place of libcurl ------------------------------------------------------------------------

void http_begin(struct http *h, struct http_call *c) {
    (void)h;
    if (call_count == REQUESTS_MAX)
        bail_out("too many requests");
    calls[call_count++] = c;
}
int http_step_or(struct http *h, int fd, int timeout_ms, struct err *e) {
    (void)h, (void)fd, (void)timeout_ms, (void)e;
    return 0;
}
void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}
void http_wake(struct http *h) {
    (void)h;
}
void http_close(struct http *h) {
    (void)h;
}

// ---- objects ------------------------------------------------------------------------------------

static unsigned char byte_at(const struct object_want *want, uint64_t at) {
    return (unsigned char)(at ^ at >> 8 ^ at >> 16 ^ (uint64_t)want->name[0]);
}

static unsigned char *content(const struct object_want *want, uint64_t from, uint64_t len) {
    unsigned char *p = heap_alloc(len ? (size_t)len : 1);
    for (uint64_t i = 0; i < len; i++)
        p[i] = byte_at(want, from + i);
    return p;
}

// Another input begins with the next object.
TAP_UNUSED static struct stream_input *add_input(const char *name) {
    struct stream_input *in = stream_store_input(&store, name, &error);
    if (!in)
        bail_out("%s", error.text);
    in->window = UINT64_MAX / 2;
    return in;
}

// Its name is one letter. etag "": it has none; url false: it is on the operator's computer.
static void add_at(const char *name, uint64_t size, const char *etag, bool url) {
    struct object_want want = {.name = name, .etag = etag, .size = size};
    want.url = url ? name : NULL;
    hash_of(want.id, name, strlen(name));
    if (stream_store_add(&store, &want, name, store.count, &error) < 0)
        bail_out("%s", error.text);
}

TAP_UNUSED static void add(const char *name, uint64_t size, const char *etag) {
    add_at(name, size, etag, true);
}

// On the same folder as before.
TAP_UNUSED static struct stream_input *begin_again(void) {
    call_count = call_seen = 0;
    ignores_ranges = false;
    if (stream_store_open(&store, folder, &error) < 0)
        bail_out("%s", error.text);
    return add_input("set");
}

TAP_UNUSED static struct stream_input *begin(void) {
    if (file_remove_tree(folder, &error) < 0 || file_make_dirs(folder, 0700, &error) < 0)
        bail_out("%s", error.text);
    return begin_again();
}

TAP_UNUSED static void ready(void) {
    if (stream_store_scan(&store, &error) < 0)
        bail_out("%s", error.text);
}

TAP_UNUSED static void end(void) {
    stream_store_close(&store);
}

TAP_UNUSED static void step(void) {
    if (stream_store_step(&store, -1, 0, &error) < 0)
        bail_out("%s", error.text);
}

// Steps until the check of an object has ended.
TAP_UNUSED static void await_check(const struct stream_object *o) {
    for (int i = 0; i < 20000 && o->state == STREAM_CHECKING; i++) {
        step();
        usleep(1000);
    }
}

// ---- requests and answers -----------------------------------------------------------------------

static const char *header(const struct http_call *c, const char *name) {
    for (size_t i = 0; i < c->header_count; i++)
        if (strcmp(c->headers[i].name, name) == 0)
            return c->headers[i].value;
    return NULL;
}

// Requests since the last call: "a:0-99 b:all".
TAP_UNUSED static const char *asked(void) {
    char *text = arena_strdup(&arena, "");
    for (; call_seen < call_count; call_seen++) {
        const struct http_call *c = calls[call_seen];
        const char *range = header(c, "Range");
        text = arena_printf(&arena, "%s%s%s:%s", text, *text ? " " : "", c->url,
                            range ? range + strlen("bytes=") : "all");
    }
    return text;
}

static void send_bytes(struct http_call *c, uint64_t len) {
    struct object_range *r = c->ctx;
    const char *range = header(c, "Range");
    bool whole = !range || ignores_ranges;
    err_clear(&error);
    if (r->got == 0) {
        c->status = whole ? 200 : 206;
        c->length = (int64_t)(whole ? r->want->size : r->len);
        if (!whole)
            snprintf(c->range, sizeof c->range, "bytes %s/%llu", range + strlen("bytes="),
                     (unsigned long long)r->want->size);
    }
    uint64_t from = whole ? r->got : r->from + r->got, all = whole ? r->want->size : r->len;
    len = len < all - r->got ? len : all - r->got;
    unsigned char *p = content(r->want, from, len);
    if (c->on_data(c, p, (size_t)len, &error) < 0)
        c->on_end(c, &error);
    else if (r->got == r->len)
        c->on_end(c, &(struct err){0});
    free(p);
}

// The request with this number, counted from begin(), gets so many further bytes.
TAP_UNUSED static void answer(size_t i, uint64_t len) {
    send_bytes(calls[i], len);
}

TAP_UNUSED static void refuse(size_t i, const char *why) {
    struct err e = {0};
    (void)err_set(&e, ERR_NET, "%s", why);
    calls[i]->on_end(calls[i], &e);
}

// ---- readers ------------------------------------------------------------------------------------

TAP_UNUSED static struct stream_object *object(size_t i) {
    return &store.objects[i];
}

static struct stream_reader readers[8];

TAP_UNUSED static void read_from(size_t k, size_t i, uint64_t from, uint64_t len) {
    stream_reader_begin(&store, &readers[k], object(i), from, len);
}

// Whether a reader's bytes are the object's, as far as they are ready.
TAP_UNUSED static bool reads(size_t k, uint64_t len) {
    unsigned char *got = heap_alloc((size_t)len), *want = NULL;
    struct stream_reader *r = &readers[k];
    uint64_t at = r->at;
    ssize_t n = stream_reader_read(&store, r, got, (size_t)len, &error);
    want = content(&r->object->want, at, len);
    bool same = n == (ssize_t)len && memcmp(got, want, (size_t)len) == 0;
    free(got);
    free(want);
    return same;
}

#endif
