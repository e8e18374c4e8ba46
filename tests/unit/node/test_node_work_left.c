// SPDX-License-Identifier: Apache-2.0
// Files that a run has made in its working folder, and its results by kind.
#include "tests/unit/node/verb_process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

// Files of the push are older than job.toml, which has this time from now on.
static void begin_run(int64_t seconds_from_now) {
    struct timespec now, at[2];
    put("runs/r1/job.toml", "");
    clock_gettime(CLOCK_REALTIME, &now);
    at[0] = at[1] = (struct timespec){now.tv_sec + seconds_from_now, now.tv_nsec};
    if (utimensat(AT_FDCWD, in("runs/r1/job.toml"), at, 0) < 0)
        bail_out("no time");
}

static int left(const char *words) {
    return verb(node_work_left, "", arena_printf(&a, "--run r1%s", words));
}

static void test_files(void) {
    begin();
    put("runs/r1/work/new", "12345");
    put("runs/r1/work/sub/deep/x", "123");
    put("runs/r1/work/__pycache__/c", "1");
    put("runs/r1/work/sub/__pycache__/c", "1");
    if (symlink("new", in("runs/r1/work/link")) < 0)
        bail_out("no link");
    begin_run(-60);
    is_int(left(""), 0, "files are counted: %s", said);
    has_str(said, "{\"event\":\"work_left\",\"files\":2,\"bytes\":8,\"names\":[\"",
            "files that are new count, caches and links do not");
    ok(strstr(said, "\"new\"") && strstr(said, "\"sub/deep/x\""), "files have their paths");
    ok(!strstr(said, "kinds"), "kinds are not counted unless asked for");
    is_str(text_of("runs/r1/gathered/work/new"), "absent",
           "files are not gathered unless asked for");
    begin_run(60);
    is_int(left(""), 0, "files of the push are left out: %s", said);
    has_str(said, "\"files\":0,\"bytes\":0,\"names\":[]}", "older files do not count");
    struct stat st;
    if (stat(in("runs/r1/work/new"), &st) < 0 ||
        utimensat(AT_FDCWD, in("runs/r1/job.toml"), (struct timespec[]){st.st_ctim, st.st_ctim},
                  0) < 0)
        bail_out("no time");
    left("");
    ok(!strstr(said, "\"new\""), "a file of the same moment is one of the push");
    ok(strstr(said, "sub/deep/x"), "a file that is later by parts of a second counts");
}

static void test_many(void) {
    begin();
    for (int i = 0; i < 10; i++)
        put(arena_printf(&a, "runs/r1/work/f%d", i), "1");
    begin_run(-60);
    left("");
    int names = 0;
    for (const char *p = said; (p = strstr(p, "\"f")); p++)
        names += p[2] >= '0' && p[2] <= '9';
    has_str(said, "\"files\":10,", "all files are counted");
    is_int(names, 8, "eight of them are named");
    const char *path = "runs/r1/work/d";
    begin();
    for (int depth = 1; depth <= 66; depth++, path = arena_printf(&a, "%s/d", path))
        if (depth == 64 || depth == 65)
            put(arena_printf(&a, "%s/f", path), "1");
    begin_run(-60);
    left("");
    has_str(said, "\"files\":1,", "folders are looked at down to a depth");
}

static void test_gather(void) {
    begin();
    put("runs/r1/work/a/b", "text");
    put("runs/r1/gathered/work/old", "old");
    begin_run(-60);
    is_int(left(" --gather"), 0, "files are gathered: %s", said);
    is_str(text_of("runs/r1/gathered/work/a/b"), "text", "a file is in its place");
    is_str(text_of("runs/r1/gathered/work/old"), "absent",
           "files that were gathered before are gone");
    struct stat one, other;
    ok(stat(in("runs/r1/work/a/b"), &one) == 0 &&
           stat(in("runs/r1/gathered/work/a/b"), &other) == 0 && one.st_ino == other.st_ino,
       "both are the same file");
}

static void test_kinds(void) {
    begin();
    put("runs/r1/output/a", "12");
    put("runs/r1/output/sub/b", "345");
    put("runs/r1/model/m", "");
    put("runs/r1/state", "no folder");
    put("runs/r1/attempt_0/0/stdout.log", "1234");
    put("runs/r1/attempt_0/0/stderr.log", "");
    put("runs/r1/attempt_0/0/notes", "12345");
    put("runs/r1/attempt_1/1/stderr.log", "1");
    put("runs/r1/attempts/x.log", "1");
    if (symlink("a", in("runs/r1/output/link")) < 0)
        bail_out("no link");
    begin_run(-60);
    is_int(left(" --kinds"), 0, "kinds are counted: %s", said);
    has_str(said,
            "\"kinds\":{\"logs\":{\"files\":2,\"bytes\":5},"
            "\"output\":{\"files\":3,\"bytes\":5},\"model\":{\"files\":1,\"bytes\":0},"
            "\"state\":{\"files\":0,\"bytes\":0}}}",
            "logs that are not empty, and all files and links of other kinds");
}

static void test_refused(void) {
    begin();
    put("runs/r2/work/new", "1");
    ok(left("") != 0, "an unknown run is an error");
    has_str(said, "run 'r1' is not known on this node", "the error names the run");
    ok(verb(node_work_left, "", "") != 0, "a run has to be named");
    has_str(said, "--run is missing", "the error says so");
    ok(left(" --unknown") != 0, "unknown words are refused");
    has_str(said, "unexpected '--unknown'", "the error has the word");
}

int main(void) {
    node_root_open();
    test_files();
    test_many();
    test_gather();
    test_kinds();
    test_refused();
    node_root_close();
    return done_testing();
}
