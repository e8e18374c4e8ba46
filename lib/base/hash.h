// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4, through libcrypto), HMAC-SHA256 (RFC 2104) and random bytes.
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_BYTES = 32, HASH_HEX_BYTES = 65 /* with NUL */ };

struct hash {
    uint64_t state[16]; // room for libcrypto's SHA256_CTX; checked at compile time
};

void hash_init(struct hash *h);
void hash_add(struct hash *h, const void *p, size_t len);
void hash_final(struct hash *h, unsigned char out[HASH_BYTES]);
void hash_of(unsigned char out[HASH_BYTES], const void *p, size_t len);
void hash_hex(char out[HASH_HEX_BYTES], const unsigned char digest[HASH_BYTES]);
bool hash_is_hex(const char *s); // exactly 64 lower-case hex digits

void hash_hmac(unsigned char out[HASH_BYTES], const void *key, size_t key_len, const void *p,
               size_t len);
bool hash_equal(const void *a, const void *b, size_t len); // time does not depend on content
void hash_random(void *p, size_t len);                     // from the kernel; aborts if it has none

#endif
