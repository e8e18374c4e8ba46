// SPDX-License-Identifier: Apache-2.0
// A file is compared with ETags of whole objects and of those in parts. The MD5s are Python's.
#include "object/object_etag.h"
#include "object/object_put.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"

#include <string.h>
#include <unistd.h>

enum { LARGE_BYTES = 200000 };

static char folder[] = "/tmp/test_object_etag.XXXXXX";
static struct arena a;
static struct err error;
static uint64_t part_bytes = 5;

// In place of object_put.c's.
uint64_t object_put_part_bytes(uint64_t size) {
    (void)size;
    return part_bytes;
}

static const char *put(const char *name, const void *p, size_t len) {
    const char *path = file_join(&a, folder, name);
    if (file_write_atomic(path, p, len, 0600, &error) < 0)
        bail_out("%s", error.text);
    return path;
}

static int matches(struct object_tags *t, const char *etag) {
    return object_etag_matches(t, &(struct s3_object){"k", etag, t->file->size}, &error);
}

// The file's bytes are those of an object with that ETag.
static int is(const char *text, const char *etag) {
    const struct manifest_entry file = {.source = put("f", text, strlen(text)),
                                        .size = strlen(text)};
    struct object_tags t = {.file = &file};
    return matches(&t, etag);
}

static void test_tags(void) {
    is_int(is("hello world", "5eb63bbbe01eeed093cb22bb8f5acdc3"), 1, "the MD5 is that of the file");
    is_int(is("hello world", "5EB63BBBE01EEED093CB22BB8F5ACDC3"), 1, "capitals are the same");
    is_int(is("hello worle", "5eb63bbbe01eeed093cb22bb8f5acdc3"), 0, "another file differs");
    is_int(is("", "d41d8cd98f00b204e9800998ecf8427e"), 1, "an empty file has its MD5");
    is_int(is("hello world", "df349a9519959b17a605009540f4b31d-3"), 1,
           "three parts have their MD5");
    is_int(is("hello world", "df349a9519959b17a605009540f4b31d-2"), 0,
           "two parts have another one");
    is_int(is("hello worl", "63526f5ddfe409df805ce65de61b2223-2"), 1, "the last part may be full");
    is_int(is("", "59adb24ef3cdbe0297f05b395827453f-1"), 1, "an empty file has one part");
    is_int(is("hello world", "5eb63bbbe01eeed093cb22bb8f5acdc"), 0, "a shorter tag is no MD5");
    is_int(is("hello world", ""), 0, "an object without a tag differs");
}

static void test_large(void) {
    static unsigned char bytes[LARGE_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    struct manifest_entry file = {.source = put("large", bytes, sizeof bytes),
                                  .size = sizeof bytes};
    struct object_tags t = {.file = &file};
    part_bytes = 70000;
    is_int(matches(&t, "e2b32713dae483cfc0f4c94705b5a2e3"), 1,
           "a file of several reads is the same");
    is_int(matches(&t, "325d340a1d04f6ad11b9c80efabc1e24-3"), 1,
           "the parts of the file are the same, too");
    uint64_t before = bytes_read();
    is_int(matches(&t, "e2b32713dae483cfc0f4c94705b5a2e4"), 0, "another object differs");
    is_int(matches(&t, "325d340a1d04f6ad11b9c80efabc1e25-3"), 0, "another object in parts differs");
    ok(bytes_read() - before < LARGE_BYTES, "the file is read once for each form");
    is_int(object_etag_matches(
               &t, &(struct s3_object){"k", "e2b32713dae483cfc0f4c94705b5a2e3", LARGE_BYTES - 1},
               &error),
           0, "an object of another size differs");
    file.size = LARGE_BYTES + 1; // it has become shorter
    t = (struct object_tags){.file = &file};
    is_int(matches(&t, "00000000000000000000000000000000"), 0, "a file that has shrunk differs");
}

static void test_unreadable(void) {
    struct manifest_entry file = {.source = file_join(&a, folder, "gone"), .size = 1};
    struct object_tags t = {.file = &file};
    is_int(matches(&t, "d41d8cd98f00b204e9800998ecf8427e"), -1, "a file may be gone");
    is_int(error.code, ERR_HASH, "the error says that it has changed");
    has_str(error.text, "cannot open '", "the error names the file");
    const char *link = file_join(&a, folder, "link");
    if (symlink(put("f", "x", 1), link) < 0)
        bail_out("no link");
    file.source = link;
    is_int(matches(&t, "d41d8cd98f00b204e9800998ecf8427e"), -1, "a link is not followed");
    is_int(error.code, ERR_SYS, "the error is one of the system");
    file.source = folder;
    is_int(matches(&t, "d41d8cd98f00b204e9800998ecf8427e"), -1, "a folder cannot be read");
    has_str(error.text, "cannot read '", "the error says so");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_tags();
    test_large();
    test_unreadable();
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return done_testing();
}
