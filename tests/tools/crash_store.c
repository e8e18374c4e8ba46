// SPDX-License-Identifier: Apache-2.0
// crash_store SECONDS SEED FOLDER: what a power loss (crash.h) may leave of results that are
// fetched, and of stored content.
//
// Results: a record says that those of a version are here only when all of them are, as a whole; at
// no time is one of them a piece. Content: what was on the disk stays, and none is ever taken for
// what it is not.
#include "content/cas.h"
#include "content/tree_merge.h"
#include "tests/tools/crash.h"

enum { FILE_BYTES = 3000, LARGE_BYTES = 9000, FILES = 4, TEXT_BYTES_MAX = 10000 };

// The same text for the same number, of any length.
static const char *text_of(int number, size_t len) {
    static char text[TEXT_BYTES_MAX];
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + (number * 7 + (int)i / 100) % 26);
    return text;
}

// ---- results ------------------------------------------------------------------------------------
static const char *const nodes[] = {"node0", "node1", NULL};
static const char *const files[FILES] = {"node0/a", "node0/sub/b", "node1/c", "node1/sub/d"};

static void put_record(int version) {
    char path[FILE_PATH_BYTES_MAX], text[16];
    struct err e;
    snprintf(path, sizeof path, "%s/run.toml", root);
    if (file_write_atomic(path, text, (size_t)snprintf(text, sizeof text, "%d\n", version), 0644,
                          &e) < 0)
        bail_out("%s", e.text);
}

// As they arrive: nothing of it is on the disk for sure.
static void receive(struct arena *a, int version) {
    struct err e;
    for (int i = 0; i < FILES; i++) {
        const char *path = arena_printf(a, "%s/incoming/%s", root, files[i]);
        if (file_make_dirs(file_dir(a, path), 0755, &e) < 0)
            bail_out("%s", e.text);
        auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 || file_write_all(fd, text_of(version * FILES + i, FILE_BYTES), FILE_BYTES, &e))
            bail_out("cannot write %s", path);
    }
}

static void fetch(const struct scenario *c, int version) {
    struct arena a = {0};
    struct err e;
    const char *out = arena_printf(&a, "%s/out", root);
    const char *folders[] = {arena_printf(&a, "%s/incoming/node0", root),
                             arena_printf(&a, "%s/incoming/node1", root), NULL};
    put_record(c->too_early ? version : 0);
    receive(&a, version);
    if (tree_merge(out, folders, nodes, &(struct content_ticks){0}, &e) < 0 ||
        file_sync_disk(out, &e) < 0)
        bail_out("%s", e.text);
    put_record(version);
    arena_fini(&a);
}

// The version of one file; 0: it is not there, -1: it is a piece.
static int version_of(const char *dir, int i) {
    struct arena a = {0};
    struct err e;
    char *text;
    size_t len;
    int found = -1;
    const char *path = arena_printf(&a, "%s/out/%s", dir, strchr(files[i], '/') + 1);
    if (file_read(&a, path, TEXT_BYTES_MAX, &text, &len, &e) < 0)
        found = 0;
    for (int v = 1; v < VERSIONS && found < 0; v++)
        if (len == FILE_BYTES && memcmp(text, text_of(v * FILES + i, len), len) == 0)
            found = v;
    arena_fini(&a);
    return found;
}

// Where the record says nothing of the results, the nodes have them: the version that comes next.
static int read_results(const char *dir) {
    struct arena a = {0};
    struct err e;
    char *text = NULL;
    size_t len;
    bool there = file_read(&a, file_join(&a, dir, "run.toml"), 16, &text, &len, &e) == 0;
    int record = there ? text[0] - '0' : 0;
    if (there && (len != 2 || record < 0 || record >= VERSIONS))
        record = VERSIONS;
    arena_fini(&a);
    for (int i = 0; i < FILES; i++) {
        int version = version_of(dir, i);
        if (version < 0 || version < record)
            return -1;
    }
    return record ? record : VERSIONS;
}

