// SPDX-License-Identifier: Apache-2.0
// AWS's variables and ini files.
#include "object/aws_files.h"

#include "base/env.h"
#include "base/str.h"
#include "sys/file.h"

#include <string.h>

// ---- ini ----------------------------------------------------------------------------------------

static const char *trimmed(struct arena *a, const char *p, size_t len) {
    while (len && strchr(" \t\r", p[len - 1]))
        len--;
    while (len && strchr(" \t", *p)) {
        p++;
        len--;
    }
    return arena_strndup(a, p, len);
}

// "[profile  x]" is "profile x".
static const char *section_name(struct arena *a, const char *line) {
    const char *name = trimmed(a, line + 1, strcspn(line + 1, "]")), *rest;
    if (!str_starts(name, "profile") || !strchr(" \t", name[7]) || !name[7])
        return name;
    rest = trimmed(a, name + 7, strlen(name + 7));
    return arena_printf(a, "profile %s", rest);
}

const char *aws_files_get(struct arena *a, const char *text, const char *section, const char *key,
                          bool *found) {
    const char *value = NULL;
    bool inside = false;
    for (const char *next; *text; text = next) {
        size_t len = strcspn(text, "\n");
        next = text + len + (text[len] == '\n');
        if (*text == '[') {
            inside = strcmp(section_name(a, arena_strndup(a, text, len)), section) == 0;
            *found |= inside;
            continue;
        }
        const char *equals = memchr(text, '=', len);
        // Comments, and indented lines: keys of a nested table such as "s3 =".
        if (!inside || !equals || strchr("#; \t", *text))
            continue;
        if (strcmp(trimmed(a, text, (size_t)(equals - text)), key) == 0)
            value = trimmed(a, equals + 1, (size_t)(text + len - equals - 1));
    }
    return value && *value ? value : NULL;
}

// ---- files --------------------------------------------------------------------------------------

struct files {
    struct arena *arena;
    char *const *env;
    const char *profile;
    const char *credentials, *config; // texts, "" without a file
    bool found;                       // either has the profile
};

static const char *variable(char *const *env, const char *name) {
    const char *value = env_get(env, name);
    return value && *value ? value : NULL;
}

static int read_file(const struct files *f, const char *name, const char *usual, const char **text,
                     struct err *e) {
    const char *path = variable(f->env, name), *home = variable(f->env, "HOME");
    char *data;
    size_t len;
    *text = "";
    if (path && str_starts(path, "~/") && home)
        path = file_join(f->arena, home, path + 2);
    if (!path && !home)
        return 0;
    path = path ? path : file_join(f->arena, home, usual);
    if (file_read_regular(f->arena, path, AWS_FILES_BYTES_MAX, &data, &len, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        err_clear(e);
        return 0;
    }
    *text = data;
    return 0;
}

static const char *get(struct files *f, const char *key) {
    const char *section = strcmp(f->profile, "default") == 0
                              ? "default"
                              : arena_printf(f->arena, "profile %s", f->profile);
    const char *own = aws_files_get(f->arena, f->credentials, f->profile, key, &f->found);
    const char *other = aws_files_get(f->arena, f->config, section, key, &f->found);
    return own ? own : other;
}

// ---- all of it ----------------------------------------------------------------------------------

static int check_key(const struct sigv4_key *k, const char *from, struct err *e) {
    return k->secret ? 0
                     : err_set(e, ERR_CONFIG, "%s has an access key without its secret key", from);
}

// A profile that says how to get a key, and not the key.
static int refuse_other_ways(struct files *f, struct err *e) {
    static const char *const ways[] = {
        "sso_session", "sso_start_url",           "credential_process",
        "role_arn",    "web_identity_token_file", "login_session"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (get(f, ways[i]))
            return err_set(e, ERR_CONFIG,
                           "AWS profile '%s' gets its key by %s, which is not supported (try: eval "
                           "\"$(aws configure export-credentials --profile %s --format env)\")",
                           f->profile, ways[i], f->profile);
    return 0;
}

static int find_key(struct files *f, struct aws_settings *out, struct err *e) {
    bool asked = variable(f->env, "AWS_PROFILE") || variable(f->env, "AWS_DEFAULT_PROFILE");
    out->key.id = variable(f->env, "AWS_ACCESS_KEY_ID");
    if (out->key.id) {
        out->key.secret = variable(f->env, "AWS_SECRET_ACCESS_KEY");
        out->key.token = variable(f->env, "AWS_SESSION_TOKEN");
        out->from = "the environment (AWS_ACCESS_KEY_ID)";
        return check_key(&out->key, out->from, e);
    }
    out->key = (struct sigv4_key){get(f, "aws_access_key_id"), get(f, "aws_secret_access_key"),
                                  get(f, "aws_session_token")};
    if (out->key.id) {
        out->from = arena_printf(f->arena, "AWS profile '%s'", f->profile);
        return check_key(&out->key, out->from, e);
    }
    if (asked && !f->found)
        return err_set(e, ERR_CONFIG, "AWS_PROFILE is '%s', and ~/.aws has no profile of that name",
                       f->profile);
    return refuse_other_ways(f, e);
}

int aws_files_read(struct arena *a, char *const *env, struct aws_settings *out, struct err *e) {
    struct files f = {.arena = a, .env = env};
    const char *off = variable(env, "AWS_EC2_METADATA_DISABLED");
    *out = (struct aws_settings){.role_off = off && strcmp(off, "true") == 0};
    f.profile = variable(env, "AWS_PROFILE");
    if (!f.profile)
        f.profile = variable(env, "AWS_DEFAULT_PROFILE");
    if (!f.profile)
        f.profile = "default";
    if (read_file(&f, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", &f.credentials, e) < 0 ||
        read_file(&f, "AWS_CONFIG_FILE", ".aws/config", &f.config, e) < 0 ||
        find_key(&f, out, e) < 0)
        return -1;
    const char *const region[] = {variable(env, "AWS_REGION"), variable(env, "AWS_DEFAULT_REGION")};
    const char *const endpoint[] = {variable(env, "AWS_ENDPOINT_URL_S3"),
                                    variable(env, "AWS_ENDPOINT_URL")};
    out->region = region[0] ? region[0] : region[1] ? region[1] : get(&f, "region");
    out->endpoint = endpoint[0] ? endpoint[0] : endpoint[1] ? endpoint[1] : get(&f, "endpoint_url");
    out->ca_bundle = variable(env, "AWS_CA_BUNDLE");
    if (!out->ca_bundle)
        out->ca_bundle = get(&f, "ca_bundle");
    return 0;
}
