// SPDX-License-Identifier: Apache-2.0
// Lists of objects, and objects that are looked for again later.
#include "run/inputs/input_remote.h"
#include "tests/tap.h"

#include <string.h>

#define ID1  "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2  "2222222222222222222222222222222222222222222222222222222222222222"
#define HEAD "{\"folder\":true,\"ca\":\"\",\"ends\":9}\n"
#define END  "{\"end\":2}\n"
#define LINE(path, size, etag, id)                                                                 \
    "{\"path\":\"" path "\",\"name\":\"s3://b/" path "\",\"url\":\"u\",\"size\":" size             \
    ",\"etag\":\"" etag "\",\"id\":\"" id "\"}\n"

static struct arena a;

static const struct input_remote *list(const char *text) {
    struct input_remote *r = arena_new(&a, struct input_remote, 1);
    struct err e = {0};
    if (input_remote_parse(&a, text, r, NULL, &e) < 0)
        diag("%s", e.text);
    return r;
}

static const char *refusal(const char *text) {
    struct input_remote r = {.folder = false};
    struct err e = {0};
    return input_remote_parse(&a, text, &r, NULL, &e) < 0 ? arena_strdup(&a, e.text) : "";
}

// The error; "": the object is what it was.
static const char *again(const char *old, const char *now) {
    struct input_remote *from = (struct input_remote *)(uintptr_t)list(old);
    struct run_start_input in = {.remote = from, .again = list(now)};
    struct err e = {0};
    const struct input_remote_object *o = input_remote_again(&in, "x", &e);
    return o ? "" : arena_strdup(&a, e.text);
}

// Members that a line lacks, sizes at their bound, and what a manifest gets of each object.
static void test_lines(void) {
    const struct input_remote *r = list("{}\n" END);
    ok(!r->folder && r->ends_ms == 0 && r->count == 0, "a header may be empty");
    r = list(HEAD LINE("x", "0", "e", ID1) END "no JSON\n");
    is_int((int)r->count, 1, "an object may be empty, and the end is the end");
    is_str(r->header, HEAD, "the header is kept as it is");
    ok(strstr(refusal(""), "cut off") && strstr(refusal(HEAD), "cut off"), "a list needs its end");
    ok(refusal("no JSON\n" END)[0] && refusal(HEAD "no JSON\n" END)[0], "a line has to be JSON");
    ok(strstr(refusal(HEAD "{\"path\":\"x\",\"id\":\"" ID1 "\"}\n" END), "is none"),
       "an object needs a size");
    struct manifest *m = manifest_new();
    struct input_remote all = {.folder = false};
    struct err e = {0};
    ok(input_remote_parse(&a, HEAD LINE("y", "3", "e", ID1) LINE("x", "5", "e", ID2) END, &all, m,
                          &e) == 0,
       "a manifest may have the objects: %s", e.text);
    ok(m->count == 2 && m->entries[0].kind == MANIFEST_FILE && m->entries[0].hashed,
       "each object is a file of the manifest with a hash");
    is_int((int)m->entries[0].mode, 0644, "a file of the manifest can be read by all");
    ok(m->entries[0].size == 3 && m->entries[0].hash[0] == 0x11 &&
           strcmp(m->entries[0].source, "s3://b/y") == 0,
       "a file of the manifest has the size, the id and the name of its object");
    ok(strcmp(all.objects[0].path, "x") == 0 && all.objects[0].id[31] == 0x22,
       "objects are sorted by their paths");
    manifest_free(m);
    struct strbuf line = {0};
    input_remote_numbered_line("{\"a\":1}\n", 3, &line);
    is_str(strbuf_cstr(&line), "{\"index\":3,\"a\":1}\n", "a line has its number in front");
    strbuf_fini(&line);
    ok(input_remote_is("s3://b") && input_remote_is("https://b") && !input_remote_is("http://b") &&
           !input_remote_is("/s3://b"),
       "two schemes are remote");
    ok(again(HEAD "{\"path\":\"x\",\"size\":1,\"id\":\"" ID1 "\"}\n" END,
             HEAD LINE("x", "1", "e", ID2) END)[0],
       "an ETag that is new makes another object");
}

int main(void) {
    test_lines();
    const struct input_remote *r = list(HEAD LINE("y", "3", "e", ID1) LINE("x", "5", "e", ID2) END);
    const struct input_remote_object *o = input_remote_find(r, "x");
    ok(r->folder && r->ends_ms == 9 && r->count == 2, "a list of two objects");
    ok(o && o->id[0] == 0x22 && strcmp(o->name, "s3://b/x") == 0, "an object is found by its path");
    ok(!input_remote_find(r, "z") && !input_remote_find(list(HEAD END), "x"),
       "a path that a list does not have");
    ok(strstr(refusal(HEAD LINE("x", "5", "e", ID2)), "cut off"), "a list without its end");
    ok(strstr(refusal(HEAD LINE("../x", "5", "e", ID2) END), "is none"), "a path that leads out");
    ok(strstr(refusal(HEAD LINE("x", "-5", "e", ID2) END), "is none"), "a size below 0");
    ok(strstr(refusal(HEAD LINE("x", "5", "e", "12") END), "is none"), "an id that is none");

    struct strbuf line = {0};
    unsigned char hash[HASH_BYTES] = {0xab};
    input_remote_known_line(o->line, hash, &line);
    ok(str_ends(strbuf_cstr(&line), "}\n") && strstr(line.data, ",\"sha256\":\"ab00"),
       "a line with its hash");
    strbuf_fini(&line);

    const char *old = HEAD LINE("x", "5", "e", ID1) END;
    is_str(again(old, HEAD LINE("w", "5", "e", ID2) LINE("x", "5", "e", ID1) END), "",
           "the same object");
    const char *why = again(old, HEAD LINE("x", "5", "f", ID2) END);
    ok(strstr(why, "'s3://b/x' has changed since the run began"), "an object that has changed");
    why = again(old, HEAD LINE("w", "5", "e", ID1) END);
    ok(strstr(why, "'s3://b/x' was removed since the run began"), "an object that was removed");
    old = HEAD LINE("x", "5", "", ID1) END;
    is_str(again(old, HEAD LINE("x", "5", "", ID2) END), "", "without an ETag, of the same size");
    ok(again(old, HEAD LINE("x", "6", "", ID2) END)[0], "without an ETag, of another size");
    ok(again(old, HEAD LINE("x", "5", "e", ID2) END)[0], "with an ETag that it did not have");
    arena_fini(&a);
    return done_testing();
}
