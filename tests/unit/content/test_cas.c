// SPDX-License-Identifier: Apache-2.0
// The store of content: packs, parts and objects keep what they were given, believe nothing because
// of its name, and let go what is old.
#include "content/cas.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"
#include "xfer/xfer_frame.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE_BYTES = 2 * CAS_UNIT_BYTES + 1000, UNITS = 3 };

static struct arena a;
static char dir[] = "/tmp/dtctl-cas-XXXXXX";
static struct err e;

static const char *hash(const char *text) {
    unsigned char *h = arena_new(&a, unsigned char, HASH_BYTES);
    hash_of(h, text, strlen(text));
    return (const char *)h;
}
#define HASH(text) ((const unsigned char *)hash(text))

static void start(struct cas *c) {
    if (cas_open(c, dir, &e) < 0 || cas_load(c, &e) < 0)
        bail_out("%s", e.text);
}

static bool add(struct cas *c, const char *text) {
    return cas_add_small(c, HASH(text), text, strlen(text), &e) == 0;
}

static bool reads(struct cas *c, const char *text) {
    char got[64] = "";
    return cas_read_small(c, HASH(text), got, strlen(text), &e) == 0 && strcmp(got, text) == 0;
}

static glob_t packs(void) {
    glob_t g = {0};
    glob(arena_printf(&a, "%s/packs/*.pack", dir), 0, NULL, &g);
    return g;
}

static size_t pack_count(void) {
    glob_t g = packs();
    size_t n = g.gl_pathc;
    globfree(&g);
    return n;
}

