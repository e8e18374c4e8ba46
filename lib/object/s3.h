// SPDX-License-Identifier: Apache-2.0
// The S3 protocol: an account's key, region and server; signed requests;
// presigned addresses and how long they are good; lists of objects.
#ifndef OBJECT_S3_H
#define OBJECT_S3_H

#include "object/s3_account.h"
#include "object/uri.h"

enum {
    S3_LIST_BYTES_MAX = 16 << 20, // of one page
    S3_OBJECTS_MAX = 200000,      // of one source; a node's list has about 700 bytes for each
    S3_URL_SECONDS = 24 * 3600,   // how long a presigned URL is good, or as long as its key
};

struct s3 {
    struct arena *arena;
    struct http *http;
    struct s3_account account;
    struct uri_server server;
    const char *region;
    const char *ca; // PEM; "" without any
    size_t ca_len;
};

// Settings of the user's files, and certificates. Sends no request: for https sources this is all.
int s3_open(struct s3 *s, struct arena *a, const struct s3_user *user, struct err *e);
// Ensures that there is a key.
int s3_open_account(struct s3 *s, struct err *e);
void s3_close(struct s3 *s);
// When addresses that are signed now end.
int64_t s3_urls_end_ms(const struct s3 *s, int64_t wall_ms);

// A signed request; set http.on_data, http.on_end and http.body_out by hand.
struct s3_call {
    struct http_call http; // first
    struct s3 *s3;
    const char *bucket, *key;
    struct sigv4_request request;
    struct arena arena; // of one try
    char payload[65];
};

// query and headers (may be NULL) end with a NULL name; their strings are kept.
void s3_call_set(struct s3_call *c, struct s3 *s, const char *method, const char *bucket,
                 const char *key, const struct sigv4_pair *query, const struct sigv4_pair *headers);
void s3_call_body(struct s3_call *c, const void *p, size_t len); // and its hash
// To the end; asks the right region once when the bucket is in another one.
int s3_run(struct s3_call *c, struct err *e);
void s3_call_close(struct s3_call *c);

// A GET of this object for everyone who has it.
const char *s3_presign(const struct s3 *s, struct arena *a, const char *bucket, const char *key,
                       int64_t wall_ms);

struct s3_object {
    const char *key, *etag; // without quotes
    uint64_t size;
};
struct s3_objects {
    struct s3_object *items;
    size_t count, room;
};
// Adds all objects whose keys begin with the prefix; all of *out are sorted by key then. Folder
// marks ("a/") are left out. most 0: no limit but S3_OBJECTS_MAX (ERR_LIMIT).
int s3_list(struct s3 *s, const char *bucket, const char *prefix, size_t most,
            struct s3_objects *out, struct err *e);

// An entity tag without W/ and quotes; "" for a weak one, which does not stand for bytes.
const char *s3_etag(struct arena *a, const char *text);

#endif
