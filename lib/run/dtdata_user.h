// SPDX-License-Identifier: Apache-2.0
// Answers what dtdata asks (cmd/dtdata/user.h): the account that an earlier dtdata of this command
// has found, which stays in memory alone, and codes of the user's device.
#ifndef RUN_DTDATA_USER_H
#define RUN_DTDATA_USER_H

#include "ui/context.h"

// The profile that the configuration names for AWS; NULL: none.
const char *dtdata_user_profile(const struct context *s);
// True when the line is a question or an account. A question is answered on `to`; *waited_ms grows
// by the time that the user took. alone: the user is asked for nothing.
bool dtdata_user_take(struct context *s, const char *line, size_t len, int to, bool alone,
                      int64_t *waited_ms);

#endif
