// SPDX-License-Identifier: Apache-2.0
// Sealed records: what comes back is what went in, for who has the key and asks for the same kind;
// everything else is refused. AES-256-GCM by a vector of NIST.
#include "base/hash.h"
#include "provider/cluster_backup.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>
#include <unistd.h>

static const unsigned char KEY[AES_GCM_KEY_BYTES] = "0123456789abcdef0123456789abcde";

// GCM test case 13 and 14 of the specification (key, nonce and text all zero), purpose "".
static void vectors(void) {
    static const unsigned char zeros[AES_GCM_KEY_BYTES + AES_GCM_NONCE_BYTES];
    static const char *const empty = "530f8afbc74536b9a963b4f1c4cb738b",
                             *const block = "cea7403d4d606b6e074ec5d3baf39d18"
                                            "d0d1c8a799996bf0265b98b5d48ab919";
    unsigned char sealed[AES_GCM_NONCE_BYTES + 32] = {0}, out[32];
    struct err e = {0};
    size_t len = 99;
    must(str_unhex(sealed + AES_GCM_NONCE_BYTES, 16, empty, &e) == 0);
    is_int(aes_gcm_open(out, &len, zeros, "", sealed, AES_GCM_NONCE_BYTES + 16, &e), 0,
           "case 13 opens");
    is_int((intmax_t)len, 0, "case 13 is an empty text");
    must(str_unhex(sealed + AES_GCM_NONCE_BYTES, 32, block, &e) == 0);
    is_int(aes_gcm_open(out, &len, zeros, "", sealed, sizeof sealed, &e), 0, "case 14 opens");
    is_mem(out, len, zeros, 16, "case 14 has its text");
}

static void round_trips(struct arena *a) {
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 1000, 100000};
    struct err e = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *text = arena_new(a, char, sizes[i] + 1), *back;
        const char *line;
        size_t len;
        for (size_t k = 0; k < sizes[i]; k++)
            text[k] = (char)(k * 7);
        is_int(cluster_backup_close(a, KEY, RECORD_RUN, text, sizes[i], &line, &e), 0,
               "%zu bytes are sealed", sizes[i]);
        is_int(cluster_backup_kind_of(line, strlen(line) - 1), RECORD_RUN,
               "the kind of the record is recognised");
        is_int(cluster_backup_open(a, KEY, RECORD_RUN, line, strlen(line) - 1, &back, &len, &e), 0,
               "the record opens");
        is_mem(back, len, text, sizes[i], "the opened record equals the text");
        is_int(back[len], 0, "the text ends with a NUL");
    }
}

// Every single bit of the sealed bytes counts, and so do key, purpose and length.
static void changes(void) {
    unsigned char sealed[24 + AES_GCM_OVERHEAD_BYTES], out[sizeof sealed], other[AES_GCM_KEY_BYTES];
    static const char text[24] = "a text that must be kept";
    struct err e = {0};
    size_t len, opened = 0;
    must(aes_gcm_close(sealed, KEY, "run", text, sizeof text, &e) == 0);
    is_int(aes_gcm_open(out, &len, KEY, "run", sealed, sizeof sealed, &e), 0,
           "a sealed record opens");
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) {
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        opened += aes_gcm_open(out, &len, KEY, "run", sealed, sizeof sealed, &e) == 0;
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    is_int((intmax_t)opened, 0, "a record with any bit flipped does not open");
    is_int(e.code, ERR_AUTH, "a changed record is an authentication error");
    is_int((intmax_t)len, 0, "a changed record gives no bytes");
    ok(memcmp(out, text, 8) != 0, "a changed record leaves no plain text in the buffer");
    for (size_t n = 0; n < sizeof sealed; n++)
        opened += aes_gcm_open(out, &len, KEY, "run", sealed, n, &e) == 0;
    is_int((intmax_t)opened, 0, "a truncated record does not open");
    memcpy(other, KEY, sizeof other);
    other[31] ^= 1;
    is_int(aes_gcm_open(out, &len, other, "run", sealed, sizeof sealed, &e), -1,
           "another key does not open a record");
    is_int(aes_gcm_open(out, &len, KEY, "cluster", sealed, sizeof sealed, &e), -1,
           "another purpose does not open a record");
    unsigned char again[sizeof sealed];
    must(aes_gcm_close(again, KEY, "run", text, sizeof text, &e) == 0);
    ok(memcmp(again, sealed, sizeof sealed) != 0, "no two seals are alike");
}

