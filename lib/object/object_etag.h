// SPDX-License-Identifier: Apache-2.0
// Compares a file with an object by the object's ETag, without reading the object. The ETag is the
// MD5 of the bytes, or, for an object that object_put wrote in parts, that of the parts' MD5s.
#ifndef OBJECT_OBJECT_ETAG_H
#define OBJECT_OBJECT_ETAG_H

#include "content/manifest.h"
#include "object/s3.h"

// 1: the same bytes. 0: others, or the ETag is of another kind. -1: the file cannot be read.
int object_etag_matches(const struct manifest_entry *file, const struct s3_object *o,
                        struct err *e);

#endif
