// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4: signs requests by headers, and URLs for those who have no key. Pure.
#ifndef OBJECT_SIGV4_H
#define OBJECT_SIGV4_H

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>

#define SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"

enum { SIGV4_PAIRS_MAX = 16, SIGV4_SECONDS_MAX = 7 * 24 * 3600 /* of a presigned URL */ };

struct sigv4_key {
    const char *id, *secret, *token; // token NULL: none
};

struct sigv4_pair {
    const char *name, *value; // not encoded; headers: names in lower case
};

struct sigv4_scope {
    const char *region, *service;
    int64_t wall_ms;
};

struct sigv4_request {
    const char *method, *host, *path; // path: encoded, as it is sent
    struct sigv4_pair query[SIGV4_PAIRS_MAX];
    size_t query_count;
    struct sigv4_pair headers[SIGV4_PAIRS_MAX]; // all of them are signed; without host
    size_t header_count;
    const char *payload; // SHA-256 in hex, or SIGV4_UNSIGNED
};

// Adds the headers x-amz-date, x-amz-security-token where there is one, and authorization.
void sigv4_sign(struct arena *a, const struct sigv4_key *k, const struct sigv4_scope *s,
                struct sigv4_request *r);
// Adds the signature to the query: the URL is good for this one request, for `seconds`.
void sigv4_presign(struct arena *a, const struct sigv4_key *k, const struct sigv4_scope *s,
                   int64_t seconds, struct sigv4_request *r);
// The query, encoded and sorted; "" without any.
const char *sigv4_query(struct arena *a, const struct sigv4_request *r);

#endif
