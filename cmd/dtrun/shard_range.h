// SPDX-License-Identifier: Apache-2.0
// `dtrun shard-range TOTAL`: this node's part of a range of rows, for programs that divide their
// work by themselves.
#ifndef DTRUN_SHARD_RANGE_H
#define DTRUN_SHARD_RANGE_H

#include <stdint.h>

#define SHARD_RANGE_TOTAL_MAX ((int64_t)1 << 53) // integers that a double holds

// The first row of part i of count: i * total / count, rounded, halves to the even number (as
// Python's round).
int64_t shard_range_start(int64_t total, int64_t i, int64_t count);
// argv without the program's name and the verb. Returns the exit status.
int shard_range_run(int argc, const char *const *argv, char *const *env);

#endif
