// SPDX-License-Identifier: Apache-2.0
// A bucket in memory, in place of requests: it ends one request that is under way at each step, the
// oldest one first, and notes all of them. Bytes are not kept, but for their size and their MD5.
#ifndef TESTS_UNIT_OBJECT_BUCKET_FAKE_H
#define TESTS_UNIT_OBJECT_BUCKET_FAKE_H

#include "object/object_put_impl.h"
#include "object/uri.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <stdlib.h>
#include <string.h>

enum { FAKE_OBJECTS_MAX = 32, FAKE_CALLS_MAX = 64 };

static struct arena fake_arena;
static struct {
    struct s3_object objects[FAKE_OBJECTS_MAX]; // sorted by key
    size_t count;
    const char *log;  // "METHOD key?query size; …"
    const char *body; // of the last POST
    struct http_call *under_way[FAKE_CALLS_MAX];
    int calls, most; // under way; the most at a time
    int step_ms;     // of the clock, for each request
    // Requests that fail, by a part of the request's line in the log.
    const char *fails, *spoils, *hides; // with `code`; another MD5; not in the list afterwards
    enum err_code code;
    bool has_kms, copies, no_etag;
    uint64_t part_bytes; // of the upload in parts
} fake;

static void fake_put(const char *key, const char *etag, uint64_t size) {
    size_t at = 0;
    while (at < fake.count && strcmp(fake.objects[at].key, key) < 0)
        at++;
    if (at == fake.count || strcmp(fake.objects[at].key, key) != 0) {
        if (fake.count == FAKE_OBJECTS_MAX)
            bail_out("a bucket with too many objects");
        memmove(fake.objects + at + 1, fake.objects + at,
                (fake.count++ - at) * sizeof *fake.objects);
    }
    fake.objects[at] =
        (struct s3_object){arena_strdup(&fake_arena, key), arena_strdup(&fake_arena, etag), size};
}

static void fake_remove(const char *key) {
    for (size_t i = 0; i < fake.count; i++)
        if (strcmp(fake.objects[i].key, key) == 0) {
            memmove(fake.objects + i, fake.objects + i + 1,
                    (--fake.count - i) * sizeof *fake.objects);
            return;
        }
}

static const struct s3_object *fake_find(const char *key) {
    for (size_t i = 0; i < fake.count; i++)
        if (strcmp(fake.objects[i].key, key) == 0)
            return &fake.objects[i];
    return NULL;
}

// ---- in place of the requests -------------------------------------------------------------------

void s3_call_set(struct s3_call *c, struct s3 *s, const char *method, const char *bucket,
                 const char *key, const struct sigv4_pair *query,
                 const struct sigv4_pair *headers) {
    struct strbuf line = {0};
    *c = (struct s3_call){.s3 = s, .bucket = bucket, .key = arena_strdup(&fake_arena, key)};
    strbuf_addf(&line, "%s %s", method, key);
    for (; query && query->name; query++)
        strbuf_addf(&line, "?%s=%s", query->name, query->value);
    for (; headers && headers->name; headers++) {
        c->http.headers[c->http.header_count].name = arena_strdup(&fake_arena, headers->name);
        c->http.headers[c->http.header_count++].value = arena_strdup(&fake_arena, headers->value);
    }
    c->http.method = arena_strdup(&fake_arena, method);
    c->http.url = arena_strdup(&fake_arena, strbuf_cstr(&line));
    strbuf_fini(&line);
}

void s3_call_body(struct s3_call *c, const void *p, size_t len) {
    c->http.body_out = p;
    c->http.body_out_len = len;
}

// A request that is under way is dropped.
void s3_call_close(struct s3_call *c) {
    int left = 0;
    for (int i = 0; i < fake.calls; i++)
        if (fake.under_way[i] != &c->http)
            fake.under_way[left++] = fake.under_way[i];
    fake.calls = left;
    strbuf_fini(&c->http.body);
}

const char *s3_etag(struct arena *a, const char *text) {
    size_t len = strlen(text);
    return len >= 2 ? arena_strndup(a, text + 1, len - 2) : "";
}

static const char *fake_header(const struct http_call *c, const char *name) {
    for (size_t i = 0; i < c->header_count; i++)
        if (strcmp(c->headers[i].name, name) == 0)
            return c->headers[i].value;
    return NULL;
}

