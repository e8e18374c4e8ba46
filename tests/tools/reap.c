// SPDX-License-Identifier: Apache-2.0
// reap [-l LOG] SECONDS COMMAND…: runs a command for SECONDS at most (0: no limit), and ends with
// it all processes that it started, those in sessions of their own too.
//
// At the limit, and when reap itself is asked to end or loses its parent, the command gets SIGTERM
// and GRACE_MS to clean up. When the command has ended, what it left behind is killed: reap is the
// parent of every orphan below it. The status is the command's, 128 + signal, or 124 at the limit.
//
// With -l, LOG.tap and LOG.err get a copy of standard output and standard error, LOG.time the
// seconds that went by and those of a processor (user, system), and LOG.status the status.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 10000, KILL_MS_MAX = 10000 }; // the second: a process may hang in the kernel
enum { LIMIT_S_MAX = 1000000, STATUS_LIMIT = 124, STATUS_BROKEN = 125 };
enum { PATH_BYTES = 4096, PIECE_BYTES = 1 << 16 };

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

// ---- copies of what the command writes ----------------------------------------------------------
struct tee {
    int from, write_end; // a pipe; the command has its other end
    int to, log;
};
static struct tee tees[2]; // of standard output and standard error
static const char *log_path;

static int log_open(const char *kind) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.%s", log_path, kind);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        fprintf(stderr, "reap: %s: cannot be written\n", path);
    return fd;
}

static bool tee_open(struct tee *t, int to, const char *kind) {
    int ends[2];
    t->to = to;
    t->log = log_open(kind);
    if (t->log < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    t->from = ends[0];
    t->write_end = ends[1];
    return fcntl(t->from, F_SETFL, O_NONBLOCK) == 0;
}

// Bytes without a reader are dropped.
static void put(int fd, const char *bytes, ssize_t n) {
    for (ssize_t done = 0, some; done < n; done += some) {
        some = write(fd, bytes + done, (size_t)(n - done));
        if (some < 0)
            return;
    }
}

// Passes on a piece of what is in the pipe; after the last byte of all writers, the pipe is closed.
static bool tee_pass(struct tee *t) {
    static char piece[PIECE_BYTES];
    ssize_t n = t->from < 0 ? -1 : read(t->from, piece, sizeof piece);
    put(t->log, piece, n);
    put(t->to, piece, n);
    if (n == 0) {
        close(t->from);
        t->from = -1;
    }
    return n > 0;
}

static void log_end(int status, long seconds_max, long long took_ms) {
    struct rusage used;
    for (int i = 0; i < 2; i++)
        while (tee_pass(&tees[i]))
            ;
    if (status == STATUS_LIMIT) {
        dprintf(tees[0].log, "# stopped after %ld s\n", seconds_max);
        dprintf(tees[0].to, "# stopped after %ld s\n", seconds_max);
    }
    getrusage(RUSAGE_CHILDREN, &used);
    int fd = log_open("time");
    dprintf(fd, "%.3f %.3f %.3f\n", (double)took_ms / 1e3,
            (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6,
            (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6);
    close(fd);
    fd = log_open("status");
    dprintf(fd, "%d\n", status);
    close(fd);
}

// ---- processes ----------------------------------------------------------------------------------
// reap has one thread, whose children this file lists.
static void reap_kill_children(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    for (int pid; file && fscanf(file, "%d", &pid) == 1;)
        kill(pid, SIGKILL);
    if (file)
        fclose(file);
}

// Kills children until there are none: those of a killed process become reap's own.
static void reap_the_rest(void) {
    for (long long until = now_ms() + KILL_MS_MAX; now_ms() < until;) {
        reap_kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    fprintf(stderr, "reap: processes remain that cannot be killed\n");
}

// Collects what has ended; true once the command is among it.
static bool reap_ended(pid_t command, int *status) {
    bool ended = false;
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        if (pid == command) {
            ended = true;
            *status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
        }
    return ended;
}

static void reap_start(char **argv, const sigset_t *before) {
    for (int i = 0; i < 2 && log_path; i++)
        dup2(tees[i].write_end, STDOUT_FILENO + i);
    sigprocmask(SIG_SETMASK, before, NULL);
    execvp(argv[0], argv);
    fprintf(stderr, "reap: cannot run '%s'\n", argv[0]);
    _exit(127);
}

// Until the command has ended. A terminal sends its signals to the command itself.
static int reap_watch(pid_t command, int signals, long long deadline) {
    bool limit = false, asked = false;
    for (int status = 0;;) {
        long long left = deadline ? deadline - now_ms() : -1;
        struct pollfd p[] = {{.fd = signals, .events = POLLIN},
                             {.fd = tees[0].from, .events = POLLIN},
                             {.fd = tees[1].from, .events = POLLIN}};
        poll(p, 3, (int)(deadline && left < 0 ? 0 : left));
        struct signalfd_siginfo info = {0};
        for (int i = 0; i < 2; i++)
            if (p[1 + i].revents)
                tee_pass(&tees[i]);
        if (p[0].revents && read(signals, &info, sizeof info) != sizeof info)
            return STATUS_BROKEN;
        if (reap_ended(command, &status))
            return limit ? STATUS_LIMIT : status;
        bool late = deadline && now_ms() >= deadline;
        if (late && asked) {
            kill(command, SIGKILL);
            deadline = 0;
        } else if ((late || (p[0].revents && info.ssi_signo != SIGCHLD)) && !asked) {
            asked = true;
            limit = late;
            deadline = now_ms() + GRACE_MS;
            if (limit || info.ssi_code <= 0 || info.ssi_signo == SIGTERM)
                kill(command, SIGTERM);
        }
    }
}

static int reap_run(char **argv, long seconds) {
    sigset_t set, before;
    sigemptyset(&set);
    const int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        sigaddset(&set, wanted[i]);
    pid_t parent = getppid();
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    sigaddset(&set, SIGPIPE); // of a reader that has ended
    sigprocmask(SIG_BLOCK, &set, &before);
    if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        return STATUS_BROKEN;
    if (getppid() != parent) // it ended before the request
        return STATUS_BROKEN;
    pid_t command = fork();
    if (command == 0)
        reap_start(argv, &before);
    for (int i = 0; i < 2 && log_path; i++)
        close(tees[i].write_end);
    int status = command < 0
                     ? STATUS_BROKEN
                     : reap_watch(command, signals, seconds ? now_ms() + seconds * 1000 : 0);
    reap_the_rest();
    return status;
}

int main(int argc, char **argv) {
    int first = argc > 2 && !strcmp(argv[1], "-l") ? 3 : 1;
    char *end = NULL;
    long seconds = argc > first + 1 ? strtol(argv[first], &end, 10) : -1;
    if (seconds < 0 || seconds > LIMIT_S_MAX || *end) {
        fprintf(stderr, "usage: reap [-l LOG] SECONDS COMMAND…\n");
        return STATUS_BROKEN;
    }
    tees[0].from = tees[1].from = -1;
    if (first > 1) {
        log_path = argv[2];
        if (!tee_open(&tees[0], STDOUT_FILENO, "tap") || !tee_open(&tees[1], STDERR_FILENO, "err"))
            return STATUS_BROKEN;
    }
    long long began = now_ms();
    int status = reap_run(argv + first + 1, seconds);
    if (log_path)
        log_end(status, seconds, now_ms() - began);
    return status;
}
