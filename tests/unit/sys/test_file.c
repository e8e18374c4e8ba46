// SPDX-License-Identifier: Apache-2.0
// lib/sys/file and proc: atomic writes, trees, locks, starting programs.
#include "base/str.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct arena a;
static struct err e;
static char *dir;

static char *in_dir(const char *name) {
    return file_join(&a, dir, name);
}

static void test_files(void) {
    char *data;
    size_t len;
    char *path = in_dir("x/y/file");
    is_int(file_make_dirs(in_dir("x/y"), 0755, &e), 0, "folders are made");
    is_int(file_make_dirs(in_dir("x/y"), 0755, &e), 0, "existing folders are no error");
    is_int(file_write_atomic(path, "hello", 5, 0600, &e), 0, "atomic write");
    struct stat st;
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "an atomic write sets the mode");
    is_int(file_read(&a, path, 100, &data, &len, &e), 0, "the file is read");
    is_mem(data, len, "hello", 5, "the text is read back");
    is_int(file_read(&a, path, 4, &data, &len, &e), -1, "a file above the limit is refused");
    is_int(e.code, ERR_LIMIT, "a file above the limit is a limit error");
    is_int(file_read(&a, in_dir("none"), 4, &data, &len, &e), -1, "a missing file is refused");
    is_int(e.code, ERR_NOT_FOUND, "an absent file is a not-found error");
    is_int(file_read(&a, path, 100, &data, &len, &e), 0, "a regular file is read");
    is_mem(data, len, "hello", 5, "a regular file is read whole");
    is_int(file_read(&a, "/dev/null", 100, &data, &len, &e), 0,
           "/dev/null is read as an empty file");
    ok(mkfifo(in_dir("pipe"), 0600) == 0, "a pipe without a writer is made");
    is_int(file_read(&a, in_dir("pipe"), 100, &data, &len, &e), -1,
           "a pipe is refused without waiting");
    has_str(e.text, "it is a pipe", "the error says that the file is a pipe");
    is_int(file_append(path, "!", 1, &e), 0, "text is appended");
    is_int(file_make_dirs(path, 0755, &e), -1, "a file is no folder");
    is_int(file_write_atomic(in_dir("none/f"), "x", 1, 0600, &e), -1,
           "no file is written where there is no folder");
}

static void test_remove(void) {
    file_make_dirs(in_dir("tree/a/b"), 0755, &e);
    file_write_atomic(in_dir("keep"), "x", 1, 0600, &e);
    ok(symlink(in_dir("keep"), in_dir("tree/a/link")) == 0, "a link out of the tree is made");
    ok(symlink(dir, in_dir("tree/up")) == 0, "a link to a folder above is made");
    chmod(in_dir("tree/a/b"), 0);
    is_int(file_remove_tree(in_dir("tree"), &e), 0, "the tree goes");
    ok(!file_exists(in_dir("tree")) && file_exists(in_dir("keep")), "targets of links are kept");
    is_int(file_remove_tree(in_dir("tree"), &e), 0, "an absent tree is fine");
    file_make_dirs(in_dir("logs/0/0"), 0755, &e);
    file_make_dirs(in_dir("logs/1/0"), 0755, &e);
    file_write_atomic(in_dir("logs/1/0/f"), "x", 1, 0600, &e);
    ok(symlink(dir, in_dir("logs/up")) == 0, "a link among folders is made");
    file_remove_empty(in_dir("logs"));
    ok(!file_exists(in_dir("logs/0")) && file_exists(in_dir("logs/1/0/f")),
       "only folders without files are removed");
    ok(file_exists(in_dir("logs/up")) && file_exists(in_dir("keep")), "a link is not followed");
    unlink(in_dir("logs/1/0/f"));
    unlink(in_dir("logs/up"));
    file_remove_empty(in_dir("logs"));
    ok(!file_exists(in_dir("logs")), "a tree of nothing but folders goes");
}

static void test_safe_paths(void) {
    static const char *const good[] = {"a", "a/b", "a..b/.c", "..."};
    static const char *const bad[] = {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/."};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ok(file_is_safe_relative(good[i], strlen(good[i])), "the path is safe: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(!file_is_safe_relative(bad[i], strlen(bad[i])), "the path is not safe: '%s'", bad[i]);
    ok(!file_is_safe_relative("a\0b", 3), "a path with a NUL is not safe");
}

// Has the process a descriptor below FDS_SEEN_MAX of the file?
enum { FDS_SEEN_MAX = 64 };
static bool has_open(pid_t pid, const char *path) {
    char name[64], target[FILE_PATH_BYTES_MAX];
    for (int fd = 3; fd < FDS_SEEN_MAX; fd++) {
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, path) == 0)
            return true;
    }
    return false;
}

