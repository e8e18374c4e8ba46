// SPDX-License-Identifier: Apache-2.0
// Credentials from servers beside this machine: the metadata service of an instance (version 2),
// and the server of a container.
#include "object/aws_chain_impl.h"

#include "object/uri.h"
#include "sys/file.h"

#include <string.h>
#include <strings.h>

#define INSTANCE_SERVER  "http://169.254.169.254/"
#define CONTAINER_SERVER "http://169.254.170.2"

// The answer is in the arena of the files.
static int ask(struct aws_chain *c, const char *method, const char *url, const char *name,
               const char *value, const char **text, struct err *e) {
    struct aws_request r = {.method = method, .url = url, .local = true};
    if (value)
        r.headers[r.header_count++] = (struct sigv4_pair){name, value};
    int result = aws_chain_send(c, &r, e);
    *text = arena_strdup(c->files->arena, strbuf_cstr(&r.text));
    aws_chain_forget(&r);
    return result;
}

// ---- the role of this machine -------------------------------------------------------------------

static const char *instance_server(const struct aws_chain *c) {
    const char *base = aws_files_variable(c->files, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (!base)
        base = aws_chain_value(c, c->files->profile, "ec2_metadata_service_endpoint");
    if (!base)
        return INSTANCE_SERVER;
    return str_ends(base, "/") ? base : arena_printf(c->files->arena, "%s/", base);
}

static int ask_role(struct aws_chain *c, const char *base, struct aws_credentials *out,
                    struct err *e) {
    static const char list[] = "latest/meta-data/iam/security-credentials/";
    static const char header[] = "x-aws-ec2-metadata-token";
    struct arena *a = c->files->arena;
    const char *token, *name, *text, *region;
    struct err ignored = {0};
    if (ask(c, "PUT", arena_printf(a, "%slatest/api/token", base),
            "x-aws-ec2-metadata-token-ttl-seconds", "21600", &token, e) < 0)
        return -1;
    if (!aws_answer_is_word(token, AWS_ANSWER_TOKEN_BYTES_MAX))
        return err_set(e, ERR_FORMAT, "the metadata service gives no token");
    if (ask(c, "GET", arena_printf(a, "%s%s", base, list), header, token, &name, e) < 0)
        return -1;
    name = arena_strndup(a, name, strcspn(name, "\r\n"));
    if (!aws_answer_is_word(name, 128) || strpbrk(name, "/?#%"))
        return err_set(e, ERR_FORMAT, "this machine's role has no name");
    if (ask(c, "GET", arena_printf(a, "%s%s%s", base, list, name), header, token, &text, e) < 0 ||
        aws_answer_metadata(a, text, strlen(text), out, e) < 0)
        return -1;
    out->from = arena_printf(a, "this machine's role '%s'", name);
    if (!aws_files_region(c->files) &&
        ask(c, "GET", arena_printf(a, "%slatest/meta-data/placement/region", base), header, token,
            &region, &ignored) == 0)
        c->region = region;
    return 0;
}

// A machine without the service, or without a role, has none: e says why.
int aws_metadata_role(struct aws_chain *c, struct aws_credentials *out, struct err *e) {
    const char *off = aws_files_variable(c->files, "AWS_EC2_METADATA_DISABLED");
    struct uri_server ignored;
    const char *base = instance_server(c);
    if (off && strcasecmp(off, "true") == 0)
        return 0;
    if (uri_server(c->files->arena, base, "", &ignored, e) < 0)
        return err_wrap(e, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (ask_role(c, base, out, e) == 0)
        return 1;
    out->key = (struct sigv4_key){.id = NULL};
    return 0;
}

// ---- containers ---------------------------------------------------------------------------------

// The address is asked with a token, so without TLS it has to be one of this host.
static int check_server(struct aws_chain *c, const char *url, struct err *e) {
    static const char *const hosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    struct uri_server server;
    if (uri_server(c->files->arena, arena_strndup(c->files->arena, url, strcspn(url, "?")), "",
                   &server, e) < 0)
        return err_wrap(e, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (strcmp(server.scheme, "https") == 0)
        return 0;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t len = strlen(hosts[i]);
        if (str_starts(server.host, hosts[i]) && (!server.host[len] || server.host[len] == ':'))
            return 0;
    }
    return err_set(e, ERR_CONFIG,
                   "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor a server of this "
                   "host");
}

static int container_token(struct aws_chain *c, const char **token, struct err *e) {
    const char *path = aws_files_variable(c->files, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char *text;
    size_t len;
    *token = aws_files_variable(c->files, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (path) {
        if (file_read_regular(c->files->arena, path, AWS_ANSWER_TOKEN_BYTES_MAX, &text, &len, e) <
            0)
            return err_wrap(e, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        text[strcspn(text, "\r\n")] = '\0';
        *token = text;
    }
    for (const char *p = *token; p && *p; p++)
        if (*p < ' ' || *p > '~')
            return err_set(e, ERR_CONFIG, "the container's authorization token is no header");
    return 0;
}

int aws_metadata_container(struct aws_chain *c, struct aws_credentials *out, struct err *e) {
    struct arena *a = c->files->arena;
    const char *relative = aws_files_variable(c->files, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *url = aws_files_variable(c->files, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token, *text;
    if (relative)
        url = arena_printf(a, CONTAINER_SERVER "%s%s", *relative == '/' ? "" : "/", relative);
    if (!url)
        return 0;
    out->from = "this container's server of credentials";
    if (check_server(c, url, e) < 0 || container_token(c, &token, e) < 0)
        return -1;
    return ask(c, "GET", url, "Authorization", token, &text, e) < 0 ||
                   aws_answer_metadata(a, text, strlen(text), out, e) < 0
               ? err_wrap(e, "%s", out->from)
               : 1;
}
