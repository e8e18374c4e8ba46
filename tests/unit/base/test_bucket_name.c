// SPDX-License-Identifier: Apache-2.0
// Names of buckets: their length, the bytes in them, both ends, and what may follow.
#include "base/bucket_name.h"
#include "tests/tap.h"

#include <string.h>

#define TEN "0123456789"

int main(void) {
    static const struct {
        const char *uri;
        size_t len;
    } cases[] = {
        {"s3://abc", 3},
        {"s3://abc/", 3},
        {"s3://a.b-1/x/y z", 5},
        {"s3://" TEN TEN TEN TEN TEN TEN "abc", 63},
        {"s3://" TEN TEN TEN TEN TEN TEN "abcd", 0},
        {"s3://ab", 0},
        {"s3://", 0},
        {"s3:///key", 0},
        {"s3://-ab/x", 0},
        {"s3://.ab/x", 0},
        {"s3://ab-/x", 0},
        {"s3://ab./x", 0},
        {"s3://Abc/x", 0},
        {"s3://a_b/x", 0},
        {"s3://abc?x", 0},
        {"abc/x", 0},
        {"https://abc/x", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_uint(bucket_name_len(cases[i].uri), cases[i].len, "'%s' has a bucket of %zu bytes",
                cases[i].uri, cases[i].len);
    return done_testing();
}
