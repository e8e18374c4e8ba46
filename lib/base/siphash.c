// SPDX-License-Identifier: Apache-2.0
// SipHash with one round for each eight bytes and three at the end.
#include "base/siphash.h"

#include "base/bytes.h"

static inline uint64_t rotl(uint64_t x, int b) {
    return (x << b) | (x >> (64 - b));
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

uint64_t siphash13(const uint64_t seed[2], const char *p, size_t len) {
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    size_t whole = len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t m = bytes_load(p + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    // The last len % 8 bytes, loaded as the top of the last eight bytes if there are that many.
    uint64_t tail = len < 8       ? bytes_load(p, len)
                    : len > whole ? bytes_load(p + len - 8, 8) >> (8 * (8 - (len & 7)))
                                  : 0;
    tail |= (uint64_t)len << 56;
    v[3] ^= tail;
    sip_round(v);
    v[0] ^= tail;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
