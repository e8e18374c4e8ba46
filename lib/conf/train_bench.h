// SPDX-License-Identifier: Apache-2.0
// The options of a measurement of collectives: flags of dttrain --bench and of dtctl bench.
#ifndef CONF_TRAIN_BENCH_H
#define CONF_TRAIN_BENCH_H

#include "conf/option.h"
#include "conf/train_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRAIN_BENCH_ITERATIONS_MAX = 1000 };

struct train_bench_options {
    int kind; // enum train_bench
    int64_t bytes_min, bytes_max;
    int64_t factor;             // from one size to the next
    int64_t iterations, warmup; // calls of each size
    bool check;                 // compare the results of every rank with those expected
};

// Compares values that one row alone cannot. ERR_USAGE names both flags.
int train_bench_check(const struct train_bench_options *options, struct err *e);

// Rows for a table of the caller: verb of its flags, its struct, the member of this type.
// clang-format off
#define TRAIN_BENCH_FLAGS(verb, owner, part)                                                      \
    {.flag = "min-bytes", .verbs = verb, .type = OPTION_BYTES, .marks = OPTION_NO_ENV,             \
     .offset = offsetof(owner, part.bytes_min), .text = "1KiB", .min = 4,                         \
     .max = 1LL << 36, .arg = "SIZE", .help = "Bench: smallest size that is measured."},           \
    {.flag = "max-bytes", .verbs = verb, .type = OPTION_BYTES, .marks = OPTION_NO_ENV,             \
     .offset = offsetof(owner, part.bytes_max), .text = "64MiB", .min = 4,                        \
     .max = 1LL << 36, .arg = "SIZE", .help = "Bench: largest size that is measured."},            \
    {.flag = "factor", .verbs = verb, .type = OPTION_INT, .marks = OPTION_NO_ENV,                  \
     .offset = offsetof(owner, part.factor), .text = "2", .min = 2, .max = 1024,                  \
     .help = "Bench: factor from one size to the next."},                                          \
    {.flag = "iterations", .verbs = verb, .type = OPTION_INT, .marks = OPTION_NO_ENV,              \
     .offset = offsetof(owner, part.iterations), .text = "20", .min = 1,                          \
     .max = TRAIN_BENCH_ITERATIONS_MAX, .help = "Bench: number of calls per size."},               \
    {.flag = "warmup", .verbs = verb, .type = OPTION_INT, .marks = OPTION_NO_ENV,                  \
     .offset = offsetof(owner, part.warmup), .text = "5", .min = 0,                               \
     .max = TRAIN_BENCH_ITERATIONS_MAX,                                                            \
     .help = "Bench: number of calls per size before the measured ones."},                         \
    {.flag = "check", .verbs = verb, .type = OPTION_BOOL, .marks = OPTION_NO_ENV,                  \
     .offset = offsetof(owner, part.check), .text = "true",                                       \
     .help = "Bench: count wrong numbers in the results of every rank; --no-check leaves it out."}
// clang-format on

#endif
