// SPDX-License-Identifier: Apache-2.0
// Provider aws: refused, in one place.
#include "job/provider.h"

static int aws_plan(struct session *s, struct inventory *out, struct err *e) {
    (void)out;
    return err_set(e, ERR_CONFIG,
                   "%s: this version of dtctl does not make instances by itself; make them, list "
                   "them under hosts.list and use provider = \"hosts\"",
                   config_where(s->config, "cluster.provider"));
}

static int aws_make(struct session *s, struct inventory *inv, struct err *e) {
    return aws_plan(s, inv, e);
}

static int aws_check(struct session *s, struct fleet *f, struct err *e) {
    (void)f;
    return aws_plan(s, NULL, e);
}

static int aws_give_back(struct session *s, const struct inventory_node *n, struct err *e) {
    (void)n;
    return aws_plan(s, NULL, e);
}

const struct provider provider_aws = {"aws", aws_plan, aws_make, aws_check, aws_give_back};
