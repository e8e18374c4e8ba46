// SPDX-License-Identifier: Apache-2.0
// How work is divided between workers: always by output, never by the terms of a sum, so that
// results do not depend on the number of workers.
#ifndef DTCTL_KERNELS_CPU_SHARE_H
#define DTCTL_KERNELS_CPU_SHARE_H

#include <stdint.h>

// The part [begin, end) of n items that a worker does.
struct share {
    int64_t begin, end;
};

static inline struct share share_of(int64_t n, int worker, int workers) {
    return (struct share){n * worker / workers, n * (worker + 1) / workers};
}

static inline int64_t div_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

static inline int64_t clamp64(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

#endif
