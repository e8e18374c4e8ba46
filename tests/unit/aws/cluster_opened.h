// SPDX-License-Identifier: Apache-2.0
// A cluster of provider aws that is opened from its folder, before Terraform runs.
//
//     start("[lease]\nttl = '2h'\n"); made(",\"ttl_s\":7200"); open_cluster();
#ifndef DTCTL_TESTS_UNIT_AWS_CLUSTER_OPENED_H
#define DTCTL_TESTS_UNIT_AWS_CLUSTER_OPENED_H

#include "tests/unit/aws/terraform_opened.h"

#define VARS ".dtctl/c/terraform/infra/terraform.tfvars.json"

static void start(const char *options) {
    load(arena_printf(&a,
                      "[aws]\nowner = 'me'\nregion = 'eu-west-1'\n"
                      "operator_cidrs = ['198.51.100.7/32']\n%s",
                      options));
    begin();
    open_fails = false;
    opened_in = NULL;
    unlink(fake_in(VARS));
    aws_lease_forget(&context);
    cluster = (struct aws_cluster){.context = &context};
}

// The last apply had these variables besides region and owner.
static void made(const char *members) {
    fake_put(VARS, arena_printf(&a, "{\"region\":\"eu-west-1\",\"owner\":\"ann\"%s}", members),
             0600);
}

static int open_cluster(void) {
    return aws_cluster_open(&cluster, &context, &error);
}

#endif
