// SPDX-License-Identifier: Apache-2.0
// Signatures against the examples that AWS publishes: its test suite for Signature Version 4, and
// the examples of S3's reference.
#include "object/sigv4.h"

#include "tests/tap.h"

#include <string.h>

#define SUITE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_SECRET    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EMPTY        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { SUITE_S = 1440938160, S3_S = 1369353600 }; // 2015-08-30 12:36:00, 2013-05-24 00:00:00

static const struct sigv4_key suite = {"AKIDEXAMPLE", SUITE_SECRET, NULL};
static const struct sigv4_key s3 = {"AKIAIOSFODNN7EXAMPLE", S3_SECRET, NULL};

static const struct {
    const char *name;
    const struct sigv4_key *key;
    const char *method, *path;
    struct sigv4_pair query[2], headers[3];
    const char *payload, *signature;
} rows[] = {
    {"get-vanilla",
     &suite,
     "GET",
     "/",
     {{NULL, NULL}},
     {{NULL, NULL}},
     EMPTY,
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-key-case",
     &suite,
     "GET",
     "/",
     {{"Param2", "value2"}, {"Param1", "value1"}},
     {{NULL, NULL}},
     EMPTY,
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"post-vanilla",
     &suite,
     "POST",
     "/",
     {{NULL, NULL}},
     {{NULL, NULL}},
     EMPTY,
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"get-utf8",
     &suite,
     "GET",
     "/%E1%88%B4",
     {{NULL, NULL}},
     {{NULL, NULL}},
     EMPTY,
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"S3: GET of a range",
     &s3,
     "GET",
     "/test.txt",
     {{NULL, NULL}},
     {{"range", "bytes=0-9"}, {"x-amz-content-sha256", EMPTY}},
     EMPTY,
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"S3: PUT",
     &s3,
     "PUT",
     "/test%24file.text",
     {{NULL, NULL}},
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"S3: GET of the lifecycle",
     &s3,
     "GET",
     "/",
     {{"lifecycle", ""}},
     {{"x-amz-content-sha256", EMPTY}},
     EMPTY,
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"S3: list of objects",
     &s3,
     "GET",
     "/",
     {{"max-keys", "2"}, {"prefix", "J"}},
     {{"x-amz-content-sha256", EMPTY}},
     EMPTY,
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static struct sigv4_request request_of(size_t i) {
    bool of_suite = rows[i].key == &suite;
    struct sigv4_request r = {.method = rows[i].method,
                              .host = of_suite ? "example.amazonaws.com"
                                               : "examplebucket.s3.amazonaws.com",
                              .path = rows[i].path,
                              .payload = rows[i].payload};
    for (size_t k = 0; k < 2 && rows[i].query[k].name; k++)
        r.query[r.query_count++] = rows[i].query[k];
    for (size_t k = 0; k < 3 && rows[i].headers[k].name; k++)
        r.headers[r.header_count++] = rows[i].headers[k];
    return r;
}

static void test_examples(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena a = {0};
        struct sigv4_request r = request_of(i);
        bool of_suite = rows[i].key == &suite;
        struct sigv4_scope scope = {"us-east-1", of_suite ? "service" : "s3",
                                    (of_suite ? SUITE_S : (int64_t)S3_S) * 1000};
        sigv4_sign(&a, rows[i].key, &scope, &r);
        const char *value = r.headers[r.header_count - 1].value;
        const char *at = strstr(value, "Signature=");
        is_str(at ? at + strlen("Signature=") : value, rows[i].signature, "%s", rows[i].name);
        arena_fini(&a);
    }
}

static void test_presigned(void) {
    struct arena a = {0};
    struct sigv4_request r = {.method = "GET",
                              .host = "examplebucket.s3.amazonaws.com",
                              .path = "/test.txt",
                              .payload = SIGV4_UNSIGNED};
    struct sigv4_scope scope = {"us-east-1", "s3", (int64_t)S3_S * 1000};
    sigv4_presign(&a, &s3, &scope, 86400, &r);
    is_str(sigv4_query(&a, &r),
           "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"
           "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
           "X-Amz-Signature="
           "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404&X-Amz-SignedHeaders="
           "host",
           "a presigned address is that of S3's reference");
    arena_fini(&a);
}

static void test_token(void) {
    struct arena a = {0};
    struct sigv4_key key = {"ID", "SECRET", "TO/KEN"};
    struct sigv4_request r = {.method = "GET", .host = "h", .path = "/", .payload = EMPTY};
    struct sigv4_scope scope = {"us-east-1", "s3", 0};
    sigv4_sign(&a, &key, &scope, &r);
    is_str(r.headers[1].name, "x-amz-security-token", "a session's token is a header");
    ok(strstr(r.headers[2].value, "SignedHeaders=host;x-amz-date;x-amz-security-token,") != NULL,
       "the token is signed");
    arena_fini(&a);
}

int main(void) {
    test_examples();
    test_presigned();
    test_token();
    return done_testing();
}
