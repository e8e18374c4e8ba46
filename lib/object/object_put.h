// SPDX-License-Identifier: Apache-2.0
// Writes the files of a folder to a bucket: large ones in parts, several at a time. Every request
// carries the SHA-256 and the MD5 of its bytes, which the server compares; afterwards a list of the
// bucket has to show every file with its size.
#ifndef OBJECT_OBJECT_PUT_H
#define OBJECT_OBJECT_PUT_H

#include "content/manifest.h"
#include "object/s3.h"

enum {
    OBJECT_PART_BYTES = 8 << 20, // at least; S3 wants 5 MiB
    OBJECT_PARTS_MAX = 10000,
    OBJECT_PUTS_MAX = 4, // at a time, each with one part in memory
};
#define OBJECT_PUT_BYTES_MAX ((uint64_t)5 << 40) // of one file

struct object_put {
    struct s3 *s3;
    const char *bucket, *prefix; // prefix: "" or without a slash at its end
    const struct manifest *files;
    int (*on_progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
    void *ctx;
    size_t count;        // results: files in the bucket,
    size_t there, links; // of them not sent; links, which a bucket cannot hold
    uint64_t sent;       // bytes of files
};

// A file is not sent when the bucket has its bytes under its key. Errors name the file. An upload
// in parts that fails is taken back.
int object_put_all(struct object_put *p, struct err *e);

// Lists the prefix, and begins and takes back an upload in parts: it needs the same permissions as
// object_put_all, and leaves no object.
int object_put_check(struct object_put *p, struct err *e);

// Pure: bytes of a part, so that there are at most OBJECT_PARTS_MAX.
uint64_t object_put_part_bytes(uint64_t size);

#endif
