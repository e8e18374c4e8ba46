// SPDX-License-Identifier: Apache-2.0
// A mirror in a bucket: which objects the server may copy instead of taking a file, and which ones
// go afterwards. The server and the comparison of bytes are stand-ins.
#include "object/object_put_impl.h"
#include "tests/tap.h"

enum { OBJECTS_MAX = 16 };

static struct arena a;
static struct s3 s3;
static struct manifest files;
static struct manifest_entry entries[OBJECTS_MAX];
static struct s3_object objects[OBJECTS_MAX];
static struct s3_objects live = {objects, 0, OBJECTS_MAX};
static struct object_put put;
static struct upload upload;
static const char *same; // the key of the object with the file's bytes; "!": reading fails
static const char *compared, *requests;
static struct err error;
static bool is_full;

// ---- in place of the rest of object_put ---------------------------------------------------------

int object_etag_matches(struct object_tags *t, const struct s3_object *o, struct err *e) {
    (void)t;
    compared = arena_printf(&a, "%s%s%s", compared, *compared ? " " : "", o->key);
    return strcmp(same, "!") == 0 ? err_set(e, ERR_SYS, "unreadable") : strcmp(same, o->key) == 0;
}

const char *object_put_key(struct upload *u, const char *path) {
    return arena_printf(&u->arena, "base/%s", path);
}

int object_put_free_part(struct upload *u, struct upload_part **out, struct err *e) {
    *out = &u->parts[0];
    return is_full ? err_set(e, ERR_NET, "no request may begin") : 0;
}

int object_put_await(struct upload *u, struct err *e) {
    (void)u, (void)e;
    return 0;
}

void s3_call_set(struct s3_call *c, struct s3 *s, const char *method, const char *bucket,
                 const char *key, const struct sigv4_pair *query,
                 const struct sigv4_pair *headers) {
    (void)s, (void)query;
    *c = (struct s3_call){.bucket = bucket, .key = key};
    requests =
        arena_printf(&a, "%s%s%s %s/%s", requests, *requests ? "; " : "", method, bucket, key);
    for (; headers && headers->name; headers++)
        requests = arena_printf(&a, "%s %s=%s", requests, headers->name, headers->value);
}

void s3_call_body(struct s3_call *c, const void *p, size_t len) {
    (void)c, (void)p;
    is_uint(len, 0, "the request has no body");
}

void s3_call_close(struct s3_call *c) {
    strbuf_fini(&c->http.body);
}

void http_begin(struct http *h, struct http_call *c) {
    (void)h, (void)c;
}

// ---- the bucket ---------------------------------------------------------------------------------

static void begin(void) {
    arena_fini(&upload.arena);
    live.count = 0;
    files = (struct manifest){.entries = entries};
    put = (struct object_put){.s3 = &s3, .bucket = "bucket", .files = &files, .copies = "live/"};
    upload = (struct upload){.p = &put};
    same = "";
    compared = requests = "";
    is_full = false;
    err_clear(&error);
}

static void add_object(const char *key) {
    objects[live.count++] = (struct s3_object){key, arena_printf(&a, "tag%zu", live.count), 5};
}

static void add_file(const char *path) {
    entries[files.count++] =
        (struct manifest_entry){.path = path, .kind = MANIFEST_FILE, .size = 5};
}

// The key of the object that is copied for the file; "-": none.
static const char *copy_of(const char *path, uint64_t size) {
    const struct manifest_entry file = {.path = path, .size = size};
    struct object_tags tags = {.file = &file};
    const struct s3_object *found = NULL;
    compared = "";
    int rc = object_put_find_copy(&upload, &tags, &found, &error);
    return rc < 0 ? error.text : rc > 0 ? found->key : "-";
}

static void test_find(void) {
    static const uint64_t GIB = 1 << 30;
    begin();
    add_object("base/live/n0/output/f");
    add_object("base/live/n0/output/g");
    add_object("base/live/n1/output/f");
    add_object("base/live/n2/output/f");
    add_object("base/live/top");
    add_object("other/live/n3/output/f");
    add_object("base/live/n4/output/n1/f");
    object_put_find_copies(&upload, &live);
    is_uint(upload.copy_count, 5, "objects of nodes below the folder may be copied");
    same = "base/live/n2/output/f";
    is_str(copy_of("output/f", 5), same, "an object of one of the nodes has the bytes");
    same = "base/live/n0/output/f";
    is_str(copy_of("output/f", 5), same, "an object of another node has them");
    same = "base/live/n0/output/g";
    is_str(copy_of("output/f", 5), "-", "an object of another file is not copied");
    ok(!strstr(compared, "/g") && strstr(compared, "n0/") && strstr(compared, "n1/") &&
           strstr(compared, "n2/"),
       "objects of the file's path alone are compared (%s)", compared);
    is_str(copy_of("output/h", 5), "-", "a file without an object is sent");
    is_str(compared, "", "nothing is compared for it");
    same = "base/live/n1/output/f";
    is_str(copy_of("output/n1/f", 5), same, "a file of a node has the bytes of the object of all");
    has_str(compared, "base/live/n4/output/n1/f", "the whole path is tried first");
    same = "base/live/n4/output/n1/f";
    is_str(copy_of("output/n1/f", 5), same, "an object of the whole path has the bytes");
    same = "base/live/n0/output/f";
    is_str(copy_of("output/f", 5 * GIB), same, "the server copies up to 5 GiB");
    is_str(copy_of("output/f", 5 * GIB + 1), "-", "a larger file is sent");
    is_str(copy_of("f", 5), "-", "a file may have no folder");
    same = "!";
    is_str(copy_of("output/f", 5), "unreadable", "a file that cannot be read is an error");
    is_str(copy_of("output/n1/f", 5), "unreadable", "this holds for files of nodes, too");
    begin();
    put.copies = NULL;
    add_object("base/live/n0/output/f");
    object_put_find_copies(&upload, &live);
    is_uint(upload.copy_count, 0, "without a folder nothing is copied");
    is_str(copy_of("output/f", 5), "-", "each file is sent");
}