static bool fake_is(const char *what, const struct http_call *c) {
    return what && strstr(c->url, what);
}

// The MD5 of the header, as hexadecimal digits.
static const char *fake_md5(const struct http_call *c) {
    const char *text = fake_header(c, "content-md5");
    unsigned char digest[BASE64_DECODED_MAX(64)];
    char hex[2 * OBJECT_PUT_MD5_BYTES + 1];
    if (!text || base64_decode(digest, text, strlen(text)) != OBJECT_PUT_MD5_BYTES)
        bail_out("a request without an MD5: %s", c->url);
    str_hex(hex, digest, OBJECT_PUT_MD5_BYTES);
    return arena_strdup(&fake_arena, hex);
}

static void fake_serve(struct s3_call *call, struct err *e) {
    struct http_call *c = &call->http;
    bool post = strcmp(c->method, "POST") == 0;
    fake.log = arena_printf(&fake_arena, "%s%s %zu; ", fake.log, c->url, c->body_out_len);
    if (post && c->body_out)
        fake.body = arena_strndup(&fake_arena, c->body_out, c->body_out_len);
    if (fake_is(fake.fails, c)) {
        err_set(e, fake.code, "the server refuses");
    } else if (fake_header(c, "x-amz-copy-source")) {
        strbuf_adds(&c->body, fake.copies ? "<r><ETag>x</ETag></r>" : "<Error/>");
        const struct s3_object *o =
            fake_find(uri_decode(&fake_arena, fake_header(c, "x-amz-copy-source") + 8));
        if (fake.copies && o)
            fake_put(call->key, o->etag, o->size);
    } else if (strcmp(c->method, "PUT") == 0) {
        const char *md5 =
            fake_is(fake.spoils, c) ? "0123456789abcdef0123456789abcdef" : fake_md5(c);
        snprintf(c->etag, sizeof c->etag, "\"%s\"", md5);
        c->kms = fake.has_kms;
        fake.part_bytes += c->body_out_len;
        if (!strchr(c->url, '?') && !fake_is(fake.hides, c))
            fake_put(call->key, md5, c->body_out_len);
    } else if (post && strstr(c->url, "?uploads=")) {
        strbuf_adds(&c->body, "<R><UploadId>id1</UploadId></R>");
        fake.part_bytes = 0;
    } else if (post) {
        strbuf_adds(&c->body, fake.no_etag ? "<R/>" : "<R><ETag>x</ETag></R>");
        fake_put(call->key, "of parts", fake.part_bytes);
    } else if (!strchr(c->url, '?')) {
        fake_remove(call->key);
    }
}

int s3_run(struct s3_call *c, struct err *e) {
    err_clear(e);
    fake_serve(c, e);
    return e->code ? -1 : 0;
}

void http_begin(struct http *h, struct http_call *c) {
    (void)h;
    fake.under_way[fake.calls++] = c;
    fake.most = fake.calls > fake.most ? fake.calls : fake.most;
}

int http_step(struct http *h, int timeout_ms, struct err *e) {
    struct err why = {0};
    (void)h, (void)e;
    if (timeout_ms <= 0 || fake.calls == 0)
        bail_out("a step without a request");
    clock_ahead_ms += fake.step_ms;
    struct http_call *c = fake.under_way[0];
    memmove(fake.under_way, fake.under_way + 1, (size_t)--fake.calls * sizeof(struct http_call *));
    fake_serve((struct s3_call *)(void *)c, &why);
    c->on_end(c, &why);
    return fake.calls;
}

int s3_list(struct s3 *s, const char *bucket, const char *prefix, size_t most,
            struct s3_objects *out, struct err *e) {
    (void)s, (void)bucket, (void)e;
    fake.log = arena_printf(&fake_arena, "%sLIST %s %zu; ", fake.log, prefix, most);
    out->items = realloc(out->items, (out->count + fake.count + 1) * sizeof *out->items);
    for (size_t i = 0; i < fake.count; i++)
        if (strncmp(fake.objects[i].key, prefix, strlen(prefix)) == 0)
            out->items[out->count++] = fake.objects[i];
    return 0;
}

#endif
