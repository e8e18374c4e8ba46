// SPDX-License-Identifier: Apache-2.0
// One request for a range of an object, under If-Match, whose bytes go to their place in the
// content store while they come. The answer is checked before its first byte is kept.
#ifndef OBJECT_OBJECT_RANGE_H
#define OBJECT_OBJECT_RANGE_H

#include "content/cas.h"
#include "object/http.h"

enum {
    OBJECT_RANGE_BYTES = 2 * CAS_UNIT_BYTES,
    OBJECT_SMALL_BYTES_MAX =
        CAS_SMALL_BYTES_MAX, // goes into a pack of the store, as pushed files do
    OBJECT_CALLS_MAX = 16,   // at a time
};

struct object_want {
    const char *name;       // for messages
    const char *url, *etag; // etag without quotes; "": none, then one request reads all of it
    uint64_t file;          // url NULL: the number of a file of the operator's computer
    uint64_t size;
    unsigned char id[HASH_BYTES]; // stands for this content alone
    bool hashed;                  // hash is known
    unsigned char hash[HASH_BYTES];
};

struct object_range {
    // Set by the caller.
    const struct object_want *want;
    uint64_t from, len;   // when the answer is all of the object, these become all of it
    bool may_be_whole;    // the first request for an object: the server may know no ranges
    bool in_memory;       // the bytes go into call.body, else into the part
    struct cas_part part; // open unless in_memory; the caller closes it
    // The answer is known: ranged or whole is set. May be NULL.
    void (*on_answer)(struct object_range *r);
    // More bytes have arrived. Negative: a new try begins, which requests these bytes again.
    void (*on_bytes)(struct object_range *r, int64_t bytes);
    // The range is complete, or e->code has the reason.
    void (*on_end)(struct object_range *r, const struct err *e);
    void *ctx;

    uint64_t got; // bytes that have come
    bool ranged;  // the server has sent the range
    bool whole;   // the server has sent all of the object when asked for a range
    bool kms;     // the ETag is no MD5
    struct http_call call;

    // Of object_range.c.
    bool seen;
    unsigned char *piece; // bytes for the part that are not written yet; NULL: none has come
    size_t held;          // bytes in it
    char range[64], match[176];
};

// Forgets an earlier request, but keeps its memory for the next one.
void object_range_reset(struct object_range *r);
void object_range_begin(struct object_range *r, struct http *http);
// The same for bytes that come by another way than http: object_range_take gives them, in order.
void object_range_expect(struct object_range *r);
int object_range_take(struct object_range *r, const void *p, size_t len, struct err *e);
void object_range_close(struct object_range *r); // frees its memory; no callback any more

// True when an ETag of that text is the MD5 of the content, unless a key of KMS was used.
bool object_etag_is_md5(const char *etag);
enum { OBJECT_MD5_BYTES = 16 };
int object_check_md5(const char *etag, const unsigned char md5[OBJECT_MD5_BYTES], struct err *e);

// Pure: a Content-Range; false: not this one of an object of that size.
bool object_range_is(const char *text, uint64_t from, uint64_t len, uint64_t size);

#endif
