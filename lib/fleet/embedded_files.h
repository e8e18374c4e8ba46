// SPDX-License-Identifier: Apache-2.0
// Embedded files: the programs that dtctl pushes to nodes ("dtrun", "dttrain", "dtdata"), and the
// files of infra/ and cloud-init/ by their path. The build generates the table (embedded_files.sh).
// Each file is compressed with zstd, some by what they have in common with another one; its name on
// a node contains its sha256. All data is constant.
// A program linked without the table (a unit test) has no files.
#ifndef FLEET_EMBEDDED_FILES_H
#define FLEET_EMBEDDED_FILES_H

#include "base/arena.h"
#include "base/err.h"
#include "content/manifest.h"

#include <stddef.h>

struct embed_file {
    const char *name;
    const unsigned char *data;     // a zstd frame
    size_t size_packed;            // bytes at data
    size_t size;                   // uncompressed bytes
    const struct embed_file *base; // the file that the frame has as its prefix, or NULL
    char sha256[65];               // of the uncompressed file, lower-case hex
};

// The i-th file, or NULL past the last one.
const struct embed_file *embedded_at(size_t i);

// The file with this name, or NULL.
const struct embed_file *embedded_find(const char *name);

// Decompresses an embedded file and checks its hash. Returns file->size bytes in the arena, or NULL
// with ERR_HASH or ERR_FORMAT.
const void *embedded_unpack(struct arena *a, const struct embed_file *file, struct err *e);

// Programs on the nodes besides the agent: their paths and manifest entries.

// Path "bin/dttrain-<first 16 hex digits of its sha256>" below the node's root; NULL when not
// embedded.
const char *embedded_program_path(struct arena *a, const char *name);
// Adds a program; its bytes are in the arena. ERR_FAILED when it is not embedded.
int embedded_add_program(struct manifest *m, struct arena *a, const char *name, struct err *e);

#endif
