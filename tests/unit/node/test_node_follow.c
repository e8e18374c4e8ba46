// SPDX-License-Identifier: Apache-2.0
// The files of a run as a follower gets them: which, in what order, from which offsets, and until
// which end. The agent is a process of the test.
#include "base/bytes.h"
#include "base/json.h"
#include "protocol/node_sample.h"
#include "tests/unit/inotify.h"
#include "tests/unit/node/agent_process.h"
#include "tests/unit/node/waits_pass.h"

#include <errno.h>
#include <fcntl.h>

enum { CHUNK_BYTES = 128 << 10, WAIT_MS = 20000, SHOWN_BYTES = 40 };
static const char sample_file[] = NODE_SAMPLE_FILE;

// ---- a follower ---------------------------------------------------------------------------------

static pid_t follower;
static int records_fd = -1;
static char *piece; // the bytes of the last record
static size_t piece_len;

static void follow(const char *words, const char *input, size_t len) {
    int to[2], from[2];
    char **argv;
    const char *line =
        arena_printf(&a, "follow --root %s --run r1%s%s", root, *words ? " " : "", words);
    size_t argc = str_split(&a, arena_strdup(&a, line), ' ', &argv);
    if (pipe(to) < 0 || pipe(from) < 0)
        bail_out("no pipes");
    follower = fork();
    if (follower == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        _exit(node_follow(&(struct node_call){.argc = (int)argc, .argv = argv}));
    }
    close(to[0]);
    close(from[1]);
    if (len > 0 && write(to[1], input, len) < 0)
        diag("the input is not read");
    close(to[1]);
    records_fd = from[0];
}