static void change_pack(const char *bytes, size_t len, off_t from_end) {
    glob_t g = packs();
    int fd = open(g.gl_pathv[0], O_WRONLY | O_CLOEXEC);
    must(lseek(fd, -from_end, SEEK_END) >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
    globfree(&g);
}

static void test_small(void) {
    struct cas c, other;
    start(&c);
    ok(!cas_has_small(&c, HASH("one"), 3), "an empty store has nothing");
    ok(add(&c, "one") && add(&c, "second") && add(&c, "one"), "small content goes in");
    ok(cas_has_small(&c, HASH("one"), 3) && !cas_has_small(&c, HASH("one"), 4),
       "small content is stored with its size");
    ok(reads(&c, "one") && reads(&c, "second"),
       "small content can be read, also before it is written to disk");
    ok(!reads(&c, "none") && e.code == ERR_NOT_FOUND, "absent content is not found");
    start(&other);
    ok(reads(&other, "second"), "another process reads the content at once");
    ok(add(&c, "third") && cas_flush(&c, &e) == 0, "more small content is stored");
    ok(!cas_has_small(&other, HASH("third"), 5), "the other process does not have the new content");
    ok(cas_reload(&other, &e) == 0 && reads(&other, "third"),
       "the other process has the new content after a reload");
    is_int(pack_count(), 1, "content that is there takes no second place");
    cas_close(&other, false, &e);
    cas_close(&c, false, &e);
    change_pack("dtp1\xff\xff", 6, 0);
    start(&c);
    ok(reads(&c, "one") && reads(&c, "second") && reads(&c, "third"), "a torn end harms nothing");
    ok(add(&c, "fourth"), "after a torn end more content is stored");
    cas_close(&c, false, &e);
    is_int(pack_count(), 2, "content after a torn end is in a second pack");
    start(&c);
    ok(reads(&c, "fourth"), "content after a torn end can be read");
    cas_close(&c, false, &e);
}

static void test_damage(void) {
    struct cas c;
    file_remove_tree(dir, &e);
    start(&c);
    add(&c, "good");
    cas_close(&c, false, &e);
    change_pack("x", 1, 1);
    start(&c);
    ok(!reads(&c, "good") && e.code == ERR_HASH, "changed content is found when it is read");
    is_int(pack_count(), 0, "a pack with changed content is removed");
    cas_close(&c, false, &e);
}

static void test_many(void) {
    struct cas c;
    for (int i = 0; i <= CAS_PACKS_MAX; i++) {
        start(&c);
        add(&c, arena_printf(&a, "text %d", i));
        cas_close(&c, false, &e);
    }
    is_int(pack_count(), CAS_PACKS_MAX + 1, "each process writes its own pack");
    start(&c);
    int found = 0;
    for (int i = 0; i <= CAS_PACKS_MAX; i++)
        found += reads(&c, arena_printf(&a, "text %d", i));
    is_int(found, CAS_PACKS_MAX + 1, "many of them become one, with all that was in them");
    is_int(pack_count(), 1, "many packs become one");
    cas_close(&c, false, &e);
}

static char large[LARGE_BYTES];
static unsigned char large_hash[HASH_BYTES];

static int put(struct cas_part *p, uint64_t at, size_t len) {
    return cas_part_write(p, at, large + (at < LARGE_BYTES ? at : 0), len, &e);
}

static void test_parts(void) {
    struct cas c;
    struct cas_part p;
    uint32_t count;
    const char *path;
    struct stat st;
    start(&c);
    ok(!cas_part_have(&c, &a, large_hash, LARGE_BYTES, &count) && count == 0,
       "an object's part is empty at first");
    is_int(cas_part_open(&c, &p, large_hash, LARGE_BYTES, &e), 0, "a part is opened");
    ok(put(&p, 0, 0) < 0 && put(&p, LARGE_BYTES, 1) < 0 && put(&p, UINT64_MAX, 1) < 0 &&
           put(&p, 2 * CAS_UNIT_BYTES, 1001) < 0 && put(&p, 5, 10) < 0 &&
           put(&p, 0, CAS_UNIT_BYTES + 1) < 0,
       "a piece outside of its unit is refused");
    ok(put(&p, 2 * CAS_UNIT_BYTES, 1000) == 0, "units of a part may arrive in any order");
    ok(put(&p, 0, 100) == 0 && put(&p, 100, CAS_UNIT_BYTES - 100) == 0,
       "a unit may arrive in pieces");
    unsigned char *have = cas_part_have(&c, &a, large_hash, LARGE_BYTES, &count);
    ok(have && have[0] == 5 && count == 2, "the first and the third are there");
    ok(!cas_part_complete(&p), "the part is not complete");
    ok(put(&p, CAS_UNIT_BYTES, 10) == 0 && !cas_part_complete(&p),
       "half a unit does not complete the part");
    ok(put(&p, CAS_UNIT_BYTES + 10, CAS_UNIT_BYTES - 10) == 0 && cas_part_complete(&p),
       "the last bytes complete the part");
    while (cas_part_hash(&p, CAS_UNIT_BYTES / 2, &e) == 0)
        ;
    is_int(cas_part_finish(&c, &p, &path, &e), 0, "a complete part is finished");
    cas_part_close(&p);
    is_str(path, cas_object_path(&c, large_hash), "a finished part has the object's path");
    path = arena_strdup(&a, path);
    ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0444, "an object is read-only");
    ok(!file_exists(cas_part_path(&c, large_hash, ".part")) &&
           !file_exists(cas_part_path(&c, large_hash, ".map")),
       "no file of the part is left");
    ok(cas_has_object(&c, large_hash, LARGE_BYTES), "the object is in the store");
    cas_close(&c, false, &e);
    start(&c);
    ok(cas_has_object(&c, large_hash, LARGE_BYTES), "the object is found by a check of every byte");
    must(chmod(path, 0644) == 0);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(pwrite(fd, "!", 1, 77) == 1);
    close(fd);
    ok(!cas_has_object(&c, large_hash, LARGE_BYTES) && !file_exists(path), "a changed one goes");
    // Something else under its name.
    cas_part_open(&c, &p, large_hash, 4, &e);
    must(cas_part_write(&p, 0, "else", 4, &e) == 0 && cas_part_hash(&p, 4, &e) == 1);
    ok(cas_part_finish(&c, &p, &path, &e) < 0 && e.code == ERR_HASH,
       "a part with other content is refused");
    cas_part_close(&p);
    ok(!file_exists(cas_part_path(&c, large_hash, ".part")), "a refused part is removed");
    cas_close(&c, false, &e);
}

// The bytes of another version of the file, as a sender has whose file has changed.
static int put_other(struct cas_part *p, uint64_t at, size_t len) {
    char *other = heap_alloc(len);
    memset(other, '#', len);
    int rc = cas_part_write(p, at, other, len, &e);
    free(other);
    return rc;
}

