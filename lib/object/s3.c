// SPDX-License-Identifier: Apache-2.0
// Keys, certificates and signed requests.
#include "object/s3.h"

#include "base/clock.h"
#include "base/hash.h"

#include <string.h>

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// ---- the account --------------------------------------------------------------------------------

int s3_open(struct s3 *s, struct arena *a, const struct s3_user *user, struct err *e) {
    *s = (struct s3){.arena = a};
    if (s3_account_open(&s->account, a, user, e) < 0 ||
        s3_account_ca(&s->account, &s->ca, &s->ca_len, e) < 0)
        return -1;
    s->http = http_open(s->ca, s->ca_len, e);
    return s->http ? 0 : -1;
}

static int set_server(struct s3 *s, struct err *e) {
    return uri_server(s->arena, credentials_files_endpoint(&s->account.files, "s3"), s->region,
                      &s->server, e);
}

int s3_open_account(struct s3 *s, struct err *e) {
    if (s3_account_find(&s->account, s->ca, s->ca_len, e) < 0)
        return -1;
    s->region = s->account.region;
    if (set_server(s, e) < 0)
        return -1;
    return strcmp(s->server.scheme, "https") != 0 || s->ca_len
               ? 0
               : err_set(e, ERR_CONFIG,
                         "this computer has no file of certificates (try: set "
                         "SSL_CERT_FILE, or install ca-certificates)");
}

void s3_close(struct s3 *s) {
    http_close(s->http);
    s->http = NULL;
}

// ---- requests -----------------------------------------------------------------------------------

static int sign(struct http_call *h, struct err *e) {
    struct s3_call *c = (struct s3_call *)h;
    struct s3 *s = c->s3;
    if (s3_account_renew(&s->account, s->ca, s->ca_len, e) < 0)
        return -1;
    struct sigv4_request r = c->request;
    struct uri_place place;
    arena_reset(&c->arena);
    uri_place(&c->arena, &s->server, c->bucket, c->key, &place);
    r.host = place.host;
    r.path = place.path;
    struct sigv4_scope scope = {s->region, "s3", clock_wall_ms()};
    sigv4_sign(&c->arena, &s->account.found.key, &scope, &r);
    const char *query = sigv4_query(&c->arena, &r);
    h->url = arena_printf(&c->arena, "%s://%s%s%s%s", s->server.scheme, place.host, place.path,
                          *query ? "?" : "", query);
    h->header_count = r.header_count;
    for (size_t i = 0; i < r.header_count; i++)
        h->headers[i] = (struct http_header){r.headers[i].name, r.headers[i].value};
    return 0;
}

void s3_call_set(struct s3_call *c, struct s3 *s, const char *method, const char *bucket,
                 const char *key, const struct sigv4_pair *query,
                 const struct sigv4_pair *headers) {
    *c = (struct s3_call){.http = {.method = method, .body_max = S3_LIST_BYTES_MAX, .on_try = sign},
                          .s3 = s,
                          .bucket = bucket,
                          .key = key,
                          .payload = EMPTY_SHA256};
    c->request.method = method;
    c->request.payload = c->payload;
    for (; query && query->name; query++)
        c->request.query[c->request.query_count++] = *query;
    for (; headers && headers->name; headers++)
        c->request.headers[c->request.header_count++] = *headers;
    c->request.headers[c->request.header_count++] =
        (struct sigv4_pair){"x-amz-content-sha256", c->payload};
}

void s3_call_body(struct s3_call *c, const void *p, size_t len) {
    unsigned char digest[HASH_BYTES];
    hash_of(digest, p, len);
    hash_hex(c->payload, digest);
    c->http.body_out = p;
    c->http.body_out_len = len;
}

int s3_run(struct s3_call *c, struct err *e) {
    struct s3 *s = c->s3;
    int result = http_run(s->http, &c->http, e);
    if (result == 0 || !c->http.region[0] || strcmp(c->http.region, s->region) == 0 ||
        !str_is_name(c->http.region, 32))
        return result;
    s->region = arena_strdup(s->arena, c->http.region);
    if (set_server(s, e) < 0)
        return -1;
    err_clear(e);
    return http_run(s->http, &c->http, e);
}

void s3_call_close(struct s3_call *c) {
    http_call_close(&c->http);
    arena_fini(&c->arena);
}

int64_t s3_urls_end_ms(const struct s3 *s, int64_t wall_ms) {
    int64_t end = wall_ms + (int64_t)S3_URL_SECONDS * 1000, key = s->account.found.ends_ms;
    return key && key < end ? key : end;
}

const char *s3_presign(const struct s3 *s, struct arena *a, const char *bucket, const char *key,
                       int64_t wall_ms) {
    struct sigv4_request r = {.method = "GET", .payload = SIGV4_UNSIGNED};
    struct sigv4_scope scope = {s->region, "s3", wall_ms};
    struct uri_place place;
    uri_place(a, &s->server, bucket, key, &place);
    r.host = place.host;
    r.path = place.path;
    sigv4_presign(a, &s->account.found.key, &scope, S3_URL_SECONDS, &r);
    return arena_printf(a, "%s://%s%s?%s", s->server.scheme, place.host, place.path,
                        sigv4_query(a, &r));
}

const char *s3_etag(struct arena *a, const char *text) {
    size_t len = strlen(text);
    if (str_starts(text, "W/"))
        return "";
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"')
        return arena_strndup(a, text + 1, len - 2);
    return arena_strdup(a, text);
}
