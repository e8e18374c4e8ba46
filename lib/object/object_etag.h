// SPDX-License-Identifier: Apache-2.0
// Compares a file with an object by the object's ETag, without reading the object. The ETag is the
// MD5 of the bytes, or, for an object that object_put wrote in parts, that of the parts' MD5s.
#ifndef OBJECT_OBJECT_ETAG_H
#define OBJECT_OBJECT_ETAG_H

#include "content/manifest.h"
#include "object/s3.h"

enum { OBJECT_TAG_BYTES_MAX = 48, OBJECT_TAG_FORMS = 2 };

// A file that is compared with several objects is read once for each form of an ETag.
struct object_tags {
    const struct manifest_entry *file;                 // set by the caller; the rest is zero
    char text[OBJECT_TAG_FORMS][OBJECT_TAG_BYTES_MAX]; // of the whole file, and of its parts
    bool known[OBJECT_TAG_FORMS];
};

// 1: the same bytes. 0: others, or the ETag is of another kind. -1: the file cannot be read;
// ERR_HASH: it is gone.
int object_etag_matches(struct object_tags *t, const struct s3_object *o, struct err *e);

#endif
