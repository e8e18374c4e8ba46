// SPDX-License-Identifier: Apache-2.0
// The plan of a cluster: `plan` shows it, and `up` does before it asks.
#ifndef DTCTL_PLAN_H
#define DTCTL_PLAN_H

#include "ui/context.h"

// compare: also ask the provider for the present state.
int plan_show(struct context *s, bool compare, struct err *e);
// Settings without effect, and flags of an earlier up that take the place of settings.
void plan_show_settings(struct context *s);

#endif
