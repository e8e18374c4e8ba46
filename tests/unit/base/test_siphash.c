// SPDX-License-Identifier: Apache-2.0
// SipHash-1-3 of 0, 1, 2 … with the key 0, 1 … 15, as another implementation has it, which also has
// the vector of SipHash-2-4 in its authors' paper.
#include "base/siphash.h"
#include "tests/tap.h"

int main(void) {
    static const struct {
        size_t len;
        uint64_t hash;
    } vectors[] = {
        {0, 0xabac0158050fc4dc},  {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140},
        {8, 0x369095118d299a8e},  {9, 0x25a48eb36c063de4},  {15, 0xd320d86d2a519956},
        {16, 0xcc4fdd1a7d908b66}, {63, 0x9d199062b7bbb3a8},
    };
    static const uint64_t seed[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        is_uint(siphash13(seed, bytes, vectors[i].len), vectors[i].hash,
                "the hash of %zu bytes is right", vectors[i].len);
    return done_testing();
}
