// SPDX-License-Identifier: Apache-2.0
// The files that dtctl carries inside itself: the programs it pushes to nodes ("dtrun",
// "dttrain") and the files of infra/ and cloud-init/ by their path. The build makes the table
// (bundle.sh); each file is compressed with zstd, and its name in a node's folder comes from
// sha256. Everything is constant and lives as long as the program. A program that was linked
// without the table (a unit test) finds nothing.
#ifndef FLEET_BUNDLE_H
#define FLEET_BUNDLE_H

#include "base/arena.h"
#include "base/err.h"
#include "content/manifest.h"

#include <stddef.h>

struct embed_file {
    const char *name;
    const unsigned char *data; // a zstd frame
    size_t size_packed;        // bytes at data
    size_t size;               // bytes when unpacked
    char sha256[65];           // of the unpacked file, lower-case hex
};

// The i-th file, or NULL past the last one.
const struct embed_file *embed_at(size_t i);

// The file with this name, or NULL.
const struct embed_file *embed_find(const char *name);

// Unpacks a file that dtctl carries, and checks it against its hash.

// The bytes (file->size of them) in the arena, or NULL with ERR_HASH or ERR_FORMAT.
const void *unpack_embedded(struct arena *a, const struct embed_file *file, struct err *e);

// The programs that dtctl brings to every node besides the agent: their names there, and how they
// get into a manifest.

// "bin/dttrain-<first 16 hex of its sha256>", below the node's root; NULL when not carried.
const char *programs_path(struct arena *a, const char *name);
// Adds the native trainer; its bytes live in the arena. ERR_FAILED when dtctl carries none.
int programs_add_trainer(struct manifest *m, struct arena *a, struct err *e);

#endif
