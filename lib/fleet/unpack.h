// SPDX-License-Identifier: Apache-2.0
// Unpacks a file that dtctl carries, and checks it against its hash.
#ifndef FLEET_UNPACK_H
#define FLEET_UNPACK_H

#include "base/arena.h"
#include "base/err.h"
#include "fleet/embed.h"

// The bytes (file->size of them) in the arena, or NULL with ERR_HASH or ERR_FORMAT.
const void *unpack_embedded(struct arena *a, const struct embed_file *file, struct err *e);

#endif
