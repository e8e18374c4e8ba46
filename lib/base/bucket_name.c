// SPDX-License-Identifier: Apache-2.0
// Checks names of buckets.
#include "base/bucket_name.h"

#include "base/str.h"

#include <ctype.h>
#include <string.h>

enum { BUCKET_BYTES_MIN = 3, BUCKET_BYTES_MAX = 63 };

size_t bucket_name_len(const char *uri) {
    if (!str_starts(uri, "s3://"))
        return 0;
    const char *name = uri + strlen("s3://");
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-");
    bool good = len >= BUCKET_BYTES_MIN && len <= BUCKET_BYTES_MAX &&
                (!name[len] || name[len] == '/') && isalnum((unsigned char)name[0]) &&
                isalnum((unsigned char)name[len - 1]);
    return good ? len : 0;
}
