// SPDX-License-Identifier: Apache-2.0
// Where objects are: "s3://BUCKET/KEY" and "https://HOST/PATH", and their URLs on a server.
#ifndef OBJECT_URI_H
#define OBJECT_URI_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

enum { URI_BYTES_MAX = 8192, URI_KEY_BYTES_MAX = 1024 };

struct uri {
    const char *bucket, *key; // s3; key: "" for a whole bucket
    const char *url;          // https, as it was given; NULL: s3
};

// ERR_CONFIG says what is wrong with it.
int uri_parse(struct arena *a, const char *text, struct uri *out, struct err *e);

// Percent-encodes all bytes but A-Z a-z 0-9 - . _ ~, and '/' where slash says so.
void uri_encode(struct strbuf *out, const char *s, size_t len, bool slash);
// The other direction; "+" is a space. NULL: a broken escape, or a NUL.
char *uri_decode(struct arena *a, const char *s);

// A server of the S3 protocol.
struct uri_server {
    const char *scheme; // "https" or "http"
    const char *host;   // with the port, unless it is the scheme's own
    const char *path;   // in front of all paths; "" or "/…" without a slash at its end
    bool custom;        // given by the user: the bucket goes into the path
};

// endpoint NULL: AWS in that region. Otherwise "http(s)://HOST[:PORT][/PATH]".
int uri_server(struct arena *a, const char *endpoint, const char *region, struct uri_server *out,
               struct err *e);

struct uri_place {
    const char *host, *path; // encoded
};
void uri_place(struct arena *a, const struct uri_server *s, const char *bucket, const char *key,
               struct uri_place *out);

#endif
