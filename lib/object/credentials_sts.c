// SPDX-License-Identifier: Apache-2.0
// AssumeRole and AssumeRoleWithWebIdentity of STS.
#include "object/credentials_chain_impl.h"

#include "base/hash.h"
#include "object/uri.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FORM "application/x-www-form-urlencoded; charset=utf-8"

enum { DURATION_S_MIN = 900, DURATION_S_MAX = 43200 };

static void add(struct strbuf *body, const char *name, const char *value) {
    if (!value)
        return;
    strbuf_addf(body, "&%s=", name);
    uri_encode(body, value, strlen(value), true);
}

static int check(const struct aws_role *role, struct err *e) {
    int64_t seconds;
    struct err ignored;
    if (!credentials_answer_is_word(role->arn, 2048))
        return err_set(e, ERR_CONFIG, "AWS profile '%s': role_arn '%.200s' is none", role->profile,
                       role->arn);
    return !role->duration || str_parse_i64(role->duration, DURATION_S_MIN, DURATION_S_MAX,
                                            &seconds, &ignored) == 0
               ? 0
               : err_set(e, ERR_CONFIG,
                         "AWS profile '%s': duration_seconds '%.32s' is no number from %d to %d",
                         role->profile, role->duration, DURATION_S_MIN, DURATION_S_MAX);
}

static int ask_code(struct credentials_chain *c, const struct aws_role *role,
                    char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX], struct err *e) {
    err_set(e, ERR_USAGE, "there is no terminal");
    int result = c->ask_code ? c->ask_code(c->ctx, role->mfa_serial, code, e) : -1;
    if (result < 0 && e->code == ERR_USAGE)
        return err_set(e, ERR_AUTH,
                       "AWS profile '%s': its role asks for a code of '%.100s', and there is no "
                       "terminal to ask for it (try: eval \"$(aws configure export-credentials "
                       "--profile %s --format env)\")",
                       role->profile, role->mfa_serial, role->profile);
    if (result < 0)
        return err_wrap(e, "AWS profile '%s'", role->profile);
    err_clear(e);
    for (const char *p = code; *p; p++)
        if (!isalnum((unsigned char)*p))
            return err_set(e, ERR_AUTH, "AWS profile '%s': a code has digits alone", role->profile);
    return 0;
}

// Signs the request; STS wants the hash of the body in no header.
static void sign(struct credentials_chain *c, const struct aws_role *role, const char *host,
                 const char *path, const char *region, struct aws_request *r) {
    struct arena *a = c->files->arena;
    unsigned char digest[HASH_BYTES];
    char *hex = arena_alloc(a, HASH_HEX_BYTES, 1, 1);
    struct sigv4_scope scope = {region, "sts", c->now_ms};
    hash_of(digest, r->body, strlen(r->body));
    hash_hex(hex, digest);
    struct sigv4_request q = {.method = "POST",
                              .host = host,
                              .path = path,
                              .headers = {{"content-type", FORM}},
                              .header_count = 1,
                              .payload = hex};
    sigv4_sign(a, role->by, &scope, &q);
    r->header_count = q.header_count;
    memcpy(r->headers, q.headers, q.header_count * sizeof *q.headers);
}

static const char *write_body(struct credentials_chain *c, const struct aws_role *role,
                              const char *code) {
    struct strbuf body = {0};
    char name[32];
    snprintf(name, sizeof name, "dtctl-%lld", (long long)(c->now_ms / 1000));
    strbuf_addf(&body, "Action=AssumeRole%s&Version=2011-06-15",
                role->web_token ? "WithWebIdentity" : "");
    add(&body, "RoleArn", role->arn);
    add(&body, "RoleSessionName", role->session ? role->session : name);
    add(&body, "ExternalId", role->external_id);
    add(&body, "DurationSeconds", role->duration);
    add(&body, "SerialNumber", role->mfa_serial);
    add(&body, "TokenCode", code);
    add(&body, "WebIdentityToken", role->web_token);
    const char *copy = arena_strdup(c->files->arena, strbuf_cstr(&body));
    explicit_bzero(body.data, body.len);
    strbuf_fini(&body);
    return copy;
}

int credentials_sts_assume(struct credentials_chain *c, const struct aws_role *role,
                           struct aws_credentials *out, struct err *e) {
    struct arena *a = c->files->arena;
    const char *given = credentials_files_region(c->files), *region = given ? given : "us-east-1";
    char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX];
    struct uri_server to;
    if (check(role, e) < 0 || (role->mfa_serial && ask_code(c, role, code, e) < 0))
        return -1;
    const char *server = credentials_chain_server(c, "sts", "sts", region, e);
    if (!server || uri_server(a, server, "", &to, e) < 0)
        return err_wrap(e, "AWS profile '%s'", role->profile);
    const char *path = arena_printf(a, "%s/", to.path);
    struct aws_request r = {.method = "POST",
                            .url = arena_printf(a, "%s/", server),
                            .body = write_body(c, role, role->mfa_serial ? code : NULL),
                            .headers = {{"content-type", FORM}},
                            .header_count = 1};
    if (!role->web_token)
        sign(c, role, to.host, path, region, &r);
    int result = credentials_chain_send(c, &r, e);
    if (result == 0)
        result = credentials_answer_sts(a, strbuf_cstr(&r.text), r.text.len, out, e);
    credentials_chain_forget(&r);
    if (result == 0)
        return 0;
    if (r.status == 403)
        err_set(e, ERR_AUTH, "%s (try: let the role's trust policy name its user)",
                arena_strdup(a, e->text));
    return err_wrap(e, "AWS profile '%s', %s of '%.200s'", role->profile,
                    role->web_token ? "AssumeRoleWithWebIdentity" : "AssumeRole", role->arn);
}
