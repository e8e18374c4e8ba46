// SPDX-License-Identifier: Apache-2.0
// Requests of HTTP/1.1 for objects (RFC 9110, 9112): GET and HEAD without a body, and one range of
// bytes. Pure: the bytes come from any process of this host and are not trusted.
#ifndef STREAM_STREAM_REQUEST_H
#define STREAM_STREAM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    STREAM_REQUEST_BYTES_MAX = 16 << 10, // of a request's head
    STREAM_HEADERS_MAX = 64,
};

enum stream_range_kind {
    STREAM_RANGE_NONE,  // all of it; also for several ranges, and for a range that is none
    STREAM_RANGE_FROM,  // bytes=FROM-, FROM-TO (`to` is UINT64_MAX without one)
    STREAM_RANGE_SUFFIX // bytes=-TO: the last bytes
};

struct stream_request {
    bool head;       // HEAD, not GET
    bool keep_alive; // the connection may stay
    const char *target;
    size_t target_len;
    enum stream_range_kind range;
    uint64_t from, to;
    const char *if_range; // an entity tag with its quotes, or a date; NULL: none
    size_t if_range_len;
};

// Returns the length of the head, 0 while it is incomplete, or -1: it is refused with *status.
// Strings of the request lie in `in`.
ssize_t stream_request_parse(const char *in, size_t len, struct stream_request *out, int *status);

// The part of an object of `size` bytes that is asked for. Returns 200, 206 or 416.
int stream_request_part(const struct stream_request *r, uint64_t size, uint64_t *from,
                        uint64_t *len);

// Decodes %XX of a target up to '?' into out, with a NUL. False: a broken escape, a NUL, or no
// room.
bool stream_request_path(const char *target, size_t len, char *out, size_t room);

// The words of a status ("Not Found").
const char *stream_status_text(int status);

#endif
