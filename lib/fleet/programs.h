// SPDX-License-Identifier: Apache-2.0
// The programs that dtctl brings to every node besides the agent: their names there, and how they
// get into a manifest.
#ifndef FLEET_PROGRAMS_H
#define FLEET_PROGRAMS_H

#include "base/arena.h"
#include "base/err.h"
#include "content/manifest.h"

// "bin/dttrain-<first 16 hex of its sha256>", below the node's root; NULL when not carried.
const char *programs_path(struct arena *a, const char *name);
// Adds the native trainer; its bytes live in the arena. ERR_FAILED when dtctl carries none.
int programs_add_trainer(struct manifest *m, struct arena *a, struct err *e);

#endif
