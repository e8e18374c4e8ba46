// SPDX-License-Identifier: Apache-2.0
// The exit status of a dtctl that has followed a run to its end.
#ifndef RUN_RUN_VERDICT_H
#define RUN_RUN_VERDICT_H

#include "follow/follow.h"

// exit_code: of a run that failed, the exit status of the first rank that failed.
int run_verdict(const struct follow *f, bool exit_code);

#endif