// ---- content ------------------------------------------------------------------------------------
// Three pieces of each version: two that go into a pack, and a file of its own.
enum { PIECES = 3, LARGE = 2 };

static size_t piece(int version, int i, unsigned char hash[HASH_BYTES], const char **text) {
    size_t len = i == LARGE ? LARGE_BYTES : FILE_BYTES;
    *text = text_of(100 + version * PIECES + i, len);
    hash_of(hash, *text, len);
    return len;
}

static int add_large(struct cas *c, const unsigned char *hash, const char *text, struct err *e) {
    struct cas_part part;
    const char *path;
    if (cas_part_open(c, &part, hash, LARGE_BYTES, e) < 0)
        return -1;
    int rc = cas_part_write(&part, 0, text, LARGE_BYTES, e);
    if (rc == 0 && cas_part_hash(&part, LARGE_BYTES, e) < 0)
        rc = -1;
    if (rc == 0)
        rc = cas_part_finish(c, &part, &path, e);
    cas_part_close(&part);
    return rc;
}

// Merges the packs into one each time, as happens with many packs.
static void store(const struct scenario *c, int version) {
    struct arena a = {0};
    struct cas cas;
    struct err e;
    const char *dir = arena_printf(&a, "%s/cas", root), *text;
    unsigned char hash[HASH_BYTES];
    (void)c;
    bool good = cas_open(&cas, dir, &e) == 0 && cas_load(&cas, &e) == 0 &&
                (version == 1 || cas_rewrite(&cas, NULL, NULL, &e) == 0);
    for (int i = 0; i < PIECES && good; i++) {
        size_t len = piece(version, i, hash, &text);
        good = (i == LARGE ? add_large(&cas, hash, text, &e)
                           : cas_add_small(&cas, hash, text, len, &e)) == 0;
    }
    if (!good || cas_close(&cas, false, &e) < 0 || file_sync_disk(dir, &e) < 0)
        bail_out("%s", e.text);
    arena_fini(&a);
}

// 1 it is there and is what its name says, 0 it is not there, -1.
static int read_piece(struct cas *c, int version, int i) {
    static char got[LARGE_BYTES];
    unsigned char hash[HASH_BYTES];
    struct err e;
    const char *text;
    size_t len = piece(version, i, hash, &text);
    if (i != LARGE) {
        if (!cas_has_small(c, hash, len) || cas_read_small(c, hash, got, len, &e) < 0)
            return 0;
        return memcmp(got, text, len) == 0 ? 1 : -1;
    }
    if (!cas_has_object(c, hash, len))
        return 0;
    auto_close int fd = open(cas_object_path(c, hash), O_RDONLY | O_CLOEXEC);
    return fd >= 0 && file_read_all(fd, got, len, &e) == 0 && memcmp(got, text, len) == 0 ? 1 : -1;
}

// The last version of which all is there, with all of those before.
static int read_store(const char *dir) {
    struct arena a = {0};
    struct cas cas;
    struct err e;
    int whole = 0, pieces = 0;
    if (cas_open(&cas, arena_printf(&a, "%s/cas", dir), &e) < 0 || cas_load(&cas, &e) < 0)
        bail_out("%s", e.text);
    for (int v = 1; v < VERSIONS && pieces >= 0; v++) {
        pieces = 0;
        for (int i = 0; i < PIECES && pieces >= 0; i++) {
            int found = read_piece(&cas, v, i);
            pieces = found < 0 ? -1 : pieces + found;
        }
        whole += whole == v - 1 && pieces == PIECES;
    }
    cas_close(&cas, false, &e);
    arena_fini(&a);
    return pieces < 0 ? -1 : whole;
}

#define RESULTS .write = fetch, .read = read_results
#define CONTENT .write = store, .read = read_store

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"results that are fetched", RESULTS},
        {"stored content", CONTENT},
        {"the record comes before the results", RESULTS, .too_early = true},
        {"results without sync", RESULTS, .no_sync = true},
        {"stored content without sync", CONTENT, .no_sync = true},
    };
    return crash_main(argc, argv, all, sizeof all / sizeof all[0]);
}