static void end_request(const char *body, enum err_code code) {
    struct http_call *c = &upload.parts[0].call.http;
    struct err e = {0};
    if (code)
        (void)err_set(&e, code, "refused");
    strbuf_adds(&c->body, body);
    c->on_end(c, &e);
    strbuf_fini(&c->body);
}

static void test_copy(void) {
    begin();
    add_file("output/f");
    object_put_find_copies(&upload, &live);
    const struct s3_object from = {"base/live/n 0/f", "tag", 5};
    is_int(object_put_begin_copy(&upload, &entries[0], "base/output/f", &from, &error), 0,
           "a copy begins");
    is_str(requests,
           "PUT bucket/base/output/f x-amz-copy-source=/bucket/base%2Flive%2Fn%200%2Ff "
           "x-amz-copy-source-if-match=\"tag\"",
           "the server copies this version");
    ok(upload.parts[0].busy, "the request is under way");
    end_request("<CopyObjectResult><ETag>x</ETag></CopyObjectResult>", ERR_NONE);
    ok(!upload.parts[0].busy, "the request is over");
    is_uint(upload.done, 5, "the bytes are done");
    is_uint(put.copied, 1, "the file was copied");
    for (int i = 0; i < 2; i++) {
        begin();
        add_file("output/f");
        object_put_find_copies(&upload, &live);
        object_put_begin_copy(&upload, &entries[0], "base/output/f", &from, &error);
        end_request(i ? "<Error/>" : "<ETag>", i ? ERR_NONE : ERR_AUTH);
        is_uint(put.copied, 0, "a refusal is no copy");
        ok(upload.uncopied_count == 1 && upload.uncopied[0] == &entries[0],
           "the file is to be sent");
        is_uint(upload.done, 0, "no byte is done");
    }
    begin();
    is_full = true;
    is_int(object_put_begin_copy(&upload, &entries[0], "k", &from, &error), -1,
           "a request that cannot begin is an error");
}

static void test_remove(void) {
    static const char *const kinds[] = {"output", "model", NULL};
    begin();
    put.mirrors = "live/";
    add_file("live/n0/output/f");
    add_file("live/n1/model/g");
    entries[files.count++] =
        (struct manifest_entry){.path = "live/n0/output/l", .kind = MANIFEST_LINK};
    add_object("base/live/n0/output/f");
    add_object("base/live/n0/output/old");
    add_object("base/live/n0/output/l");
    add_object("base/live/n1/model/g");
    add_object("base/live/n1/outputs/x");
    add_object("base/live/n1/state/x");
    add_object("base/live/top");
    add_object("base/liver/n0/output/x");
    put.mirrored = kinds;
    is_int(object_put_remove_rest(&upload, &live, &error), 0, "the rest is removed");
    is_str(requests, "DELETE bucket/base/live/n0/output/old; DELETE bucket/base/live/n0/output/l",
           "objects of these kinds that are no files go");
    put.mirrored = NULL;
    requests = "";
    is_int(object_put_remove_rest(&upload, &live, &error), 0, "all of the rest is removed");
    has_str(requests, "DELETE bucket/base/live/n1/outputs/x", "without kinds all of it goes");
    has_str(requests, "DELETE bucket/base/live/top", "a file of no node goes, too");
    ok(!strstr(requests, "liver") && !strstr(requests, "model/g"), "other folders and files stay");
    is_uint(put.stay, 0, "nothing stays that should go");
    end_request("", ERR_NOT_FOUND);
    is_uint(put.stay, 0, "an object that has gone by itself does not stay");
    end_request("", ERR_NET);
    is_uint(put.stay, 1, "a failure leaves an object");
    ok(!upload.may_not_remove, "a failure is no refusal");
    end_request("", ERR_AUTH);
    is_uint(put.stay, 2, "a refusal leaves an object");
    requests = "";
    is_int(object_put_remove_rest(&upload, &live, &error), 0, "the next time");
    is_str(requests, "", "after a refusal nothing is asked");
    is_uint(put.stay, 7, "all that should go stays");
    upload.may_not_remove = false;
    is_full = true;
    is_int(object_put_remove_rest(&upload, &live, &error), -1,
           "a request that cannot begin is an error");
}

int main(void) {
    test_find();
    test_copy();
    test_remove();
    arena_fini(&upload.arena);
    arena_fini(&a);
    return done_testing();
}
