// SPDX-License-Identifier: Apache-2.0
// Parses known_hosts files and compares keys.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "remote/known_hosts.h"

#include "base/base64.h"
#include "base/hash.h"
#include "base/str.h"
#include "remote/ssh_config.h"

#include <ctype.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SHA1_BYTES = SHA_DIGEST_LENGTH, NAME_BYTES_MAX = 1024 };

static const char *const type_names[] = {
#define X(id, name) name,
    KNOWN_HOSTS_TYPES(X)
#undef X
};

const char *known_hosts_type_name(enum known_hosts_type t) {
    return type_names[t];
}

// A part of a line, not NUL-terminated.
struct word {
    const char *p;
    size_t len;
};

static struct word next_word(const char **p, const char *end) {
    while (*p < end && (**p == ' ' || **p == '\t'))
        ++*p;
    struct word w = {*p, 0};
    while (*p < end && **p != ' ' && **p != '\t')
        ++*p;
    w.len = (size_t)(*p - w.p);
    return w;
}

static bool word_is(struct word w, const char *s) {
    return w.len == strlen(s) && memcmp(w.p, s, w.len) == 0;
}

// The key is the salt. Every connection computes one for each hashed line of the file, and HMAC()
// of libcrypto allocates and looks for its digest each time.
static void hmac_sha1(unsigned char out[SHA1_BYTES], const unsigned char key[SHA1_BYTES],
                      const char *text) {
    unsigned char inner[SHA_CBLOCK], outer[SHA_CBLOCK];
    SHA_CTX c;
    for (size_t i = 0; i < SHA_CBLOCK; i++) {
        inner[i] = (i < SHA1_BYTES ? key[i] : 0) ^ 0x36;
        outer[i] = inner[i] ^ 0x36 ^ 0x5c;
    }
    SHA1_Init(&c);
    SHA1_Update(&c, inner, sizeof inner);
    SHA1_Update(&c, text, strlen(text));
    SHA1_Final(out, &c);
    SHA1_Init(&c);
    SHA1_Update(&c, outer, sizeof outer);
    SHA1_Update(&c, out, SHA1_BYTES);
    SHA1_Final(out, &c);
}

// Matches a hashed name: |1|base64(salt)|base64(HMAC-SHA1(salt, name)).
static bool hashed_matches(struct word w, const char *name) {
    unsigned char salt[BASE64_DECODED_MAX(64)], want[BASE64_DECODED_MAX(64)];
    unsigned char got[SHA1_BYTES];
    const char *s = w.p + 3, *end = w.p + w.len;
    const char *bar = memchr(s, '|', (size_t)(end - s));
    if (!bar || bar - s > 64 || end - bar - 1 > 64)
        return false;
    size_t want_len = (size_t)(end - bar - 1);
    if (base64_decode(salt, s, (size_t)(bar - s)) != SHA1_BYTES || want_len < 4)
        return false;
    hmac_sha1(got, salt, name);
    // Nearly all lines differ in the first three bytes.
    return base64_decode(want, bar + 1, 4) == 3 && memcmp(got, want, 3) == 0 &&
           base64_decode(want, bar + 1, want_len) == SHA1_BYTES &&
           memcmp(got, want, SHA1_BYTES) == 0;
}

// Host names are case-insensitive; OpenSSH lowers them before hashing.
static void lower(char *out, const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        out[i] = (char)tolower((unsigned char)s[i]);
    out[len] = '\0';
}

// Matches a list of patterns "a,b*,!c", or one hashed name.
static bool names_match(struct word w, const char *name) {
    if (w.len > 3 && memcmp(w.p, "|1|", 3) == 0)
        return hashed_matches(w, name);
    bool match = false;
    const char *p = w.p, *end = w.p + w.len;
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        char pattern[NAME_BYTES_MAX];
        bool negated = len && *p == '!';
        if (len - negated < sizeof pattern) {
            lower(pattern, p + negated, len - negated);
            if (ssh_config_glob(pattern, name)) {
                if (negated)
                    return false;
                match = true;
            }
        }
        p += len + 1;
    }
    return match;
}

static void note_key(struct known_hosts_found *f, const char *path, int number, struct word type,
                     struct word key, const void *blob, size_t blob_len, bool revoked,
                     bool match_only) {
    static _Thread_local unsigned char listed[BASE64_DECODED_MAX(KNOWN_HOSTS_KEY_BYTES_MAX)];
    long len = key.len > KNOWN_HOSTS_KEY_BYTES_MAX ? -1 : base64_decode(listed, key.p, key.len);
    if (len <= 0)
        return;
    bool same = blob && (size_t)len == blob_len && memcmp(listed, blob, blob_len) == 0;
    if (revoked) {
        f->revoked |= same;
        return;
    }
    if (same) {
        f->match = true;
        return;
    }
    if (match_only)
        return;
    for (unsigned t = 0; t < KNOWN_HOSTS_TYPE_COUNT; t++)
        if (word_is(type, type_names[t])) {
            f->types |= 1U << t;
            if (!f->differs) {
                f->differs_path = path;
                f->differs_line = number;
                f->differs_key = type.p;
                f->differs_key_len = (size_t)(key.p + key.len - type.p);
            }
            f->differs = true;
        }
}

