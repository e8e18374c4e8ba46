// SPDX-License-Identifier: Apache-2.0
// Records of the sizes of logs: when a line is written, and how often.
#include "agent/log_times.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORKERS = 3 };

static struct arena a;
static struct err e;
static struct loop *loop;
static struct log_times times;
static struct worker list[WORKERS];
static struct workers workers = {.list = list, .count = WORKERS};
static char root[] = "/tmp/test_log_times.XXXXXX";

// The log of a worker is so long, and was written at this time after the begin of the day.
static void put(int i, bool is_err, int bytes, int64_t written_ms) {
    const char *path = is_err ? list[i].err_path : list[i].out_path;
    char text[64];
    memset(text, 'x', sizeof text);
    struct timespec at = {.tv_sec = (time_t)((clock_day_ms + written_ms) / 1000)};
    if (file_write_atomic(path, text, (size_t)bytes, 0600, &e) < 0 ||
        utimensat(AT_FDCWD, path, (struct timespec[2]){at, at}, 0) < 0)
        bail_out("cannot write '%s'", path);
}

// The lines without the time; the file begins anew.
static const char *lines(int i) {
    char *text, **rows;
    size_t len;
    const char *path = file_join(&a, root, arena_printf(&a, "%d/log-times", i));
    struct strbuf out = {0};
    if (file_read(&a, path, 4096, &text, &len, &e) < 0)
        return "";
    size_t count = str_split(&a, text, '\n', &rows);
    for (size_t k = 0; k + 1 < count; k++)
        strbuf_addf(&out, "%s;", strchr(rows[k], ' ') ? strchr(rows[k], ' ') + 1 : rows[k]);
    const char *all = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    unlink(path);
    return all;
}

static void begin(void) {
    clock_ahead_ms = 0;
    for (int i = 0; i < WORKERS; i++) {
        const char *dir = file_join(&a, root, arena_printf(&a, "%d", i));
        file_remove_tree(dir, &e);
        if (file_make_dirs(dir, 0700, &e) < 0)
            bail_out("%s", e.text);
        list[i] = (struct worker){.dir = dir,
                                  .out_path = file_join(&a, dir, "stdout.log"),
                                  .err_path = file_join(&a, dir, "stderr.log")};
    }
    log_times_begin(&times, loop, &workers);
}

static void test_note(void) {
    begin();
    log_times_note(&list[0]);
    is_str(lines(0), "", "a worker without output has no line");
    put(0, false, 5, 0);
    log_times_note(&list[0]);
    is_str(lines(0), "5 0;", "a line has the size of the output");
    put(0, true, 7, 0);
    log_times_note(&list[0]);
    is_str(lines(0), "5 7;", "a line has both sizes");
    put(1, true, 7, 0);
    log_times_note(&list[1]);
    is_str(lines(1), "0 7;", "errors alone are enough");
    list[0].out_path = NULL;
    log_times_note(&list[0]);
    is_str(lines(0), "0 7;", "a worker may have one log");
    list[0].dir = NULL;
    log_times_note(&list[0]);
    is_str(lines(0), "", "a worker without a folder has no line");
}

static void test_ticks(void) {
    begin();
    put(0, false, 5, 0);
    put(1, true, 6, 0);
    put(2, false, 7, 0);
    list[2].ended = true;
    clock_turn(loop, LOG_TIMES_MS - 1);
    is_str(lines(0), "", "nothing is written before the first second");
    clock_turn(loop, 1);
    is_str(lines(0), "5 0;", "a log that was written has a line each second");
    is_str(lines(1), "0 6;", "a log of errors has one, too");
    is_str(lines(2), "", "a worker that has ended has no more lines");
    clock_turn(loop, 2 * LOG_TIMES_MS);
    is_str(lines(0), "5 0;5 0;", "the line is repeated for a while");
    clock_turn(loop, 4 * LOG_TIMES_MS);
    is_str(lines(0), "", "a log that is quiet has no more lines");
    put(0, false, 9, 7000);
    clock_turn(loop, LOG_TIMES_MS);
    is_str(lines(0), "9 0;", "a log that grows again has a line");
    list[0].dir = NULL;
    clock_turn(loop, LOG_TIMES_MS);
    pass("a worker without a folder is left out");
    lines(1);
    log_times_end(&times);
    put(1, false, 9, 9000);
    clock_turn(loop, 2 * LOG_TIMES_MS);
    is_str(lines(1), "", "the end is the end of all lines");
}

static void test_pauses(void) {
    begin();
    list[1].dir = list[2].dir = NULL;
    for (int i = 0; i < LOG_TIMES_TICKS; i++) {
        clock_ahead_ms += LOG_TIMES_MS;
        loop_once(loop, 0);
    }
    is_int(times.tick.due_ms - clock_mono_ms(), 2 * LOG_TIMES_MS,
           "after many lines the pause is twice as long");
    clock_ahead_ms += 2 * LOG_TIMES_MS;
    loop_once(loop, 0);
    is_int(times.ticks, LOG_TIMES_TICKS + 1, "further ticks are counted");
    log_times_begin(&times, loop, &workers);
    is_int(times.tick.due_ms - clock_mono_ms(), LOG_TIMES_MS, "another round begins with seconds");
    log_times_end(&times);
}

int main(void) {
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    clock_stop();
    clock_day_ms = 1700000000000;
    test_note();
    test_ticks();
    test_pauses();
    file_remove_tree(root, &e);
    loop_close(loop);
    arena_fini(&a);
    return done_testing();
}