static bool put_rest(struct cas_part *p, uint64_t at) {
    for (uint64_t end; at < LARGE_BYTES; at = end) {
        end = (at / CAS_UNIT_BYTES + 1) * CAS_UNIT_BYTES;
        end = end < LARGE_BYTES ? end : LARGE_BYTES;
        if (put(p, at, end - at) < 0)
            return false;
    }
    return cas_part_complete(p) && cas_part_hash(p, UINT64_MAX, &e) == 1;
}

// Two transfers of one content, of which one has a sender whose file has changed since.
static void test_shared_part(void) {
    struct cas c, other;
    struct cas_part good, bad, next;
    const char *path, *elsewhere;
    file_remove_tree(dir, &e);
    start(&c);
    start(&other);
    must(cas_part_open(&c, &good, large_hash, LARGE_BYTES, &e) == 0);
    must(cas_part_open(&other, &bad, large_hash, LARGE_BYTES, &e) == 0);
    ok(put(&good, 0, CAS_UNIT_BYTES) == 0 && put_other(&bad, 0, CAS_UNIT_BYTES) == 0,
       "both transfers send a unit");
    ok(put_rest(&good, CAS_UNIT_BYTES) && put_other(&bad, CAS_UNIT_BYTES, 1000) == 0,
       "one transfer sends the rest");
    is_int(cas_part_finish(&c, &good, &path, &e), 0, "a complete unit is not written again: %s",
           e.text);
    ok(put_other(&bad, CAS_UNIT_BYTES + 1000, CAS_UNIT_BYTES - 1000) == 0 &&
           put_other(&bad, 2 * CAS_UNIT_BYTES, 1000) == 0,
       "the other transfer goes on after the end of the first");
    unsigned char real[HASH_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ok(hash_cache_file(fd, LARGE_BYTES, real, NULL, &e) == 0 &&
           memcmp(real, large_hash, HASH_BYTES) == 0,
       "an object that is in place is not written to");
    close(fd);
    // A third one begins before the second one has ended.
    file_remove_tree(file_dir(&a, path), &e);
    must(cas_part_open(&c, &next, large_hash, LARGE_BYTES, &e) == 0);
    must(put(&next, 0, CAS_UNIT_BYTES) == 0);
    ok(cas_part_complete(&bad) && cas_part_hash(&bad, UINT64_MAX, &e) == 1,
       "the second transfer sees a complete part");
    is_int(cas_part_finish(&other, &bad, &elsewhere, &e), -1,
           "a part whose object was removed meanwhile is not finished");
    has_str(e.text, "try again", "the error of a part that is gone has the next step");
    ok(put_rest(&next, CAS_UNIT_BYTES) && cas_part_finish(&c, &next, &path, &e) == 0,
       "the part of the third transfer is left alone");
    cas_part_close(&good);
    cas_part_close(&bad);
    cas_part_close(&next);
    cas_close(&other, false, &e);
    cas_close(&c, false, &e);
}

static void finish_whole(struct cas *c) {
    struct cas_part p;
    const char *path;
    if (cas_part_open(c, &p, large_hash, LARGE_BYTES, &e) < 0 || !put_rest(&p, 0) ||
        cas_part_finish(c, &p, &path, &e) < 0)
        bail_out("%s", e.text);
    cas_part_close(&p);
}

// Two processes fill one part, and both see that it is complete.
static void test_same_part(void) {
    struct cas c, other;
    struct cas_part p;
    const char *path;
    file_remove_tree(dir, &e);
    start(&c);
    start(&other);
    must(cas_part_open(&other, &p, large_hash, LARGE_BYTES, &e) == 0);
    ok(put_rest(&p, 0), "one process has all of the content");
    finish_whole(&c);
    uint64_t before = bytes_read();
    is_int(cas_part_finish(&other, &p, &path, &e), 0, "another one has finished it: %s", e.text);
    ok(bytes_read() - before < CAS_PIECE_BYTES, "the bytes that it has hashed are not read again");
    is_str(path, cas_object_path(&other, large_hash), "the content is in its place");
    cas_part_close(&p);
    cas_close(&other, false, &e);
    cas_close(&c, false, &e);
}

static enum cas_found check(struct cas *c, struct cas_check *k, uint64_t most) {
    return cas_check_object(c, k, large_hash, LARGE_BYTES, &most);
}

// An object of which only the name is known, in steps.
static void test_check(void) {
    enum { STEP = 3 * CAS_PIECE_BYTES };
    struct cas c;
    struct cas_check k = {0};
    uint64_t most = 5, bytes = 0;
    int steps = 0;
    file_remove_tree(dir, &e);
    start(&c);
    is_int(check(&c, &k, STEP), CAS_ABSENT, "a store has no object at first");
    finish_whole(&c);
    is_int(check(&c, &k, 0), CAS_PRESENT, "a known object is not hashed");
    cas_close(&c, false, &e);
    start(&c);
    is_int(check(&c, &k, 0), CAS_FOUND_LATER, "nothing may be hashed");
    ok(!k.open, "nothing is opened then");
    for (bool later = true; later; steps++) {
        uint64_t before = bytes_read();
        later = check(&c, &k, STEP) == CAS_FOUND_LATER;
        uint64_t now = bytes_read() - before;
        bytes = now > bytes ? now : bytes;
    }
    is_int(steps, LARGE_BYTES / STEP + 1, "an unknown object is hashed in steps");
    ok(bytes < STEP + 1000, "a step reads no more than it may: %llu", (unsigned long long)bytes);
    ok(!k.open && cas_has_object(&c, large_hash, LARGE_BYTES), "the object is there");
    cas_close(&c, false, &e);
    start(&c);
    is_int(cas_check_object(&c, &k, large_hash, LARGE_BYTES, &most), CAS_FOUND_LATER,
           "an object is hashed for the first time");
    is_uint(most, 0, "the bytes that were hashed are taken off");
    const char *path = cas_object_path(&c, large_hash);
    must(chmod(path, 0644) == 0 && truncate(path, CAS_PIECE_BYTES + 1) == 0);
    is_int(check(&c, &k, STEP), CAS_ABSENT, "a shorter file does not count");
    ok(!k.open && !file_exists(path), "the shorter one goes");
    finish_whole(&c);
    cas_close(&c, false, &e);
    start(&c);
    path = cas_object_path(&c, large_hash);
    is_int(check(&c, &k, STEP), CAS_FOUND_LATER, "a hash is under way");
    must(unlink(path) == 0);
    is_int(check(&c, &k, STEP), CAS_ABSENT, "an object that is removed meanwhile is absent");
    ok(!k.open, "a removed object is closed");
    cas_close(&c, false, &e);
}

// Another process replaces a damaged object while it is hashed.
static void test_check_replaced(void) {
    struct cas c, other;
    struct cas_check k = {0};
    file_remove_tree(dir, &e);
    start(&c);
    const char *path = cas_object_path(&c, large_hash);
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, large + 1, LARGE_BYTES - 1, 0444, &e) < 0 ||
        truncate(path, LARGE_BYTES) < 0)
        bail_out("%s", e.text);
    is_int(check(&c, &k, CAS_UNIT_BYTES), CAS_FOUND_LATER, "a damaged object is hashed");
    start(&other);
    finish_whole(&other);
    cas_close(&other, false, &e);
    is_int(check(&c, &k, UINT64_MAX), CAS_FOUND_LATER, "another file has its name at the end");
    is_int(check(&c, &k, UINT64_MAX), CAS_PRESENT, "the other file is hashed");
    ok(file_exists(path), "the good one stays");
    is_int(cas_check_object(&c, &k, HASH("none"), 4, &(uint64_t){1}), CAS_ABSENT,
           "another hash is another object");
    cas_check_close(&k);
    cas_close(&c, false, &e);
}

