// SPDX-License-Identifier: Apache-2.0
// Programs that are started: where they are found, what they get, how they end, and how their end
// is known. All of them are scripts of the test, or /bin/sh.
#include "sys/proc.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/test_proc.XXXXXX";
static struct arena a;
static struct err error;
static int status;
static const char *printed;

static const char *in(const char *name) {
    return file_join(&a, folder, name);
}

static void put(const char *path, const char *text, unsigned mode) {
    if (file_make_dirs(file_dir(&a, in(path)), 0755, &error) < 0 ||
        file_write_atomic(in(path), text, strlen(text), mode, &error) < 0)
        bail_out("%s", error.text);
}

static int run_spec(struct proc_spec spec, size_t most, int timeout_ms) {
    static char *none[] = {NULL};
    char *text = NULL;
    spec.env = spec.env ? spec.env : none;
    spec.in = spec.in ? spec.in : -1;
    spec.err = spec.err ? spec.err : -1;
    status = -1;
    err_clear(&error);
    int rc = proc_run(&spec, &text, most, timeout_ms, &status, &error);
    printed = rc == 0 ? arena_strdup(&a, text) : "";
    free(text);
    return rc;
}

// The output of the shell for a line.
static int shell_spec(const char *line, struct proc_spec spec) {
    spec.argv = (const char *const[]){"/bin/sh", "-c", line, NULL};
    return run_spec(spec, 65536, -1);
}

static int shell(const char *line) {
    return shell_spec(line, (struct proc_spec){.in = -1});
}

// A program without a '/', looked for in these folders. NULL: the environment has none.
static const char *found(const char *name, const char *path) {
    char *env[] = {path ? arena_printf(&a, "PATH=%s", path) : NULL, NULL};
    const char *argv[] = {name, NULL};
    struct proc_spec spec = {.argv = argv, .env = env, .cwd = folder};
    return run_spec(spec, 65536, -1) < 0 ? arena_strdup(&a, error.text) : printed;
}

static void test_path(void) {
    put("one/first", "#!/bin/sh\nprintf one\n", 0755);
    put("two/first", "#!/bin/sh\nprintf two\n", 0755);
    put("two/second", "#!/bin/sh\nprintf two\n", 0755);
    put("one/third", "#!/bin/sh\nprintf one\n", 0644);
    put("two/third", "#!/bin/sh\nprintf two\n", 0755);
    put("here", "#!/bin/sh\nprintf here\n", 0755);
    const char *both = arena_printf(&a, "%s:%s", in("one"), in("two"));
    is_str(found("first", both), "one", "the first folder of the path counts");
    is_str(found("second", both), "two", "the second one comes next");
    is_str(found("third", both), "two", "a file that cannot be run is passed over");
    is_str(found("third", in("one")), "cannot start 'third': Permission denied",
           "a file that cannot be run is the reason");
    is_int(error.code, ERR_SYS, "the error is one of the system");
    is_str(found("third", arena_printf(&a, "%s:/nowhere", in("one"))),
           "cannot start 'third': Permission denied", "the reason is kept when others are absent");
    is_str(found("fourth", arena_printf(&a, "/nowhere:%s:%s", in("here"), in("two"))),
           "cannot start 'fourth': No such file or directory",
           "folders that are absent or no folders are no reason");
    is_int(error.code, ERR_NOT_FOUND, "the program is not found");
    is_str(found("here", arena_printf(&a, "%s:", in("one"))), "here",
           "an empty folder at the end is the current one");
    is_str(found("here", arena_printf(&a, ":%s", in("one"))), "here",
           "an empty folder at the beginning is, too");
    is_str(found("here", in("one")), "cannot start 'here': No such file or directory",
           "the current folder is not searched by itself");
    is_str(found("true", NULL), "", "without a path the usual folders are searched");
    is_str(found("./here", "/nowhere"), "here", "a name with a slash is not searched for");
    char *longest = arena_new(&a, char, 5001);
    memset(longest, 'x', 5000);
    is_str(found("first", arena_printf(&a, "%s:%s", longest, in("one"))), "one",
           "a folder that is too long is passed over");
}

