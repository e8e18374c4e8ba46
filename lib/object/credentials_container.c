// SPDX-License-Identifier: Apache-2.0
// Credentials of a container's role, from the server that ECS or EKS sets in its environment.
#include "object/credentials_chain_impl.h"

#include "object/uri.h"
#include "sys/file.h"

#include <string.h>

#define CONTAINER_SERVER "http://169.254.170.2"

// The address is asked with a token, so without TLS it has to be one of this host.
static int check_server(struct credentials_chain *c, const char *url, struct err *e) {
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

static int container_token(struct credentials_chain *c, const char **token, struct err *e) {
    const char *path =
        credentials_files_variable(c->files, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char *text;
    size_t len;
    *token = credentials_files_variable(c->files, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (path) {
        if (file_read(c->files->arena, path, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX, &text, &len, e) <
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

int credentials_container_find(struct credentials_chain *c, struct aws_credentials *out,
                               struct err *e) {
    struct arena *a = c->files->arena;
    const char *relative =
        credentials_files_variable(c->files, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *url = credentials_files_variable(c->files, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token, *text;
    if (relative)
        url = arena_printf(a, CONTAINER_SERVER "%s%s", *relative == '/' ? "" : "/", relative);
    if (!url)
        return 0;
    out->from = "this container's server of credentials";
    if (check_server(c, url, e) < 0 || container_token(c, &token, e) < 0)
        return -1;
    return credentials_chain_ask(c, "GET", url, "Authorization", token, &text, e) < 0 ||
                   credentials_answer_metadata(a, text, strlen(text), out, e) < 0
               ? err_wrap(e, "%s", out->from)
               : 1;
}
