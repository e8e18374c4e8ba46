// SPDX-License-Identifier: Apache-2.0
// Reads the XML that servers of the S3 protocol answer with: elements and their text. Attributes,
// comments and declarations are skipped; a document type is refused, so nothing can be expanded.
#ifndef OBJECT_XML_H
#define OBJECT_XML_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>

enum { XML_DEPTH_MAX = 16, XML_TEXT_BYTES_MAX = 16384, XML_NAME_BYTES_MAX = 128 };

struct xml_events {
    // path: "ListBucketResult/Contents", without prefixes of name spaces. text: that of an element
    // without children, decoded, NUL-terminated, valid during the call; "" for others.
    int (*on_end)(void *ctx, const char *path, const char *text, struct err *e);
};

// ERR_FORMAT, ERR_LIMIT, or the error of a callback.
int xml_read(const char *p, size_t len, const struct xml_events *events, void *ctx, struct err *e);

#endif
