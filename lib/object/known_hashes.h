// SPDX-License-Identifier: Apache-2.0
// Facts about objects that were read before: their identity (server, name, ETag and size) and
// the SHA-256 of their content. One file of lines, "IDENTITY SHA256\n"; several processes may
// append at a time. A damaged or missing line costs reading the object again, nothing else.
#ifndef OBJECT_KNOWN_HASHES_H
#define OBJECT_KNOWN_HASHES_H

#include "base/err.h"
#include "base/hash.h"

#include <stddef.h>

enum { KNOWN_BYTES_MAX = 64 << 20 }; // a longer file is begun anew

struct known {
    const char *path;
    unsigned char (*rows)[2][HASH_BYTES]; // by identity
    size_t count;
};

int known_open(struct known *k, const char *path, struct err *e);
void known_close(struct known *k);
// The newest SHA-256 of what the file had when it was opened; NULL: unknown.
const unsigned char *known_find(const struct known *k, const unsigned char id[HASH_BYTES]);
int known_add(struct known *k, const unsigned char id[HASH_BYTES],
              const unsigned char hash[HASH_BYTES], struct err *e);

#endif
