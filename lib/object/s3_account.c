// SPDX-License-Identifier: Apache-2.0
// Finds and renews the key of an account by requests over http.h.
#include "object/s3_account.h"

#include "base/clock.h"
#include "sys/file.h"

#include <string.h>

int s3_account_open(struct s3_account *s, struct arena *a, const struct s3_user *user,
                    struct err *e) {
    *s = (struct s3_account){.user = user};
    return credentials_files_open(&s->files, a, user->env, user->profile, e);
}

int s3_account_ca(struct s3_account *s, const char **ca, size_t *len, struct err *e) {
    const char *given = credentials_files_ca_bundle(&s->files);
    const char *const usual[] = {
        credentials_files_variable(&s->files, "SSL_CERT_FILE"),
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/pki/tls/cacert.pem",
        "/etc/ssl/cert.pem",
    };
    struct arena *a = s->files.arena;
    char *data;
    if (given) {
        if (file_read(a, given, S3_ACCOUNT_CA_BYTES_MAX, &data, len, e) < 0)
            return err_wrap(e, "certificates of AWS_CA_BUNDLE");
        *ca = data;
        return 0;
    }
    *ca = "";
    *len = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct err ignored = {0};
        if (usual[i] &&
            file_read(a, usual[i], S3_ACCOUNT_CA_BYTES_MAX, &data, len, &ignored) == 0) {
            *ca = data;
            return 0;
        }
    }
    *len = 0;
    return 0;
}

// ---- requests -----------------------------------------------------------------------------------

// A renewal has an HTTP handle of its own, since other requests of the account may be in flight.
struct asking {
    struct s3_account *account;
    struct http *http;
};

static int fetch(void *ctx, struct aws_request *r, struct err *e) {
    struct asking *q = ctx;
    struct http_call c = {.method = r->method,
                          .url = r->url,
                          .header_count = r->header_count,
                          .body_out = r->body,
                          .body_out_len = r->body ? strlen(r->body) : 0,
                          .body_max = CREDENTIALS_ANSWER_BYTES_MAX,
                          .direct = r->local,
                          .once = r->local,
                          .total_ms_max = r->local ? S3_ACCOUNT_LOCAL_MS_MAX : S3_ACCOUNT_MS_MAX};
    for (size_t i = 0; i < r->header_count; i++)
        c.headers[i] = (struct http_header){r->headers[i].name, r->headers[i].value};
    int result = http_run(q->http, &c, e);
    r->status = c.status;
    strbuf_add(&r->text, strbuf_cstr(&c.body), c.body.len);
    if (c.body.len)
        explicit_bzero(c.body.data, c.body.len);
    http_call_close(&c);
    return result;
}

static int ask_code(void *ctx, const char *serial, char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *e) {
    const struct s3_user *user = ((struct asking *)ctx)->account->user;
    return user->ask_code(user->ctx, serial, code, e);
}

// ---- the key ------------------------------------------------------------------------------------

static int find(struct s3_account *s, const char *ca, size_t ca_len, struct err *e) {
    struct asking q = {s, http_open(ca, ca_len, e)};
    struct aws_credentials found;
    struct credentials_chain c = {.files = &s->files,
                                  .now_ms = clock_wall_ms(),
                                  .fetch = fetch,
                                  .ask_code = s->user->ask_code ? ask_code : NULL,
                                  .ctx = &q};
    if (!q.http)
        return -1;
    int result = credentials_chain_find(&c, &found, e);
    http_close(q.http);
    if (result < 0 && e->code == ERR_NOT_FOUND) {
        const char *why = arena_strdup(s->files.arena, e->text);
        return err_set(e, ERR_AUTH,
                       "no AWS credentials: neither AWS_ACCESS_KEY_ID nor a profile of ~/.aws nor "
                       "a role of this machine (%s) (try: aws configure)",
                       why);
    }
    if (result < 0)
        return -1;
    s->found = found;
    if (!s->region)
        s->region = c.region;
    return 0;
}

static int find_or_take(struct s3_account *s, const char *ca, size_t ca_len, struct err *e) {
    const struct s3_user *user = s->user;
    const char *region = NULL;
    if (user->kept && user->kept(user->ctx, s->files.arena, &s->found, &region)) {
        s->region = s->region ? s->region : region;
        return 0;
    }
    if (find(s, ca, ca_len, e) < 0)
        return -1;
    if (user->keep)
        user->keep(user->ctx, &s->found, s->region);
    return 0;
}

int s3_account_find(struct s3_account *s, const char *ca, size_t ca_len, struct err *e) {
    s->region = credentials_files_region(&s->files);
    if (find_or_take(s, ca, ca_len, e) < 0)
        return -1;
    s->region = s->region ? s->region : "us-east-1";
    return str_is_name(s->region, 32)
               ? 0
               : err_set(e, ERR_CONFIG, "'%.64s' is not an AWS region", s->region);
}

int s3_account_renew(struct s3_account *s, const char *ca, size_t ca_len, struct err *e) {
    int64_t now = clock_wall_ms(), ends = s->found.ends_ms;
    struct err why = {0};
    if (!ends || now < ends - S3_ACCOUNT_RENEW_MS || (now < s->again_ms && now < ends))
        return 0;
    s->again_ms = now + S3_ACCOUNT_RENEW_AGAIN_MS;
    if (find_or_take(s, ca, ca_len, &why) == 0 || now < ends)
        return 0;
    *e = why;
    return err_wrap(e, "the key of %s has ended and is not renewed", s->found.from);
}
