// SPDX-License-Identifier: Apache-2.0
// AWS's variables and ini files.
#include "object/credentials_files.h"

#include "base/env.h"
#include "base/str.h"
#include "sys/file.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

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

// "[profile  x]" and "[profile "x"]" are "profile x".
static const char *section_name(struct arena *a, const char *line) {
    static const char *const kinds[] = {"profile", "sso-session", "services"};
    const char *name = trimmed(a, line + 1, strcspn(line + 1, "]"));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i]);
        if (!str_starts(name, kinds[i]) || !name[len] || !strchr(" \t", name[len]))
            continue;
        const char *rest = trimmed(a, name + len, strlen(name + len));
        size_t rest_len = strlen(rest);
        if (rest_len >= 2 && strchr("\"'", *rest) && rest[rest_len - 1] == *rest)
            rest = arena_strndup(a, rest + 1, rest_len - 2);
        return arena_printf(a, "%s %s", kinds[i], rest);
    }
    return name;
}

struct ini_line {
    const char *key, *value; // of "key = value"
    bool indented;
};

// False: no key, a comment, or nothing.
static bool read_line(struct arena *a, const char *text, size_t len, struct ini_line *out) {
    const char *equals = memchr(text, '=', len);
    if (!equals || strchr("#;", *text))
        return false;
    out->indented = *text == ' ' || *text == '\t';
    out->key = trimmed(a, text, (size_t)(equals - text));
    out->value = trimmed(a, equals + 1, (size_t)(text + len - equals - 1));
    return *out->key && !strchr("#;", *out->key);
}

const char *credentials_files_get(struct arena *a, const char *text, const char *section,
                                  const char *outer, const char *key, bool *found) {
    const char *value = NULL;
    bool inside = false, nested = false;
    for (const char *next; *text; text = next) {
        struct ini_line line;
        size_t len = strcspn(text, "\n");
        next = text + len + (text[len] == '\n');
        if (*text == '[') {
            inside = strcmp(section_name(a, arena_strndup(a, text, len)), section) == 0;
            nested = false;
            *found |= inside;
            continue;
        }
        if (!inside || !read_line(a, text, len, &line))
            continue;
        if (!line.indented)
            nested = outer && !*line.value && strcasecmp(line.key, outer) == 0;
        bool counts = outer ? nested && line.indented : !line.indented;
        if (counts && strcasecmp(line.key, key) == 0)
            value = line.value;
    }
    return value && *value ? value : NULL;
}

// ---- files --------------------------------------------------------------------------------------

const char *credentials_files_variable(const struct credentials_files *f, const char *name) {
    const char *value = env_get(f->env, name);
    return value && *value ? value : NULL;
}

const char *credentials_files_path(const struct credentials_files *f, const char *path) {
    const char *home = credentials_files_variable(f, "HOME");
    if (!str_starts(path, "~/"))
        return path;
    return home ? file_join(f->arena, home, path + 2) : NULL;
}

static int read_file(const struct credentials_files *f, const char *name, const char *usual,
                     const char **text, struct err *e) {
    const char *given = credentials_files_variable(f, name);
    const char *path = credentials_files_path(f, given ? given : usual);
    char *data;
    size_t len;
    *text = "";
    if (!path)
        return 0;
    if (file_read(f->arena, path, CREDENTIALS_FILES_BYTES_MAX, &data, &len, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        err_clear(e);
        return 0;
    }
    *text = data;
    return 0;
}

static const char *config_value(const struct credentials_files *f, const char *profile,
                                const char *key, bool *found) {
    const char *section = arena_printf(f->arena, "profile %s", profile);
    bool here = false;
    const char *value = credentials_files_get(f->arena, f->config, section, NULL, key, &here);
    // The section of the profile "default" usually stands without the word.
    if (!here && strcmp(profile, "default") == 0)
        value = credentials_files_get(f->arena, f->config, profile, NULL, key, &here);
    *found |= here;
    return value;
}

bool credentials_files_has(const struct credentials_files *f, const char *profile) {
    bool found = false;
    credentials_files_get(f->arena, f->credentials, profile, NULL, "", &found);
    config_value(f, profile, "", &found);
    return found;
}

const char *credentials_files_own(const struct credentials_files *f, bool credentials,
                                  const char *profile, const char *key) {
    bool found = false;
    return credentials ? credentials_files_get(f->arena, f->credentials, profile, NULL, key, &found)
                       : config_value(f, profile, key, &found);
}

const char *credentials_files_value(const struct credentials_files *f, const char *profile,
                                    const char *key) {
    const char *own = credentials_files_own(f, true, profile, key);
    return own ? own : credentials_files_own(f, false, profile, key);
}

const char *credentials_files_session(const struct credentials_files *f, const char *name,
                                      const char *key, bool *found) {
    const char *section = arena_printf(f->arena, "sso-session %s", name);
    return credentials_files_get(f->arena, f->config, section, NULL, key, found);
}

int credentials_files_open(struct credentials_files *f, struct arena *a, char *const *env,
                           const char *profile, struct err *e) {
    *f = (struct credentials_files){.arena = a, .env = env, .named = profile && *profile};
    const char *const names[] = {f->named ? profile : NULL,
                                 credentials_files_variable(f, "AWS_PROFILE"),
                                 credentials_files_variable(f, "AWS_DEFAULT_PROFILE")};
    for (size_t i = 0; i < sizeof names / sizeof *names && !f->profile; i++)
        f->profile = names[i];
    bool asked = f->profile != NULL;
    f->profile = asked ? f->profile : "default";
    if (read_file(f, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", &f->credentials, e) < 0 ||
        read_file(f, "AWS_CONFIG_FILE", "~/.aws/config", &f->config, e) < 0)
        return -1;
    return !asked || credentials_files_has(f, f->profile) ||
                   (!f->named && credentials_files_variable(f, "AWS_ACCESS_KEY_ID"))
               ? 0
               : err_set(e, ERR_CONFIG,
                         "%s is '%.128s', and ~/.aws has no profile of that name (try: aws "
                         "configure --profile %.128s)",
                         f->named ? "aws.profile" : "AWS_PROFILE", f->profile, f->profile);
}

// ---- settings -----------------------------------------------------------------------------------

const char *credentials_files_region(const struct credentials_files *f) {
    const char *region = credentials_files_variable(f, "AWS_REGION");
    if (!region)
        region = credentials_files_variable(f, "AWS_DEFAULT_REGION");
    return region ? region : credentials_files_value(f, f->profile, "region");
}

const char *credentials_files_endpoint(const struct credentials_files *f, const char *service) {
    const char *off = credentials_files_variable(f, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    const char *url, *name = credentials_files_value(f, f->profile, "services");
    char *variable = arena_printf(f->arena, "AWS_ENDPOINT_URL_%s", service);
    bool found = false;
    for (char *p = variable; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    if (off && strcasecmp(off, "true") == 0)
        return NULL;
    if ((url = credentials_files_variable(f, variable)) ||
        (url = credentials_files_variable(f, "AWS_ENDPOINT_URL")))
        return url;
    if (name && (url = credentials_files_get(f->arena, f->config,
                                             arena_printf(f->arena, "services %s", name), service,
                                             "endpoint_url", &found)))
        return url;
    return credentials_files_value(f, f->profile, "endpoint_url");
}

const char *credentials_files_ca_bundle(const struct credentials_files *f) {
    const char *path = credentials_files_variable(f, "AWS_CA_BUNDLE");
    return path ? path : credentials_files_value(f, f->profile, "ca_bundle");
}
