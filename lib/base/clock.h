// SPDX-License-Identifier: Apache-2.0
// Time: monotonic for intervals, wall clock for people. Library code takes time as an argument
// where tests must turn it.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_ns(void);
int64_t clock_cpu_ns(void);  // spent by this thread; grows while it runs, and not while others do
int64_t clock_wall_ms(void); // since 1970, UTC

enum { CLOCK_ISO_BYTES = 25 };
const char *clock_iso(char out[CLOCK_ISO_BYTES], int64_t wall_ms); // 2026-01-02T03:04:05.678Z
int64_t clock_of_iso(const char *iso); // to the second; -1: it is none (or NULL)

#endif
