// SPDX-License-Identifier: Apache-2.0
// The order of places, and profiles that lead to each other.
#include "object/credentials_chain_impl.h"

#include "object/credentials_process.h"
#include "object/uri.h"
#include "sys/file.h"

#include <string.h>

// ---- shared -------------------------------------------------------------------------------------

int credentials_chain_send(struct credentials_chain *c, struct aws_request *r, struct err *e) {
    r->text.cap_max = CREDENTIALS_ANSWER_BYTES_MAX;
    return c->fetch(c->ctx, r, e);
}

void credentials_chain_forget(struct aws_request *r) {
    if (r->text.len)
        explicit_bzero(r->text.data, r->text.len);
    strbuf_fini(&r->text);
}

int credentials_chain_ask(struct credentials_chain *c, const char *method, const char *url,
                          const char *name, const char *value, const char **text, struct err *e) {
    struct aws_request r = {.method = method, .url = url, .local = true};
    if (value)
        r.headers[r.header_count++] = (struct sigv4_pair){name, value};
    int result = credentials_chain_send(c, &r, e);
    *text = arena_strdup(c->files->arena, strbuf_cstr(&r.text));
    credentials_chain_forget(&r);
    return result;
}

const char *credentials_chain_value(const struct credentials_chain *c, const char *profile,
                                    const char *key) {
    return credentials_files_value(c->files, profile, key);
}

const char *credentials_chain_server(struct credentials_chain *c, const char *service,
                                     const char *name, const char *region, struct err *e) {
    struct arena *a = c->files->arena;
    const char *given = credentials_files_endpoint(c->files, service);
    struct uri_server server;
    if (!given && !str_is_name(region, 32)) {
        err_set(e, ERR_CONFIG, "'%.64s' is not an AWS region", region);
        return NULL;
    }
    if (!given)
        return arena_printf(a, "https://%s.%s.amazonaws.com%s", name, region,
                            str_starts(region, "cn-") ? ".cn" : "");
    if (uri_server(a, given, region, &server, e) < 0)
        return NULL;
    return arena_printf(a, "%s://%s%s", server.scheme, server.host, server.path);
}

static int check_key(const struct aws_credentials *got, struct err *e) {
    if (!got->key.secret)
        return err_set(e, ERR_CONFIG, "%s has an access key without its secret key", got->from);
    return credentials_answer_is_key(&got->key)
               ? 0
               : err_set(e, ERR_CONFIG,
                         "the access key of %s has spaces or other characters that no key has",
                         got->from);
}

// ---- the environment ----------------------------------------------------------------------------

static int find_in_env(struct credentials_chain *c, struct aws_credentials *out, struct err *e) {
    const struct credentials_files *f = c->files;
    const char *ends = credentials_files_variable(f, "AWS_CREDENTIAL_EXPIRATION");
    out->key.id = credentials_files_variable(f, "AWS_ACCESS_KEY_ID");
    if (!out->key.id)
        return 0;
    out->key.secret = credentials_files_variable(f, "AWS_SECRET_ACCESS_KEY");
    out->key.token = credentials_files_variable(f, "AWS_SESSION_TOKEN");
    out->from = "the environment (AWS_ACCESS_KEY_ID)";
    out->ends_ms = ends ? credentials_answer_time(ends) : 0;
    if (out->ends_ms < 0)
        return err_set(e, ERR_CONFIG, "AWS_CREDENTIAL_EXPIRATION is no time in ISO 8601");
    return check_key(out, e) < 0 ? -1 : 1;
}

// ---- one profile --------------------------------------------------------------------------------

static int find_keys(struct credentials_chain *c, bool credentials, const char *profile,
                     struct aws_credentials *out, struct err *e) {
    const struct credentials_files *f = c->files;
    out->key.id = credentials_files_own(f, credentials, profile, "aws_access_key_id");
    if (!out->key.id)
        return 0;
    out->key.secret = credentials_files_own(f, credentials, profile, "aws_secret_access_key");
    out->key.token = credentials_files_own(f, credentials, profile, "aws_session_token");
    out->from = arena_printf(f->arena, "AWS profile '%s'", profile);
    return check_key(out, e) < 0 ? -1 : 1;
}

static const char *web_setting(const struct credentials_chain *c, const char *profile, bool env,
                               const char *key, const char *variable) {
    const char *value = env ? credentials_files_variable(c->files, variable) : NULL;
    return value ? value : credentials_chain_value(c, profile, key);
}

