// SPDX-License-Identifier: Apache-2.0
// The first words with a node: facts about it, the program that is installed, and verbs that
// follow.
#include "base/hash.h"
#include "tests/unit/node/verb_process.h"

static const char *hash_of_self(void) {
    unsigned char digest[HASH_BYTES];
    char *text, *hex = arena_new(&a, char, HASH_HEX_BYTES);
    size_t len;
    if (file_read(&a, "/proc/self/exe", 1 << 30, &text, &len, &error) < 0)
        bail_out("%s", error.text);
    hash_of(digest, text, len);
    hash_hex(hex, digest);
    return hex;
}

static int hello(const char *input, const char *words) {
    return verb(node_hello, input, words);
}

static void test_facts(void) {
    static const char *const members[] = {"program", "root",   "version",      "sha256",
                                          "arch",    "kernel", "hostname",     "user",
                                          "cpus",    "gpus",   "memory_bytes", "disk_free_bytes",
                                          "clock_ms"};
    struct json *j = NULL;
    begin();
    is_int(hello("", ""), 0, "a node says what it is");
    if (json_parse(&a, said, strlen(said), &j, &error) < 0)
        bail_out("%s", error.text);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        ok(json_get(j, members[i]), "the node has its %s", members[i]);
    is_str(json_get_str(j, "root", ""), root, "the root is absolute");
    is_str(json_get_str(j, "sha256", ""), hash_of_self(), "the program's hash is right");
    ok(json_get_int(j, "memory_bytes", 0) > 1 << 20, "the memory is in bytes");
    ok(json_get_int(j, "cpus", 0) > 0, "the node has processors");
    is_int(file_remove_tree(root, &error), 0, "the root is removed");
    is_int(hello("", ""), 0, "a node without a root makes it");
    ok(file_exists(root), "the root is there");
}

static void test_words(void) {
    begin();
    is_int(hello("", "--install x"), err_status(ERR_USAGE), "an installed program has a hash");
    is_int(hello("", "--install x --sha256 123"), err_status(ERR_USAGE), "a hash has 64 digits");
    is_int(hello("", "--unknown x"), err_status(ERR_USAGE), "unknown words are refused");
    is_int(hello("", "--sha256"), err_status(ERR_USAGE), "a word may lack its value");
    is_str(said, "", "nothing is answered then");
    is_int(hello("", arena_printf(&a, "--sha256 %s", hash_of_self())), 0,
           "a hash alone installs nothing");
}

// A program whose hash is another one has arrived damaged.
static void test_install(void) {
    begin();
    char *wrong = arena_strdup(&a, hash_of_self());
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    is_int(hello("", arena_printf(&a, "--install %s/to --sha256 %s", folder, wrong)),
           err_status(ERR_HASH), "a damaged program is refused");
    ok(!file_exists(file_join(&a, folder, "to")), "a damaged program is not installed");
}

static void test_stay(void) {
    begin();
    is_int(hello("", "--stay"), 0, "the connection may end before a verb");
    is_int(hello("status\n", "--stay"), err_status(ERR_USAGE),
           "only verbs of transfers may follow");
    is_int(hello("a-verb-of-many-letters\n", "--stay"), err_status(ERR_FORMAT),
           "a verb has an end");
    is_int(hello("half", "--stay"), 0, "half a verb is the end of the connection");
    ok(hello("push\nx", "--stay") != 0, "a transfer that is cut is a failure");
    is_int(hello("status\n", ""), 0, "verbs are read on request alone");
}

int main(void) {
    node_root_open();
    test_facts();
    test_words();
    test_install();
    test_stay();
    node_root_close();
    return done_testing();
}