static bool take(void *to, size_t len) {
    struct pollfd p = {.fd = records_fd, .events = POLLIN};
    for (size_t at = 0; at < len;) {
        ssize_t n = poll(&p, 1, WAIT_MS) == 1 ? read(records_fd, (char *)to + at, len - at) : 0;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// "FILE OFFSET BYTES", "beat", "STATE EXIT_STATUS", or "" at the end.
static const char *record(void) {
    char head[4];
    struct json *j;
    if (!take(head, sizeof head))
        return "";
    size_t len = bytes_load(head, 4);
    char *text = arena_new(&a, char, len + 1);
    if (len > 4 * CHUNK_BYTES || !take(text, len))
        return "cut";
    char *end = memchr(text, '\n', len);
    if (!end || json_parse(&a, text, (size_t)(end - text), &j, &error) < 0)
        return "no header";
    piece = end + 1;
    piece_len = len - (size_t)(piece - text);
    if (json_get(j, "beat"))
        return "beat";
    if (json_get(j, "end"))
        return arena_printf(&a, "%s %d", json_get_str(j, "end", ""),
                            (int)json_get_int(j, "exit_status", -1));
    if (json_get_int(j, "bytes", -1) != (int64_t)piece_len)
        return "wrong length";
    return arena_printf(&a, "%s %d %d", json_get_str(j, "file", ""),
                        (int)json_get_int(j, "offset", -1), (int)piece_len);
}

static int finish(void) {
    int status = 0;
    close(records_fd);
    waitpid(follower, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void is_record(const char *want, const char *what) {
    is_str(record(), want, "%s", what);
}

// All records of a run whose agent has ended.
static const char *all_of(const char *words) {
    struct strbuf all = {0};
    follow(words, NULL, 0);
    for (const char *r; (r = record())[0];)
        strbuf_addf(&all, "%s;", r);
    const char *text = arena_strdup(&a, strbuf_cstr(&all));
    strbuf_fini(&all);
    is_int(finish(), 0, "the run is followed to its end");
    return text;
}

// Bytes at the end of a file of the run.
static void add(const char *path, const char *text) {
    const char *full = in(file_join(&a, "runs/r1", path));
    if (file_make_dirs(file_dir(&a, full), 0700, &error) < 0 ||
        file_append(full, text, strlen(text), &error) < 0)
        bail_out("%s", error.text);
}

static void add_many(const char *path, size_t bytes, size_t line_bytes) {
    char *text = arena_new(&a, char, bytes + 1);
    memset(text, 'x', bytes);
    for (size_t i = line_bytes; i <= bytes; i += line_bytes)
        text[i - 1] = '\n';
    add(path, text);
}

static void begin_run(const char *status) {
    begin();
    put("runs/r1/job.toml", "");
    if (status)
        put("runs/r1/status.json", status);
}

// ---- runs that are over -------------------------------------------------------------------------

static void test_choice(void) {
    static const char finished[] = "{\"state\":\"finished\"}";
    begin_run(finished);
    add("agent.log", "one");
    add("events.jsonl", "{}\n");
    add(sample_file, "[]\n");
    add("output/metrics.jsonl", "{\"loss\":1}\n");
    for (int i = 0; i < 3; i++) {
        static const int rounds[] = {10, 0, 2};
        add(arena_printf(&a, "attempt_%d/1/stdout.log", rounds[i]), "out\n");
    }
    add("attempt_0/1/stderr.log", "err");
    add("attempt_0/1/error.json", "{}");
    add("attempt_0/1/log-times", "1 2 3\n");
    static const char *const others[] = {"other",
                                         ".agent.log",
                                         "attempt_0/stdout.log",
                                         "attempt_0/1/core",
                                         "attempt_0/x/stdout.log",
                                         "attempt_x/1/out.log",
                                         "output/agent.log",
                                         "metrics.jsonl",
                                         "attempt_/1/stdout.log",
                                         "output/1/stdout.log",
                                         "attempt_0/1/metrics.jsonl",
                                         "1/stdout.log",
                                         "attempt_0/1/events.jsonl"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add(others[i], "no\n");
    const char *logs = "agent.log 0 3;attempt_0/1/error.json 0 2;attempt_0/1/log-times 0 6;"
                       "attempt_0/1/stderr.log 0 3;attempt_0/1/stdout.log 0 4;"
                       "attempt_2/1/stdout.log 0 4;attempt_10/1/stdout.log 0 4;";
    const char *lines = arena_printf(&a, "output/metrics.jsonl 0 11;%s 0 3;", sample_file);
    is_str(all_of(""), arena_printf(&a, "events.jsonl 0 3;%s%sfinished 0;", logs, lines),
           "events come first, then files by name");
    is_str(all_of("--once"), arena_printf(&a, "events.jsonl 0 3;%s%sfinished 0;", logs, lines),
           "one pass has everything");
    is_str(all_of("--only logs"), arena_printf(&a, "%sfinished 0;", logs), "logs alone are sent");
    is_str(all_of("--only events"), arena_printf(&a, "events.jsonl 0 3;%sfinished 0;", lines),
           "events and figures alone are sent");
}

static void test_ends(void) {
    static const struct {
        const char *status, *want;
    } cases[] = {{NULL, "lost 4;"},
                 {"{\"state\":\"running\"}", "lost 4;"},
                 {"{\"state\":\"failed\"}", "failed 1;"},
                 {"{\"state\":\"failed\",\"exit_status\":7}", "failed 7;"},
                 {"{\"state\":\"finished\",\"exit_status\":0}", "finished 0;"},
                 {"{\"state\":\"failed\",\"exit_status\":0}", "failed 0;"},
                 {"{\"state\":\"stopped\",\"exit_status\":-1}", "stopped 1;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_run(cases[i].status);
        is_str(all_of(""), cases[i].want, "the end has the state and the exit status");
    }
}

static void test_offsets(void) {
    begin_run(NULL);
    add("agent.log", "0123456789");
    add("attempt_0/0/stdout.log", "abc");
    is_str(all_of("--from {\"agent.log\":4,\"attempt_0/0/stdout.log\":3}"), "agent.log 4 6;lost 4;",
           "files continue at their offsets");
    is_str(all_of("--from {\"agent.log\":0,\"gone\":5}"),
           "agent.log 0 10;attempt_0/0/stdout.log 0 3;lost 4;", "a file may be gone");
    is_str(all_of("--from {\"agent.log\":11}"), "attempt_0/0/stdout.log 0 3;lost 4;",
           "an offset may be behind the end");
    static const char json[] = "{\"agent.log\":8}";
    char input[4 + sizeof json - 1];
    bytes_store(input, sizeof json - 1, 4);
    memcpy(input + 4, json, sizeof json - 1);
    follow("--from -", input, sizeof input);
    is_record("agent.log 8 2", "offsets may come as a record");
    is_mem(piece, piece_len, "89", 2, "the rest of the file is sent");
    finish();
    static const struct {
        const char *words, *want;
    } bad[] = {{"--from {\"agent.log\":-1}", "--from: 'agent.log' has no usable offset"},
               {"--from {\"agent.log\":\"1\"}", "--from: 'agent.log' has no usable offset"},
               {"--from {", "--from: "},
               {"--only all", "--only is neither events nor logs"},
               {"--only log", "--only is neither events nor logs"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(verb(node_follow, "", arena_printf(&a, "--run r1 %s", bad[i].words)) > 0,
           "the words %s are refused", bad[i].words);
        has_str(said, bad[i].want, "the error is %s", bad[i].want);
    }
    ok(verb(node_follow, "", "--run r2") > 0, "an unknown run cannot be followed");
    has_str(said, "run 'r2' is not known on this node", "the error names the run");
}

// ---- pieces -------------------------------------------------------------------------------------

static void test_pieces(void) {
    begin_run(NULL);
    add_many("events.jsonl", 2 * CHUNK_BYTES, 1000);
    add("events.jsonl", "{");
    is_str(all_of("--once"),
           "events.jsonl 0 131000;events.jsonl 131000 131000;"
           "events.jsonl 262000 145;lost 4;",
           "full pieces of events are lines, and the last one is all of the rest");
    begin_run(NULL);
    add_many("events.jsonl", CHUNK_BYTES + 10, CHUNK_BYTES + 5);
    is_str(all_of("--once"), "events.jsonl 0 131072;events.jsonl 131072 10;lost 4;",
           "a line may be longer than a piece");
    begin_run(NULL);
    add_many("attempt_0/0/stdout.log", 5 * CHUNK_BYTES, 1000);
    add_many("attempt_0/1/stdout.log", CHUNK_BYTES + 1, 1000);
    add("events.jsonl", "{}\n");
    is_str(all_of("--once"),
           "events.jsonl 0 3;attempt_0/0/stdout.log 0 131072;"
           "attempt_0/0/stdout.log 131072 131072;attempt_0/0/stdout.log 262144 131072;"
           "attempt_0/0/stdout.log 393216 131072;attempt_0/1/stdout.log 0 131072;"
           "attempt_0/1/stdout.log 131072 1;attempt_0/0/stdout.log 524288 131072;lost 4;",
           "four pieces are a turn");
}

// ---- a running run ----------------------------------------------------------------------------

// Takes the first client, and keeps it until a byte comes.
static void serve(int door, const void *arg) {
    char command[64];
    int fd = agent_accept(door);
    (void)arg;
    while (fd >= 0 && recv(fd, command, sizeof command, 0) > 0)
        ;
}

static void test_live(void) {
    begin_run("{\"state\":\"running\"}");
    add("events.jsonl", "{\"a\":1}\n{\"b\"");
    pid_t agent = agent_start("r1", serve, NULL);
    follow("", NULL, 0);
    is_record("events.jsonl 0 8", "a whole line of events is sent");
    add("agent.log", "half");
    is_record("agent.log 0 4", "a log is sent as far as it is there");
    add("events.jsonl", ":2}\n");
    is_record("events.jsonl 8 8", "an event is sent when its line is whole");
    is_mem(piece, piece_len, "{\"b\":2}\n", 8, "the line is that of the file");
    add("attempt_0/0/stdout.log", "x");
    is_record("attempt_0/0/stdout.log 0 1", "a folder that comes later is followed");
    add("attempt_0/1/stderr.log", "yy");
    is_record("attempt_0/1/stderr.log 0 2", "a folder in a folder is followed");
    add("events.jsonl", "rest");
    put("runs/r1/status.json", "{\"state\":\"finished\",\"exit_status\":0}");
    agent_end(agent);
    is_record("events.jsonl 16 4", "the end has the incomplete line");
    is_record("finished 0", "the end of the agent is the end of the run");
    is_record("", "nothing follows the end");
    is_int(finish(), 0, "the run is followed to its end");
}

static void test_once(void) {
    begin_run("{\"state\":\"running\"}");
    add("agent.log", "now");
    pid_t agent = agent_start("r1", serve, NULL);
    is_str(all_of("--once"), "agent.log 0 3;running -1;", "a running run is read once");
    agent_end(agent);
}

static void test_beats(void) {
    begin_run("{\"state\":\"running\"}");
    pid_t agent = agent_start("r1", serve, NULL);
    waits_pass = true;
    follow("", NULL, 0);
    waits_pass = false;
    is_record("beat", "a silent run has beats");
    is_int(piece_len, 0, "a beat has no bytes");
    is_record("beat", "beats go on");
    is_int(finish(), 1, "a follower whose reader is gone ends");
    agent_end(agent);
}

// Last: this program has no watches of folders from now on.
static void test_polled(void) {
    if (!inotify_limit("max_inotify_watches", 0)) {
        skip(3, "this machine does not limit watches of folders");
        return;
    }
    begin_run("{\"state\":\"running\"}");
    pid_t agent = agent_start("r1", serve, NULL);
    follow("", NULL, 0);
    add("agent.log", "one");
    is_record("agent.log 0 3", "folders without a watch are looked at");
    add("attempt_0/0/stdout.log", "two");
    is_record("attempt_0/0/stdout.log 0 3", "later folders without a watch are looked at, too");
    agent_end(agent);
    is_record("lost 4", "the end of the agent is seen");
    finish();
}

int main(void) {
    node_root_open();
    test_choice();
    test_ends();
    test_offsets();
    test_pieces();
    test_live();
    test_once();
    test_beats();
    test_polled();
    node_root_close();
    return done_testing();
}
