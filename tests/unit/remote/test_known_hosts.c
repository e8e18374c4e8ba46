// SPDX-License-Identifier: Apache-2.0
// known_hosts: lines that ssh-keygen and ssh-keyscan made, and what each of them must mean.
#include "base/base64.h"
#include "remote/known_hosts.h"
#include "tests/tap.h"

#include <openssl/crypto.h>
#include <stdlib.h>

// Made with ssh-keygen -t ed25519 / ecdsa; fingerprints from ssh-keygen -l.
#define KEY_A                                                                                      \
    "ssh-ed25519 "                                                                                 \
    "AAAAC3NzaC1lZDI1NTE5AAAAIJGPg+HQgkfguMBgRLA/ILbKE3m6jlkCTbtJiAm5723E"
#define FINGERPRINT_A "SHA256:z1w5eKpJBkz3HdkRBwXOEYW0CzER1F+5AgjsyWt5CZM"
#define KEY_B                                                                                      \
    "ssh-ed25519 "                                                                                 \
    "AAAAC3NzaC1lZDI1NTE5AAAAINkcZAJftEISsLHI53oXuwq5zrcVcMbv/PoAh+YNtzoW"
#define KEY_C                                                                                      \
    "ecdsa-sha2-nistp256 "                                                                         \
    "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBI+pIdTxjvdtBPEqjE"                       \
    "BA24HGzH6DcqakVJh6Z3rDYvCRh+45p/vxHFh8ZANoTxGpN8S6tgnS73j4jX7wBUg+yy8="
// ssh-keygen -H of "gpu01 KEY_A" and of "[gpu01]:2200 KEY_B"
#define HASHED_A "|1|IvdmWE38fTUG/hDNjt05gyzKTFA=|J6DRC0ehntZTEWalhII/uTVxcQ0= " KEY_A
#define HASHED_B "|1|EZ8r3W6DnoNpEGAEkUi3lCyq69M=|8CpM4PdV900pfBBkvF4s09DLeRc= " KEY_B

static struct arena arena;
static size_t allocations; // of libcrypto

static void *count_malloc(size_t bytes, const char *file, int line) {
    (void)file, (void)line;
    allocations++;
    return malloc(bytes);
}

static void *count_realloc(void *p, size_t bytes, const char *file, int line) {
    (void)file, (void)line;
    allocations++;
    return realloc(p, bytes);
}

static void plain_free(void *p, const char *file, int line) {
    (void)file, (void)line;
    free(p);
}

static struct known_hosts_found search(const char *text, const char *name, int port,
                                       const char *key) {
    struct known_hosts_found f = {0};
    struct err e;
    void *blob = NULL;
    size_t len = 0;
    if (key && known_hosts_parse_key(&arena, key, &blob, &len, &e) < 0)
        fail("the key of the test cannot be parsed: %s", e.text);
    known_hosts_search("file", text, strlen(text), name, port, blob, len, &f);
    return f;
}

static void test_names(void) {
    ok(search("gpu01 " KEY_A "\n", "gpu01", 22, KEY_A).match, "a plain name is found");
    ok(search("other,gpu01,x " KEY_A " comment", "gpu01", 22, KEY_A).match,
       "a list without a newline is read");
    ok(search("gpu01 " KEY_A "\n", "GPU01", 22, KEY_A).match, "names have no case");
    ok(!search("gpu01 " KEY_A "\n", "gpu011", 22, KEY_A).match, "a longer name is another one");
    ok(search("gpu* " KEY_A "\n", "gpu01", 22, KEY_A).match, "a wildcard matches");
    ok(!search("*,!gpu01 " KEY_A "\n", "gpu01", 22, KEY_A).match, "an exclusion prevents a match");
    ok(search("[gpu01]:2200 " KEY_A "\n", "gpu01", 2200, KEY_A).match,
       "a port is part of the name");
    ok(!search("[gpu01]:2200 " KEY_A "\n", "gpu01", 22, KEY_A).match,
       "a key for another port does not match port 22");
    ok(search("gpu01 " KEY_A "\n", "gpu01", 2200, KEY_A).match,
       "a plain name is good for any port");
    ok(!search("gpu01 " KEY_A "\n", "gpu01", 2200, KEY_B).differs,
       "a plain name's key for another port is not a contradiction");
    ok(search(HASHED_A "\n", "gpu01", 22, KEY_A).match, "a hashed name is found");
    ok(!search(HASHED_A "\n", "gpu02", 22, KEY_A).match,
       "a hashed name does not match another name");
    ok(search(HASHED_B "\n", "gpu01", 2200, KEY_B).match, "a hashed name with a port is found");
}

