// SPDX-License-Identifier: Apache-2.0
// Credentials of a login (IAM Identity Center): the token that `aws sso login` has left in
// ~/.aws/sso/cache, renewed where it can be, and GetRoleCredentials.
#include "object/credentials_chain_impl.h"

#include "base/json.h"
#include "object/uri.h"
#include "sys/file.h"

#include <openssl/sha.h>
#include <string.h>

enum { RENEW_MS = 15 * 60 * 1000 }; // before the token's end, as AWS's tools do

struct sso {
    const char *profile, *session; // session NULL: the profile has the start URL itself
    const char *start_url, *region, *account, *role;
    const char *path; // of the token
};

// ---- settings -----------------------------------------------------------------------------------

static int session_setting(struct credentials_chain *c, const struct sso *s, const char *key,
                           const char **out, struct err *e) {
    bool found = false;
    const char *own = credentials_chain_value(c, s->profile, key);
    *out = credentials_files_session(c->files, s->session, key, &found);
    if (!found)
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s': ~/.aws/config has no [sso-session %.64s] (try: aws "
                       "configure sso --profile %s)",
                       s->profile, s->session, s->profile);
    if (own && *out && strcmp(own, *out) != 0)
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s': its %s is not that of [sso-session %.64s] (try: remove "
                       "one of them)",
                       s->profile, key, s->session);
    return 0;
}

static int read_settings(struct credentials_chain *c, struct sso *s, struct err *e) {
    s->start_url = credentials_chain_value(c, s->profile, "sso_start_url");
    s->region = credentials_chain_value(c, s->profile, "sso_region");
    if (s->session && (session_setting(c, s, "sso_start_url", &s->start_url, e) < 0 ||
                       session_setting(c, s, "sso_region", &s->region, e) < 0))
        return -1;
    const char *missing = !s->start_url ? "sso_start_url"
                          : !s->region  ? "sso_region"
                          : !s->account ? "sso_account_id"
                          : !s->role    ? "sso_role_name"
                                        : NULL;
    return missing ? err_set(e, ERR_CONFIG,
                             "AWS profile '%s' has a login (SSO) without %s (try: aws configure "
                             "sso --profile %s)",
                             s->profile, missing, s->profile)
                   : 0;
}

static const char *token_path(const struct credentials_chain *c, const char *name) {
    unsigned char digest[SHA_DIGEST_LENGTH];
    char hex[2 * SHA_DIGEST_LENGTH + 1];
    SHA1((const unsigned char *)name, strlen(name), digest);
    str_hex(hex, digest, sizeof digest);
    return credentials_files_path(c->files,
                                  arena_printf(c->files->arena, "~/.aws/sso/cache/%s.json", hex));
}

// ---- the token ----------------------------------------------------------------------------------

static int refuse(const struct sso *s, const char *what, struct err *e) {
    return err_set(e, ERR_AUTH, "AWS profile '%s': %s (try: run 'aws sso login --profile %s')",
                   s->profile, what, s->profile);
}

static int read_token(struct credentials_chain *c, const struct sso *s, struct aws_token *token,
                      struct err *e) {
    char *text;
    size_t len;
    if (!s->path ||
        file_read(c->files->arena, s->path, CREDENTIALS_ANSWER_BYTES_MAX, &text, &len, e) < 0)
        return !s->path || e->code == ERR_NOT_FOUND
                   ? refuse(s, "there is no token of its login", e)
                   : err_wrap(e, "AWS profile '%s', token of its login", s->profile);
    struct err why = {0};
    if (credentials_answer_token(c->files->arena, text, len, token, &why) < 0)
        return refuse(s, arena_printf(c->files->arena, "'%s' is no token: %s", s->path, why.text),
                      e);
    return 0;
}

// CreateToken of SSO OIDC. An error leaves the token as it is.
static int ask_token(struct credentials_chain *c, const struct sso *s, struct aws_token *token,
                     struct err *e) {
    struct strbuf body = {0};
    struct json_out j;
    struct aws_request r = {
        .method = "POST", .headers = {{"content-type", "application/json"}}, .header_count = 1};
    const char *server = credentials_chain_server(c, "sso_oidc", "oidc", s->region, e);
    if (!server)
        return -1;
    json_open(&j, &body);
    json_object(&j, NULL);
    json_str(&j, "grantType", "refresh_token");
    json_str(&j, "clientId", token->client_id);
    json_str(&j, "clientSecret", token->client_secret);
    json_str(&j, "refreshToken", token->refresh);
    json_end(&j);
    r.url = arena_printf(c->files->arena, "%s/token", server);
    r.body = strbuf_cstr(&body);
    int result = credentials_chain_send(c, &r, e);
    if (result == 0)
        result = credentials_answer_new_token(c->files->arena, strbuf_cstr(&r.text), r.text.len,
                                              c->now_ms, token, e);
    credentials_chain_forget(&r);
    explicit_bzero(body.data, body.len);
    strbuf_fini(&body);
    return result;
}

