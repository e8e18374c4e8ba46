// SPDX-License-Identifier: Apache-2.0
// New keys are read byte by byte as PROTOCOL.key of OpenSSH describes them; keys of others are cut
// and changed.
#include "remote/ssh_key.h"

#include "base/base64.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 32, COMMENT_BYTES_MAX = 128, LINE_CHARS = 70 };

static struct arena a;
static struct err e;
static char folder[] = "/tmp/test_ssh_key.XXXXXX";

static const char *in_folder(const char *name) {
    return file_join(&a, folder, name);
}

static const char *comment_of(size_t len) {
    char *text = arena_new(&a, char, len + 1);
    memset(text, 'c', len);
    return text;
}

// ---- the format ---------------------------------------------------------------------------------

static const unsigned char *at, *end;

static size_t number(void) {
    if (end - at < 4)
        bail_out("a number is cut");
    at += 4;
    return (size_t)at[-4] << 24 | (size_t)at[-3] << 16 | (size_t)at[-2] << 8 | at[-1];
}

static const unsigned char *bytes(size_t len) {
    if ((size_t)(end - at) < len)
        bail_out("%zu bytes are cut", len);
    at += len;
    return at - len;
}

static bool text_is(const char *want) {
    size_t len = number();
    return len == strlen(want) && memcmp(bytes(len), want, len) == 0;
}

// The key of the private bytes is that of the public ones.
static bool is_pair(const unsigned char *secret, const unsigned char *public) {
    unsigned char made[KEY_BYTES];
    size_t len = sizeof made;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, KEY_BYTES);
    bool fine = key && EVP_PKEY_get_raw_public_key(key, made, &len) == 1 &&
                memcmp(made, public, KEY_BYTES) == 0;
    EVP_PKEY_free(key);
    return fine;
}

static const unsigned char *read_private_part(const char *comment) {
    size_t len = number();
    ok(len == (size_t)(end - at) && len % 8 == 0, "the private part is the rest, in blocks of 8");
    size_t check = number();
    is_uint(number(), check, "two check words are equal");
    ok(text_is("ssh-ed25519"), "the private part has the type");
    is_uint(number(), KEY_BYTES, "the private part has a public key");
    const unsigned char *public = bytes(KEY_BYTES);
    is_uint(number(), 2 * KEY_BYTES, "the private key has both parts");
    const unsigned char *secret = bytes(KEY_BYTES);
    ok(memcmp(bytes(KEY_BYTES), public, KEY_BYTES) == 0, "the public key follows the secret");
    ok(is_pair(secret, public), "the secret belongs to the public key");
    ok(text_is(comment), "the comment is in the key");
    bool fine = end - at < 8;
    for (int pad = 1; at < end; pad++)
        fine = *bytes(1) == pad && fine;
    ok(fine, "the padding counts from 1, and is shorter than a block");
    return public;
}

static void test_format(const char *comment) {
    struct ssh_key key;
    size_t len, longest = 0, rows = 0, short_rows = 0;
    is_int(ssh_key_make(&a, comment, &key, &e), 0, "a key with a comment of %zu bytes is made",
           strlen(comment));
    is_int(strncmp(key.private_key, "-----BEGIN OPENSSH PRIVATE KEY-----\n", 36), 0,
           "the first line names OpenSSH");
    has_str(key.private_key, "\n-----END OPENSSH PRIVATE KEY-----\n", "the last line ends the key");
    char **lines;
    size_t count = str_split(&a, key.private_key, '\n', &lines);
    for (size_t i = 1; i + 2 < count; i++, rows++) {
        longest = strlen(lines[i]) > longest ? strlen(lines[i]) : longest;
        short_rows += strlen(lines[i]) < LINE_CHARS;
    }
    ok(longest == LINE_CHARS && short_rows <= 1 && rows > 4, "only the last line is short");
    char *body = ssh_key_body(&a, key.private_key, &len);
    unsigned char *raw = arena_new(&a, unsigned char, BASE64_DECODED_MAX(len));
    long n = base64_decode(raw, body, len);
    at = raw;
    end = raw + n;
    ok(n > 15 && memcmp(bytes(15), "openssh-key-v1", 15) == 0, "the magic ends with a NUL");
    ok(text_is("none") && text_is("none") && text_is(""), "no cipher, no passphrase, no options");
    is_uint(number(), 1, "there is one key");
    is_uint(number(), 4 + 11 + 4 + KEY_BYTES, "the public blob has a type and a key");
    const unsigned char *blob = at;
    ok(text_is("ssh-ed25519") && number() == KEY_BYTES, "the public blob has the type");
    const unsigned char *public = bytes(KEY_BYTES);
    ok(memcmp(read_private_part(comment), public, KEY_BYTES) == 0,
       "both parts have the same public key");
    char encoded[BASE64_ENCODED_BYTES(51)];
    base64_encode(encoded, blob, 51);
    is_str(key.public_key, arena_printf(&a, "ssh-ed25519 %s %s", encoded, comment),
           "the public line has type, blob and comment");
    const char *again;
    ok(ssh_key_public(&a, key.private_key, comment, &again, &e) == 0 &&
           strcmp(again, key.public_key) == 0,
       "the public line is made again from the private key");
}

