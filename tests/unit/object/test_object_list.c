// SPDX-License-Identifier: Apache-2.0
// The objects of a source: one address of https, one object, or a folder of a bucket. Servers are
// stand-ins.
#include "object/object_list.h"

#include "base/json.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

static struct arena a;
static struct err e;
static struct object_list l;

// ---- in place of the servers --------------------------------------------------------------------

static struct {
    long status; // of the answer; 0: none comes
    const char *range, *etag;
    int64_t length;
    size_t body;
    int calls, accounts, closed;
    bool without_ca, no_account;
    struct s3_object keys[8];
    size_t key_count;
    const char *asked; // lists: "prefix:most …"
} server;

int http_run(struct http *h, struct http_call *c, struct err *err) {
    (void)h;
    server.calls++;
    ok(strcmp(c->method, "GET") == 0 && c->follow && c->header_count == 1 &&
           strcmp(c->headers[0].name, "Range") == 0 &&
           strcmp(c->headers[0].value, "bytes=0-0") == 0,
       "one byte is asked for");
    c->status = server.status;
    c->length = server.length;
    snprintf(c->range, sizeof c->range, "%s", server.range);
    snprintf(c->etag, sizeof c->etag, "%s", server.etag);
    if (server.status == 0)
        return err_set(err, ERR_NET, "no answer");
    if (server.status >= 300)
        return err_set(err, ERR_NOT_FOUND, "status %ld", server.status);
    return server.body ? c->on_data(c, "x", server.body, err) : 0;
}

void http_call_close(struct http_call *c) {
    (void)c;
    server.closed++;
}

int s3_open(struct s3 *s, struct arena *arena, const struct s3_user *user, struct err *err) {
    (void)user, (void)err;
    *s = (struct s3){.arena = arena, .ca = "cert", .ca_len = server.without_ca ? 0 : 4};
    s->server.host = "s3.example";
    return 0;
}

int s3_open_account(struct s3 *s, struct err *err) {
    (void)s;
    server.accounts++;
    return server.no_account ? err_set(err, ERR_AUTH, "no key") : 0;
}

void s3_close(struct s3 *s) {
    (void)s;
}

int s3_list(struct s3 *s, const char *bucket, const char *prefix, size_t most,
            struct s3_objects *out, struct err *err) {
    (void)s, (void)err;
    is_str(bucket, "bucket", "the bucket is that of the source");
    server.asked =
        arena_printf(&a, "%s%s%s:%zu", server.asked, *server.asked ? " " : "", prefix, most);
    for (size_t i = 0; i < server.key_count && (most == 0 || out->count < most); i++) {
        if (strncmp(server.keys[i].key, prefix, strlen(prefix)) != 0)
            continue;
        out->items = heap_realloc(out->items, (out->count + 1) * sizeof *out->items);
        out->items[out->count++] = server.keys[i];
    }
    return 0;
}

int64_t s3_urls_end_ms(const struct s3 *s, int64_t wall_ms) {
    (void)s;
    return wall_ms + 5;
}

const char *s3_presign(const struct s3 *s, struct arena *arena, const char *bucket, const char *key,
                       int64_t wall_ms) {
    (void)s;
    return arena_printf(arena, "signed:%s/%s at %d", bucket, key, (int)wall_ms);
}

const char *s3_etag(struct arena *arena, const char *text) {
    return arena_printf(arena, "(%s)", text);
}

static void begin(void) {
    memset(&server, 0, sizeof server);
    server.range = server.etag = server.asked = "";
    err_clear(&e);
}

static int list(const char *source) {
    return object_list(&l, &a, source, NULL, 1000, &e);
}

// ---- https --------------------------------------------------------------------------------------

