// SPDX-License-Identifier: Apache-2.0
// Requests for streamed objects: any bytes; results point into the input, and a
// part is within its object.
#include "stream/stream_request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_part(const struct stream_request *r, uint64_t size) {
    uint64_t from, len;
    int status = stream_request_part(r, size, &from, &len);
    if (status != 416 && (from > size || len > size - from || (status == 206 && len == 0)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *in = (const char *)data;
    struct stream_request r;
    char path[256];
    int status = 0;
    ssize_t n = stream_request_parse(in, size, &r, &status);
    if (n < 0 && (status < 400 || strcmp(stream_status_text(status), "Error") == 0))
        abort();
    if (n == 0 && size >= STREAM_REQUEST_BYTES_MAX)
        abort(); // it would wait for ever
    if (n <= 0)
        return 0;
    if ((size_t)n > size || r.target < in || r.target + r.target_len > in + n ||
        r.target[0] != '/' || (r.if_range && r.if_range + r.if_range_len > in + n))
        abort();
    if (stream_request_path(r.target, r.target_len, path, sizeof path) &&
        strlen(path) > r.target_len)
        abort();
    check_part(&r, 0);
    check_part(&r, 1);
    check_part(&r, 1000);
    check_part(&r, UINT64_MAX);
    return 0;
}
