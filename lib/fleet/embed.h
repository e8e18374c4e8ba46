// SPDX-License-Identifier: Apache-2.0
// embed.h: the files that dtctl carries inside itself: the programs it pushes to nodes ("dtrun",
// "dttrain") and the files of infra/ and cloud-init/ by their path. The build makes the table
// (embed.sh); each file is compressed with zstd, and its name in a node's folder comes from sha256.
// Everything is constant and lives as long as the program. A program that was linked without the
// table (a unit test) finds nothing.
#ifndef FLEET_EMBED_H
#define FLEET_EMBED_H

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

#endif
