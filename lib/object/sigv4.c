// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4, as "Authenticating Requests" of the reference of S3 describes it.
#include "object/sigv4.h"

#include "base/hash.h"
#include "object/uri.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

enum { DAY_DIGITS = 8 };

static void add_pair(struct sigv4_pair *pairs, size_t *count, const char *name, const char *value) {
    must(*count < SIGV4_PAIRS_MAX);
    pairs[(*count)++] = (struct sigv4_pair){name, value};
}

static int by_name(const void *x, const void *y) {
    const struct sigv4_pair *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->value, b->value);
}

static const char *encoded(struct arena *a, const char *s) {
    struct strbuf out = {0};
    uri_encode(&out, s, strlen(s), true);
    const char *copy = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return copy;
}

const char *sigv4_query(struct arena *a, const struct sigv4_request *r) {
    struct sigv4_pair sorted[SIGV4_PAIRS_MAX];
    struct strbuf out = {0};
    for (size_t i = 0; i < r->query_count; i++)
        sorted[i] =
            (struct sigv4_pair){encoded(a, r->query[i].name), encoded(a, r->query[i].value)};
    qsort(sorted, r->query_count, sizeof *sorted, by_name);
    for (size_t i = 0; i < r->query_count; i++)
        strbuf_addf(&out, "%s%s=%s", i ? "&" : "", sorted[i].name, sorted[i].value);
    const char *copy = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return copy;
}

// ---- canonical form -----------------------------------------------------------------------------

// Without spaces around it; several in a row are one.
static void add_trimmed(struct strbuf *out, const char *value) {
    const char *p = value + strspn(value, " \t");
    while (*p) {
        size_t word = strcspn(p, " \t");
        strbuf_add(out, p, word);
        p += word + strspn(p + word, " \t");
        if (*p)
            strbuf_addc(out, ' ');
    }
}

static const char *canonical(struct arena *a, const struct sigv4_request *r, const char **signed_) {
    struct sigv4_pair all[SIGV4_PAIRS_MAX + 1];
    struct strbuf out = {0}, names = {0};
    size_t count = r->header_count;
    memcpy(all, r->headers, count * sizeof *all);
    all[count++] = (struct sigv4_pair){"host", r->host};
    qsort(all, count, sizeof *all, by_name);
    strbuf_addf(&out, "%s\n%s\n%s\n", r->method, r->path, sigv4_query(a, r));
    for (size_t i = 0; i < count; i++) {
        strbuf_addf(&out, "%s:", all[i].name);
        add_trimmed(&out, all[i].value);
        strbuf_addc(&out, '\n');
        strbuf_addf(&names, "%s%s", i ? ";" : "", all[i].name);
    }
    strbuf_addf(&out, "\n%s\n%s", strbuf_cstr(&names), r->payload);
    const char *copy = arena_strdup(a, strbuf_cstr(&out));
    *signed_ = arena_strdup(a, strbuf_cstr(&names));
    strbuf_fini(&out);
    strbuf_fini(&names);
    return copy;
}

// ---- the signature ------------------------------------------------------------------------------

static void chain(unsigned char key[HASH_BYTES], const char *text) {
    hash_hmac(key, key, HASH_BYTES, text, strlen(text));
}

static const char *stamp(struct arena *a, const struct sigv4_scope *s) {
    struct tm tm;
    char text[32];
    time_t seconds = (time_t)(s->wall_ms / 1000);
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &tm);
    return arena_strdup(a, text);
}

static const char *scope_text(struct arena *a, const struct sigv4_scope *s) {
    return arena_printf(a, "%.*s/%s/%s/aws4_request", DAY_DIGITS, stamp(a, s), s->region,
                        s->service);
}

static const char *signature(struct arena *a, const struct sigv4_key *k,
                             const struct sigv4_scope *s, const char *request) {
    unsigned char digest[HASH_BYTES];
    char *hex = arena_alloc(a, HASH_HEX_BYTES, 1, 1);
    const char *secret = arena_printf(a, "AWS4%s", k->secret);
    hash_of(digest, request, strlen(request));
    hash_hex(hex, digest);
    const char *text =
        arena_printf(a, ALGORITHM "\n%s\n%s\n%s", stamp(a, s), scope_text(a, s), hex);
    const char *day = arena_printf(a, "%.*s", DAY_DIGITS, stamp(a, s));
    hash_hmac(digest, secret, strlen(secret), day, strlen(day));
    chain(digest, s->region);
    chain(digest, s->service);
    chain(digest, "aws4_request");
    chain(digest, text);
    hash_hex(hex, digest);
    return hex;
}

void sigv4_sign(struct arena *a, const struct sigv4_key *k, const struct sigv4_scope *s,
                struct sigv4_request *r) {
    const char *names;
    add_pair(r->headers, &r->header_count, "x-amz-date", stamp(a, s));
    if (k->token)
        add_pair(r->headers, &r->header_count, "x-amz-security-token", k->token);
    const char *signed_ = signature(a, k, s, canonical(a, r, &names));
    add_pair(r->headers, &r->header_count, "authorization",
             arena_printf(a, ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s", k->id,
                          scope_text(a, s), names, signed_));
}

void sigv4_presign(struct arena *a, const struct sigv4_key *k, const struct sigv4_scope *s,
                   int64_t seconds, struct sigv4_request *r) {
    const char *names;
    must(seconds > 0 && seconds <= SIGV4_SECONDS_MAX);
    canonical(a, r, &names);
    add_pair(r->query, &r->query_count, "X-Amz-Algorithm", ALGORITHM);
    add_pair(r->query, &r->query_count, "X-Amz-Credential",
             arena_printf(a, "%s/%s", k->id, scope_text(a, s)));
    add_pair(r->query, &r->query_count, "X-Amz-Date", stamp(a, s));
    add_pair(r->query, &r->query_count, "X-Amz-Expires",
             arena_printf(a, "%lld", (long long)seconds));
    if (k->token)
        add_pair(r->query, &r->query_count, "X-Amz-Security-Token", k->token);
    add_pair(r->query, &r->query_count, "X-Amz-SignedHeaders", names);
    const char *request = canonical(a, r, &names);
    add_pair(r->query, &r->query_count, "X-Amz-Signature", signature(a, k, s, request));
}
