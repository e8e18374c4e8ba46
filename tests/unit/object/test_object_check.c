// SPDX-License-Identifier: Apache-2.0
// Hashes of received objects on threads: bytes and parts of the store, MD5s of ETags, many at a
// time, and those that are given up. Only the waking of HTTP is a stand-in.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_check.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <openssl/md5.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 40, WAIT_MS_MAX = 20000, LARGE = (5 << 20) + 3 };

static struct arena a;
static struct err e;
static char dir[] = "/tmp/test_object_check.XXXXXX";
static struct object_checks checks;
static char http; // a handle
static atomic_int wakes;

void http_wake(struct http *h) {
    if ((void *)h != &http)
        fail("another handle is woken");
    wakes++;
}

// No object is requested.
void http_begin(struct http *h, struct http_call *c) {
    (void)h, (void)c;
    bail_out("a request is made");
}

void http_call_close(struct http_call *c) {
    (void)c;
}

// The next check that has ended.
static struct object_check *next(void) {
    struct object_check *k;
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX;
         !(k = object_check_next(&checks)) && clock_mono_ms() < until;)
        usleep(1000);
    if (!k)
        bail_out("a check does not end");
    return k;
}

static const char *md5_of(const void *p, size_t len) {
    unsigned char digest[MD5_DIGEST_LENGTH];
    char hex[2 * MD5_DIGEST_LENGTH + 1];
    MD5(p, len, digest);
    str_hex(hex, digest, sizeof digest);
    return arena_strdup(&a, hex);
}

static bool has_hash_of(const struct object_check *k, const void *p, size_t len) {
    unsigned char hash[HASH_BYTES];
    hash_of(hash, p, len);
    return memcmp(hash, k->hash, HASH_BYTES) == 0;
}

static struct object_check check_of(const char *etag, const void *p, size_t len) {
    return (struct object_check){
        .http = (struct http *)(void *)&http, .etag = etag, .p = p, .len = len};
}

#define OTHER "0123456789abcdef0123456789abcdef"

static void test_bytes(void) {
    static const struct {
        const char *about, *etag; // NULL: that of the bytes
        bool kms;
        enum err_code want;
    } rows[] = {{"the right MD5", NULL, false, ERR_NONE},
                {"another MD5", OTHER, false, ERR_HASH},
                {"another MD5 that is none", OTHER, true, ERR_NONE},
                {"the ETag of parts", OTHER "-2", false, ERR_NONE},
                {"no ETag", "", false, ERR_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        object_checks_open(&checks);
        struct object_check k =
            check_of(rows[i].etag ? rows[i].etag : md5_of("bytes", 5), "bytes", 5);
        k.kms = rows[i].kms;
        k.err.code = ERR_SYS; // of an earlier one
        object_check_begin(&checks, &k);
        ok(next() == &k, "bytes with %s are checked", rows[i].about);
        is_int(k.err.code, rows[i].want, "bytes with %s have their result", rows[i].about);
        ok(has_hash_of(&k, "bytes", 5), "bytes with %s have their hash", rows[i].about);
        if (rows[i].want)
            has_str(k.err.text, OTHER, "the error has the ETag");
        object_checks_close(&checks);
    }
    is_int(wakes, sizeof rows / sizeof *rows, "each end wakes the transfers");
}

// An object of several steps in a store.
static struct cas cas;

static void begin_part(struct cas_part *part, const char *bytes, size_t len) {
    unsigned char hash[HASH_BYTES];
    hash_of(hash, bytes, len);
    if (cas_part_open(&cas, part, hash, len, &e) < 0)
        bail_out("%s", e.text);
    for (size_t at = 0; at < len; at += CAS_UNIT_BYTES)
        if (cas_part_write(part, at, bytes + at,
                           len - at < CAS_UNIT_BYTES ? len - at : CAS_UNIT_BYTES, &e) < 0)
            bail_out("%s", e.text);
}

static void test_parts(void) {
    char *bytes = arena_new(&a, char, LARGE);
    struct cas_part part;
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    if (cas_open(&cas, file_join(&a, dir, "cas"), &e) < 0)
        bail_out("%s", e.text);
    object_checks_open(&checks);
    static const char *const etags[] = {NULL, OTHER, OTHER "-3"};
    for (size_t i = 0; i < 3; i++) {
        begin_part(&part, bytes, LARGE);
        struct object_check k = check_of(etags[i] ? etags[i] : md5_of(bytes, LARGE), NULL, 0);
        k.part = &part;
        object_check_begin(&checks, &k);
        ok(next() == &k, "a part of the store is checked (%zu)", i);
        is_int(k.err.code, i == 1 ? ERR_HASH : ERR_NONE, "the MD5 is that of all bytes (%zu): %s",
               i, k.err.text);
        ok(has_hash_of(&k, bytes, LARGE), "the hash is that of all bytes (%zu)", i);
        cas_part_close(&part);
    }
    object_checks_close(&checks);
    (void)cas_close(&cas, false, &e);
}

static void test_many(void) {
    static struct object_check all[MANY];
    static char text[MANY][8];
    bool seen[MANY] = {false}, good = true;
    object_checks_open(&checks);
    ok(!object_check_next(&checks), "nothing has ended before the begin");
    is_int(checks.thread_count, 0, "no thread is there before it is needed");
    for (size_t i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "%zu", i);
        all[i] = check_of("", text[i], strlen(text[i]));
        object_check_begin(&checks, &all[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        size_t at = (size_t)(next() - all);
        good = good && !seen[at] && has_hash_of(&all[at], text[at], strlen(text[at]));
        seen[at] = true;
    }
    ok(good, "each check ends once, with its hash");
    ok(!object_check_next(&checks), "no check ends twice");
    ok(checks.thread_count >= 1 && checks.thread_count <= checks.threads_max &&
           checks.threads_max <= OBJECT_CHECK_THREADS_MAX,
       "threads have a limit");
    object_check_begin(&checks, &all[3]);
    ok(next() == &all[3], "a check may begin after all others have ended");
    for (size_t i = 0; i < MANY; i++)
        object_check_begin(&checks, &all[i]);
    object_checks_close(&checks);
    pass("checks that have not begun are given up");
}

int main(void) {
    if (!mkdtemp(dir) || file_make_dirs(file_join(&a, dir, "cas"), 0700, &e) < 0)
        bail_out("no folder");
    test_bytes();
    test_parts();
    test_many();
    is_int(file_remove_tree(dir, &e), 0, "the folder is removed");
    arena_fini(&a);
    return done_testing();
}
