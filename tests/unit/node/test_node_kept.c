// SPDX-License-Identifier: Apache-2.0
// States, inputs and environments that a node keeps, and which of them may be dropped.
#include "tests/unit/node/agent_process.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

static int kept(void) {
    return verb(node_kept, "", "");
}

static int drop(const char *words) {
    return verb(node_drop, "", words);
}

static void changed_at(const char *path, int64_t ms) {
    struct timespec at[2];
    at[0] = at[1] = (struct timespec){ms / 1000, ms % 1000 * 1000000};
    if (utimensat(AT_FDCWD, in(path), at, 0) < 0)
        bail_out("no time");
}

static void is_error(enum err_code code, const char *text, const char *name) {
    is_str(said,
           arena_printf(&a, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"%s\"}", err_name(code),
                        text),
           "%s", name);
}

// ---- kept ---------------------------------------------------------------------------------------

static int kept_unread(const struct node_call *c) {
    int full = open("/dev/full", O_WRONLY);
    if (full < 0 || dup2(full, 1) < 0)
        return 99;
    return node_kept(c);
}

static void test_kept(void) {
    begin();
    is_int(kept(), 0, "a node may keep nothing");
    is_str(said, "", "nothing is listed");
    put("runs/r1/state/a", "123");
    put("runs/r1/state/sub/b", "4567");
    put("runs/r1/output/c", "other results do not count");
    put("runs/r2/output/c", "");
    put("runs/.hidden/state/a", "1");
    put("inputs/set-0123/x", "12");
    put("inputs/.new-7/x", "12");
    put("envs/bundle-4567/archive", "1");
    if (file_make_dirs(in("inputs/empty-89/sub"), 0700, &error) < 0)
        bail_out("%s", error.text);
    changed_at("runs/r1/state/a", 1000);
    changed_at("runs/r1/state/sub/b", 2500);
    changed_at("inputs/set-0123/x", 3000);
    changed_at("envs/bundle-4567/archive", 4000);
    is_int(kept(), 0, "folders are listed");
    is_str(
        said,
        "{\"kind\":\"state\",\"name\":\"r1\",\"files\":2,\"bytes\":7,\"changed_ms\":2500}\n"
        "{\"kind\":\"input\",\"name\":\"set-0123\",\"files\":1,\"bytes\":2,\"changed_ms\":3000}\n"
        "{\"kind\":\"environment\",\"name\":\"bundle-4567\",\"files\":1,\"bytes\":1,"
        "\"changed_ms\":4000}",
        "states, inputs and environments with files are listed, each with its newest change");
    is_int(verb(kept_unread, "", ""), 1, "a reader that is gone ends the list");
    is_str(said, "", "a list without a reader needs no words");
    is_int(verb(node_kept, "", "--unknown"), err_status(ERR_USAGE), "unknown words are refused");
    has_str(said, "unexpected '--unknown'", "the error has the word");
}

static void test_unreadable(void) {
    static const char *const folders[] = {"runs", "inputs", "envs"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        begin();
        put(folders[i], "no folder");
        is_int(kept(), err_status(ERR_SYS), "'%s' may be unreadable", folders[i]);
        is_error(ERR_SYS,
                 arena_printf(&a, "cannot read the folder '%s': Not a directory", in(folders[i])),
                 "the error has the folder");
    }
}

// ---- drop ---------------------------------------------------------------------------------------

static void wait_for_end(int door, const void *arg) {
    (void)arg;
    for (;;)
        agent_accept(door);
}

static void test_drop(void) {
    begin();
    put("runs/r1/job.toml", "");
    put("runs/r1/state/a", "1");
    put("runs/r1/output/a", "2");
    put("runs/r2/state/a", "3");
    put("runs/r1/.dropped/half", "left by a killed drop");
    is_int(drop("--run r1"), 0, "a state is dropped: %s", said);
    is_str(said, "{\"event\":\"dropped\"}", "the answer says so");
    ok(file_is_absent(in("runs/r1/state")) && file_is_absent(in("runs/r1/.dropped")),
       "nothing of it is left");
    is_str(text_of("runs/r1/output/a"), "2", "other results stay");
    is_str(text_of("runs/r2/state/a"), "3", "states of other runs stay");
    is_int(drop("--run r1"), 0, "a state may be gone already");
    is_str(said, "{\"event\":\"dropped\"}", "the answer is the same");

    put("inputs/set-01/x", "1");
    put("inputs/set-02/x", "2");
    put("envs/set-01/x", "3");
    is_int(drop("--input set-01"), 0, "an input is dropped: %s", said);
    ok(file_is_absent(in("inputs/set-01")), "the input is gone");
    is_str(text_of("inputs/set-02/x"), "2", "other inputs stay");
    is_str(text_of("envs/set-01/x"), "3", "environments stay");
    is_int(drop("--bundle set-01"), 0, "an environment is dropped: %s", said);
    ok(file_is_absent(in("envs/set-01")), "the environment is gone");
    is_str(text_of("inputs/set-02/x"), "2", "inputs stay");
}