// Pieces of one unit from both: the hash is that of the bytes on the disk.
static void test_mixed_unit(void) {
    struct cas c;
    struct cas_part good, bad, again;
    const char *path;
    file_remove_tree(dir, &e);
    start(&c);
    must(cas_part_open(&c, &good, large_hash, LARGE_BYTES, &e) == 0);
    must(cas_part_open(&c, &bad, large_hash, LARGE_BYTES, &e) == 0);
    must(put(&good, 0, 1000) == 0 && put_other(&bad, 0, 500) == 0);
    ok(put(&good, 1000, CAS_UNIT_BYTES - 1000) == 0 && put_rest(&good, CAS_UNIT_BYTES),
       "a unit has bytes of two transfers");
    ok(cas_part_finish(&c, &good, &path, &e) < 0 && e.code == ERR_HASH,
       "a unit with bytes of another version fails the hash");
    must(cas_part_open(&c, &again, large_hash, LARGE_BYTES, &e) == 0);
    ok(!cas_part_complete(&again) && put_other(&bad, 500, 500) == 0 && put_rest(&again, 0),
       "the next transfer begins with an empty part");
    cas_part_discard(&c, &bad);
    is_int(cas_part_finish(&c, &again, &path, &e), 0,
           "a transfer that failed leaves the part of the next one alone: %s", e.text);
    cas_part_close(&good);
    cas_part_close(&again);
    cas_close(&c, false, &e);
}

