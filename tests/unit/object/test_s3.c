// SPDX-License-Identifier: Apache-2.0
// Requests to S3: where they go and with which signature; and lists of a bucket. HTTP and the
// account are stand-ins.
#include "object/s3.h"

#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES_MAX = 4 };

static struct arena a;
static struct err e;
static struct s3 s3;
static struct s3_objects out;
static const char *pages[PAGES_MAX]; // the answers, in order; NULL: none comes
static int asked, closed;
static char urls[PAGES_MAX][512];
static const char *endpoint, *right_region = "";
static bool has_key = true, renews = true, is_signed;

// ---- in place of the requests and the account ---------------------------------------------------

struct http *http_open(const char *ca, size_t ca_len, struct err *err) {
    if (strcmp(ca, "cert") != 0 || ca_len != 4)
        err_set(err, ERR_CONFIG, "other certificates");
    return (struct http *)(void *)&asked;
}

void http_close(struct http *h) {
    if (h != (struct http *)(void *)&asked)
        bail_out("another handle");
}

int http_run(struct http *h, struct http_call *c, struct err *err) {
    (void)h;
    if (asked == PAGES_MAX)
        bail_out("too many requests");
    if (c->on_try(c, err) < 0)
        return -1;
    snprintf(urls[asked], sizeof urls[asked], "%s %s", c->method, c->url);
    is_signed = false;
    for (size_t i = 0; i < c->header_count; i++)
        is_signed |= strcmp(c->headers[i].name, "authorization") == 0 &&
                     strstr(c->headers[i].value, "Credential=ID/") != NULL;
    snprintf(c->region, sizeof c->region, "%s", asked == 0 ? right_region : "");
    const char *page = pages[asked++];
    if (!page)
        return err_set(err, ERR_NET, "no answer");
    strbuf_adds(&c->body, page);
    return 0;
}

void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
    closed++;
}

int s3_account_open(struct s3_account *self, struct arena *arena, const struct s3_user *user,
                    struct err *err) {
    (void)arena, (void)user, (void)err;
    *self = (struct s3_account){.region = "eu-west-1"};
    return 0;
}

int s3_account_ca(struct s3_account *self, const char **ca, size_t *len, struct err *err) {
    (void)self, (void)err;
    *ca = "cert";
    *len = 4;
    return 0;
}

int s3_account_find(struct s3_account *self, const char *ca, size_t ca_len, struct err *err) {
    (void)ca, (void)ca_len;
    self->found.key = (struct sigv4_key){.id = "ID", .secret = "secret"};
    return has_key ? 0 : err_set(err, ERR_AUTH, "no key");
}

int s3_account_renew(struct s3_account *self, const char *ca, size_t ca_len, struct err *err) {
    (void)self, (void)ca, (void)ca_len;
    return renews ? 0 : err_set(err, ERR_AUTH, "the key has ended");
}

const char *credentials_files_endpoint(const struct credentials_files *f, const char *service) {
    (void)f, (void)service;
    return endpoint;
}

static void open_account(void) {
    s3_open(&s3, &a, NULL, &e);
    if (s3_open_account(&s3, &e) < 0)
        bail_out("%s", e.text);
}

// ---- answers ------------------------------------------------------------------------------------

static const char *object(const char *key, const char *size) {
    return arena_printf(&a,
                        "<Contents><Key>%s</Key><ETag>&quot;tag&quot;</ETag><Size>%s</Size>"
                        "</Contents>",
                        key, size);
}

// token: of the next page; NULL: there is none.
static const char *page(const char *objects, const char *token) {
    return arena_printf(
        &a,
        "<ListBucketResult>%s<EncodingType>url</EncodingType>"
        "<IsTruncated>%s</IsTruncated>%s</ListBucketResult>",
        objects, token ? "true" : "false",
        token ? arena_printf(&a, "<NextContinuationToken>%s</NextContinuationToken>", token) : "");
}

static int list(size_t most, const char *first, const char *second, const char *third) {
    free(out.items);
    out = (struct s3_objects){0};
    open_account();
    asked = closed = 0;
    pages[0] = first;
    pages[1] = second;
    pages[2] = third;
    return s3_list(&s3, "bucket", "sets/", most, &out, &e);
}

