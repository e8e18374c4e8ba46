// SPDX-License-Identifier: Apache-2.0
// Old content of a node's store: which files keep it, its age, dry runs, and refusals. A verb runs
// in a process of its own, as on a node.
#include "content/cas.h"
#include "tests/unit/node/verb_process.h"

#include <sys/stat.h>

#define PRUNE(words) verb(node_prune, "", words)

static struct cas cas;

static void store(const char *text) {
    unsigned char hash[HASH_BYTES];
    hash_of(hash, text, strlen(text));
    if (cas_add_small(&cas, hash, text, strlen(text), &error) < 0)
        bail_out("%s", error.text);
}

// The store knows the content of the file.
static void place(const char *path, const char *text) {
    unsigned char hash[HASH_BYTES];
    struct stat st;
    put(path, text);
    hash_of(hash, text, strlen(text));
    if (lstat(in(path), &st) < 0)
        bail_out("no file '%s'", path);
    hash_cache_put(cas.hashes, &st, hash, HASH_CACHE_OWN);
}

static bool has(const char *text) {
    unsigned char hash[HASH_BYTES];
    struct cas c;
    hash_of(hash, text, strlen(text));
    if (cas_open(&c, in("cas"), &error) < 0 || cas_load(&c, &error) < 0)
        bail_out("%s", error.text);
    bool there = cas_has_small(&c, hash, strlen(text));
    (void)cas_close(&c, false, &error);
    return there;
}

// Content of five files, of which two are nowhere else.
static void begin_store(void) {
    begin();
    if (file_make_dirs(in("cas"), 0700, &error) < 0 || cas_open(&cas, in("cas"), &error) < 0 ||
        cas_load(&cas, &error) < 0)
        bail_out("%s", error.text);
    static const char *const all[] = {"at the top", "deep", "in a folder", "gone", "of the store"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        store(all[i]);
    place("top", "at the top");
    place("runs/cas/file", "in a folder");
    place("a/b/c/d/e/file", "deep");
    place("cas/file", "of the store");
    if (cas_flush(&cas, &error) < 0 || hash_cache_save(cas.hashes, &error) < 0 ||
        cas_close(&cas, false, &error) < 0)
        bail_out("%s", error.text);
}

static void test_content(void) {
    begin_store();
    is_int(PRUNE("--older-than-ms 3600000"), 0, "young content is pruned: %s", said);
    is_str(said, "{\"event\":\"pruned\",\"removed\":0,\"removed_bytes\":0}",
           "no young content is removed");
    is_int(PRUNE("--older-than-ms 0 --dry-run"), 0, "a dry run of pruning succeeds");
    is_str(said, "{\"event\":\"pruned\",\"removed\":2,\"removed_bytes\":16}",
           "a dry run counts the content of no file");
    ok(has("gone") && has("of the store"), "a dry run removes nothing");
    is_int(PRUNE("--older-than-ms 0"), 0, "content is pruned");
    is_str(said, "{\"event\":\"pruned\",\"removed\":2,\"removed_bytes\":16}",
           "the content of no file is counted");
    ok(!has("gone"), "the content of no file is removed");
    ok(!has("of the store"), "files of the store itself keep no content");
    ok(has("at the top") && has("in a folder") && has("deep"),
       "the content of files stays, wherever they are");
}

static void test_none(void) {
    begin();
    is_int(PRUNE("--older-than-ms 0"), 0, "a node may have no store");
    is_str(said, "{\"event\":\"pruned\",\"removed\":0,\"removed_bytes\":0}",
           "nothing of no store is removed");
    put("cas", "no folder");
    ok(PRUNE("--older-than-ms 0") > 0, "a store that is no folder is an error");
}

static void test_words(void) {
    static const struct {
        const char *words;
        int status;
    } rows[] = {{"--older-than-ms 0", 0},
                {"--older-than-ms 4611686018427", 0},
                {"--older-than-ms 4611686018428", 1},
                {"--older-than-ms -1", 1},
                {"--older-than-ms x", 1},
                {"--older-than-ms", 2},
                {"--dry-run", 2},
                {"--older 5", 2},
                {"", 2}};
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_int(PRUNE(rows[i].words), rows[i].status, "the words '%s' have their status",
               rows[i].words);
    char *argv[] = {arena_strdup(&a, "prune"), arena_strdup(&a, "--older-than-ms"),
                    arena_strdup(&a, "0")};
    is_int(node_prune(&(struct node_call){.argc = 3, .argv = argv}), err_status(ERR_USAGE),
           "a root is needed");
}

int main(void) {
    node_root_open();
    test_content();
    test_none();
    test_words();
    node_root_close();
    return done_testing();
}