static void object(struct cas *c, const char *text) {
    struct cas_part p;
    const char *path;
    if (cas_part_open(c, &p, HASH(text), strlen(text), &e) < 0 ||
        cas_part_write(&p, 0, text, strlen(text), &e) < 0 || cas_part_hash(&p, 100, &e) != 1 ||
        cas_part_finish(c, &p, &path, &e) < 0)
        bail_out("%s", e.text);
    cas_part_close(&p);
}

static void test_prune(void) {
    struct cas c, other;
    struct cas_part left;
    file_remove_tree(dir, &e);
    start(&c);
    add(&c, "small");
    add(&c, "kept small");
    object(&c, "large");
    object(&c, "kept large");
    object(&c, "shared");
    must(link(cas_object_path(&c, HASH("shared")), arena_printf(&a, "%s/used", dir)) == 0);
    cas_part_open(&c, &left, HASH("left"), 4, &e);
    cas_part_close(&left);
    cas_close(&c, false, &e);

    unsigned char keep[2][HASH_BYTES];
    bool less = memcmp(hash("kept small"), hash("kept large"), HASH_BYTES) < 0;
    memcpy(keep[0], hash(less ? "kept small" : "kept large"), HASH_BYTES);
    memcpy(keep[1], hash(less ? "kept large" : "kept small"), HASH_BYTES);
    struct cas_prune p = {.keep = (const unsigned char(*)[HASH_BYTES])keep, .keep_count = 2};
    start(&c);
    ok(cas_prune(&c, &p, &e) == 0 && p.removed == 0, "an object younger than the limit is kept");
    cas_close(&c, false, &e);
    start(&c);
    p.before_ns = INT64_MAX;
    start(&other);
    ok(cas_prune(&c, &p, &e) < 0 && e.code == ERR_BUSY, "a store that is in use is not pruned");
    cas_close(&other, false, &e);
    p.dry_run = true;
    ok(cas_prune(&c, &p, &e) == 0, "a dry run of pruning succeeds");
    is_int(p.removed, 4, "a dry run counts small content, a large object and both files of a part");
    ok(p.bytes >= 5, "a dry run counts bytes");
    ok(reads(&c, "small") && file_exists(cas_object_path(&c, HASH("large"))),
       "a dry run removes nothing");
    cas_close(&c, false, &e);
    p = (struct cas_prune){.keep = p.keep, .keep_count = 2, .before_ns = INT64_MAX};
    start(&c);
    ok(cas_prune(&c, &p, &e) == 0 && p.removed == 4, "pruning removes what the dry run counted");
    cas_close(&c, false, &e);
    start(&c);
    ok(!cas_has_small(&c, HASH("small"), 5) && reads(&c, "kept small"),
       "small content that is not in the list is removed");
    ok(!file_exists(cas_object_path(&c, HASH("large"))), "the object is removed");
    ok(file_exists(cas_object_path(&c, HASH("kept large"))), "a listed object is kept");
    ok(file_exists(cas_object_path(&c, HASH("shared"))), "an object with a second link is kept");
    ok(!file_exists(cas_part_path(&c, HASH("left"), ".part")), "an abandoned part is removed");
    cas_close(&c, false, &e);
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    for (size_t i = 0; i < LARGE_BYTES; i++)
        large[i] = (char)(i * 31 + i / 977);
    hash_of(large_hash, large, LARGE_BYTES);
    test_small();
    test_damage();
    test_many();
    test_parts();
    test_shared_part();
    test_same_part();
    test_check();
    test_check_replaced();
    test_mixed_unit();
    test_prune();
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
