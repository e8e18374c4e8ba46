// SPDX-License-Identifier: Apache-2.0
// lib/object/uri: sources, percent-encoding, hosts of buckets; and the pure parts of reading and
// writing objects.
#include "object/uri.h"

#include "object/object_put.h"
#include "object/object_range.h"
#include "tests/tap.h"

static void test_parse(void) {
    static const char *const wrong[] = {
        "s3://",         "s3://ab",           "s3://Bucket/x",      "s3:///key",
        "https://",      "https://u@host/x",  "https://host/a b",   "https://host/x#y",
        "http://host/x", "https://host/\xff", "s3://under_score/x", "/path",
        "s3://end-/x",
    };
    struct arena a = {0};
    struct err e = {0};
    struct uri u;
    is_int(uri_parse(&a, "s3://bucket/a/b c+", &u, &e), 0, "a key is any text");
    is_str(u.key, "a/b c+", "a key is kept as it is");
    is_int(uri_parse(&a, "s3://b.u-1", &u, &e), 0, "a whole bucket is a source");
    is_str(u.key, "", "a whole bucket has no key");
    is_int(uri_parse(&a, "https://host:8443/a%20b.tar?x=y@z", &u, &e), 0,
           "an https address is a source");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        is_int(uri_parse(&a, wrong[i], &u, &e), -1, "'%s' is refused", wrong[i]);
    arena_fini(&a);
}

static void test_encode(void) {
    struct arena a = {0};
    struct strbuf out = {0};
    const char text[] = "a/b c+=*~\xC3\xBC";
    uri_encode(&out, text, sizeof text - 1, false);
    is_str(strbuf_cstr(&out), "a/b%20c%2B%3D%2A~%C3%BC", "keys are encoded as AWS signs them");
    is_str(uri_decode(&a, strbuf_cstr(&out)), text, "keys are decoded");
    is_str(uri_decode(&a, "a+b"), "a b", "a plus is a space in lists");
    ok(!uri_decode(&a, "%") && !uri_decode(&a, "%0") && !uri_decode(&a, "%zz") &&
           !uri_decode(&a, "a%00"),
       "broken escapes are refused");
    strbuf_fini(&out);
    arena_fini(&a);
}

static void test_server(void) {
    static const struct {
        const char *endpoint, *region, *bucket, *key, *host, *path;
    } rows[] = {
        {NULL, "eu-west-1", "data", "a/b", "data.s3.eu-west-1.amazonaws.com", "/a/b"},
        {NULL, "cn-north-1", "data", "", "data.s3.cn-north-1.amazonaws.com.cn", "/"},
        {NULL, "us-east-1", "da.ta", "k", "s3.us-east-1.amazonaws.com", "/da.ta/k"},
        {"http://127.0.0.1:9000/", "x", "data", "a b", "127.0.0.1:9000", "/data/a%20b"},
        {"https://s3.lab:443/minio", "x", "data", "", "s3.lab", "/minio/data"},
    };
    struct arena a = {0};
    struct err e = {0};
    struct uri_server s;
    struct uri_place p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        is_int(uri_server(&a, rows[i].endpoint, rows[i].region, &s, &e), 0, "server %zu is read",
               i);
        uri_place(&a, &s, rows[i].bucket, rows[i].key, &p);
        is_str(p.host, rows[i].host, "the host of row %zu is right", i);
        is_str(p.path, rows[i].path, "the path of row %zu is right", i);
    }
    is_int(uri_server(&a, "s3.lab:9000", "x", &s, &e), -1, "an endpoint has a scheme");
    is_int(uri_server(&a, "https://s3.lab/?x", "x", &s, &e), -1, "an endpoint has no query");
    arena_fini(&a);
}

static void test_numbers(void) {
    ok(object_range_is("bytes 0-9/100", 0, 10, 100), "a range is the one that was asked for");
    ok(object_range_is("bytes 10-19/*", 10, 10, 100), "a range may hide the size of its object");
    ok(!object_range_is("bytes 0-8/100", 0, 10, 100), "a shorter range is another one");
    ok(!object_range_is("bytes 0-9/101", 0, 10, 100), "a range of a longer object is another one");
    ok(!object_range_is("", 0, 10, 100), "no range at all is another one");
    is_int(object_put_part_bytes(OBJECT_PART_BYTES + 1), OBJECT_PART_BYTES, "parts are 8 MiB");
    uint64_t part = object_put_part_bytes(OBJECT_PUT_BYTES_MAX);
    ok((OBJECT_PUT_BYTES_MAX + part - 1) / part <= OBJECT_PARTS_MAX,
       "the largest object has no more parts than S3 allows");
}

int main(void) {
    test_parse();
    test_encode();
    test_server();
    test_numbers();
    return done_testing();
}
