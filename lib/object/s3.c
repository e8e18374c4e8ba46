// SPDX-License-Identifier: Apache-2.0
// Keys, certificates and signed requests.
#include "object/s3.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/json.h"
#include "sys/file.h"

#include <string.h>

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// ---- certificates -------------------------------------------------------------------------------

int s3_read_ca(struct arena *a, char *const *env, const char *given, const char **ca, size_t *len,
               struct err *e) {
    const char *const usual[] = {
        env_get(env, "SSL_CERT_FILE"),      "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
        "/etc/pki/tls/cacert.pem",          "/etc/ssl/cert.pem",
    };
    char *data;
    if (given) {
        if (file_read_regular(a, given, S3_CA_BYTES_MAX, &data, len, e) < 0)
            return err_wrap(e, "certificates of AWS_CA_BUNDLE");
        *ca = data;
        return 0;
    }
    *ca = "";
    *len = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct err ignored = {0};
        if (usual[i] &&
            file_read_regular(a, usual[i], S3_CA_BYTES_MAX, &data, len, &ignored) == 0) {
            *ca = data;
            return 0;
        }
    }
    *len = 0;
    return 0;
}

// ---- this machine's role (IMDSv2) ---------------------------------------------------------------

static int ask(struct s3 *s, const char *method, const char *url, const char *name,
               const char *value, const char **text, struct err *e) {
    struct http_call c = {.method = method,
                          .url = url,
                          .headers = {{name, value}},
                          .header_count = 1,
                          .body_max = 16384,
                          .direct = true,
                          .once = true,
                          .total_ms_max = S3_ROLE_MS_MAX};
    int result = http_run(s->http, &c, e);
    *text = arena_strdup(s->arena, strbuf_cstr(&c.body));
    http_call_close(&c);
    return result;
}

static int ask_role(struct s3 *s, const char *base, struct err *e) {
    static const char role[] = "latest/meta-data/iam/security-credentials/";
    static const char token_name[] = "x-aws-ec2-metadata-token";
    struct arena *a = s->arena;
    const char *token, *name, *text, *region;
    struct json *answer;
    struct err ignored = {0};
    if (ask(s, "PUT", arena_printf(a, "%slatest/api/token", base),
            "x-aws-ec2-metadata-token-ttl-seconds", "21600", &token, e) < 0 ||
        ask(s, "GET", arena_printf(a, "%s%s", base, role), token_name, token, &name, e) < 0)
        return -1;
    name = arena_strndup(a, name, strcspn(name, "\r\n"));
    if (!str_is_name(name, 128) && strpbrk(name, "/?#% "))
        return err_set(e, ERR_FORMAT, "this machine's role has no name");
    if (ask(s, "GET", arena_printf(a, "%s%s%s", base, role, name), token_name, token, &text, e) <
            0 ||
        json_parse(a, text, strlen(text), &answer, e) < 0)
        return -1;
    s->settings.key = (struct sigv4_key){json_get_str(answer, "AccessKeyId", NULL),
                                         json_get_str(answer, "SecretAccessKey", NULL),
                                         json_get_str(answer, "Token", NULL)};
    s->settings.from = arena_printf(a, "this machine's role '%s'", name);
    if (!s->settings.key.id || !s->settings.key.secret)
        return err_set(e, ERR_FORMAT, "%s has no key", s->settings.from);
    if (!s->settings.region &&
        ask(s, "GET", arena_printf(a, "%slatest/meta-data/placement/region", base), token_name,
            token, &region, &ignored) == 0)
        s->settings.region = region;
    return 0;
}

// ---- the account --------------------------------------------------------------------------------

int s3_open(struct s3 *s, struct arena *a, char *const *env, struct err *e) {
    *s = (struct s3){.arena = a};
    if (aws_files_read(a, env, &s->settings, e) < 0 ||
        s3_read_ca(a, env, s->settings.ca_bundle, &s->ca, &s->ca_len, e) < 0)
        return -1;
    s->http = http_open(s->ca, s->ca_len, e);
    return s->http ? 0 : -1;
}

int s3_open_account(struct s3 *s, char *const *env, struct err *e) {
    const char *base = env_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    struct err why = {0};
    if (!s->settings.key.id && !s->settings.role_off) {
        base = base && *base ? base : "http://169.254.169.254/";
        if (!str_ends(base, "/"))
            base = arena_printf(s->arena, "%s/", base);
        ask_role(s, base, &why);
    }
    if (!s->settings.key.id)
        return err_set(e, ERR_AUTH,
                       "no AWS credentials: neither AWS_ACCESS_KEY_ID nor a profile of ~/.aws nor "
                       "a role of this machine%s%s%s (try: aws configure)",
                       why.code ? " (" : "", why.text, why.code ? ")" : "");
    s->region = s->settings.region ? s->settings.region : "us-east-1";
    if (!str_is_name(s->region, 32))
        return err_set(e, ERR_CONFIG, "'%.64s' is not an AWS region", s->region);
    if (uri_server(s->arena, s->settings.endpoint, s->region, &s->server, e) < 0)
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

static void sign(struct http_call *h) {
    struct s3_call *c = (struct s3_call *)h;
    const struct s3 *s = c->s3;
    struct sigv4_request r = c->request;
    struct uri_place place;
    arena_reset(&c->arena);
    uri_place(&c->arena, &s->server, c->bucket, c->key, &place);
    r.host = place.host;
    r.path = place.path;
    struct sigv4_scope scope = {s->region, "s3", clock_wall_ms()};
    sigv4_sign(&c->arena, &s->settings.key, &scope, &r);
    const char *query = sigv4_query(&c->arena, &r);
    h->url = arena_printf(&c->arena, "%s://%s%s%s%s", s->server.scheme, place.host, place.path,
                          *query ? "?" : "", query);
    h->header_count = r.header_count;
    for (size_t i = 0; i < r.header_count; i++)
        h->headers[i] = (struct http_header){r.headers[i].name, r.headers[i].value};
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
    if (uri_server(s->arena, s->settings.endpoint, s->region, &s->server, e) < 0)
        return -1;
    err_clear(e);
    return http_run(s->http, &c->http, e);
}

void s3_call_close(struct s3_call *c) {
    http_call_close(&c->http);
    arena_fini(&c->arena);
}

const char *s3_presign(const struct s3 *s, struct arena *a, const char *bucket, const char *key,
                       int64_t wall_ms) {
    struct sigv4_request r = {.method = "GET", .payload = SIGV4_UNSIGNED};
    struct sigv4_scope scope = {s->region, "s3", wall_ms};
    struct uri_place place;
    uri_place(a, &s->server, bucket, key, &place);
    r.host = place.host;
    r.path = place.path;
    sigv4_presign(a, &s->settings.key, &scope, S3_URL_SECONDS, &r);
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