// Every connection looks at each hashed line, so a cluster looks at the square of its nodes.
static void test_cost(void) {
    enum { SEARCHES = 100 };
    int found = 0;
    search(HASHED_A "\n", "gpu01", 22, NULL); // libcrypto may set itself up
    allocations = 0;
    for (int i = 0; i < SEARCHES; i++)
        found += search(HASHED_A "\n", "gpu01", 22, NULL).types != 0;
    is_int(found, SEARCHES, "a hashed name is found each time");
    is_uint(allocations, 0, "a hashed line costs no memory");
}

static void test_verdicts(void) {
    struct known_hosts_found f = search("# c\n\ngpu01 " KEY_B "\n", "gpu01", 22, KEY_A);
    ok(f.differs && !f.match, "another key differs");
    is_int(f.differs_line, 3, "the line of the other key is reported");
    is_str(arena_strndup(&arena, f.differs_key, f.differs_key_len), KEY_B,
           "the other key is reported");
    f = search("gpu01 " KEY_B "\ngpu01 " KEY_A "\n", "gpu01", 22, KEY_A);
    ok(f.match && !f.differs, "one matching key of two is enough");
    f = search("gpu01 " KEY_C "\n", "gpu01", 22, KEY_A);
    ok(f.differs, "a key of another type differs too");
    is_uint(f.types, 1U << KNOWN_HOSTS_ECDSA_256, "the key types on file are reported");
    f = search("@revoked * " KEY_A "\ngpu01 " KEY_A "\n", "gpu01", 22, KEY_A);
    ok(f.revoked, "revoked wins");
    f = search("@revoked * " KEY_B "\ngpu01 " KEY_A "\n", "gpu01", 22, KEY_A);
    ok(f.match && !f.revoked && !f.differs, "a revoked other key does not matter");
    f = search("@cert-authority *.lab " KEY_A "\n", "a.lab", 22, KEY_A);
    ok(f.authority && !f.match && !f.differs, "an authority is no key");
    f = search("gpu01\ngpu01 x\n\x01\xff|1|a|b c d\n|1| " KEY_A "\n@x gpu01 " KEY_A "\n", "gpu01",
               22, KEY_A);
    ok(!f.match && !f.differs && !f.revoked, "lines that are not understood mean nothing");
}

static void test_text(void) {
    struct err e;
    void *blob;
    size_t len;
    char fingerprint[KNOWN_HOSTS_FINGERPRINT_BYTES];
    is_int(known_hosts_parse_key(&arena, KEY_A " me@here\n", &blob, &len, &e), 0,
           "a line of a .pub file is parsed");
    known_hosts_fingerprint(fingerprint, blob, len);
    is_str(fingerprint, FINGERPRINT_A, "the fingerprint is the one that ssh-keygen gives");
    is_str(known_hosts_format(&arena, "Gpu01", 22, blob, len), "gpu01 " KEY_A "\n",
           "a line is written");
    is_str(known_hosts_format(&arena, "gpu01", 22000, blob, len), "[gpu01]:22000 " KEY_A "\n",
           "a line with a port is written");
    is_int(known_hosts_parse_key(
               &arena,
               "ssh-rsa "
               "AAAAC3NzaC1lZDI1NTE5AAAAIJGPg+HQgkfguMBgRLA/ILbKE3m6jlkCTbtJiAm5723E",
               &blob, &len, &e),
           -1, "the type must be the one inside");
    is_int(known_hosts_parse_key(&arena, "ssh-ed25519", &blob, &len, &e), -1,
           "a line without a key is refused");
    is_int(known_hosts_parse_key(&arena, "ssh-ed25519 ====", &blob, &len, &e), -1,
           "a key that is not base64 is refused");
}

static void test_base64(void) {
    static const char *const pairs[][2] = {// RFC 4648, section 10
                                           {"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char out[16];
        size_t n = strlen(pairs[i][0]);
        base64_encode(out, pairs[i][0], n);
        is_str(out, pairs[i][1], "'%s' is encoded", pairs[i][0]);
        is_int(base64_decode(out, pairs[i][1], strlen(pairs[i][1])), (int)n,
               "the decoded text has its length");
        is_mem(out, n, pairs[i][0], n, "the text is decoded");
    }
    char out[16];
    is_int(base64_decode(out, "Zg=", 3), -1, "a wrong length is refused");
    is_int(base64_decode(out, "Z===", 4), -1, "too much padding is refused");
    is_int(base64_decode(out, "Z\ng=", 4), -1, "a foreign character is refused");
}

int main(void) {
    must(CRYPTO_set_mem_functions(count_malloc, count_realloc, plain_free));
    test_names();
    test_cost();
    test_verdicts();
    test_text();
    test_base64();
    arena_fini(&arena);
    return done_testing();
}
