// SPDX-License-Identifier: Apache-2.0
// Generations of a run's state and its finished files, as dtctl asks a node for them. A verb runs
// in a process of its own, as on a node; its pauses pass at once.
#include "base/clock.h"
#include "base/json.h"
#include "tests/unit/node/verb_process.h"
#include "tests/unit/node/waits_pass.h"

#include <fcntl.h>
#include <sys/stat.h>

#define NONE "0000000000000000000000000000000000000000000000000000000000000000"

static const struct json *answer; // of the last verb

static int snapshot(const char *words) {
    waits_pass = true;
    int status =
        verb(node_snapshot, "", arena_printf(&a, "--run r1%s%s", *words ? " " : "", words));
    waits_pass = false;
    struct json *j = NULL;
    answer = status == 0 && json_parse(&a, said, strlen(said), &j, &error) == 0 ? j : NULL;
    return status;
}

static const char *digest(void) {
    return json_get_str(answer, "digest", "");
}

// "new whole FILES BYTES REASON"
static const char *facts(void) {
    return arena_printf(&a, "%s %s %d %d %s", json_get_bool(answer, "new", false) ? "new" : "known",
                        json_get_bool(answer, "whole", false) ? "whole" : "not-whole",
                        (int)json_get_int(answer, "files", -1),
                        (int)json_get_int(answer, "bytes", -1), json_get_str(answer, "reason", ""));
}

// A file that was written long ago.
static void put_old(const char *path, const char *text) {
    const struct timespec old[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    put(path, text);
    if (utimensat(AT_FDCWD, in(path), old, 0) < 0)
        bail_out("no time of '%s'", path);
}

static void begin_run(void) {
    begin();
    put("runs/r1/job.toml", "");
}

static void test_state(void) {
    begin_run();
    is_int(snapshot("--known " NONE), 0, "a run may have no state");
    is_str(facts(), "known whole 0 0 ", "no state is nothing new");
    put_old("runs/r1/state/model", "one");
    put_old("runs/r1/state/deep/part", "four");
    is_int(snapshot("--known " NONE), 0, "a state is taken: %s", said);
    is_str(facts(), "new whole 2 7 ", "the state is new, and has its files and bytes");
    is_int((int)strlen(digest()), 64, "the state has a digest");
    is_str(text_of("runs/r1/snapshot/model"), "one", "the files of the state are there");
    is_str(text_of("runs/r1/snapshot/deep/part"), "four", "the files of folders are there");
    const char *known = digest();
    is_int(snapshot(arena_printf(&a, "--again --known %s", known)), 0, "the state is looked at");
    is_str(facts(), "known whole 2 7 ", "a state that has stayed is whole");
    is_str(text_of("runs/r1/snapshot/model"), "absent", "the files go after the last look");
    is_int(snapshot(arena_printf(&a, "--known %s", known)), 0, "the state is asked for again");
    is_str(facts(), "known whole 2 7 ", "a state that dtctl has is not taken");
    is_str(text_of("runs/r1/snapshot/model"), "absent", "nothing is made of a known state");
    is_int(snapshot("--known " NONE), 0, "another dtctl asks");
    put("runs/r1/snapshot/model", "two");
    is_int(snapshot(arena_printf(&a, "--again --known %s", digest())), 0,
           "the state is looked at again");
    is_str(facts(), "known not-whole 2 7 a finished file was written again",
           "a state that was written to is not whole");
}

static void test_closed(void) {
    begin_run();
    put_old("runs/r1/output/a", "one");
    put_old("runs/r1/model/m", "four");
    put_old("runs/r1/state/s", "no");
    clock_day_ms = clock_wall_ms() + 5000; // the files have not changed meanwhile
    is_int(snapshot("--closed"), 0, "finished files are taken: %s", said);
    is_str(facts(), "new whole 2 7 ", "output and model have finished files");
    is_str(text_of("runs/r1/closed/output/a"), "one", "a finished file of the output is there");
    is_str(text_of("runs/r1/closed/model/m"), "four", "a finished file of the model is there");
    is_str(text_of("runs/r1/closed/state/s"), "absent", "a state has no finished files");
    is_int(snapshot(arena_printf(&a, "--closed --known %s", digest())), 0,
           "the files are asked for again");
    is_str(facts(), "known whole 2 7 ", "files that dtctl has are not new");
    clock_day_ms = 0;
}

static void test_unknown(void) {
    begin();
    ok(snapshot("--known " NONE) > 0, "an unknown run has no state");
    has_str(said, "run 'r1' is not known on this node", "the error names the run");
    ok(snapshot("--closed") > 0, "an unknown run has no finished files");
    has_str(said, "run 'r1' is not known on this node", "the error names the run without files");
    ok(verb(node_snapshot, "", "--known " NONE) > 0, "a snapshot is one of a run");
}

int main(void) {
    node_root_open();
    test_state();
    test_closed();
    test_unknown();
    node_root_close();
    return done_testing();
}
