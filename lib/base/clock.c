// SPDX-License-Identifier: Apache-2.0
// Reads the clocks, and converts times from and to text.
#include "base/clock.h"

#include "base/err.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id) {
    struct timespec ts;
    must(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_mono_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void) {
    return clock_mono_ns() / 1000000;
}

int64_t clock_cpu_ns(void) {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_wall_ms(void) {
    return read_ns(CLOCK_REALTIME) / 1000000;
}

const char *clock_iso(char out[CLOCK_ISO_BYTES], int64_t wall_ms) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    char day[32];
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_ISO_BYTES, "%.19s.%03uZ", day, (unsigned)(wall_ms % 1000) % 1000u);
    return out;
}

int64_t clock_of_iso(const char *iso) {
    struct tm tm = {0};
    if (!iso || sscanf(iso, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                       &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
        return -1;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * 1000;
}
