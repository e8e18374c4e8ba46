// SPDX-License-Identifier: Apache-2.0
// Times that people write, and which lines are older.
#include "base/clock.h"
#include "follow/log_since.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// 2026-01-02T14:05:06Z, a Friday; here it is two hours later.
static const int64_t NOW_MS = 1767362706789;
enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };

static struct err e;

static int64_t since(const char *text) {
    int64_t ms = -1;
    err_clear(&e);
    return log_since_parse(text, NOW_MS, &ms, &e) < 0 ? -1 : ms;
}

// The time of NOW_MS's second, moved.
static int64_t moved(int64_t by_ms) {
    return NOW_MS - NOW_MS % SECOND + by_ms;
}

static void test_times(void) {
    setenv("TZ", "EET-2", 1);
    tzset();
    is_int(since("90s"), NOW_MS - 90 * SECOND, "seconds are understood");
    is_int(since("10"), NOW_MS - 10 * SECOND, "a mere number counts seconds, as everywhere");
    is_int(since("10m"), NOW_MS - 10 * MINUTE, "minutes are understood");
    is_int(since("1h30m"), NOW_MS - 90 * MINUTE, "hours and minutes are understood");
    is_int(since("2d"), NOW_MS - 48 * (int64_t)HOUR, "days are understood");
    is_int(since("9999d"), NOW_MS - 9999 * 24 * (int64_t)HOUR, "thousands of days are understood");
    is_int(since("2026-01-02T14:05:06Z"), moved(0), "a time in UTC is understood");
    is_int(since("2026-01-02T14:05:06.789Z"), moved(0), "a time in UTC may have a fraction");
    is_int(since("2026-01-02 16:05:06"), moved(0), "a local time is understood");
    is_int(since("2026-01-02T15:35+01:30"), moved(-6 * SECOND),
           "a local time may have an offset from UTC");
    is_int(since("2026-01-02T11:05:06-0300"), moved(0), "an offset may be west of UTC");
    is_int(since("2026-01-02"), moved(0) - (16 * HOUR + 5 * MINUTE + 6 * SECOND),
           "a date is understood");
    is_int(since("16:05"), moved(-6 * SECOND), "a time of today is understood");
    is_int(since("16:05:06"), moved(0), "a time of today may have seconds");
    is_int(since("23:00"), moved(0) - (17 * HOUR + 5 * MINUTE + 6 * SECOND),
           "a time later than now is of yesterday");
    is_int(since("@1767362700"), moved(-6 * SECOND), "seconds since 1970 are understood");
}

static void test_refused(void) {
    static const char *const bad[] = {"tomorrow",   "2026-01-02 ", "m",
                                      "25:00",      "12:60",       "2026-13-01",
                                      "2026-01-32", "2025-12-32",  "2025-12-00",
                                      "2025-11-31", "2025-02-29",  "2026-01",
                                      "@",          "@12x",        "2026-01-02x",
                                      "12:00 UTC",  "12:00+99:00", "2026-01-02T",
                                      "1h ago",     "-5m",         "99999999999999999999d"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(since(bad[i]), -1, "'%s' is refused", bad[i]);
    ok(since("2024-02-29") > 0, "a leap year has one day more");
    is_int(since("2026-01-03"), -1, "a time in the future is refused");
    has_str(e.text, "future", "the error says that the time is in the future");
}

static void take(struct log_since *l, const struct follow_file *file, const char *line) {
    log_since_take(l, 0, file, line, strlen(line));
}

static void test_lines(void) {
    struct arena a = {0};
    struct log_since l = {.ms = 5000, .arena = &a};
    struct follow_file times = {.kind = FOLLOW_LOG_TIMES, .attempt = 1, .local_rank = 2};
    struct follow_file out = {.kind = FOLLOW_STDOUT, .attempt = 1, .local_rank = 2}, err = out;
    err.kind = FOLLOW_STDERR;
    ok(!log_since_hides(&l, 0, &out, 1), "lines without a known time are shown");
    take(&l, &times, "4000 10 3");
    take(&l, &times, "5000 20 3");
    take(&l, &times, "5001 30 40");
    take(&l, &times, "x 90 90");
    take(&l, &times, "1 -5 90");
    take(&l, &times, "");
    ok(log_since_hides(&l, 0, &out, 20), "a line that was there then is hidden");
    ok(!log_since_hides(&l, 0, &out, 21), "a line that ended later is shown");
    ok(log_since_hides(&l, 0, &err, 3) && !log_since_hides(&l, 0, &err, 4),
       "lines of stderr are hidden in the same way");
    ok(!log_since_hides(&l, 1, &out, 1), "another node has its own sizes");
    out.local_rank = 1;
    ok(!log_since_hides(&l, 0, &out, 1), "another worker has its own sizes");
    out.local_rank = 2;
    out.attempt = 0;
    ok(!log_since_hides(&l, 0, &out, 1), "another attempt has its own sizes");
    out.attempt = 1;
    l.ms = 0;
    ok(!log_since_hides(&l, 0, &out, 1), "without --since nothing is hidden");
    arena_fini(&a);
}

int main(void) {
    test_times();
    test_refused();
    test_lines();
    return done_testing();
}