static void test_comments(void) {
    struct ssh_key one, two;
    for (size_t len = 0; len < 8; len++)
        test_format(comment_of(len));
    test_format(comment_of(COMMENT_BYTES_MAX));
    is_int(ssh_key_make(&a, comment_of(COMMENT_BYTES_MAX + 1), &one, &e), -1,
           "a longer comment is refused");
    is_int(e.code, ERR_LIMIT, "a long comment is an error of limits");
    if (ssh_key_make(&a, "x", &one, &e) < 0 || ssh_key_make(&a, "x", &two, &e) < 0)
        bail_out("%s", e.text);
    ok(strcmp(one.public_key, two.public_key) != 0, "two keys differ");
}

// ---- keys of others -----------------------------------------------------------------------------

static void test_body(void) {
    static const char *const none[] = {"", "PRIVATE KEY-----", "x-----END PRIVATE KEY-----",
                                       "-----END x\n-----BEGIN PRIVATE KEY-----\nabc\n"};
    size_t len = 77;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!ssh_key_body(&a, none[i], &len), "text %zu is no private key", i);
    const char *body = ssh_key_body(
        &a, "words\n-----BEGIN RSA PRIVATE KEY-----\n a b\tc\r\nd\n-----END x\nmore", &len);
    is_mem(body, len, "abcd", 4, "white space is left out of the body");
    body = ssh_key_body(&a, "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----", &len);
    ok(body && len == 0, "a body may be empty");
}

// The part before the private one, by hand.
#define OUTSIDE(cipher) "openssh-key-v1\0" cipher "\0\0\0\4none\0\0\0\0\0\0\0\1\0\0\0\3abc"

static void test_outside(void) {
    static const char plain[] = OUTSIDE("\0\0\0\4none"), sealed[] = OUTSIDE("\0\0\0\4nine");
    static const char longer[] = OUTSIDE("\0\0\0\5none2"), shorter[] = OUTSIDE("\0\0\0\3non");
    struct ssh_key_outside k;
    size_t len = sizeof plain - 1, whole = 0, open = 0;
    ok(ssh_key_read_outside(plain, len, &k), "a key of OpenSSH is known");
    ok(!k.encrypted, "a key without a cipher is open");
    is_mem(k.public_blob, k.public_len, "abc", 3, "the public blob is inside");
    ok(ssh_key_read_outside(sealed, len, &k) && k.encrypted, "another cipher of four is one");
    ok(ssh_key_read_outside(longer, len + 1, &k) && k.encrypted, "a longer cipher is one");
    ok(ssh_key_read_outside(shorter, len - 1, &k) && k.encrypted, "a shorter cipher is one");
    for (size_t cut = 0; cut < len; cut++) {
        bool known = ssh_key_read_outside(plain, cut, &k);
        open += known != (cut >= 15);
        whole += k.public_blob != NULL;
    }
    is_uint(open, 0, "a key that is cut behind its magic is still one of OpenSSH");
    is_uint(whole, 0, "a key that is cut has no public blob");
    static const char far[] = "openssh-key-v1\0\0\0\0\4none\0\0\0\4none\0\0\0\0\0\0\0\1\1\0\0\3abc";
    ok(ssh_key_read_outside(far, sizeof far - 1, &k) && !k.public_blob,
       "a length of more than the bytes has no public blob");
    enum { BLOB_BYTES = 0x10203, HEAD_BYTES = sizeof plain - 1 - 7 };
    char *large = arena_new(&a, char, HEAD_BYTES + 4 + BLOB_BYTES);
    memcpy(large, plain, HEAD_BYTES);
    memcpy(large + HEAD_BYTES, "\0\1\2\3", 4);
    ok(ssh_key_read_outside(large, HEAD_BYTES + 4 + BLOB_BYTES, &k) && k.public_blob,
       "a large public blob is inside");
    is_uint(k.public_len, BLOB_BYTES, "each byte of its length counts");
    char other[sizeof plain];
    memcpy(other, plain, sizeof other);
    other[14] = 1;
    ok(!ssh_key_read_outside(other, len, &k), "another magic is another format");
}