// env: the variables of the environment count as well.
static int find_web_identity(struct credentials_chain *c, const char *profile, bool env,
                             struct aws_credentials *out, struct err *e) {
    struct arena *a = c->files->arena;
    const char *path =
        web_setting(c, profile, env, "web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE");
    struct aws_role role = {
        .profile = profile,
        .arn = web_setting(c, profile, env, "role_arn", "AWS_ROLE_ARN"),
        .session = web_setting(c, profile, env, "role_session_name", "AWS_ROLE_SESSION_NAME")};
    char *token;
    size_t len;
    if (!path)
        return 0;
    const char *real = credentials_files_path(c->files, path);
    if (!role.arn)
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s' has a web_identity_token_file and no role (try: set "
                       "role_arn, or AWS_ROLE_ARN)",
                       profile);
    if (!real || file_read(a, real, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX * 2, &token, &len, e) < 0)
        return err_wrap(e, "AWS profile '%s', web_identity_token_file", profile);
    token[strcspn(token, "\r\n")] = '\0';
    if (!credentials_answer_is_word(token, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX * 2))
        return err_set(e, ERR_CONFIG, "AWS profile '%s': '%.200s' holds no token", profile, real);
    role.web_token = token;
    out->from = arena_printf(a, "AWS profile '%s' (web identity, role %.200s)", profile, role.arn);
    return credentials_sts_assume(c, &role, out, e) < 0 ? -1 : 1;
}

static int find_process(struct credentials_chain *c, const char *profile,
                        struct aws_credentials *out, struct err *e) {
    struct arena *a = c->files->arena;
    const char *line = credentials_chain_value(c, profile, "credential_process");
    if (!line)
        return 0;
    out->from = arena_printf(a, "AWS profile '%s' (credential_process)", profile);
    return credentials_process_run(a, line, c->files->env, out, e) < 0
               ? err_wrap(e, "AWS profile '%s'", profile)
               : 1;
}

// `aws login` keeps a key of its own for each login, which signs every renewal.
static int refuse_login(struct credentials_chain *c, const char *profile, struct err *e) {
    return credentials_chain_value(c, profile, "login_session")
               ? err_set(e, ERR_CONFIG,
                         "AWS profile '%s' gets its key by login_session, which is not supported "
                         "(try: eval \"$(aws configure export-credentials --profile %s --format "
                         "env)\")",
                         profile, profile)
               : 0;
}

// Everything that a profile may have but a role with its source.
static int find_in_profile(struct credentials_chain *c, const char *profile, bool env,
                           struct aws_credentials *out, struct err *e) {
    int found = find_web_identity(c, profile, env, out, e);
    if (!found)
        found = credentials_sso_find(c, profile, out, e);
    if (!found)
        found = find_keys(c, true, profile, out, e);
    if (!found)
        found = refuse_login(c, profile, e);
    if (!found)
        found = find_process(c, profile, out, e);
    return found ? found : find_keys(c, false, profile, out, e);
}

// ---- roles --------------------------------------------------------------------------------------

static bool has_role(const struct credentials_chain *c, const char *profile) {
    return credentials_chain_value(c, profile, "role_arn") &&
           !credentials_chain_value(c, profile, "web_identity_token_file");
}

static bool has_keys(const struct credentials_chain *c, const char *profile) {
    return credentials_chain_value(c, profile, "aws_access_key_id") ||
           credentials_chain_value(c, profile, "aws_secret_access_key");
}

static const char *path_of(const struct credentials_chain *c, const char *last) {
    const char *path = "";
    for (size_t i = 0; i < c->visited_count; i++)
        path = arena_printf(c->files->arena, "%s%s -> ", path, c->visited[i]);
    return arena_printf(c->files->arena, "%s%s", path, last);
}

// A profile may name itself for its own keys.
static int check_source(struct credentials_chain *c, const char *profile, const char *source,
                        struct err *e) {
    bool seen = false;
    if (!credentials_files_has(c->files, source))
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s' has source_profile '%.128s', and ~/.aws has no profile of "
                       "that name",
                       profile, source);
    for (size_t i = 0; i < c->visited_count; i++)
        seen = seen || strcmp(c->visited[i], source) == 0;
    if (seen && !(strcmp(profile, source) == 0 && has_keys(c, source)))
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s': source_profile goes round in a circle, %.400s (try: end "
                       "it with a profile that has a key)",
                       profile, path_of(c, source));
    if (c->visited_count == CREDENTIALS_CHAIN_PROFILES_MAX)
        return err_set(e, ERR_LIMIT, "AWS profile '%s': source_profile has more than %d steps",
                       c->visited[0], CREDENTIALS_CHAIN_PROFILES_MAX);
    return 0;
}

