// SPDX-License-Identifier: Apache-2.0
// Runs one function over many items on several threads, for decoding. The caller's thread takes
// part, and only it reports progress.
#ifndef DATA_DECODE_THREADS_H
#define DATA_DECODE_THREADS_H

#include "base/err.h"

#include <stdint.h>

enum { DECODE_THREADS_MAX = 256 };

struct decode_threads {
    int threads; // including the caller; 0: one per CPU
    uint64_t count;
    // Item i on thread 0 … threads-1. After an error no further items are begun.
    int (*item)(void *ctx, uint64_t i, int thread, struct err *e);
    void *ctx;
    // NULL: none. -1 with e ends the run.
    int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
    void *progress_ctx;
    uint64_t progress_base, progress_total; // when these items are a part of a larger job
};

int decode_threads_count(int wanted); // 1 … DECODE_THREADS_MAX
// Of several errors the one with the lowest item is given.
int decode_threads_run(const struct decode_threads *p, struct err *e);

#endif
