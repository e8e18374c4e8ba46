// SPDX-License-Identifier: Apache-2.0
// A program that prepares the node: its output, its end, and what stops it. Standard input of the
// caller is the connection of dtctl.
#include "node/setup_program.h"
#include "sys/proc.h"
#include "tests/unit/node/verb_process.h"
#include "tests/unit/turned_clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

static const char *script;      // for sh
static const char *log_file;    // in the root
static const char *stderr_file; // of the caller, in the root
static const char
    *typed; // dtctl's bytes on a connection that stays; NULL: it ends when the program is ready
static bool hurried; // the clock is turned soon

static void turn(int number) {
    (void)number;
    clock_ahead_ms += 60000;
}

// dtctl's end of the connection: it goes away when there is a file `ready`.
static void hold_until_ready(int fd) {
    if (fork() != 0) {
        close(fd);
        return;
    }
    while (access(in("ready"), F_OK) < 0)
        poll(NULL, 0, 10);
    _exit(0);
}

static void put_in(void) {
    int ends[2];
    const char *bytes = typed ? typed : "";
    if (pipe(ends) < 0 || write(ends[1], bytes, strlen(bytes)) < 0 || dup2(ends[0], 0) < 0)
        _exit(99);
    if (!typed)
        hold_until_ready(ends[1]);
}

static int prepare(const struct node_call *c) {
    const struct setup_program p = {
        .name = "the setup",
        .argv = (const char *const[]){"sh", "-c", script, "x", "an argument", NULL},
        .env =
            (char *[]){arena_strdup(&a, "PATH=/usr/bin:/bin"), arena_strdup(&a, "GIVEN=yes"), NULL},
        .cwd = root,
        .log = in(log_file)};
    int errors = open(in(stderr_file), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct err e = {0};
    (void)c;
    put_in();
    if (errors < 0 || dup2(errors, 2) < 0)
        _exit(99);
    for (int fd = 3; fd < 32; fd++) // of the test, whose answer ends with this process
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (hurried) {
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = turn}, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 500000}, NULL);
    }
    return setup_program_run(&p, &e) < 0 ? node_fail(&e) : node_answer_event("prepared");
}

static void begin_setup(void) {
    begin();
    log_file = "log";
    stderr_file = "errors";
    typed = "";
    hurried = false;
}

static int setup(const char *with) {
    script = with;
    return verb(prepare, "", "");
}

static void is_error(const char *code, const char *text, const char *name) {
    is_str(said,
           arena_printf(&a, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"%s\"}", code, text),
           "%s", name);
}

static pid_t pid_in(const char *file) {
    int64_t pid = 0;
    return str_parse_i64(text_of(file), 2, INT32_MAX, &pid, &error) < 0 ? 0 : (pid_t)pid;
}

// The process whose number the file has ends soon.
static bool is_gone(const char *file) {
    struct proc_facts facts;
    pid_t pid = pid_in(file);
    for (int i = 0; i < 500 && pid > 1 && proc_look(pid, &facts) == 0 && facts.state != 'Z'; i++)
        poll(NULL, 0, 10);
    return pid > 1 && (proc_look(pid, &facts) < 0 || facts.state == 'Z');
}

static void test_output(void) {
    begin_setup();
    put("log", "an earlier log, which is longer than the new one");
    is_int(setup("echo to out; echo \"$GIVEN $1\" >&2; pwd"), 0, "a program succeeds: %s", said);
    const char *want = arena_printf(&a, "to out\nyes an argument\n%s\n", root);
    is_str(text_of("log"), want, "the log has both streams of this program alone");
    is_str(text_of("errors"), want, "dtctl reads the same");
    is_int(setup("head -c 300000 /dev/zero; printf end"), 0, "a program may write much");
    is_int(verb(prepare, "", ""), 0, "a program runs a second time");
    char *text = NULL;
    size_t len = 0;
    is_int(file_read(&a, in("log"), 1 << 20, &text, &len, &error), 0, "the log is read");
    ok(len == 300003 && memcmp(text + 300000, "end", 3) == 0,
       "the log has the output to its end, once");
    stderr_file = "full";
    if (symlink("/dev/full", in("full")) < 0)
        bail_out("no link");
    is_int(setup("echo one; sleep 0.1; echo two"), 0, "a reader that is gone does not stop it");
    is_str(text_of("log"), "one\ntwo\n", "the log goes on without a reader");
}