static void search_line(const char *path, int number, const char *p, const char *end,
                        const char *name, const char *plain, const void *blob, size_t blob_len,
                        struct known_hosts_found *f) {
    struct word mark = {NULL, 0};
    if (end > p && end[-1] == '\r')
        end--;
    struct word names = next_word(&p, end);
    if (names.len == 0 || *names.p == '#')
        return;
    if (*names.p == '@') {
        mark = names;
        names = next_word(&p, end);
    }
    bool whole = names_match(names, name);
    if (!whole && !(plain && names_match(names, plain)))
        return; // before the key is read, which is most of a line
    struct word type = next_word(&p, end), key = next_word(&p, end);
    if (!key.len)
        return;
    if (word_is(mark, "@cert-authority"))
        f->authority = true;
    else if (!mark.len || word_is(mark, "@revoked"))
        note_key(f, path, number, type, key, blob, blob_len, mark.len > 0, !whole);
}

void known_hosts_search(const char *path, const char *text, size_t len, const char *name, int port,
                        const void *blob, size_t blob_len, struct known_hosts_found *f) {
    char full[NAME_BYTES_MAX + 16], plain[NAME_BYTES_MAX];
    if (strlen(name) >= sizeof plain)
        return;
    lower(plain, name, strlen(name));
    if (port == 22)
        snprintf(full, sizeof full, "%s", plain);
    else
        snprintf(full, sizeof full, "[%s]:%d", plain, port);
    const char *end = text + len;
    int number = 1;
    for (const char *p = text; p < end; number++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        if (stop - p <= KNOWN_HOSTS_LINE_BYTES_MAX)
            search_line(path, number, p, stop, full, port == 22 ? NULL : plain, blob, blob_len, f);
        p = stop + 1;
    }
    if (f->match)
        f->differs = false;
}

void known_hosts_fingerprint(char out[KNOWN_HOSTS_FINGERPRINT_BYTES], const void *blob,
                             size_t len) {
    unsigned char digest[HASH_BYTES];
    char text[BASE64_ENCODED_BYTES(HASH_BYTES)];
    hash_of(digest, blob, len);
    base64_encode(text, digest, sizeof digest);
    text[strcspn(text, "=")] = '\0';
    snprintf(out, KNOWN_HOSTS_FINGERPRINT_BYTES, "SHA256:%s", text);
}

const char *known_hosts_blob_type(struct arena *a, const void *blob, size_t len) {
    const unsigned char *p = blob;
    if (len < 4)
        return NULL;
    size_t n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (n == 0 || n > 64 || n > len - 4 || memchr(p + 4, '\0', n))
        return NULL;
    return str_printable(a, (const char *)p + 4, n);
}

int known_hosts_parse_key(struct arena *a, const char *text, void **blob, size_t *len,
                          struct err *e) {
    const char *p = text, *end = text + strcspn(text, "\r\n");
    struct word type = next_word(&p, end), key = next_word(&p, end);
    if (!key.len)
        return err_set(e, ERR_CONFIG,
                       "a host key looks like \"ssh-ed25519 AAAA…\" (a line of a .pub file)");
    if (key.len > KNOWN_HOSTS_KEY_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "a host key of more than %d bytes", KNOWN_HOSTS_KEY_BYTES_MAX);
    unsigned char *b = arena_new(a, unsigned char, BASE64_DECODED_MAX(key.len));
    long n = base64_decode(b, key.p, key.len);
    const char *inside = n > 0 ? known_hosts_blob_type(a, b, (size_t)n) : NULL;
    if (!inside || !word_is(type, inside))
        return err_set(e, ERR_CONFIG, "the host key is damaged: it is not a %s key",
                       str_printable(a, type.p, type.len));
    *blob = b;
    *len = (size_t)n;
    return 0;
}

char *known_hosts_format(struct arena *a, const char *name, int port, const void *blob,
                         size_t len) {
    char *key = arena_new(a, char, BASE64_ENCODED_BYTES(len));
    const char *type = known_hosts_blob_type(a, blob, len);
    base64_encode(key, blob, len);
    char *host = arena_new(a, char, strlen(name) + 1);
    lower(host, name, strlen(name));
    return port == 22 ? arena_printf(a, "%s %s %s\n", host, type ? type : "?", key)
                      : arena_printf(a, "[%s]:%d %s %s\n", host, port, type ? type : "?", key);
}
