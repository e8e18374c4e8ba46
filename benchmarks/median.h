// SPDX-License-Identifier: Apache-2.0
// Processor time, and the median of several rounds.
#ifndef BENCHMARKS_MEDIAN_H
#define BENCHMARKS_MEDIAN_H

#include <stdlib.h>
#include <time.h>

// Seconds of all threads of this process.
static inline double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts the values.
static inline double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

#endif
