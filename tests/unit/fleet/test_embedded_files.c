// SPDX-License-Identifier: Apache-2.0
// Embedded files come out of their frames as they went in, also where another file is the prefix;
// damage is an error that names the file.
#include "fleet/embedded_files.h"

#include "base/hash.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { BYTES = 300 * 1000, FRAME = BYTES + 1000, FILES = 4 };
// In place of the table that the build makes.
extern struct embed_file embed_files[FILES + 1];
struct embed_file embed_files[FILES + 1];
static unsigned char content[FILES][BYTES], frame[FILES][FRAME];
static struct err e;

// Bytes that zstd finds no pattern in.
static void fill(unsigned char *p, uint64_t seed) {
    for (size_t i = 0; i < BYTES; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        p[i] = (unsigned char)(seed >> 56);
    }
}

static void add(int i, const char *name, int base) {
    struct embed_file *f = &embed_files[i];
    unsigned char digest[HASH_BYTES];
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 21);
    if (base >= 0)
        ZSTD_CCtx_refPrefix(z, content[base], BYTES);
    size_t n = ZSTD_compress2(z, frame[i], FRAME, content[i], BYTES);
    ZSTD_freeCCtx(z);
    if (ZSTD_isError(n))
        bail_out("%s", ZSTD_getErrorName(n));
    f->name = name, f->data = frame[i], f->size_packed = n, f->size = BYTES;
    f->base = base < 0 ? NULL : &embed_files[base];
    hash_of(digest, content[i], BYTES);
    hash_hex(f->sha256, digest);
}

static void test_files(void) {
    struct arena a = {0};
    for (int i = 0; i < FILES; i++) {
        const void *got = embedded_unpack(&a, embedded_find(embed_files[i].name), &e);
        ok(got && memcmp(got, content[i], BYTES) == 0, "%s comes out as it went in",
           embed_files[i].name);
    }
    ok(embed_files[1].size_packed < BYTES / 10, "a file with a prefix takes little room");
    ok(!embedded_find("none"), "there is no other file");
    ok(!embedded_at(FILES), "the table ends");
    arena_fini(&a);
}

// A byte of a frame is changed: its file and those that need it do not come out.
static void test_damage(void) {
    static const char *const names[] = {"base", "like", "none"};
    struct arena a = {0};
    unsigned char *byte = &frame[0][embed_files[0].size_packed / 2];
    *byte ^= 1;
    for (int i = 0; i < 2; i++) {
        ok(!embedded_unpack(&a, &embed_files[i], &e), "%s is refused", names[i]);
        has_str(e.text, "'base'", "the error of %s names the damaged file", names[i]);
    }
    ok(embedded_unpack(&a, &embed_files[3], &e) != NULL, "files of their own come out");
    *byte ^= 1;
    embed_files[1].sha256[0] ^= 1;
    ok(!embedded_unpack(&a, &embed_files[1], &e), "another hash is refused");
    is_int(e.code, ERR_HASH, "the error says so");
    has_str(e.text, "'like'", "the error has the name of that file");
    embed_files[1].sha256[0] ^= 1;
    embed_files[1].size--;
    ok(!embedded_unpack(&a, &embed_files[1], &e), "a frame with more bytes is refused");
    embed_files[1].size++;
    embed_files[1].base = &embed_files[3];
    ok(!embedded_unpack(&a, &embed_files[1], &e), "another prefix is refused");
    arena_fini(&a);
}

int main(void) {
    fill(content[0], 1);
    fill(content[3], 2);
    memcpy(content[1], content[0], BYTES);
    memset(content[1] + BYTES / 2, 7, 100);
    memcpy(content[2], content[1] + 1000, BYTES - 1000);
    add(0, "base", -1);
    add(1, "like", 0);
    add(2, "like-like", 1);
    add(3, "alone", -1);
    test_files();
    test_damage();
    return done_testing();
}
