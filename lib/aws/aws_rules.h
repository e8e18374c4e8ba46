// SPDX-License-Identifier: Apache-2.0
// Settings that AWS is sure to refuse: rules between settings, and names that do not exist.
#ifndef AWS_AWS_RULES_H
#define AWS_AWS_RULES_H

#include "base/err.h"
#include "conf/config.h"

// -1 with ERR_CONFIG and the setting, by the first rule that does not hold.
int aws_rules_check(const struct config *c, const char *region, struct err *e);

#endif