static const char *armored(const char *raw, size_t len) {
    char *encoded = arena_new(&a, char, BASE64_ENCODED_BYTES(len));
    base64_encode(encoded, raw, len);
    return arena_printf(&a, "-----BEGIN x PRIVATE KEY-----\n%s\n-----END x", encoded);
}

static void test_public(void) {
    static const char named[] = "openssh-key-v1\0\0\0\0\4none\0\0\0\4none\0\0\0\0\0\0\0\1"
                                "\0\0\0\7\0\0\0\3abc";
    const char *line = NULL;
    is_int(ssh_key_public(&a, armored(named, sizeof named - 1), "me", &line, &e), 0,
           "a key of any type has its public line");
    is_str(line, "abc AAAAA2FiYw== me", "the public line names the type");
    static const char *const bad[] = {"", "-----BEGIN PRIVATE KEY-----\n!!\n-----END x",
                                      "-----BEGIN PRIVATE KEY-----\n-----END x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        is_int(ssh_key_public(&a, bad[i], "me", &line, &e), -1, "text %zu has no public key", i);
        is_int(e.code, ERR_FORMAT, "text %zu has another format", i);
    }
    is_int(ssh_key_public(&a, armored(named, 40), "me", &line, &e), -1,
           "a key without its public blob is refused");
    is_int(ssh_key_public(&a, armored("x", 1), "me", &line, &e), -1, "one byte is no key");
    is_int(ssh_key_public(&a, armored(OUTSIDE("\0\0\0\4none"), sizeof named - 5), "me", &line, &e),
           -1, "a blob without a type is refused");
}

// ---- files --------------------------------------------------------------------------------------

static int mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

static void put(const char *path, const char *text) {
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
}

static const char *text_of(const char *path) {
    char *text;
    size_t len;
    return file_read(&a, path, SSH_KEY_BYTES_MAX, &text, &len, &e) == 0 ? text : NULL;
}

static void test_file(void) {
    const char *path = in_folder("id"), *public_path = in_folder("id.pub"), *line, *again;
    is_int(ssh_key_file(&a, path, "me", &line, &e), 0, "an absent key is made");
    is_int(mode_of(path), 0600, "the private key is for its owner alone");
    is_int(mode_of(public_path), 0644, "the public key is for everybody");
    is_str(text_of(public_path), arena_printf(&a, "%s\n", line), "the public file has the line");
    const char *private = text_of(path);
    ok(ssh_key_file(&a, path, "other", &again, &e) == 0 && strcmp(again, line) == 0,
       "a key that is there is read");
    is_str(text_of(path), private, "a key that is there stays");
    put(public_path, "ssh-rsa AAAA x\r\nmore\n");
    ok(ssh_key_file(&a, path, "other", &again, &e) == 0 && strcmp(again, "ssh-rsa AAAA x") == 0,
       "the first line of the public file counts");
    unlink(public_path);
    ok(ssh_key_file(&a, path, "me", &again, &e) == 0 && strcmp(again, line) == 0,
       "a missing public file is made from the private key");
    is_str(text_of(public_path), arena_printf(&a, "%s\n", line), "the public file is written");
    is_int(mode_of(public_path), 0644, "a public file that is made later is for everybody");
    unlink(public_path);
    put(path, "no key");
    is_int(ssh_key_file(&a, path, "me", &again, &e), -1, "a damaged private key is refused");
    has_str(e.text, path, "the error names the file");
    ok(!file_exists(public_path) && strcmp(text_of(path), "no key") == 0,
       "a damaged key is left as it was");
    unlink(path);
    put(public_path, "ssh-rsa AAAA old\n");
    ok(ssh_key_file(&a, path, "me", &again, &e) == 0 && strstr(again, "ssh-ed25519"),
       "a public file alone is no key");
    is_int(ssh_key_file(&a, in_folder("absent/id"), "me", &again, &e), -1,
           "a key in an absent folder is not made");
    is_int(ssh_key_file(&a, in_folder("id2"), comment_of(129), &again, &e), -1,
           "a key with a long comment is not made");
    ok(!file_exists(in_folder("id2")) && !file_exists(in_folder("id2.pub")), "no file is left");
    unlink(public_path);
    if (mkdir(public_path, 0700) < 0)
        bail_out("mkdir");
    is_int(ssh_key_file(&a, path, "me", &again, &e), -1,
           "a public key that is a folder is refused");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_comments();
    test_body();
    test_outside();
    test_public();
    test_file();
    (void)file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