static void test_lock(void) {
    int fd;
    char *path = in_dir("lock");
    is_int(file_lock(path, "test run", 0, &fd, &e), 0, "the file is locked");
    pid_t pid = fork();
    if (pid == 0) {
        int other;
        struct err why;
        int rc = file_lock(path, "second", 30, &other, &why);
        _exit(rc < 0 && why.code == ERR_BUSY && strstr(why.text, "test run") ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    is_int(status, 0, "a second process gets the owner of the lock");
    close(fd);
    is_int(file_lock(path, "again", 0, &fd, &e), 0, "closing releases it");
    int held = fcntl(fd, F_DUPFD_CLOEXEC, FDS_SEEN_MAX);
    close(fd);
    pid = fork();
    if (pid == 0) {
        while (!has_open(getppid(), path))
            nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        _exit(unlink(path)); // the descriptor closes after it: the lock is free and has no name
    }
    close(held); // the child's copy holds the lock
    int other;
    struct err why = {0};
    is_int(file_lock(path, "waiting", 20 * 1000, &other, &why), -1,
           "a wait for a lock without a name fails");
    is_int(why.code, ERR_NOT_FOUND, "a lock without a name is not found: %s", why.text);
    waitpid(pid, &status, 0);
    is_int(file_lock(path, "anew", 0, &fd, &e), 0, "the next try makes the file again");
    close(fd);
}

static void test_proc(void) {
    char *out;
    int status;
    const char *argv[] = {"sh", "-c", "echo $X; pwd; exit 3", NULL};
    char x[] = "X=hello", path[] = "PATH=/usr/bin:/bin", *env[] = {x, path, NULL};
    struct proc_spec spec = {.argv = argv, .env = env, .cwd = "/", .in = -1, .out = -1, .err = 2};
    is_int(proc_run(&spec, &out, 1000, 5000, &status, &e), 0, "ran");
    is_str(out, "hello\n/\n", "the program has its environment and folder");
    is_int(proc_status_code(status), 3, "the program's status is returned");
    free(out);
    spec.argv = (const char *[]){"no-such-program", NULL};
    is_int(proc_run(&spec, &out, 1000, 5000, &status, &e), -1, "a missing program is refused");
    is_int(e.code, ERR_NOT_FOUND, "a missing program is a not-found error");
    has_str(e.text, "no-such-program", "the error names the missing program");
    spec.argv = argv;
    spec.cwd = "/no/such/folder";
    is_int(proc_run(&spec, &out, 1000, 5000, &status, &e), -1, "a missing folder is refused");
    has_str(e.text, "/no/such/folder", "the error names the missing folder");
    spec.cwd = NULL;
    spec.argv = (const char *[]){"sleep", "10", NULL};
    is_int(proc_run(&spec, &out, 1000, 50, &status, &e), -1, "the program ends at its deadline");
    is_int(e.code, ERR_TIMEOUT, "a deadline ends the program");
    spec.argv = (const char *[]){"sh", "-c", "exec >&-; sleep 10", NULL};
    is_int(proc_run(&spec, &out, 1000, 50, &status, &e), -1,
           "a program that has closed its output ends at its deadline");
    is_int(e.code, ERR_TIMEOUT, "a deadline ends it as well");
    spec.argv = (const char *[]){"sh", "-c", "yes | head -c 5000", NULL};
    is_int(proc_run(&spec, &out, 1000, 5000, &status, &e), -1,
           "a program with too much output is ended");
    is_int(e.code, ERR_LIMIT, "too much output is a limit error");
    is_int(proc_signal_parse("TERM", &e), SIGTERM, "a signal is found by its short name");
    is_int(proc_signal_parse("SIGUSR1", &e), SIGUSR1, "a signal is found by its name");
    is_int(proc_signal_parse("9", &e), 9, "a signal is found by its number");
    is_int(proc_signal_parse("SIGNONE", &e), -1, "an unknown signal is refused");
    is_str(proc_signal_name(SIGKILL), "SIGKILL", "a signal has its name");
}

static void test_detach(void) {
    char *path = in_dir("detached");
    pid_t pid = proc_detach(-1, &e);
    if (pid == 0) {
        char text[32];
        int n = snprintf(text, sizeof text, "%d", (int)(getsid(0) != getpid() && getppid() >= 1));
        struct err why;
        file_write_atomic(path, text, (size_t)n, 0600, &why);
        _exit(0);
    }
    ok(pid > 0, "the program runs detached as %d", (int)pid);
    bool seen = false;
    for (int i = 0; i < 500 && !(seen = file_exists(path)); i++)
        usleep(10000);
    ok(seen, "the detached process ran");
}

int main(void) {
    char name[] = "/tmp/dtctl-test-XXXXXX";
    dir = mkdtemp(name);
    test_files();
    test_remove();
    test_safe_paths();
    test_lock();
    test_proc();
    test_detach();
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    arena_fini(&a);
    return done_testing();
}
