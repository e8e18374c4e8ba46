// SPDX-License-Identifier: Apache-2.0
// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a hash for tables
// whose keys others choose. Without the seed no one can find keys that share a bucket.
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash13(const uint64_t seed[2], const char *p, size_t len);

#endif
