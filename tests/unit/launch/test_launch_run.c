// SPDX-License-Identifier: Apache-2.0
// Whole runs of one node, each in a process of the test: exit statuses, signals, events and the
// commands of a control socket.
#include "launch/launch.h"

#include "agent/control_socket.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 30000 };

static struct arena arena;
static struct err e;
static struct launch l;
static struct option_set set;
static char *env[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"OMP_NUM_THREADS=1"}, NULL};
static char root[] = "/tmp/test_launch_run.XXXXXX";
static const char *run_dir, *workers = "1";

static void begin(const char *script) {
    const char *const args[] = {"/bin/sh", "-c", arena_strdup(&arena, script)};
    launch_init(&l, &arena, env);
    option_set_init(&set, &arena, "dtrun", "", env);
    option_set_add(&set, &launch_table, &l.options);
    l.options.standalone = l.options.no_python = true;
    l.options.log_dir = "/dev/null";
    l.options.nproc_per_node = workers;
    l.options.shutdown_timeout = 20;
    if (launch_by_hand(&l, args, 3, &e) < 0)
        bail_out("%s", e.text);
    l.agent.report = false;
}

// With a folder for events, status and the control socket.
static void begin_in_folder(const char *script) {
    begin(script);
    file_remove_tree(root, &e);
    if (file_make_dirs(root, 0700, &e) < 0)
        bail_out("%s", e.text);
    l.agent.run_dir = run_dir = root;
    l.agent.door_fd = control_listen(root, &e);
    if (l.agent.door_fd < 0)
        bail_out("%s", e.text);
}

static pid_t start(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(WAIT_MS / 1000);
        int status = agent_run(&l.agent, &e);
        _exit(status < 0 ? 99 : status);
    }
    if (l.agent.run_dir)
        close(l.agent.door_fd);
    return pid;
}

