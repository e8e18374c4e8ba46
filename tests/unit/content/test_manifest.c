// SPDX-License-Identifier: Apache-2.0
// Manifests of real folders, their order and digest.
#include "base/str.h"
#include "content/manifest.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_manifest.XXXXXX";

static void put(const char *name, const char *text, mode_t mode) {
    struct err e;
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/%s", folder, name);
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), mode, &e) < 0)
        bail_out("%s", e.text);
    arena_fini(&a);
}

static const struct manifest_entry *find(const struct manifest *m, const char *path) {
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->entries[i].path, path) == 0)
            return &m->entries[i];
    return NULL;
}

static struct manifest *scan(const char *prefix, bool ignore_default, const char *cache) {
    struct manifest *m = manifest_new();
    struct err e;
    struct manifest_rules rules = {.ignore_default = ignore_default};
    if (manifest_add_path(m, folder, prefix, &rules, &e) < 0 ||
        manifest_hash(m, cache, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    return m;
}

static void test_scan(void) {
    put("a/one", "1", 0644);
    put("a.b", "2", 0755);
    put("a/z/deep", "3", 0600);
    put(".git/config", "x", 0644);
    put("logs/a.log", "x", 0644);
    put("logs/.dtctlignore", "*.log\n", 0644);
    put("empty", "", 0644);
    char link[256];
    snprintf(link, sizeof link, "%s/link", folder);
    if (symlink("a/one", link) < 0)
        bail_out("symlink");
    struct manifest *m = scan("", true, NULL);
    is_uint(m->files, 5, "files are counted");
    is_uint(m->ignored, 2, "ignored files are counted");
    ok(!find(m, ".git") && !find(m, "logs/a.log"), ".git and ignored files are left out");
    ok(find(m, "logs/.dtctlignore"), "the rules themselves go along");
    is_str(find(m, "link")->target, "a/one", "a link stays one");
    is_int(find(m, "a.b")->mode, 0755, "modes are recorded");
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, find(m, "a/one")->hash);
    is_str(hex, "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
           "the hash is that of sha256sum");
    is_str(m->entries[0].path, "a", "entries are sorted");
    is_str(m->entries[1].path, "a/one", "a folder is followed by its content");
    is_str(m->entries[m->count - 1].path, "logs/.dtctlignore", "the sort order holds to the end");
    unsigned char before[HASH_BYTES], after[HASH_BYTES];
    manifest_digest(m, before);
    manifest_free(m);
    m = scan("", true, NULL);
    manifest_digest(m, after);
    is_mem(after, HASH_BYTES, before, HASH_BYTES, "the same folder gives the same digest");
    manifest_free(m);
    put("a/one", "changed", 0644);
    m = scan("", true, NULL);
    manifest_digest(m, after);
    ok(memcmp(before, after, HASH_BYTES) != 0, "other content gives another digest");
    manifest_free(m);
    m = scan("top/x", false, NULL);
    ok(find(m, "top/x/.git/config") && find(m, "top/x/logs/a.log"),
       "without ignore rules all files are listed");
    manifest_free(m);
}

static int append(struct manifest *m, const char *path, enum manifest_kind kind, struct err *e) {
    struct manifest_entry n = {.path = path, .kind = kind, .target = "x", .bytes = ""};
    return manifest_append(m, &n, e);
}

static void test_order(void) {
    struct manifest *m = manifest_new();
    struct err e;
    append(m, "d", MANIFEST_FOLDER, &e);
    append(m, "d", MANIFEST_FOLDER, &e);
    append(m, "d/x", MANIFEST_FILE, &e);
    append(m, "d.x", MANIFEST_FILE, &e);
    is_int(manifest_sort(m, &e), 0, "a folder may be named twice");
    is_uint(m->count, 3, "a folder named twice counts once");
    append(m, "d/x", MANIFEST_FILE, &e);
    is_int(manifest_sort(m, &e), -1, "a file may not");
    has_str(e.text, "'d/x'", "the error names the file");
    manifest_free(m);
    m = manifest_new();
    append(m, "l/x", MANIFEST_FILE, &e);
    append(m, "l!", MANIFEST_FILE, &e);
    append(m, "l", MANIFEST_LINK, &e);
    is_int(manifest_sort(m, &e), -1, "nothing goes through a link");
    manifest_free(m);
    static const char *const bad[] = {"/x", "../x", "a/../b", "a//b", "", ".", "a/", "a/./b"};
    m = manifest_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(append(m, bad[i], MANIFEST_FILE, &e), -1, "'%s' is refused", bad[i]);
    manifest_free(m);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

// At the first bytes.
static uint64_t stopped_at;
static int stop_soon(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)total;
    stopped_at = done;
    return done > 0;
}

// A file of many bytes is no longer silence than many files.
static void test_one_large(void) {
    const uint64_t LEN = (uint64_t)3 << 30;
    struct arena a = {0};
    struct err e = {0};
    put("one/large", "", 0644);
    if (truncate(file_join(&a, folder, "one/large"), (off_t)LEN) < 0)
        bail_out("truncate");
    struct manifest *m = manifest_new();
    ok(manifest_add_path(m, file_join(&a, folder, "one"), "", NULL, &e) == 0, "a file is listed");
    int rc = manifest_hash(m, NULL, stop_soon, NULL, &e);
    ok(stopped_at > 0 && stopped_at < LEN,
       "progress is counted in the middle of a large file: %llu MiB",
       (unsigned long long)stopped_at >> 20);
    ok(rc < 0 && e.code == ERR_INTERRUPTED, "a large file is given up in the middle");
    manifest_free(m);
    (void)file_remove_tree(file_join(&a, folder, "one"), &e);
    arena_fini(&a);
}

static void test_threads(void) {
    struct err e;
    struct manifest *m;
    char *text = heap_alloc(3000001);
    memset(text, 'x', 3000000);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "large/%d", i);
        text[0] = (char)('a' + i);
        put(name, text, 0644);
    }
    m = scan("", true, NULL);
    unsigned char want[HASH_BYTES];
    text[0] = 'd';
    hash_of(want, text, 3000000);
    is_mem(find(m, "large/3")->hash, HASH_BYTES, want, HASH_BYTES, "threads hash each its file");
    manifest_free(m);
    m = manifest_new();
    ok(manifest_add_path(m, folder, "", NULL, &e) == 0, "a second scan succeeds");
    int rc = manifest_hash(m, NULL, stop_at_once, NULL, &e);
    ok(rc == 0 || e.code == ERR_INTERRUPTED, "the callback can stop it");
    manifest_free(m);
    m = manifest_new();
    is_int(manifest_add_path(m, "/nonexistent/x", "", NULL, &e), -1, "a missing folder is refused");
    is_int(e.code, ERR_NOT_FOUND, "a missing folder is a not-found error");
    manifest_free(m);
    free(text);
}