static void test_gets(void) {
    char one[] = "A=1", *env[] = {one, NULL};
    is_int(shell("printf 'out'; printf 'err' >&2; exit 3"), 0, "a shell runs: %s", error.text);
    is_str(printed, "out", "standard output is collected alone");
    is_int(proc_status_code(status), 3, "the status is the shell's");
    shell("exit 0");
    is_str(printed, "", "a program may print nothing");
    shell_spec("echo $A $B; env | grep -v '^PWD=\\|^SHLVL=\\|^_=\\|^OLDPWD='",
               (struct proc_spec){.env = env});
    is_str(printed, "1\nA=1\n", "the program has the environment that it was given, and no other");
    shell_spec("pwd", (struct proc_spec){.cwd = folder});
    is_str(printed, arena_printf(&a, "%s\n", folder), "the program begins in its folder");
    is_int(shell_spec("pwd", (struct proc_spec){.cwd = "/nowhere"}), -1, "a folder may be absent");
    has_str(error.text, "'/nowhere'", "the error names the folder");
    shell("read line; echo $?");
    is_str(printed, "1\n", "standard input is empty");
    put("input", "text\n", 0600);
    int fd = open(in("input"), O_RDONLY | O_CLOEXEC),
        other = open(in("input"), O_RDONLY | O_CLOEXEC);
    shell_spec("cat", (struct proc_spec){.in = fd});
    is_str(printed, "text\n", "standard input may be a file");
    const int keep[] = {other, -1};
    const char *list =
        arena_printf(&a, "for i in %d %d; do [ -e /proc/self/fd/$i ] && echo $i; done", fd, other);
    shell(list);
    is_str(printed, "", "other descriptors are closed");
    shell_spec(list, (struct proc_spec){.keep = keep});
    is_str(printed, arena_printf(&a, "%d\n", other), "a descriptor may be kept");
    close(fd);
    close(other);
    // The last seven digits are signals 1 to 28; the C library keeps some of the others to itself.
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, before = {.sa_handler = SIG_DFL};
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGUSR1, &ignore, NULL);
    shell("sed -n 's/^Sig[BI][lg][kn]:.*\\(.......\\)$/\\1/p' /proc/self/status");
    sigaction(SIGUSR1, &before, NULL);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    is_str(printed, "0000000\n0000000\n", "no signal is blocked or ignored");
}

static void test_groups(void) {
    static const char line[] = "set -- $(cat /proc/self/stat | sed 's/.*) //'); "
                               "[ $3 = $$ ] && g=own || g=other; [ $4 = $$ ] && s=own || s=other; "
                               "echo $g $s";
    shell(line);
    is_str(printed, "other other\n", "a program is in the group of its parent");
    shell_spec(line, (struct proc_spec){.new_group = true});
    is_str(printed, "own other\n", "a program may have a group of its own");
    shell_spec(line, (struct proc_spec){.new_session = true});
    is_str(printed, "own own\n", "a program may have a session of its own");
}

static void test_limits(void) {
    const char *argv[] = {"/bin/sh", "-c", "printf 12345", NULL};
    is_int(run_spec((struct proc_spec){.argv = argv}, 6, -1), 0,
           "a program may print its limit: %s", error.text);
    is_int(run_spec((struct proc_spec){.argv = argv}, 4, -1), -1, "more is an error");
    is_int(error.code, ERR_LIMIT, "the limit is the reason");
    has_str(error.text, "'/bin/sh' printed more than 4 bytes", "the error has the limit");
    const char *sleeps[] = {"/bin/sleep", "100", NULL};
    int64_t began = clock_mono_ms();
    is_int(run_spec((struct proc_spec){.argv = sleeps}, 4096, 200), -1,
           "a program may take too long");
    is_str(error.text, "'/bin/sleep' did not end in time", "the error says so");
    ok(clock_mono_ms() - began >= 200, "the program had its time");
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the program was killed");
    const char *closes[] = {"/bin/sh", "-c", "exec >&-; sleep 100", NULL};
    is_int(run_spec((struct proc_spec){.argv = closes}, 4096, 200), -1,
           "a program that prints no more may take too long, too");
    is_str(error.text, "'/bin/sh' did not end in time", "the error is the same");
}

