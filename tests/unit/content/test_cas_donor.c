// SPDX-License-Identifier: Apache-2.0
// A store takes content from folders of any program: what has the hash, and nothing that a link
// leads to, that changes, or that is no regular file.
#include "content/cas_donor.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE_BYTES = CAS_UNIT_BYTES + CAS_PIECE_BYTES + 77, SAME_SIZE = 40 };

static char work[] = "/tmp/test-cas-donor-XXXXXX";
static struct arena a;
static struct err e;
static struct cas store;
static unsigned char large[LARGE_BYTES], large_hash[HASH_BYTES];

static const char *in(const char *path) {
    return file_join(&a, work, path);
}

static void put(const char *path, const void *p, size_t len) {
    if (file_make_dirs(file_dir(&a, in(path)), 0700, &e) < 0 ||
        file_write_atomic(in(path), p, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

static void put_text(const char *path, const char *text) {
    put(path, text, strlen(text));
}

// A store without content.
static void start(void) {
    if (file_remove_tree(in("cas"), &e) < 0 || cas_open(&store, in("cas"), &e) < 0)
        bail_out("%s", e.text);
}

static void end(struct cas_donor *d) {
    cas_donor_close(d);
    cas_close(&store, false, &e);
}

static void open_donor(struct cas_donor *d) {
    cas_donor_open(d, in("hashes"));
    cas_donor_add(d, in("run"), "output");
    cas_donor_add(d, in("run"), "absent");
    cas_donor_add(d, in("no-run"), "output");
}

// All steps of one content, each of a piece. Their number goes to `calls`.
static int calls;
static bool give(struct cas_donor *d, const unsigned char hash[HASH_BYTES], size_t len) {
    enum cas_donor_result result;
    calls = 1;
    while ((result = cas_donor_give(d, &store, hash, len, CAS_PIECE_BYTES)) == CAS_DONOR_AGAIN)
        calls++;
    return result == CAS_DONOR_GIVEN;
}

static bool gives(struct cas_donor *d, const char *text) {
    unsigned char hash[HASH_BYTES];
    char got[64] = "";
    size_t len = strlen(text);
    hash_of(hash, text, len);
    if (!give(d, hash, len))
        return false;
    return cas_read_small(&store, hash, got, len, &e) == 0 && strcmp(got, text) == 0;
}

static size_t parts(void) {
    return file_exists(in("cas/tmp")) && rmdir(in("cas/tmp")) < 0 ? 1 : 0;
}

static void test_content(void) {
    struct cas_donor d;
    struct stat before, after;
    start();
    put_text("run/output/deep/small", "small content");
    put("run/output/large", large, sizeof large);
    put_text("run/output/empty", "");
    stat(in("run/output/large"), &before);
    open_donor(&d);
    ok(gives(&d, "small content"), "small content of a file below the folder comes in");
    ok(!gives(&d, "other content") && !gives(&d, "x"), "content that no file has does not");
    ok(give(&d, large_hash, sizeof large) && cas_has_object(&store, large_hash, sizeof large),
       "large content comes in");
    struct stat object = {0};
    stat(cas_object_path(&store, large_hash), &object);
    stat(in("run/output/large"), &after);
    ok(object.st_ino != before.st_ino, "the store has a file of its own");
    ok(after.st_nlink == 1 && after.st_mode == before.st_mode &&
           after.st_ctim.tv_nsec == before.st_ctim.tv_nsec,
       "the file of the folder is as before");
    ok(!give(&d, large_hash, sizeof large - 1), "the size has to be the same");
    is_int(parts(), 0, "no part is left in the store");
    end(&d);
}

// A donor whose cache has the hash of the large file.
static void open_known(struct cas_donor *d) {
    struct stat st;
    start();
    open_donor(d);
    stat(in("run/output/large"), &st);
    hash_cache_put(&d->hashes, &st, large_hash, HASH_CACHE_OWN);
}

// A step reads no more than it may, so that its caller is never blocked for long.
static void test_steps(void) {
    enum { PIECES = LARGE_BYTES / CAS_PIECE_BYTES };
    struct cas_donor d;
    unsigned char other[HASH_BYTES];
    start();
    put("run/output/large", large, sizeof large);
    hash_of(other, "other", 5);
    open_donor(&d);
    ok(!give(&d, other, sizeof large) && calls >= PIECES, "a large file is hashed in steps");
    end(&d);
    open_known(&d);
    ok(give(&d, large_hash, sizeof large) && calls >= PIECES, "a large file is taken in steps");
    end(&d);
    for (int ends = 0; ends < 2; ends++) {
        bool again = true;
        open_known(&d);
        for (int i = 0; i < PIECES / 2; i++)
            again &= cas_donor_give(&d, &store, large_hash, sizeof large, CAS_PIECE_BYTES) ==
                     CAS_DONOR_AGAIN;
        ok(again, "half the steps do not end the work");
        if (!ends)
            ok(!gives(&d, "small"), "content of another size ends the work");
        cas_donor_close(&d);
        is_int(parts(), 0, "work that ends in the middle leaves no part");
        cas_close(&store, false, &e);
    }
}

static void test_links(void) {
    struct cas_donor d;
    start();
    put_text("outside/secret", "a secret");
    put_text("other/output/there", "behind a link");
    if (symlink(in("outside/secret"), in("run/output/file")) < 0 ||
        symlink(in("outside"), in("run/output/folder")) < 0 ||
        symlink(in("other/output"), in("run/model")) < 0 || mkfifo(in("run/output/pipe"), 0600) < 0)
        bail_out("no links");
    open_donor(&d);
    cas_donor_add(&d, in("run"), "model");
    ok(!gives(&d, "a secret"), "neither a link to a file nor one to a folder is followed");
    ok(!gives(&d, "behind a link"), "a link in the place of the folder itself is not followed");
    is_int(d.count, 2, "files behind links are not even looked at");
    end(&d);
}

// The folder of a file becomes a link after the folders were read.
static void test_switched(void) {
    struct cas_donor d;
    start();
    put_text("run/output/switched/file", "before the switch");
    put_text("run/output/file2", "a file before");
    put_text("outside2/file", "behind the switch");
    put_text("outside2/file2", "now behind it");
    open_donor(&d);
    ok(!gives(&d, "x"), "the folders are read");
    if (rename(in("run/output/switched"), in("gone")) < 0 || unlink(in("run/output/file2")) < 0 ||
        symlink(in("outside2"), in("run/output/switched")) < 0 ||
        symlink(in("outside2/file2"), in("run/output/file2")) < 0)
        bail_out("no link");
    ok(!gives(&d, "behind the switch"), "a folder that has become a link is not followed");
    ok(!gives(&d, "now behind it"), "a file that has become a link is not followed");
    end(&d);
}

static void test_changed(void) {
    struct cas_donor d;
    struct stat st;
    start();
    put_text("run/output/one", "first words");
    put_text("run/output/two", "second word");
    open_donor(&d);
    ok(gives(&d, "first words"), "a file with the content gives it");
    stat(in("run/output/two"), &st);
    // The cache of hashes says that the file has content which it has not.
    unsigned char wrong[HASH_BYTES];
    hash_of(wrong, "third words", 11);
    cas_donor_close(&d);
    open_donor(&d);
    hash_cache_put(&d.hashes, &st, wrong, HASH_CACHE_OWN);
    ok(!gives(&d, "third words"), "a file that is not what the cache says gives nothing");
    put("run/output/large", large, sizeof large);
    stat(in("run/output/large"), &st);
    large[LARGE_BYTES - 1] ^= 1;
    hash_of(wrong, large, sizeof large);
    large[LARGE_BYTES - 1] ^= 1;
    hash_cache_put(&d.hashes, &st, wrong, HASH_CACHE_OWN);
    ok(!give(&d, wrong, sizeof large) && !cas_has_object(&store, wrong, sizeof large),
       "a large file that is not what the cache says gives nothing");
    is_int(parts(), 0, "no part is left in the store");
    end(&d);
    start();
    open_donor(&d);
    ok(!gives(&d, "x"), "the folders are read");
    put_text("run/output/one", "third words");
    ok(gives(&d, "third words"), "a file that was written since is hashed again");
    if (unlink(in("run/output/one")) < 0)
        bail_out("no file");
    ok(!gives(&d, "first words"), "a file that is gone gives nothing");
    end(&d);
}

static void test_same_size(void) {
    struct cas_donor d;
    char text[8];
    bool all = true;
    start();
    for (int i = 0; i < SAME_SIZE; i++) {
        snprintf(text, sizeof text, "same%02d", i);
        put_text(arena_printf(&a, "run/output/same/%d", i), text);
        put_text(arena_printf(&a, "run/output/same/again%d", i), text);
    }
    open_donor(&d);
    for (int i = SAME_SIZE; i-- > 0;) {
        snprintf(text, sizeof text, "same%02d", i);
        all &= gives(&d, text);
    }
    ok(all, "of many files with one size each gives its own content");
    ok(!gives(&d, "same99"), "content that none of them has is not found");
    unsigned char hash[HASH_BYTES];
    hash_of(hash, "same00", 6);
    end(&d);
    start();
    open_donor(&d);
    if (unlink(in("run/output/same/0")) < 0)
        bail_out("no file");
    ok(gives(&d, "same00"), "one of two files with the same content is enough");
    end(&d);
}

// Paths that no list of files may have.
static void test_deep(void) {
    struct cas_donor d;
    char name[251];
    start();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    int fd = open(in("run/output"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        int next = mkdirat(fd, name, 0700) < 0 ? -1 : openat(fd, name, O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
        int file = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || dprintf(file, "at depth %d", i + 10) < 0)
            bail_out("no deep file");
        close(file);
    }
    close(fd);
    open_donor(&d);
    ok(gives(&d, "at depth 15"), "a file in deep folders gives its content");
    ok(!gives(&d, "at depth 29"), "files below a path that is too long are left out");
    end(&d);
}

int main(void) {
    if (!mkdtemp(work))
        bail_out("no folder");
    for (size_t i = 0; i < LARGE_BYTES; i++)
        large[i] = (unsigned char)(i * 31 + i / 977);
    hash_of(large_hash, large, sizeof large);
    test_content();
    test_steps();
    test_links();
    test_switched();
    test_changed();
    test_same_size();
    test_deep();
    file_remove_tree(work, &e);
    arena_fini(&a);
    return done_testing();
}
