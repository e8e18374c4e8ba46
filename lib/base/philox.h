// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10: a counter-based random generator (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC'11). The same key and counter give the same four words on every
// machine and in every thread, so whatever is drawn for a sample depends on nothing but its number.
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

struct philox {
    uint32_t word[4];
};

// key: what the stream belongs to (a seed); hi, lo: the position in it.
struct philox philox(uint64_t key, uint64_t hi, uint64_t lo);

// A draw from 0 … bound-1 by the multiply-shift method; its bias is below bound / 2^32.
static inline uint32_t philox_below(uint32_t word, uint32_t bound) {
    return (uint32_t)(((uint64_t)word * bound) >> 32);
}

#endif