// An answer of the server, and the object's size; -1: an error.
static void test_sizes(void) {
    static const struct {
        const char *about;
        long status;
        const char *range;
        int64_t length;
        size_t body;
        int64_t size;
    } cases[] = {
        {"a range", 206, "bytes 0-0/70", 1, 1, 70},
        {"a range of no byte", 206, "bytes 0-0/0", 1, 1, 0},
        {"all of it", 200, "", 70, 1, 70},
        {"all of it, without a byte", 200, "", 0, 0, 0},
        {"no such range", 416, "bytes */0", 5, 0, 0},
        {"a range of an unknown size", 206, "bytes 0-0/*", 1, 1, -1},
        {"a range without a size", 206, "bytes 0-0", 1, 1, -1},
        {"all of it, of an unknown size", 200, "", -1, 1, -1},
        {"other bytes", 203, "", 70, 1, -1},
        {"nothing", 404, "", 70, 0, -1},
        {"no answer", 0, "", 70, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        server.status = cases[i].status;
        server.range = cases[i].range;
        server.length = cases[i].length;
        server.body = cases[i].body;
        server.etag = "tag";
        int r = list("https://host/folder/file%20name?token=a/b");
        is_int(r, cases[i].size < 0 ? -1 : 0, "%s: the answer is taken: %s", cases[i].about,
               e.text);
        is_int(server.closed, 1, "%s: the answer is freed", cases[i].about);
        is_uint(l.count, cases[i].size >= 0, "%s: the objects are counted", cases[i].about);
        if (r == 0) {
            ok(e.code == ERR_NONE, "%s: no error is left", cases[i].about);
            is_uint(l.items[0].size, (uint64_t)cases[i].size, "%s: the size is right",
                    cases[i].about);
            is_str(l.items[0].key, "file name", "%s: the name is the last word", cases[i].about);
            is_str(l.items[0].etag, "(tag)", "%s: the ETag is taken", cases[i].about);
        } else
            has_str(e.text, "'https://host/folder/file%20name?token=a/b'",
                    "%s: the error has the address", cases[i].about);
        is_int(server.accounts, 0, "%s: no key is needed", cases[i].about);
        object_list_close(&l);
    }
}

static void test_addresses(void) {
    static const char *const bad[] = {"https://host/folder/", "https://host/..",
                                      "https://host/a%2Fb", "https://host/folder/?x=file"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin();
        server.status = 200;
        is_int(list(bad[i]), -1, "'%s' is no file", bad[i]);
        has_str(e.text, "does not end with the name of a file", "'%s' is refused by its name",
                bad[i]);
        is_int(server.calls, 0, "'%s' is not asked for", bad[i]);
        object_list_close(&l);
    }
    begin();
    server.without_ca = true;
    ok(list("https://host/file") < 0 && server.calls == 0,
       "no request is made without certificates");
    has_str(e.text, "SSL_CERT_FILE", "the error has the next step");
    object_list_close(&l);
    begin();
    is_int(list("ftp://host/file"), -1, "another scheme is refused");
    object_list_close(&l);
}

// ---- s3 -----------------------------------------------------------------------------------------

static void keys(const char *words) {
    char **all;
    server.key_count = str_split(&a, words, ' ', &all);
    for (size_t i = 0; i < server.key_count; i++)
        server.keys[i] = (struct s3_object){all[i], "e", 10 + i};
}

static const char *paths(void) {
    const char *text = "";
    for (size_t i = 0; i < l.count; i++)
        text = arena_printf(&a, "%s%s%s", text, *text ? " " : "", l.items[i].key + l.skip);
    return text;
}

static void is_listed(const char *source, const char *want_asked, const char *want_paths,
                      bool folder) {
    begin();
    keys("a/b a/b/1 a/b/c/2 a/bc d");
    is_int(list(source), 0, "'%s' is listed: %s", source, e.text);
    is_str(server.asked, want_asked, "'%s' is asked for", source);
    is_str(paths(), want_paths, "'%s' has its paths", source);
    ok(l.folder == folder, "'%s' is %s", source, folder ? "a folder" : "one object");
    is_int(server.accounts, 1, "'%s' needs a key", source);
    object_list_close(&l);
}

static void test_folders(void) {
    is_listed("s3://bucket/a/b", "a/b:1", "b", false);
    is_listed("s3://bucket/a/b/", "a/b/:0", "1 c/2", true);
    is_listed("s3://bucket/a/b/c", "a/b/c:1 a/b/c/:0", "2", true);
    is_listed("s3://bucket/a", "a:1 a/:0", "b b/1 b/c/2 bc", true);
    is_listed("s3://bucket/d", "d:1", "d", false);
    is_listed("s3://bucket", ":0", "a/b a/b/1 a/b/c/2 a/bc d", true);
    begin();
    keys("a/b");
    is_int(list("s3://bucket/none"), -1, "a key without an object is refused");
    is_int(e.code, ERR_NOT_FOUND, "no object is found");
    has_str(e.text, "s3://bucket/none/ has no object", "the error has the key");
    object_list_close(&l);
    begin();
    keys("a/1 a/../x");
    is_int(list("s3://bucket/a"), -1, "a key that leaves the folder is refused");
    has_str(e.text, "'a/../x' cannot be the path of a file", "the error has the second key");
    object_list_close(&l);
    begin();
    server.no_account = true;
    ok(list("s3://bucket/a") < 0 && e.code == ERR_AUTH && !*server.asked,
       "without a key nothing is listed");
    object_list_close(&l);
}

// ---- lines --------------------------------------------------------------------------------------

static const char *line(size_t i, const char *member) {
    struct strbuf text = {0};
    struct json *j;
    object_list_line(&l, i, &text);
    if (json_parse(&a, strbuf_cstr(&text), text.len, &j, &e) < 0)
        bail_out("%s", e.text);
    const char *word = strcmp(member, "size") == 0
                           ? arena_printf(&a, "%d", (int)json_get_int(j, "size", -1))
                           : json_get_str(j, member, "absent");
    bool whole = text.len && text.data[text.len - 1] == '\n';
    strbuf_fini(&text);
    return whole ? word : "no line";
}

static void test_lines(void) {
    begin();
    keys("a/1 a/2");
    if (list("s3://bucket/a") < 0)
        bail_out("%s", e.text);
    is_str(line(1, "path"), "2", "a line has the path in the folder");
    is_str(line(1, "name"), "s3://bucket/a/2", "a line has the name");
    is_str(line(1, "url"), "signed:bucket/a/2 at 1000", "a line has an address that is signed");
    is_str(line(1, "size"), "11", "a line has the size");
    is_str(line(1, "etag"), "e", "a line has the ETag");
    const char *id = line(0, "id");
    is_str(line(0, "id"), id, "an identity stays");
    ok(strcmp(line(1, "id"), id) != 0, "two objects have two identities");
    l.items[0].size++;
    ok(strcmp(line(0, "id"), id) != 0, "another size is another identity");
    l.items[0].size--;
    l.items[0].etag = "f";
    ok(strcmp(line(0, "id"), id) != 0, "another ETag is another identity");
    l.items[0].etag = "e";
    is_str(line(0, "id"), id, "the same object has the same identity");
    l.s3.server.host = "other.example";
    ok(strcmp(line(0, "id"), id) != 0, "another server is another identity");
    l.items[0].etag = "";
    ok(strcmp(line(0, "id"), line(0, "id")) != 0, "an object without an ETag is never the same");
    is_int(object_list_ends_ms(&l), 1005, "addresses that are signed end");
    object_list_close(&l);
    ok(l.count == 0 && !l.items, "a closed list is empty");
    begin();
    server.status = 200;
    if (list("https://host/file") < 0)
        bail_out("%s", e.text);
    is_str(line(0, "name"), "https://host/file", "an address is its own name");
    is_str(line(0, "url"), "https://host/file", "an address is read as it is");
    is_int(object_list_ends_ms(&l), 0, "an address of https does not end");
    object_list_close(&l);
}

int main(void) {
    test_sizes();
    test_addresses();
    test_folders();
    test_lines();
    arena_fini(&a);
    return done_testing();
}
