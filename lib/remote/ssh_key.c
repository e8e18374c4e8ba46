// SPDX-License-Identifier: Apache-2.0
// Creates and reads SSH keys. The layout is that of OpenSSH's PROTOCOL.key.
#include "remote/ssh_key.h"

#include "base/base64.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/str.h"
#include "remote/known_hosts.h"
#include "sys/file.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 32, COMMENT_BYTES_MAX = 128, LINE_CHARS = 70 };

static const char MAGIC[] = "openssh-key-v1"; // with its NUL
static const char BEGIN[] = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
static const char END[] = "-----END OPENSSH PRIVATE KEY-----\n";

static void put_u32(struct strbuf *b, size_t v) {
    unsigned char p[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                          (unsigned char)(v >> 8), (unsigned char)v};
    strbuf_add(b, p, sizeof p);
}

static void put_bytes(struct strbuf *b, const void *p, size_t len) {
    put_u32(b, len);
    strbuf_add(b, p, len);
}

static void put_text(struct strbuf *b, const char *text) {
    put_bytes(b, text, strlen(text));
}

static int generate(unsigned char secret[KEY_BYTES], unsigned char public[KEY_BYTES],
                    struct err *e) {
    size_t secret_len = KEY_BYTES, public_len = KEY_BYTES;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    bool fine = key && EVP_PKEY_get_raw_private_key(key, secret, &secret_len) == 1 &&
                EVP_PKEY_get_raw_public_key(key, public, &public_len) == 1;
    EVP_PKEY_free(key);
    return fine ? 0 : err_set(e, ERR_SYS, "cannot make an ed25519 key");
}

// The part that a passphrase would encrypt: two equal check words, the key, padding 1, 2, 3, …
static void put_private_part(struct strbuf *out, const unsigned char *secret,
                             const unsigned char *public, const char *comment) {
    enum { BLOCK = 8 };
    struct strbuf b = {0};
    unsigned char check[4];
    hash_random(check, sizeof check);
    strbuf_add(&b, check, sizeof check);
    strbuf_add(&b, check, sizeof check);
    put_text(&b, "ssh-ed25519");
    put_bytes(&b, public, KEY_BYTES);
    put_u32(&b, 2 * KEY_BYTES);
    strbuf_add(&b, secret, KEY_BYTES);
    strbuf_add(&b, public, KEY_BYTES);
    put_text(&b, comment);
    for (char pad = 1; b.len % BLOCK; pad++)
        strbuf_addc(&b, pad);
    put_bytes(out, b.data, b.len);
    memset(b.data, 0, b.len);
    strbuf_fini(&b);
}

static void put_lines(struct strbuf *out, const void *p, size_t len) {
    char *text = heap_alloc(BASE64_ENCODED_BYTES(len));
    base64_encode(text, p, len);
    size_t chars = strlen(text);
    for (size_t i = 0; i < chars; i += LINE_CHARS)
        strbuf_addf(out, "%.*s\n", LINE_CHARS, text + i);
    memset(text, 0, chars);
    free(text);
}

int ssh_key_make(struct arena *a, const char *comment, struct ssh_key *out, struct err *e) {
    unsigned char secret[KEY_BYTES], public[KEY_BYTES];
    struct strbuf blob = {0}, all = {0}, text = {0};
    char encoded[BASE64_ENCODED_BYTES(128)];
    if (strlen(comment) > COMMENT_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the comment of a key is longer than %d bytes",
                       COMMENT_BYTES_MAX);
    if (generate(secret, public, e) < 0)
        return -1;
    put_text(&blob, "ssh-ed25519");
    put_bytes(&blob, public, KEY_BYTES);
    strbuf_add(&all, MAGIC, sizeof MAGIC);
    put_text(&all, "none");
    put_text(&all, "none");
    put_text(&all, "");
    put_u32(&all, 1);
    put_bytes(&all, blob.data, blob.len);
    put_private_part(&all, secret, public, comment);
    strbuf_adds(&text, BEGIN);
    put_lines(&text, all.data, all.len);
    strbuf_adds(&text, END);
    base64_encode(encoded, blob.data, blob.len);
    out->private_key = arena_strdup(a, strbuf_cstr(&text));
    out->public_key = arena_printf(a, "ssh-ed25519 %s %s", encoded, comment);
    memset(secret, 0, sizeof secret);
    memset(all.data, 0, all.len);
    strbuf_fini(&blob);
    strbuf_fini(&all);
    strbuf_fini(&text);
    return 0;
}

