// SPDX-License-Identifier: Apache-2.0
// Checks the local requirements of provider aws: Terraform, settings, credentials.
#include "aws/aws_cluster.h"

#include "aws/aws_settings.h"
#include "base/env.h"
#include "sys/file.h"

#include <stdlib.h>

static void find_program(struct findings *f) {
    const char *program = NULL, *version = NULL;
    struct err e = {0};
    if (terraform_program(f->context, &program, &e) < 0)
        findings_add(f, FINDING_BAD, "terraform", "install it, or name it in aws.terraform", "%s",
                     e.text);
    else if (terraform_version(f->context, program, &version, &e) < 0)
        findings_add(f, FINDING_BAD, "terraform", "install another, or name it in aws.terraform",
                     "%s", e.text);
    else
        findings_add(f, FINDING_GOOD, "terraform", NULL, "%s, version %s", program, version);
}

static void find_credentials(struct findings *f) {
    char *const *env = f->context->env;
    const char *home = env_get(env, "HOME"), *key = env_get(env, "AWS_ACCESS_KEY_ID");
    const char *file = env_get(env, "AWS_SHARED_CREDENTIALS_FILE");
    const char *profile = f->context->config->aws.profile;
    if (!file || !*file)
        file = arena_printf(f->context->arena, "%s/.aws/credentials", home ? home : "");
    if (profile[0])
        findings_add(f, FINDING_GOOD, "credentials", NULL, "of profile '%s'", profile);
    else if (key && *key)
        findings_add(f, FINDING_GOOD, "credentials", NULL,
                     "in the environment (AWS_ACCESS_KEY_ID)");
    else if (file_exists(file))
        findings_add(f, FINDING_GOOD, "credentials", NULL, "%s", file);
    else
        findings_add(
            f, FINDING_WARN, "credentials",
            "say aws configure, or set AWS_PROFILE; a role of this computer serves as well",
            "neither in the environment nor in %s", file);
}

void aws_doctor(struct findings *f) {
    struct context *s = f->context;
    const char *region = NULL;
    struct err e = {0};
    find_program(f);
    if (aws_cluster_region(s, &region, &e) < 0 || aws_settings_check(s->config, region, &e) < 0)
        findings_add(f, FINDING_BAD, "aws", "correct it; dtctl plan shows what it would be", "%s",
                     e.text);
    else
        findings_add(f, FINDING_GOOD, "aws", NULL, "%s in %s", s->config->aws.instance_type,
                     region);
    find_credentials(f);
}
