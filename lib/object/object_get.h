// SPDX-License-Identifier: Apache-2.0
// Reads objects by their URLs into a content store: ranges of large ones in parallel, each range
// under If-Match, so that an object that changes meanwhile is an error and never a mixture. Bytes
// that an interrupted call has stored are not read again.
#ifndef OBJECT_OBJECT_GET_H
#define OBJECT_OBJECT_GET_H

#include "object/known_hashes.h"
#include "object/object_range.h"

struct object_get {
    struct http *http;
    struct cas *store;
    struct known *known;
    const struct object_want *wants;
    size_t count;
    // Both may end the work with a negative result.
    int (*on_object)(void *ctx, size_t i, const unsigned char hash[HASH_BYTES], struct err *e);
    int (*on_progress)(void *ctx, uint64_t done, uint64_t total,
                       struct err *e); // 10 times a second, and while objects are hashed again
    void *ctx;
    uint64_t bytes_read; // result: from the servers
};

// Errors name the object. Checks the free space first.
int object_get_all(struct object_get *g, struct err *e);

#endif