// A key that has ended signs nothing.
static int check_end(const struct credentials_chain *c, const struct aws_credentials *got,
                     struct err *e) {
    return !got->ends_ms || got->ends_ms > c->now_ms
               ? 0
               : err_set(e, ERR_AUTH, "the key of %s has expired (try: renew it)", got->from);
}

static int find_by_role(struct credentials_chain *c, const char *profile,
                        struct aws_credentials *out, struct err *e);

static int find_source(struct credentials_chain *c, const char *profile, const char *source,
                       struct aws_credentials *out, struct err *e) {
    if (check_source(c, profile, source, e) < 0)
        return -1;
    c->visited[c->visited_count++] = source;
    if (!has_keys(c, source) && has_role(c, source))
        return find_by_role(c, source, out, e);
    int found = find_in_profile(c, source, false, out, e);
    return found ? found
                 : err_set(e, ERR_CONFIG,
                           "AWS profile '%s': its source_profile '%s' has no credentials (try: aws "
                           "configure --profile %s)",
                           profile, source, source);
}

static int find_named_source(struct credentials_chain *c, const char *profile, const char *source,
                             struct aws_credentials *out, struct err *e) {
    int found;
    if (strcmp(source, "Environment") == 0)
        found = find_in_env(c, out, e);
    else if (strcmp(source, "Ec2InstanceMetadata") == 0)
        found = credentials_imds_find(c, out, e);
    else if (strcmp(source, "EcsContainer") == 0)
        found = credentials_container_find(c, out, e);
    else
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s': credential_source '%.64s' is none of Environment, "
                       "Ec2InstanceMetadata, EcsContainer",
                       profile, source);
    if (found < 0)
        return err_wrap(e, "AWS profile '%s', credential_source %s", profile, source);
    const char *why = e->code ? arena_strdup(c->files->arena, e->text) : NULL;
    return found ? found
                 : err_set(e, ERR_AUTH,
                           "AWS profile '%s': credential_source %s has no credentials here%s%s%s",
                           profile, source, why ? " (" : "", why ? why : "", why ? ")" : "");
}

static int find_by_role(struct credentials_chain *c, const char *profile,
                        struct aws_credentials *out, struct err *e) {
    const char *source = credentials_chain_value(c, profile, "source_profile");
    const char *named = credentials_chain_value(c, profile, "credential_source");
    struct aws_credentials by = {.ends_ms = 0};
    struct aws_role role = {.profile = profile,
                            .arn = credentials_chain_value(c, profile, "role_arn"),
                            .session = credentials_chain_value(c, profile, "role_session_name"),
                            .external_id = credentials_chain_value(c, profile, "external_id"),
                            .mfa_serial = credentials_chain_value(c, profile, "mfa_serial"),
                            .duration = credentials_chain_value(c, profile, "duration_seconds"),
                            .by = &by.key};
    if (!source == !named)
        return err_set(e, ERR_CONFIG,
                       "AWS profile '%s' has a role_arn and %s source_profile %s "
                       "credential_source (try: set one of them)",
                       profile, source ? "both" : "neither", source ? "and" : "nor");
    int found = source ? find_source(c, profile, source, &by, e)
                       : find_named_source(c, profile, named, &by, e);
    if (found < 0 || check_end(c, &by, e) < 0)
        return -1;
    out->from = arena_printf(c->files->arena, "AWS profile '%s' (role %.200s, by %s)", profile,
                             role.arn, by.from);
    return credentials_sts_assume(c, &role, out, e) < 0 ? -1 : 1;
}

// ---- all of it ----------------------------------------------------------------------------------

static int find(struct credentials_chain *c, struct aws_credentials *out, struct err *e) {
    const char *profile = c->files->profile;
    int found = c->files->named ? 0 : find_in_env(c, out, e);
    if (!found && has_role(c, profile))
        found = find_by_role(c, profile, out, e);
    if (!found)
        found = find_in_profile(c, profile, !c->files->named, out, e);
    if (!found)
        found = credentials_container_find(c, out, e);
    return found ? found : credentials_imds_find(c, out, e);
}

int credentials_chain_find(struct credentials_chain *c, struct aws_credentials *out,
                           struct err *e) {
    *out = (struct aws_credentials){.ends_ms = 0};
    c->visited[0] = c->files->profile;
    c->visited_count = 1;
    c->region = NULL;
    err_clear(e);
    int found = find(c, out, e);
    if (found < 0)
        return -1;
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "%s",
                       e->code ? arena_strdup(c->files->arena, e->text) : "nothing is set up");
    return check_end(c, out, e);
}