// A token that was renewed is for AWS's tools as well: its old refresh token may be used up.
static void keep_token(const struct sso *s, const struct aws_token *token) {
    struct strbuf text = {0};
    struct err ignored;
    credentials_answer_write_token(token, &text);
    (void)file_write_atomic(s->path, strbuf_cstr(&text), text.len, 0600, &ignored);
    explicit_bzero(text.data, text.len);
    strbuf_fini(&text);
}

static int find_token(struct credentials_chain *c, const struct sso *s, struct aws_token *token,
                      struct err *e) {
    struct err why = {0};
    if (read_token(c, s, token, e) < 0)
        return -1;
    bool renews = s->session && token->refresh && token->client_id && token->client_secret &&
                  credentials_answer_time(token->registration_ends) > c->now_ms;
    if (renews && token->ends_ms < c->now_ms + RENEW_MS) {
        if (!token->start_url)
            token->start_url = s->start_url;
        if (!token->region)
            token->region = s->region;
        if (ask_token(c, s, token, &why) == 0)
            keep_token(s, token);
    }
    if (token->ends_ms > c->now_ms)
        return 0;
    return refuse(s,
                  why.code ? arena_printf(c->files->arena,
                                          "the token of its login has expired, and its renewal "
                                          "failed: %.300s",
                                          why.text)
                           : "the token of its login has expired",
                  e);
}

// ---- the key ------------------------------------------------------------------------------------

static const char *query_of(const struct credentials_chain *c, const struct sso *s) {
    struct strbuf text = {0};
    strbuf_adds(&text, "role_name=");
    uri_encode(&text, s->role, strlen(s->role), true);
    strbuf_adds(&text, "&account_id=");
    uri_encode(&text, s->account, strlen(s->account), true);
    const char *copy = arena_strdup(c->files->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static int ask_key(struct credentials_chain *c, const struct sso *s, const struct aws_token *token,
                   struct aws_credentials *out, struct err *e) {
    struct arena *a = c->files->arena;
    const char *server = credentials_chain_server(c, "sso", "portal.sso", s->region, e);
    struct err why = {0};
    if (!server)
        return err_wrap(e, "AWS profile '%s'", s->profile);
    struct aws_request r = {
        .method = "GET",
        .url = arena_printf(a, "%s/federation/credentials?%s", server, query_of(c, s)),
        .headers = {{"x-amz-sso_bearer_token", token->access}},
        .header_count = 1};
    int result = credentials_chain_send(c, &r, &why);
    if (result < 0 && r.status == 401)
        refuse(s, "the server does not accept the token of its login any more", e);
    else if (result < 0) {
        const char *reason = credentials_answer_reason(a, strbuf_cstr(&r.text), r.text.len);
        err_set(
            e, why.code, "AWS profile '%s': no key for role '%.64s' of account '%.16s': %s%s%s%s",
            s->profile, s->role, s->account, why.text, reason ? ": " : "", reason ? reason : "",
            r.status == 403 || r.status == 404 ? " (try: check sso_role_name and sso_account_id)"
                                               : "");
    } else
        result = credentials_answer_sso(a, strbuf_cstr(&r.text), r.text.len, out, e) < 0
                     ? err_wrap(e, "AWS profile '%s', GetRoleCredentials", s->profile)
                     : 0;
    credentials_chain_forget(&r);
    return result;
}

int credentials_sso_find(struct credentials_chain *c, const char *profile,
                         struct aws_credentials *out, struct err *e) {
    struct sso s = {.profile = profile,
                    .session = credentials_chain_value(c, profile, "sso_session"),
                    .account = credentials_chain_value(c, profile, "sso_account_id"),
                    .role = credentials_chain_value(c, profile, "sso_role_name")};
    struct aws_token token;
    if (!s.account && !s.role)
        return 0;
    if (read_settings(c, &s, e) < 0)
        return -1;
    s.path = token_path(c, s.session ? s.session : s.start_url);
    out->from = arena_printf(c->files->arena, "AWS profile '%s' (login, role %.64s of %.16s)",
                             profile, s.role, s.account);
    return find_token(c, &s, &token, e) < 0 || ask_key(c, &s, &token, out, e) < 0 ? -1 : 1;
}
