// SPDX-License-Identifier: Apache-2.0
// The script in place of Terraform needs no working folder: for modules of provider aws that open
// Terraform themselves.
#ifndef DTCTL_TESTS_UNIT_AWS_TERRAFORM_OPENED_H
#define DTCTL_TESTS_UNIT_AWS_TERRAFORM_OPENED_H

#include "tests/unit/aws/cluster_fake.h"

static const char *opened_in; // the region of the last opening
static bool open_fails;
static struct terraform opened;

const char *terraform_vars_path(struct context *s) {
    return file_join(s->arena, s->cluster.dir, "terraform/infra/terraform.tfvars.json");
}

bool terraform_was_used(struct context *s) {
    return !file_is_absent(terraform_vars_path(s));
}

int terraform_open(struct terraform *t, struct context *s, const struct terraform_cloud *cloud,
                   const char *region, struct err *e) {
    if (open_fails)
        return err_set(e, ERR_NOT_FOUND, "there is no terraform");
    *t = opened;
    t->context = s;
    t->cloud = cloud;
    opened_in = region;
    return 0;
}

char **terraform_env(struct context *s, const struct terraform_settings *set) {
    (void)set;
    return (char **)(uintptr_t)s->env;
}

int terraform_folder_root(struct terraform *t, const char *root, const char *state_name,
                          struct err *e) {
    (void)t;
    (void)root;
    (void)state_name;
    (void)e;
    return 0;
}

#endif
