// SPDX-License-Identifier: Apache-2.0
// Times of lines that have waited on a node, of new ones, and of hostile texts.
#include "follow/line_times.h"
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>

enum { NOW = 1000000 };
static struct line_times t;
static const struct follow_file out = {FOLLOW_STDOUT, 0, 1}, err = {FOLLOW_STDERR, 0, 1},
                                next = {FOLLOW_STDOUT, 1, 1}, times = {FOLLOW_LOG_TIMES, 0, 1};

static void take(const char *line) {
    line_times_take(&t, &times, line, strlen(line));
}

static int64_t of(const struct follow_file *file, uint64_t end) {
    return line_times_of(&t, file, end, NOW);
}

static void test_late(void) {
    is_int(of(&out, 5), NOW, "a line before any size is new");
    take("1000 5 0");
    take("2000 20 7");
    take("3000 20 9");
    take("4000 40 9");
    is_int(of(&out, 10), 2000, "a line has the time of the first size that includes it");
    is_int(of(&out, 20), 2000, "the last byte of that size has its time, too");
    is_int(of(&err, 8), 3000, "stderr has sizes of its own");
    is_int(of(&out, 21), 4000, "a byte more has the next size's time");
    is_int(of(&next, 1), NOW, "another attempt has none of them");
    is_int(of(&out, 41), NOW, "a line beyond all sizes is new");
    is_int(of(&err, 9), 3000, "the other log's sizes stay");
    is_int(of(&err, 10), NOW, "until its lines have passed them");
    is_uint(t.marks, 0, "sizes that lines have passed are dropped");
}

static void test_live(void) {
    for (uint64_t i = 1; i <= 100; i++) {
        char line[64];
        is_int(of(&out, 41 + i * 10), NOW, "line %d of a followed run is new", (int)i);
        snprintf(line, sizeof line, "%d %d 10", (int)(5000 + i), (int)(41 + i * 10));
        take(line);
    }
    is_uint(t.marks, 0, "sizes that come after their lines are not kept");
    take("2000000 2000 10");
    is_int(of(&out, 1500), NOW, "the clock of a node may be ahead");
}

static void test_odd(void) {
    static const char *const none[] = {"", "x", "-5 3000 0", "1 2", "0 3000 0", "9 -1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        take(none[i]);
    is_int(of(&out, 2500), NOW, "texts that are no sizes are left out");
    take("6000 3000 10");
    take("7000 100 10"); // another machine
    is_int(of(&out, 50), 7000, "smaller sizes begin anew");
    for (int i = 0; i < LINE_TIMES_MARKS_MAX; i++) {
        char line[64];
        take((snprintf(line, sizeof line, "9 %d 0", 4000 + i), line));
    }
    is_uint(t.marks, LINE_TIMES_MARKS_MAX, "the sizes of a node are bounded");
    for (int i = 0; i < LINE_TIMES_WORKERS_MAX + 9; i++)
        line_times_take(&t, &(struct follow_file){FOLLOW_LOG_TIMES, i, 2}, "1 2 3", 5);
    is_uint(t.workers, LINE_TIMES_WORKERS_MAX, "the workers of a node are bounded");
}

int main(void) {
    test_late();
    test_live();
    test_odd();
    line_times_fini(&t);
    return done_testing();
}
