// SPDX-License-Identifier: Apache-2.0
// Credentials of an EC2 instance's role, from the instance metadata service (IMDS, version 2).
#include "object/credentials_chain_impl.h"

#include "object/uri.h"

#include <string.h>
#include <strings.h>

#define INSTANCE_SERVER "http://169.254.169.254/"

static const char *instance_server(const struct credentials_chain *c) {
    const char *base = credentials_files_variable(c->files, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (!base)
        base = credentials_chain_value(c, c->files->profile, "ec2_metadata_service_endpoint");
    if (!base)
        return INSTANCE_SERVER;
    return str_ends(base, "/") ? base : arena_printf(c->files->arena, "%s/", base);
}

static int ask_role(struct credentials_chain *c, const char *base, struct aws_credentials *out,
                    struct err *e) {
    static const char list[] = "latest/meta-data/iam/security-credentials/";
    static const char header[] = "x-aws-ec2-metadata-token";
    struct arena *a = c->files->arena;
    const char *token, *name, *text, *region;
    struct err ignored = {0};
    if (credentials_chain_ask(c, "PUT", arena_printf(a, "%slatest/api/token", base),
                              "x-aws-ec2-metadata-token-ttl-seconds", "21600", &token, e) < 0)
        return -1;
    if (!credentials_answer_is_word(token, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX))
        return err_set(e, ERR_FORMAT, "the metadata service gives no token");
    if (credentials_chain_ask(c, "GET", arena_printf(a, "%s%s", base, list), header, token, &name,
                              e) < 0)
        return -1;
    name = arena_strndup(a, name, strcspn(name, "\r\n"));
    if (!credentials_answer_is_word(name, 128) || strpbrk(name, "/?#%"))
        return err_set(e, ERR_FORMAT, "this machine's role has no name");
    if (credentials_chain_ask(c, "GET", arena_printf(a, "%s%s%s", base, list, name), header, token,
                              &text, e) < 0 ||
        credentials_answer_metadata(a, text, strlen(text), out, e) < 0)
        return -1;
    out->from = arena_printf(a, "this machine's role '%s'", name);
    if (!credentials_files_region(c->files) &&
        credentials_chain_ask(c, "GET",
                              arena_printf(a, "%slatest/meta-data/placement/region", base), header,
                              token, &region, &ignored) == 0)
        c->region = region;
    return 0;
}

int credentials_imds_find(struct credentials_chain *c, struct aws_credentials *out, struct err *e) {
    const char *off = credentials_files_variable(c->files, "AWS_EC2_METADATA_DISABLED");
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
