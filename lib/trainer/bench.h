// SPDX-License-Identifier: Apache-2.0
// Measures a collective between the ranks of a run, with the columns and the formulas of
// nccl-tests, in place. Numbers travel as they do in training: from GPU to GPU by NCCL, through the
// memory of the hosts, or from processor to processor.
#ifndef TRAINER_BENCH_H
#define TRAINER_BENCH_H

#include "conf/train_bench.h"
#include "trainer/trainer.h"

// Every rank calls this. Rank 0 gives its lines to config.say, or JSON objects with `json`, and
// writes the same objects to metrics.jsonl when there is a config.run. ERR_FAILED: some results are
// wrong.
int bench_run(const struct trainer_config *config, const struct train_bench_options *options,
              bool json, struct err *e);

// ---- parts of it -------------------------------------------------------------------------------

// Numbers of one call. The buffer of sendrecv has those to send, and behind them those received.
struct bench_size {
    enum train_bench kind;
    size_t count;  // of the message, over all ranks for all-gather and reduce-scatter
    size_t each;   // part of one rank; of the other kinds: count
    size_t buffer; // that one rank needs
};
// Parts of the ranks are equal, and at least 16 bytes.
struct bench_size bench_size_of(enum train_bench kind, size_t bytes, int world);
// Bytes of nccl-tests' bus for each byte of its algorithm.
double bench_bus_factor(enum train_bench kind, int world);
// The numbers that a rank gives to a checked call; the count of its wrong results.
void bench_fill(const struct bench_size *size, int rank, float *buffer);
size_t bench_wrong(const struct bench_size *size, int rank, int world, const float *buffer);

// How numbers travel. A test has its own.
struct bench_way {
    int (*write)(void *ctx, const float *from, size_t count, struct err *e); // into the buffer
    int (*move)(void *ctx, const struct bench_size *size, int64_t times, struct err *e); // and wait
    int (*read)(void *ctx, float *to, size_t count, struct err *e);
    void (*close)(void *ctx);
    void *ctx;
    char about[320];
};
// For buffers of so many numbers.
int bench_way_open(struct bench_way *out, const struct trainer_config *config, struct comm *comm,
                   enum train_bench kind, size_t buffer, struct err *e);

struct bench_row {
    size_t bytes, count; // as nccl-tests counts them
    double us;           // of a call, the mean of all ranks
    double algbw, busbw; // GB/s
    double wrong;        // numbers on all ranks; negative: not looked at
};
// A blocking call of all ranks; `numbers` has room for size.buffer.
int bench_measure(const struct train_bench_options *options, size_t bytes, struct comm *comm,
                  const struct bench_way *way, float *numbers, struct bench_row *out,
                  struct err *e);

#endif