static void refused(struct arena *a, const char *line, const char *what) {
    struct err e = {0};
    char *text;
    size_t len;
    is_int(cluster_backup_open(a, KEY, RECORD_CLUSTER, line, strlen(line), &text, &len, &e), -1,
           "%s", what);
    ok(e.code == ERR_FORMAT || e.code == ERR_AUTH, "%s: the error has its kind", what);
}

static void lines(struct arena *a) {
    const char *run;
    struct err e = {0};
    must(cluster_backup_close(a, KEY, RECORD_RUN, "x", 1, &run, &e) == 0);
    refused(a, arena_strndup(a, run, strlen(run) - 1), "a run's record as a cluster's");
    refused(a, "", "nothing");
    refused(a, "dtctl-record-1", "a head alone");
    refused(a, "dtctl-record-1 cluster ", "nothing sealed");
    refused(a, "dtctl-record-1 cluster AAAA", "too short");
    refused(a, "dtctl-record-1 cluster !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "no base64");
    refused(a, "dtctl-record-2 cluster AAAA", "a later format");
    const char *renamed =
        arena_printf(a, "dtctl-record-1 cluster %s", run + strlen("dtctl-record-1 run "));
    refused(a, arena_strndup(a, renamed, strlen(renamed) - 1),
            "a run's record that was relabelled");
    is_int(cluster_backup_kind_of("dtctl-record-1 clusters AAAA", 28), -1,
           "an unknown kind is no record");
}

static void keys(struct arena *a) {
    static const char good[] = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n"
                               "-----END OPENSSH PRIVATE KEY-----\n",
                      same[] = "\r\n-----BEGIN OPENSSH PRIVATE KEY-----\r\nAAAABB\r\nBB\r\n"
                               "-----END OPENSSH PRIVATE KEY-----",
                      other[] = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBC\n"
                                "-----END OPENSSH PRIVATE KEY-----\n",
                      none[] = "ssh-ed25519 AAAA you@here\n";
    unsigned char first[AES_GCM_KEY_BYTES], second[AES_GCM_KEY_BYTES];
    struct err e = {0};
    must(file_write_atomic("key", good, strlen(good), 0600, &e) == 0);
    must(file_write_atomic("same", same, strlen(same), 0600, &e) == 0);
    must(file_write_atomic("other", other, strlen(other), 0600, &e) == 0);
    must(file_write_atomic("none", none, strlen(none), 0600, &e) == 0);
    is_int(cluster_backup_key(a, "key", first, &e), 0, "a private key is read");
    is_int(cluster_backup_key(a, "same", second, &e), 0,
           "a private key with other line breaks is read");
    is_mem(second, sizeof second, first, sizeof first, "both give the same key");
    is_int(cluster_backup_key(a, "other", second, &e), 0, "another private key is read");
    ok(memcmp(first, second, sizeof first) != 0, "another private key gives another seal");
    is_int(cluster_backup_key(a, "none", second, &e), -1, "a public key is refused");
    is_str(e.text, "'none' is no private key", "the error says that the text is no private key");
    is_int(cluster_backup_key(a, "absent", second, &e), -1, "a missing private key is refused");
}

int main(void) {
    struct arena a = {0};
    char dir[] = "/tmp/dtctl-record-XXXXXX";
    must(mkdtemp(dir) && chdir(dir) == 0);
    vectors();
    round_trips(&a);
    changes();
    lines(&a);
    keys(&a);
    struct err e = {0};
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
