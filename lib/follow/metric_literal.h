// SPDX-License-Identifier: Apache-2.0
// A text that a line must contain for an expression to match it, so that most lines need no search.
//
//     char literal[METRIC_LITERAL_BYTES_MAX];
//     size_t len = metric_literal("Loss: +([0-9.]+)", literal); // "Loss: "
//
// The expression has been compiled by PCRE2 with the options of conf/metric_regex.c.
#ifndef FOLLOW_METRIC_LITERAL_H
#define FOLLOW_METRIC_LITERAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { METRIC_LITERAL_BYTES_MAX = 64 };

// The longest one that is found outside of groups; its length, and 0 when there is none, or the
// expression uses what is not read here (alternatives, options, \Q, …).
size_t metric_literal(const char *regex, char literal[METRIC_LITERAL_BYTES_MAX]);

// The pairs of adjacent bytes in a line, as a set of hashes.
enum { METRIC_PAIRS_BITS = 4096 };
struct metric_pairs {
    uint64_t bits[METRIC_PAIRS_BITS / 64];
};
void metric_pairs_of(struct metric_pairs *p, const char *line, size_t len);
// False: the literal, of at least one byte, is not in the line.
bool metric_pairs_may_hold(const struct metric_pairs *p, const char *literal, size_t len);

#endif
