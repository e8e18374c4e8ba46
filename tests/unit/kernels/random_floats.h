// SPDX-License-Identifier: Apache-2.0
// The same random numbers in every run of a kernel test.
#ifndef TESTS_UNIT_RANDOM_FLOATS_H
#define TESTS_UNIT_RANDOM_FLOATS_H

#include "tests/tap.h"

#include <stdint.h>
#include <stdlib.h>

static uint64_t random_state = 88172645463325252U;

static float random_float(void) { // uniform in [-1, 1)
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (float)(random_state >> 40) / (float)(1 << 23) - 1;
}

static inline float *new_random(size_t n) { // free() it
    float *p = malloc(n * sizeof *p + 1);
    if (!p)
        bail_out("out of memory");
    for (size_t i = 0; i < n; i++)
        p[i] = random_float();
    return p;
}

#endif
