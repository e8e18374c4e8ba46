// SPDX-License-Identifier: Apache-2.0
// Failed workers as torchrun's box and as an event: causes, evidence, widths, and the number of
// failures that are shown.
#include "agent/failure_report.h"

#include "tests/tap.h"

#include <signal.h>
#include <string.h>
#include <time.h>

enum { MANY = 20 };

static struct strbuf out;
static struct worker_failure list[MANY];

static struct worker_failure failure(int rank) {
    return (struct worker_failure){.rank = rank,
                                   .local_rank = 1,
                                   .pid = 77,
                                   .status = 3,
                                   .wall_ms = 1767323045999,
                                   .node = "n1",
                                   .host = "h1",
                                   .error_file = "",
                                   .message = "",
                                   .tail = "",
                                   .evidence = ""};
}

static const char *print(const char *title, int count) {
    strbuf_clear(&out);
    failure_report_print(&out, title, list, count);
    return strbuf_cstr(&out);
}

#define RULE60 "============================================================\n"
#define LINE60 "------------------------------------------------------------\n"
#define HEAD(index, rank)                                                                          \
    "[" index "]:\n  time      : 2026-01-02_03:04:05\n  host      : h1\n  rank      : " rank       \
    " (local_rank: 1)\n"
#define NO_TRACEBACK                                                                               \
    "  traceback : To enable traceback see: "                                                      \
    "https://pytorch.org/docs/stable/elastic/errors.html\n"

static void test_one(void) {
    list[0] = failure(5);
    is_str(print("train.py", 1),
           RULE60
           "train.py FAILED\n" LINE60 "Failures:\n  <NO_OTHER_FAILURES>\n" LINE60
           "Root Cause (first observed failure):\n" HEAD(
               "0", "5") "  exitcode  : 3 (pid: 77)\n  error_file: <N/A>\n" NO_TRACEBACK RULE60,
           "one failure is the root cause, in the layout of torchrun");
    list[0].status = 0;
    list[0].signal = SIGKILL;
    list[0].error_file = "/e";
    has_str(print("x", 1),
            "  exitcode  : -9 (pid: 77)\n  error_file: /e\n"
            "  traceback : Signal 9 (SIGKILL) received by PID 77\n",
            "a signal has its negative number and its name");
    is_int(failure_report_exit_code(&list[0]), -9, "the code of a signal is negative");
    list[0].signal = SIGHUP;
    has_str(print("x", 1), "  traceback : Signal 1 (SIGHUP) received", "the first signal is one");
    is_int(failure_report_exit_code(&list[0]), -1, "the code of the first signal is negative");
    list[0].message = "one\n\ntwo\x1b[1m";
    list[0].evidence = "a kernel's line\nanother\n";
    list[0].tail = "last\nlines\n";
    const char *text = print("x", 1);
    has_str(text, "  traceback : \n    one\n    \n    two", "a message is indented, line by line");
    ok(!strchr(text, '\x1b'), "control characters are made visible");
    has_str(text, "  evidence  : a kernel's line\n              another\n  last lines of its",
            "each finding has a line");
    has_str(text,
            "  last lines of its standard error:\n    last\n    lines\n=", "the last lines follow");
}

static size_t times(const char *text, const char *part) {
    size_t count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

// The width is that of the widest line, up to a limit.
static void test_width(void) {
    list[0] = failure(0);
    list[0].message = "m";
    is_int((int)strcspn(print("x", 1), "\n"), 33, "the width is that of the widest line");
    is_uint(times(print("x", 1), "\n---------------------------------\n"), 2,
            "all rules have the width");
    list[1] = failure(1);
    list[1].message = "a line of the other failure with 49 bytes......";
    is_int((int)strcspn(print("x", 2), "\n"), 4 + 47, "another failure may have the widest line");
    is_int((int)strcspn(print("a title of a program with a long name and more words", 2), "\n"), 59,
           "the title may be the widest line");
    list[1].message = "a line of the other failure with more bytes than fit into the width......";
    is_int((int)strcspn(print("x", 2), "\n"), 60, "the width has a limit");
}

static void test_many(void) {
    for (int i = 0; i < MANY; i++) {
        list[i] = failure(i);
        list[i].tail = "tail";
    }
    const char *text = print("x", 2);
    has_str(text, "Failures:\n" HEAD("1", "1"), "other failures come first");
    ok(!strstr(text, "NO_OTHER"), "there is another failure");
    is_uint(times(text, "last lines"), 1, "the root cause alone has its last lines");
    text = print("x", 17);
    ok(strstr(text, "[16]:") && !strstr(text, "more\n"), "sixteen other failures are shown");
    text = print("x", 18);
    has_str(text, "  and 1 more\n---", "a further failure is counted");
    ok(!strstr(text, "[17]:"), "a further failure is not shown");
    has_str(print("x", MANY), "  and 3 more\n", "all further failures are counted");
}

static void test_event(void) {
    struct events ev;
    struct err e;
    struct worker_failure f = failure(5);
    if (events_open(&ev, NULL, "n0", &e) < 0)
        bail_out("%s", e.text);
    f.message = "why";
    f.tail = "end";
    f.evidence = "found";
    failure_report_event(&ev, &f, 4, true);
    has_str(strbuf_cstr(&ev.line),
            "\"peer\":\"n1\",\"round\":4,\"rank\":5,\"local_rank\":1,\"pid\":77,\"status\":3,"
            "\"signal\":null,\"failed_ms\":1767323045999,\"message\":\"why\",\"tail\":\"end\","
            "\"evidence\":\"found\",\"root\":true}",
            "the event has all of a failure");
    f.signal = SIGTERM;
    failure_report_event(&ev, &f, 4, false);
    has_str(strbuf_cstr(&ev.line), "\"signal\":\"SIGTERM\"", "the event names the signal");
    has_str(strbuf_cstr(&ev.line), "\"root\":false}", "another failure is no root cause");
    events_close(&ev);
}

int main(void) {
    setenv("TZ", "UTC", 1);
    tzset();
    test_one();
    test_width();
    test_many();
    test_event();
    strbuf_fini(&out);
    return done_testing();
}