static void test_end(void) {
    const char *log = in("log");
    begin_setup();
    is_int(setup("echo why; exit 3"), err_status(ERR_FAILED), "a program may fail");
    is_error("failed", arena_printf(&a, "the setup ended with status 3 (its log: %s)", log),
             "the error has the status and the log");
    is_str(text_of("log"), "why\n", "the log has the reason");
    setup("kill -KILL $$");
    is_error("failed", arena_printf(&a, "the setup ended with status 137 (its log: %s)", log),
             "a signal has the status that shells give it");
    is_int(setup("exec >&- 2>&-; sleep 0.3; echo late >late"), 0,
           "a program may close its output: %s", said);
    is_str(text_of("late"), "late\n", "a program without output is awaited");
    is_int(setup("echo before; sleep 600 & printf $! >left"), 0,
           "a process that it leaves behind is not awaited: %s", said);
    is_str(text_of("log"), "before\n", "the output before its end is in the log");
    pid_t left = pid_in("left");
    ok(left > 1 && kill(left, SIGKILL) == 0, "the process that it left behind still runs");
}

static void test_start(void) {
    begin_setup();
    log_file = "nowhere/log";
    is_int(setup("touch ran"), err_status(ERR_SYS), "a log needs its folder");
    is_error(
        "system",
        arena_printf(&a, "cannot write the log '%s': No such file or directory", in("nowhere/log")),
        "the error has the log");
    is_str(text_of("ran"), "absent", "nothing runs without a log");
    log_file = "full";
    if (symlink("/dev/full", in("full")) < 0)
        bail_out("no link");
    setup("echo x; sleep 600; touch ran");
    has_str(said, "No space left on device", "a log that cannot be written stops the program");
    is_str(text_of("ran"), "absent", "the rest of it does not run");
}

static void test_connection(void) {
    begin_setup();
    typed = "bytes that are of no use";
    is_int(setup("sleep 0.3; echo done"), 0, "bytes of dtctl do not stop a program: %s", said);
    is_str(text_of("log"), "done\n", "the program ran to its end");
    typed = NULL;
    is_int(setup("trap 'sleep 0.7; echo tidied >tidied; exit 0' TERM; sleep 600 & printf $! >child;"
                 "touch ready; wait; echo on"),
           err_status(ERR_INTERRUPTED), "the end of the connection stops a program");
    is_error("interrupted", "the connection of dtctl ended during the setup",
             "the error has the reason");
    is_str(text_of("tidied"), "tidied\n", "the program may tidy up");
    ok(is_gone("child"), "processes of the program are stopped, too");
    begin();
    hurried = true;
    is_int(setup("trap '' TERM; printf $$ >stubborn; touch ready; while :; do sleep 1; done"),
           err_status(ERR_INTERRUPTED), "a program may ignore the request");
    ok(is_gone("stubborn"), "a stubborn program is killed");
}

static int check(const struct node_call *c) {
    struct err e = {0};
    (void)c;
    put_in();
    while (!typed && poll(&(struct pollfd){.events = POLLIN}, 1, -1) != 1)
        ; // until the other end has gone
    return setup_program_check(&e) < 0 ? node_fail(&e) : node_answer_event("connected");
}

static void test_check(void) {
    begin_setup();
    is_int(verb(check, "", ""), 0, "a silent connection is one: %s", said);
    typed = "bytes";
    is_int(verb(check, "", ""), 0, "bytes on the connection do not end it: %s", said);
    typed = NULL;
    put("ready", "");
    is_int(verb(check, "", ""), err_status(ERR_INTERRUPTED), "the end of the connection is seen");
    is_error("interrupted", "the connection of dtctl ended during the setup",
             "the error is that of a program that is stopped");
}

int main(void) {
    node_root_open();
    test_output();
    test_end();
    test_start();
    test_connection();
    test_check();
    node_root_close();
    return done_testing();
}