static void test_links(void) {
    static const struct {
        const char *path, *target;
        bool stays;
    } links[] = {
        {"l", "x", true},          {"l", "./x/y", true},         {"l", "x/", true},
        {"l", "..", false},        {"l", "../x", false},         {"l", "/etc/shadow", false},
        {"a/l", "..", true},       {"a/l", "../x", true},        {"a/l", "../..", false},
        {"a/l", ".././/x", true},  {"a/l", ".//../x", true},     {"a/b/l", "../../x", true},
        {"a/l", "../../x", false}, {"a/b/l", "x/../y", false},   {"a/l", "..x", true},
        {"l", "...", true},        {"a/b/l", "../../..", false},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        is_int(manifest_link_stays(links[i].path, links[i].target), links[i].stays, "%s -> %s",
               links[i].path, links[i].target);
    ok(manifest_names_own(".dtctl") && manifest_names_own("a/.dtctl/b") &&
           manifest_names_own("a/.dtctl") && !manifest_names_own("a/.dtctlignore") &&
           !manifest_names_own("a.dtctl/b"),
       "the own folder of dtctl is recognised");
}

// The digest covers every part of an entry.
static void test_digest(void) {
    static const struct manifest_entry base = {
        .path = "f", .kind = MANIFEST_FILE, .mode = 0644, .size = 3, .hash = {1}};
    struct manifest_entry others[6] = {base, base, base, base, base, base};
    unsigned char digests[7][HASH_BYTES];
    others[0].path = "g";
    others[1].mode = 0755;
    others[2].size = 4;
    others[3].hash[31] = 1;
    others[4] = (struct manifest_entry){.path = "f", .kind = MANIFEST_LINK, .target = "a"};
    others[5] = (struct manifest_entry){.path = "f", .kind = MANIFEST_LINK, .target = "b"};
    for (int i = 0; i < 7; i++) {
        struct manifest *m = manifest_new();
        struct err e;
        is_int(manifest_append(m, i ? &others[i - 1] : &base, &e), 0, "entry %d is taken", i);
        manifest_digest(m, digests[i]);
        manifest_free(m);
    }
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < i; k++)
            ok(memcmp(digests[i], digests[k], HASH_BYTES) != 0, "lists %d and %d differ", i, k);
}

static void test_sizes(void) {
    struct manifest_entry n = {.path = "f", .kind = MANIFEST_FILE, .size = MANIFEST_FILE_BYTES_MAX};
    struct manifest *m = manifest_new();
    struct err e;
    is_int(manifest_append(m, &n, &e), 0, "a file of the limit is taken");
    manifest_free(m);
    m = manifest_new();
    n.size++;
    is_int(manifest_append(m, &n, &e), -1, "a larger file is not");
    has_str(e.text, "the limit is", "the error has the limit");
    manifest_free(m);
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_links();
    test_digest();
    test_sizes();
    test_scan();
    test_order();
    test_threads();
    test_one_large();
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    return done_testing();
}
