// SPDX-License-Identifier: Apache-2.0
// Refuses settings that AWS would refuse: conflicting settings and names that do not exist.
#ifndef AWS_AWS_SETTINGS_H
#define AWS_AWS_SETTINGS_H

#include "base/err.h"
#include "conf/config.h"

// -1 with ERR_CONFIG; the text names the setting and the first rule that it violates.
int aws_settings_check(const struct config *c, const char *region, struct err *e);

#endif