static uint32_t get_u32(struct bytes_reader *r) {
    const unsigned char *p = bytes_get(r, 4);
    return p ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3] : 0;
}

static const void *get_bytes(struct bytes_reader *r, size_t *len) {
    *len = get_u32(r);
    return bytes_get(r, *len);
}

bool ssh_key_read_outside(const void *raw, size_t len, struct ssh_key_outside *out) {
    struct bytes_reader r = bytes_reader(raw, len);
    const char *magic = bytes_get(&r, sizeof MAGIC);
    size_t n;
    *out = (struct ssh_key_outside){0};
    if (!magic || memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return false;
    const char *cipher = get_bytes(&r, &n);
    out->encrypted = cipher && !(n == 4 && memcmp(cipher, "none", 4) == 0);
    (void)get_bytes(&r, &n); // key derivation
    (void)get_bytes(&r, &n); // its options
    (void)get_u32(&r);       // number of keys: one
    out->public_blob = get_bytes(&r, &out->public_len);
    return true;
}

char *ssh_key_body(struct arena *a, const char *text, size_t *len) {
    static const char begin[] = "PRIVATE KEY-----", end[] = "-----END ";
    const char *from = strstr(text, begin), *to = from ? strstr(from, end) : NULL;
    if (!to)
        return NULL;
    char *body = arena_new(a, char, (size_t)(to - from) + 1);
    *len = 0;
    for (const char *p = from + strlen(begin); p < to; p++)
        if (!isspace((unsigned char)*p))
            body[(*len)++] = *p;
    return body;
}

int ssh_key_public(struct arena *a, const char *private_key, const char *comment,
                   const char **public_key, struct err *e) {
    struct ssh_key_outside k;
    size_t len = 0;
    char *body = ssh_key_body(a, private_key, &len);
    unsigned char *bytes = arena_new(a, unsigned char, BASE64_DECODED_MAX(len));
    long n = body ? base64_decode(bytes, body, len) : -1;
    if (body)
        memset(body, 0, len);
    bool fine = n > 0 && ssh_key_read_outside(bytes, (size_t)n, &k) && k.public_blob;
    const char *type = fine ? known_hosts_blob_type(a, k.public_blob, k.public_len) : NULL;
    fine = type != NULL;
    if (fine) {
        char *encoded = arena_new(a, char, BASE64_ENCODED_BYTES(k.public_len));
        base64_encode(encoded, k.public_blob, k.public_len);
        *public_key = arena_printf(a, "%s %s %s", type, encoded, comment);
    }
    if (n > 0)
        memset(bytes, 0, (size_t)n);
    return fine ? 0
                : err_set(e, ERR_FORMAT,
                          "it is no private key in OpenSSH's format, or it is damaged");
}

// Adds the missing public key file of a copied private key.
static int add_public(struct arena *a, const char *path, const char *public_path,
                      const char *comment, const char **public_key, struct err *e) {
    char *text;
    size_t len;
    if (file_read(a, path, SSH_KEY_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    int result = ssh_key_public(a, text, comment, public_key, e);
    memset(text, 0, len);
    if (result < 0)
        return err_wrap(e, "'%s'", path);
    const char *line = arena_printf(a, "%s\n", *public_key);
    return file_write_atomic(public_path, line, strlen(line), 0644, e);
}

int ssh_key_file(struct arena *a, const char *path, const char *comment, const char **public_key,
                 struct err *e) {
    const char *public_path = arena_printf(a, "%s.pub", path);
    struct ssh_key key;
    char *text;
    size_t len;
    if (file_exists(path) && file_exists(public_path)) {
        if (file_read(a, public_path, SSH_KEY_BYTES_MAX, &text, &len, e) < 0)
            return -1;
        text[strcspn(text, "\r\n")] = 0;
        *public_key = text;
        return 0;
    }
    if (!file_is_absent(path))
        return add_public(a, path, public_path, comment, public_key, e);
    if (ssh_key_make(a, comment, &key, e) < 0)
        return -1;
    const char *line = arena_printf(a, "%s\n", key.public_key);
    *public_key = key.public_key;
    // Write the public key first: a private key without it would fail the next try.
    return file_write_atomic(public_path, line, strlen(line), 0644, e) < 0 ||
                   file_write_atomic(path, key.private_key, strlen(key.private_key), 0600, e) < 0
               ? -1
               : 0;
}
