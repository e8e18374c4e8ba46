// SPDX-License-Identifier: Apache-2.0
// Checks the local requirements of provider aws: Terraform, settings.
#include "aws/aws_cluster.h"

#include "aws/aws_settings.h"

static void find_program(struct findings *f) {
    const char *program = NULL, *version = NULL;
    struct err e = {0};
    struct terraform_settings set = aws_terraform.settings(f->context->config);
    if (terraform_program(f->context, &set, &program, &e) < 0)
        findings_add(f, FINDING_BAD, "terraform", "install it, or name it in aws.terraform", "%s",
                     e.text);
    else if (terraform_version(f->context, &set, program, &version, &e) < 0)
        findings_add(f, FINDING_BAD, "terraform", "install another, or name it in aws.terraform",
                     "%s", e.text);
    else
        findings_add(f, FINDING_GOOD, "terraform", NULL, "%s, version %s", program, version);
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
}
