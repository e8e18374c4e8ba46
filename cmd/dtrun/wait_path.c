// SPDX-License-Identifier: Apache-2.0
// `dtrun wait PATH…`: blocks until other processes have written files of this node. A file is there
// when it has not changed between two looks and no process of this node has it open for writing. A
// folder is there when it exists.
#include "verb.h"

#include "base/clock.h"
#include "build_info.h"
#include "conf/option.h"
#include "sys/file_writers.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { TICK_MS = 100 };

static struct wait_path_flags {
    int64_t timeout_ms;
    bool help;
} flags;

#define AT(field) .offset = offsetof(struct wait_path_flags, field)

static const struct option_row rows[] = {
    {.flag = "timeout",
     .type = OPTION_DURATION,
     AT(timeout_ms),
     .text = "0s",
     .max = 31 * 86400000LL,
     .arg = "TIME",
     .marks = OPTION_NO_ENV,
     .help = "End with status 1 when a path is not there after this time; 0: wait without an end."},
    OPTION_ROW_HELP(AT(help)),
};
static const struct option_table table = {"wait", rows, sizeof rows / sizeof *rows};

static const struct render_program program = {
    .name = "dtrun wait",
    .summary = "wait until other processes have written files",
    .version = DTCTL_VERSION,
    .synopsis = "[FLAGS] PATH…",
    .text = "Blocks until every PATH is there. A file is there when no process of this node has it "
            "open for writing any more, and a folder when it exists. The writer of a folder makes "
            "it under another name and renames it.\n\n"
            "    dtrun wait --timeout 10m \"$DTCTL_OUTPUT_DIR/vocabulary.json\"",
};

// `last` has the state at the look before.
static bool is_there(const char *path, struct stat *last) {
    struct stat st;
    if (stat(path, &st) < 0) {
        *last = (struct stat){0};
        return false;
    }
    bool same = st.st_ino == last->st_ino && st.st_size == last->st_size &&
                st.st_mtim.tv_sec == last->st_mtim.tv_sec &&
                st.st_mtim.tv_nsec == last->st_mtim.tv_nsec;
    *last = st;
    return !S_ISREG(st.st_mode) || (same && file_writers(path) == FILE_WRITERS_NONE);
}

static int wait_for(const char *path, int64_t end_ms, struct err *e) {
    static const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    struct stat last = {0};
    while (!is_there(path, &last)) {
        if (end_ms && clock_mono_ms() >= end_ms)
            return err_set(e, ERR_TIMEOUT, "'%s' is not there: %s", path,
                           last.st_ino ? "a process writes it" : "it does not exist");
        nanosleep(&tick, NULL);
    }
    return 0;
}

static int run(const char *const *words, size_t count, struct err *e) {
    if (count == 0) {
        err_set(e, ERR_USAGE, "give a path (dtrun wait --help)");
        return 2;
    }
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGIO, &ignore, NULL); // of leases, by which writers are found
    int64_t end_ms = flags.timeout_ms ? clock_mono_ms() + flags.timeout_ms : 0;
    for (size_t i = 0; i < count; i++)
        if (wait_for(words[i], end_ms, e) < 0)
            return 1;
    return 0;
}

const struct verb verb_wait = {"wait", &program, &table, &flags, run};
