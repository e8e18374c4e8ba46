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
    // A folder below the prefix, with a slash at its end: MIRROR/NODE/KIND/PATH has the bytes of
    // files KIND/PATH or KIND/NODE/PATH, perhaps, which the server then copies. NULL: none.
    const char *copies;
    // A folder below the prefix, "" or with a slash at its end, from which objects that are no
    // files are removed once all files are there. NULL: none.
    const char *mirrors;
    const char *const *mirrored; // only objects MIRROR/NODE/KIND/… of these kinds go; NULL: all
    // A file that fails leaves the others alone; the first failure is the result. A file that
    // changes or goes meanwhile is no failure.
    bool tolerant;
    int64_t since_ms; // files that this computer has not touched since are as they were; 0: none
    int (*on_progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
    void *ctx;
    size_t count;        // results: files in the bucket,
    size_t there, links; // of them not sent; links, which a bucket cannot hold
    size_t copied;       // of them copied by the server
    size_t changed;      // tolerant: files that have changed or gone meanwhile
    size_t stay;         // objects that the server does not remove
    uint64_t sent;       // bytes of files
};

// A file is not sent when the bucket has its bytes under its key, or in `copies`. Errors name the
// file. A file that changes meanwhile is an error, ERR_HASH, and an upload in parts that fails is
// taken back: no object is a part of a file.
int object_put_all(struct object_put *p, struct err *e);

// Lists the prefix, and begins and takes back an upload in parts: it needs the same permissions as
// object_put_all, and leaves no object.
int object_put_check(struct object_put *p, struct err *e);

// Pure: bytes of a part, so that there are at most OBJECT_PARTS_MAX.
uint64_t object_put_part_bytes(uint64_t size);

#endif