static void test_signals(void) {
    shell("kill -KILL $$");
    is_int(proc_status_code(status), 128 + SIGKILL, "a signal is 128 and its number");
    is_str(proc_signal_name(SIGKILL), "SIGKILL", "a signal has its name");
    is_str(proc_signal_name(99), "unknown signal", "another number has none");
    is_int(proc_signal_parse("SIGTERM", &error), SIGTERM, "a name is a signal");
    is_int(proc_signal_parse("TERM", &error), SIGTERM, "a short name is one");
    is_int(proc_signal_parse("1", &error), 1, "the least number is one");
    is_int(proc_signal_parse("64", &error), 64, "the greatest number is one");
    static const char *const bad[] = {"0", "65", "-1", "SIG", "term", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        is_int(proc_signal_parse(bad[i], &error), -1, "'%s' is no signal", bad[i]);
    has_str(error.text, "'' is not a signal (try SIGTERM)", "the error has an example");
}

static pid_t start(const char *line) {
    static char *env[] = {NULL};
    const char *argv[] = {"/bin/sh", "-c", line, NULL};
    struct proc_spec spec = {
        .argv = argv, .env = env, .in = -1, .out = -1, .err = -1, .new_group = true};
    pid_t pid = proc_start(&spec, &error);
    if (pid < 0)
        bail_out("%s", error.text);
    return pid;
}

static void test_facts(void) {
    struct proc_facts f, other;
    pid_t pid = start("exec sleep 100");
    is_int(proc_look(pid, &f), 0, "a process has facts");
    is_int(f.parent, getpid(), "the parent is this process");
    ok(proc_look(getpid(), &other) == 0 && f.started_ticks >= other.started_ticks,
       "the process was started later than its parent");
    is_int(proc_signal(pid, f.started_ticks + 1, SIGKILL, &error), -1,
           "another process with its number is not signalled");
    is_int(error.code, ERR_NOT_FOUND, "the other process is not found");
    is_int(kill(pid, 0), 0, "the process lives");
    is_int(proc_signal(pid, f.started_ticks, SIGKILL, &error), 0, "the process is signalled");
    for (int i = 0; i < 3000 && (proc_look(pid, &f) < 0 || f.state != 'Z'); i++)
        usleep(10000);
    is_int(f.state, 'Z', "a process that has ended is there until it is reaped");
    waitpid(pid, NULL, 0);
    is_int(proc_look(pid, &f), -1, "a process that was reaped is gone");
    is_int(proc_signal(pid, f.started_ticks, SIGKILL, &error), -1,
           "a process that is gone cannot be signalled");
    is_int(error.code, ERR_NOT_FOUND, "a process that is gone is not found");
    ok(proc_cpu_count() > 0, "there are processors");
}

static void test_ends(void) {
    pid_t pid = start("exec sleep 100");
    proc_end(pid, 60000);
    is_int(waitpid(pid, NULL, 0), -1, "a program that is asked to end is reaped");
    pid = start("trap '' TERM; while :; do sleep 0.05; done");
    usleep(100000);
    proc_end(pid, 200);
    is_int(waitpid(pid, NULL, 0), -1, "a program that does not is killed");
    proc_kill_group(pid, SIGKILL);
    proc_kill_group(1, SIGTERM);
    proc_kill_group(0, SIGTERM);
    pass("a group that is gone, and what is no group, are left alone");
    pid = start("sleep 100 & wait");
    proc_kill_group(pid, SIGKILL);
    waitpid(pid, &status, 0);
    is_int(proc_status_code(status), 128 + SIGKILL, "a group is signalled");
}

static void test_unawaited(void) {
    static char *env[] = {NULL};
    const char *argv[] = {"/nowhere/program", NULL};
    struct proc_spec spec = {
        .argv = argv, .env = env, .in = -1, .out = -1, .err = -1, .unawaited = true};
    pid_t pid = proc_start(&spec, &error);
    ok(pid > 0, "a program that is not awaited starts in any case");
    waitpid(pid, &status, 0);
    is_int(proc_status_code(status), 127, "the status says that there was no program");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_path();
    test_gets();
    test_groups();
    test_limits();
    test_signals();
    test_facts();
    test_ends();
    test_unawaited();
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return done_testing();
}