static void test_active(void) {
    begin();
    put("runs/r1/job.toml", "");
    put("runs/r1/status.json", "{\"state\":\"running\"}");
    put("runs/r1/state/a", "1");
    put("runs/r2/job.toml", "");
    put("runs/r2/state/a", "2");
    put("inputs/set-01/x", "1");
    put("envs/bundle-01/x", "1");
    pid_t pid = agent_start("r1", wait_for_end, NULL);
    static const char *const active[] = {"--run r1", "--input set-01", "--bundle bundle-01"};
    for (size_t i = 0; i < sizeof active / sizeof *active; i++) {
        is_int(drop(active[i]), err_status(ERR_BUSY), "'%s' is in use", active[i]);
        is_error(ERR_BUSY, "run 'r1' is running (try: dtctl stop r1)", "the error has the run");
    }
    is_str(text_of("runs/r1/state/a"), "1", "the state stays");
    is_str(text_of("inputs/set-01/x"), "1", "the input stays");
    is_str(text_of("envs/bundle-01/x"), "1", "the environment stays");
    is_int(drop("--run r2"), 0, "the state of a run that is over is dropped: %s", said);
    put("runs/r1/status.json", "{\"state\":\"finished\"}");
    is_int(drop("--input set-01"), 0, "an agent whose run is over uses nothing: %s", said);
    agent_end(pid);
    put("runs/r1/status.json", "{\"state\":\"running\"}");
    is_int(drop("--run r1"), 0, "a run without an agent uses nothing: %s", said);
}

static void test_refused(void) {
    static const char *const counts[] = {"", "--run r1 --input set-01", "--input a-1 --bundle b-1",
                                         "--run r1 --input a-1 --bundle b-1"};
    char longest[NAME_MAX + 2];
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    begin();
    put("runs/r1/state/a", "1");
    put("inputs/set-01/x", "1");
    put("inputs/.x", "1");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        is_int(drop(counts[i]), err_status(ERR_USAGE), "'%s' is refused", counts[i]);
        is_error(ERR_USAGE, "--node drop: needs one of --run, --input and --bundle",
                 "one thing is dropped at a time");
    }
    static const char *const names[] = {"..", ".x", "a/b", "../runs/r1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        is_int(drop(arena_printf(&a, "--input %s", names[i])), err_status(ERR_USAGE),
               "'%s' is no input", names[i]);
        is_error(ERR_USAGE,
                 arena_printf(&a, "'%s' is not the name of a folder in 'inputs'", names[i]),
                 "the error has the name");
    }
    is_int(drop(arena_printf(&a, "--bundle %s", longest)), err_status(ERR_USAGE),
           "a name may be too long");
    has_str(said, "is not the name of a folder in 'envs'", "the error says of what");
    is_int(drop(arena_printf(&a, "--bundle %s", longest + 1)), 0, "the longest name is taken");
    is_str(text_of("runs/r1/state/a"), "1", "runs are as before");
    is_str(text_of("inputs/set-01/x"), "1", "inputs are as before");
    is_int(drop("--unknown"), err_status(ERR_USAGE), "unknown words are refused");
    has_str(said, "unexpected '--unknown'", "the error has the word");
}

static void test_failures(void) {
    begin();
    put("runs", "no folder");
    put("inputs/set-01/x", "1");
    is_int(drop("--input set-01"), err_status(ERR_SYS), "runs that cannot be read may be active");
    has_str(said, "cannot read the folder", "the error says so");
    is_str(text_of("inputs/set-01/x"), "1", "the input stays");
}

int main(void) {
    node_root_open();
    test_kept();
    test_unreadable();
    test_drop();
    test_active();
    test_refused();
    test_failures();
    node_root_close();
    return done_testing();
}
