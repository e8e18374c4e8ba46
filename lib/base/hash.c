// SPDX-License-Identifier: Apache-2.0
// libcrypto's low-level SHA-256: the same assembly as EVP without linking the provider machinery,
// which keeps the agent small.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"

#include "base/err.h"
#include "base/str.h"

#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct hash), "struct hash holds libcrypto's context");

static SHA256_CTX *context(struct hash *h) {
    return (SHA256_CTX *)h->state;
}

void hash_init(struct hash *h) {
    SHA256_Init(context(h));
}

void hash_add(struct hash *h, const void *p, size_t len) {
    SHA256_Update(context(h), p, len);
}

void hash_final(struct hash *h, unsigned char out[HASH_BYTES]) {
    SHA256_Final(out, context(h));
}

void hash_of(unsigned char out[HASH_BYTES], const void *p, size_t len) {
    struct hash h;
    hash_init(&h);
    hash_add(&h, p, len);
    hash_final(&h, out);
}

void hash_hex(char out[HASH_HEX_BYTES], const unsigned char digest[HASH_BYTES]) {
    str_hex(out, digest, HASH_BYTES);
}

bool hash_is_hex(const char *s) {
    return strlen(s) == 2 * HASH_BYTES && strspn(s, "0123456789abcdef") == 2 * HASH_BYTES;
}

void hash_hmac(unsigned char out[HASH_BYTES], const void *key, size_t key_len, const void *p,
               size_t len) {
    enum { BLOCK = 64 };
    unsigned char pad[BLOCK] = {0}, inner[HASH_BYTES];
    struct hash h;
    if (key_len > BLOCK)
        hash_of(pad, key, key_len);
    else if (key_len)
        memcpy(pad, key, key_len);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36;
    hash_init(&h);
    hash_add(&h, pad, BLOCK);
    hash_add(&h, p, len);
    hash_final(&h, inner);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5C;
    hash_init(&h);
    hash_add(&h, pad, BLOCK);
    hash_add(&h, inner, HASH_BYTES);
    hash_final(&h, out);
}

bool hash_equal(const void *a, const void *b, size_t len) {
    const volatile unsigned char *x = a, *y = b;
    unsigned char difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= x[i] ^ y[i];
    return difference == 0;
}

void hash_random(void *p, size_t len) {
    unsigned char *c = p;
    while (len) {
        ssize_t n = getrandom(c, len, 0);
        if (err_interrupted(n))
            continue;
        must(n > 0);
        c += n;
        len -= (size_t)n;
    }
}
