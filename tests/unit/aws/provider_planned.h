// SPDX-License-Identifier: Apache-2.0
// Cluster c of provider aws: its plan, and what the last apply made. For tests of the provider.
#ifndef DTCTL_TESTS_UNIT_AWS_PROVIDER_PLANNED_H
#define DTCTL_TESTS_UNIT_AWS_PROVIDER_PLANNED_H

#include "tests/unit/aws/terraform_opened.h"

#define VARS "infra/terraform.tfvars.json"

static int plan(struct inventory *out) {
    *out = (struct inventory){.name = "c", .provider = "aws", .created = ""};
    return provider_aws.plan(&context, out, &error);
}

// The last apply was this.
static void applied(const char *members) {
    fake_put(".dtctl/c/terraform/" VARS,
             arena_printf(&a, "{\"region\":\"us-east-1\",\"owner\":\"ann\"%s}", members), 0600);
}

#endif