static int finish(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *text_of(const char *name) {
    char *text;
    size_t len;
    return file_read(&arena, file_join(&arena, root, name), 1 << 20, &text, &len, &e) < 0 ? ""
                                                                                          : text;
}

static bool wait_for(const char *name, const char *part) {
    for (int i = 0; i < WAIT_MS / 10; i++) {
        if (strstr(text_of(name), part))
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

// ---- exit statuses ------------------------------------------------------------------------------

static void test_statuses(void) {
    static const struct {
        const char *script;
        int exit_code, restarts, want;
    } cases[] = {{"exit 0", 0, 0, 0},
                 {"exit 3", 0, 0, 1},
                 {"exit 3", 1, 0, 3},
                 {"kill -9 $$", 1, 0, 137},
                 {"test $TORCHELASTIC_RESTART_COUNT = 1", 0, 0, 1},
                 {"test $TORCHELASTIC_RESTART_COUNT = 1", 0, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].script);
        l.agent.exit_code_of_worker = cases[i].exit_code == 1;
        l.agent.coordinator.rendezvous.max_restarts = cases[i].restarts;
        is_int(finish(start()), cases[i].want, "'%s' has its exit status, %d restarts",
               cases[i].script, cases[i].restarts);
    }
}

static void test_events(void) {
    begin_in_folder("exit 0");
    is_int(finish(start()), 0, "a run in a folder ends");
    static const char *const kinds[] = {"listening", "node-joined", "round", "finished"};
    const char *at = text_of("events.jsonl");
    for (int i = 0; i < 4; i++) {
        const char *found = strstr(at, arena_printf(&arena, "\"kind\":\"%s\"", kinds[i]));
        ok(found, "the event %s comes in its order", kinds[i]);
        at = found ? found : at;
    }
    has_str(text_of("events.jsonl"), "\"address\":\"127.0.0.1\",\"port\":0",
            "the first event has the address");
    has_str(text_of("status.json"), "\"state\":\"finished\"", "the status is final");
    has_str(text_of("status.json"), "\"exit_status\":0", "the status has the exit status");
}

// ---- signals and commands -----------------------------------------------------------------------

// A worker that does this at a signal, which is up when it can.
static const char *traps(const char *on_term, const char *on_int) {
    return arena_printf(&arena,
                        "trap '%s' TERM; trap '%s' INT; echo >%s/up; "
                        "while :; do sleep 0.05; done",
                        on_term, on_int, root);
}

static void test_signals(void) {
    begin_in_folder(traps("exit 5", "exit 5"));
    pid_t pid = start();
    ok(wait_for("up", "\n") && wait_for("status.json", "\"state\":\"running\""), "the worker runs");
    kill(pid, SIGPIPE);
    kill(pid, SIGTERM);
    is_int(finish(pid), 1, "a signal stops the run");
    has_str(text_of("status.json"), "\"state\":\"stopped\"", "the run has stopped");
    has_str(text_of("status.json"), "\"reason\":\"SIGTERM received\"", "the reason is the signal");
    begin_in_folder(traps("", ""));
    pid = start();
    ok(wait_for("up", "\n"), "another worker runs");
    kill(pid, SIGTERM);
    ok(wait_for("status.json", "\"state\":\"stop"), "the first signal is seen");
    kill(pid, SIGINT);
    is_int(finish(pid), 1, "the second signal waits for no worker");
}

// A worker with a grace period may still write results: no state before its end is final.
static void test_grace(void) {
    workers = "2";
    begin_in_folder(arena_printf(&arena,
                                 "[ $RANK = 1 ] && trap 'exit 5' TERM || trap : TERM; "
                                 "echo >>%s/up; until [ -e %s/go ]; do sleep 0.05; done",
                                 root, root));
    pid_t pid = start();
    ok(wait_for("up", "\n\n"), "two workers run");
    kill(pid, SIGTERM);
    ok(wait_for("status.json", "\"state\":\"exited\",\"status\":5"), "a worker ends at the signal");
    has_str(text_of("status.json"), "\"state\":\"stopping\",", "the other worker is waited for");
    has_str(text_of("status.json"), "\"exit_status\":null", "there is no exit status yet");
    ok(!strstr(text_of("events.jsonl"), "\"kind\":\"stopped\""),
       "there is no event of the end yet");
    if (file_write_atomic(file_join(&arena, root, "go"), "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(finish(pid), 1, "the run ends with the other worker");
    has_str(text_of("status.json"), "\"state\":\"stopped\",", "the run is stopped");
    has_str(text_of("events.jsonl"), "\"kind\":\"stopped\"", "the event of the end is there");
    workers = "1";
}

static void command(const char *line) {
    int fd = control_connect(root, WAIT_MS, &e);
    if (fd < 0 || send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
        bail_out("no control socket");
    close(fd);
}

static void test_commands(void) {
    static const char *const lines[] = {"{\"op\":\"stop\",\"signal\":2,\"grace_ms\":15000}\n",
                                        "{\"op\":\"stop\",\"signal\":0}\n",
                                        "{\"op\":\"stop\",\"signal\":99}\n", "{\"op\":\"stop\"}\n"};
    for (int i = 0; i < 4; i++) {
        begin_in_folder(traps(arena_printf(&arena, "echo term >>%s/signal; exit 5", root),
                              arena_printf(&arena, "echo int >>%s/signal; exit 5", root)));
        pid_t pid = start();
        ok(wait_for("up", "\n"), "worker %d runs", i);
        command("{\"op\":\"other\"}\n");
        command(lines[i]);
        is_int(finish(pid), 1, "command %d stops the run", i);
        has_str(text_of("status.json"), "\"reason\":\"stopped on request\"",
                "command %d is the reason", i);
        is_str(text_of("signal"), i == 0 ? "int\n" : "term\n", "worker %d gets the signal", i);
    }
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    test_statuses();
    test_events();
    test_signals();
    test_grace();
    test_commands();
    file_remove_tree(root, &e);
    arena_fini(&arena);
    return done_testing();
}
