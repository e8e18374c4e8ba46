// SPDX-License-Identifier: Apache-2.0
// Where Terraform keeps the state of a cluster on AWS, and why it cannot get at the bucket of
// aws.state.
#include "aws/aws_cluster.h"

#include "aws/aws_errors.h"
#include "aws/aws_tfvars.h"

#include <string.h>

// Terraform breaks its sentences into lines, and draws a frame beside them.
static const char *one_line(struct arena *a, const char *words) {
    static const char frame[] = "\u2502";
    struct strbuf text = {0};
    for (const char *p = words; *p;) {
        size_t gap = strspn(p, " \t\r\n");
        if (str_starts(p + gap, frame))
            gap += sizeof frame - 1;
        if (gap == 0)
            strbuf_addc(&text, *p++);
        else if (text.len && text.data[text.len - 1] != ' ')
            strbuf_addc(&text, ' ');
        p += gap;
    }
    const char *line = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return line;
}

// Calls that a policy knows by another name.
static const char *in_policy(const char *action) {
    static const char *const names[][2] = {{"s3:HeadObject", "s3:GetObject"},
                                           {"s3:HeadBucket", "s3:ListBucket"},
                                           {"s3:ListObjectsV2", "s3:ListBucket"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(action, names[i][0]) == 0)
            return names[i][1];
    return action;
}

static bool explain(const struct context *s, const char *words, struct err *e) {
    const char *state = s->config->aws.state, *bucket = NULL, *folder = NULL;
    if (!state[0])
        return false;
    aws_vars_split_s3(s->arena, state, &bucket, &folder);
    const char *line = one_line(s->arena, words), *where = config_where(s->config, "aws.state");
    struct aws_refusal r = aws_refusal_of(s->arena, line);
    if (strstr(line, "bucket") && strstr(line, "does not exist"))
        err_set(e, ERR_CONFIG,
                "%s: there is no bucket '%s'; make it, with versioning, or name another", where,
                bucket);
    else if (r.kind == AWS_REFUSAL_PERMISSION)
        err_set(e, ERR_AUTH,
                "%s: bucket '%s' may not be used (%s%s%s); dtctl needs s3:ListBucket of it, and "
                "s3:GetObject, s3:PutObject and s3:DeleteObject of what is in '%s%s%s/'",
                where, bucket, r.code[0] ? r.code : "no permission", r.action[0] ? ": " : "",
                in_policy(r.action), folder, *folder ? "/" : "", s->cluster.name);
    else
        return false;
    return true;
}

static void backend(struct strbuf *out, const struct context *s, const char *region,
                    const char *path) {
    static const struct aws_config local = {.state = ""};
    aws_vars_backend(out, region ? &s->config->aws : &local, region ? region : "", s->cluster.name,
                     path);
}

const struct terraform_cloud aws_terraform = {.backend = backend, .explain = explain};