static const char *keys(void) {
    struct strbuf text = {0};
    for (size_t i = 0; i < out.count; i++)
        strbuf_addf(&text, "%s %d;", out.items[i].key, (int)out.items[i].size);
    const char *all = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

// ---- points -------------------------------------------------------------------------------------

static void test_one_page(void) {
    const char *objects =
        arena_printf(&a, "%s%s%s%s", object("sets/b%20c", "7"), object("sets/", "0"),
                     object("sets/a", "0"), object("sets/deep/", "0"));
    is_int(list(0, page(objects, NULL), NULL, NULL), 0, "a bucket is listed");
    is_str(urls[0],
           "GET https://bucket.s3.eu-west-1.amazonaws.com/"
           "?encoding-type=url&list-type=2&prefix=sets%2F",
           "the request has the prefix");
    ok(is_signed, "the request is signed");
    is_str(keys(), "sets/a 0;sets/b c 7;", "objects are sorted, folders are left out");
    is_str(out.items[0].etag, "tag", "an object has its tag without quotes");
    ok(asked == 1 && closed == 1, "one request is made and closed");
    is_int(list(0, page("", NULL), NULL, NULL), 0, "a folder may be empty");
    is_int(out.count, 0, "an empty folder has no objects");
    is_int(list(0, page("<Contents><Key>x</Key><Size>1</Size></Contents>", NULL), NULL, NULL), 0,
           "an object may have no tag");
    is_str(out.items[0].etag, "", "an object without a tag has an empty one");
    is_int(list(0,
                "<ListBucketResult><Contents><Key>a%20b</Key><Size>1</Size></Contents>"
                "</ListBucketResult>",
                NULL, NULL),
           0, "keys may be plain");
    is_str(keys(), "a%20b 1;", "plain keys are not decoded");
}

static void test_pages(void) {
    is_int(list(0, page(object("sets/c", "1"), "t1"), page(object("sets/b", "2"), "t2"),
                page(object("sets/a", "3"), NULL)),
           0, "a list has pages");
    has_str(urls[1], "?continuation-token=t1&encoding-type=url&list-type=2&prefix=sets%2F",
            "the next request has the token of the last answer");
    has_str(urls[2], "?continuation-token=t2&", "each answer has a token");
    is_str(keys(), "sets/a 3;sets/b 2;sets/c 1;", "objects of all pages are sorted");
    asked = 0;
    pages[0] = page(object("sets/0", "4"), NULL);
    is_int(s3_list(&s3, "bucket", "sets/", 0, &out, &e), 0, "a list is added to another");
    is_str(keys(), "sets/0 4;sets/a 3;sets/b 2;sets/c 1;", "all objects are sorted together");
}

static void test_most(void) {
    const char *two = arena_printf(&a, "%s%s", object("sets/a", "1"), object("sets/b", "1"));
    is_int(list(2, page(two, "t1"), NULL, NULL), 0, "a list may have a limit");
    has_str(urls[0], "&max-keys=2&", "the request has the limit");
    is_int(asked, 1, "the limit is reached with the first page");
    is_int(list(3, page(two, "t1"), page(object("sets/c", "1"), "t2"), NULL), 0,
           "a page may have fewer");
    is_int(asked, 2, "the list ends with the limit");
}

static void test_refused(void) {
    static const struct {
        const char *objects, *want;
    } bad[] = {
        {"<Contents><Size>1</Size></Contents>", "without a readable key and size"},
        {"<Contents><Key>x</Key></Contents>", "without a readable key and size"},
        {"<Contents><Key>x</Key><Size>-1</Size></Contents>", ""},
        {"<Contents><Key>x</Key><Size>many</Size></Contents>", ""},
        {"<Contents><Key>x</Key><Size>1</Size></Contents><Contents><Key>y</Key></Contents>",
         "without a readable key and size"},
        {"<Contents><Key>x</Key><Size>1</Size></Contents><Contents><Size>1</Size></Contents>",
         "without a readable key and size"},
        {"<Contents>", ""}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        is_int(list(0, page(bad[i].objects, NULL), NULL, NULL), -1, "answer %zu is refused", i);
        is_int(strncmp(e.text, "list of s3://bucket/sets/: ", 27), 0,
               "the error of answer %zu names the folder", i);
        has_str(e.text, bad[i].want, "the error of answer %zu has its reason", i);
    }
    is_int(list(0, NULL, NULL, NULL), -1, "a request may fail");
    is_str(e.text, "list of s3://bucket/sets/: no answer", "the error is that of the request");
    is_int(closed, 1, "a request that fails is closed");
    static const char nowhere[] =
        "list of s3://bucket/sets/: the server says that there is more, and not where";
    is_int(list(0, page("", ""), NULL, NULL), -1, "an empty token is refused");
    is_str(e.text, nowhere, "the error says so");
    is_int(list(0, page("", "t1"), page("", "t1"), NULL), -1, "a token that repeats is refused");
    is_str(e.text, nowhere, "the error of a circle is the same");
    is_int(
        list(0, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", NULL, NULL),
        -1, "a missing token is refused");
}

// ---- requests -----------------------------------------------------------------------------------

static void test_region(void) {
    static const struct {
        const char *region;
        int requests;
    } cases[] = {{"us-east-2", 2}, {"eu-west-1", 1}, {"", 1}, {"a/b", 1}};
    for (int i = 0; i < 4; i++) {
        right_region = cases[i].region;
        int result = list(0, NULL, page("", NULL), NULL);
        is_int(asked, cases[i].requests, "region '%s' is asked or not", right_region);
        is_int(result, cases[i].requests == 2 ? 0 : -1, "region '%s' has an answer or not",
               right_region);
    }
    right_region = "us-east-2";
    list(0, NULL, page("", NULL), NULL);
    has_str(urls[1], "https://bucket.s3.us-east-2.amazonaws.com/", "the bucket's region is asked");
    is_str(s3.region, "us-east-2", "later requests go there, too");
    list(0, NULL, NULL, NULL);
    is_str(e.text, "list of s3://bucket/sets/: no answer", "the second answer counts");
    is_int(list(0, page("", NULL), NULL, NULL), 0, "an answer is an answer");
    is_int(asked, 1, "an answer has the right region");
    right_region = "";
}

static void test_account(void) {
    s3_open(&s3, &a, NULL, &e);
    has_key = false;
    is_int(s3_open_account(&s3, &e), -1, "an account needs a key");
    has_key = true;
    s3.ca_len = 0;
    is_int(s3_open_account(&s3, &e), -1, "https needs certificates");
    has_str(e.text, "this computer has no file of certificates", "the error says so");
    endpoint = "http://10.0.0.1:9000";
    is_int(s3_open_account(&s3, &e), 0, "http needs no certificates");
    endpoint = "ftp://x";
    is_int(s3_open_account(&s3, &e), -1, "an endpoint must be a server");
    endpoint = NULL;
    renews = false;
    is_int(list(0, page("", NULL), NULL, NULL), -1, "a key must be good");
    is_str(e.text, "list of s3://bucket/sets/: the key has ended", "the error is the account's");
    renews = true;
    s3_close(&s3);
    ok(!s3.http, "the account is closed");
}

static void test_addresses(void) {
    enum { NOW_MS = 1000, DAY_MS = 86400000 };
    open_account();
    const char *url = s3_presign(&s3, &a, "bucket", "a b", NOW_MS);
    has_str(url, "https://bucket.s3.eu-west-1.amazonaws.com/a%20b?", "an address has the object");
    has_str(url, "&X-Amz-Expires=86400&", "an address is good for a day");
    has_str(url, "X-Amz-Signature=", "an address is signed");
    is_int(s3_urls_end_ms(&s3, NOW_MS), NOW_MS + DAY_MS, "addresses end after a day");
    s3.account.found.ends_ms = NOW_MS + DAY_MS - 1;
    is_int(s3_urls_end_ms(&s3, NOW_MS), NOW_MS + DAY_MS - 1, "addresses end with their key");
    s3.account.found.ends_ms = NOW_MS + DAY_MS + 1;
    is_int(s3_urls_end_ms(&s3, NOW_MS), NOW_MS + DAY_MS, "a key may be good for longer");
}

static void test_tags(void) {
    static const char *const cases[][2] = {{"\"x\"", "x"}, {"W/\"x\"", ""}, {"x", "x"},
                                           {"\"", "\""},   {"\"\"", ""},    {"\"x", "\"x"},
                                           {"x\"", "x\""}, {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(s3_etag(&a, cases[i][0]), cases[i][1], "tag %zu has no quotes", i);
}

static void test_body(void) {
    static const struct sigv4_pair query[] = {{"uploads", ""}, {0}};
    static const struct sigv4_pair headers[] = {{"content-type", "text/plain"}, {0}};
    struct s3_call c;
    open_account();
    s3_call_set(&c, &s3, "PUT", "bucket", "key", query, headers);
    is_str(c.payload, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
           "a request without a body has the hash of no bytes");
    s3_call_body(&c, "abc", 3);
    is_str(c.payload, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
           "a body has its hash");
    ok(c.http.body_out_len == 3 && memcmp(c.http.body_out, "abc", 3) == 0, "the body is sent");
    asked = 0;
    pages[0] = "";
    is_int(s3_run(&c, &e), 0, "the request is made");
    is_str(urls[0], "PUT https://bucket.s3.eu-west-1.amazonaws.com/key?uploads=",
           "the request has its query");
    bool typed = false, hashed = false;
    for (size_t i = 0; i < c.http.header_count; i++) {
        typed |= strcmp(c.http.headers[i].name, "content-type") == 0;
        hashed |= strcmp(c.http.headers[i].name, "x-amz-content-sha256") == 0 &&
                  strcmp(c.http.headers[i].value, c.payload) == 0;
    }
    ok(typed && hashed && is_signed, "the request has its headers, the hash and the signature");
    s3_call_close(&c);
}

int main(void) {
    test_one_page();
    test_pages();
    test_most();
    test_refused();
    test_region();
    test_account();
    test_addresses();
    test_tags();
    test_body();
    free(out.items);
    arena_fini(&a);
    return done_testing();
}
