// SPDX-License-Identifier: Apache-2.0
// reap SECONDS COMMAND…: runs a command for SECONDS at most (0: no limit), and ends with it all
// processes that it started, those in sessions of their own too.
//
// At the limit, and when reap itself is asked to end or loses its parent, the command gets SIGTERM
// and GRACE_MS to clean up. When the command has ended, what it left behind is killed: reap is the
// parent of every orphan below it. The status is the command's, 128 + signal, or 124 at the limit.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 10000, KILL_MS_MAX = 10000 }; // the second: a process may hang in the kernel
enum { LIMIT_S_MAX = 1000000, STATUS_LIMIT = 124, STATUS_BROKEN = 125 };

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

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
        struct pollfd p = {.fd = signals, .events = POLLIN};
        int n = poll(&p, 1, (int)(deadline && left < 0 ? 0 : left));
        struct signalfd_siginfo info = {0};
        if (n > 0 && read(signals, &info, sizeof info) != sizeof info)
            return STATUS_BROKEN;
        if (reap_ended(command, &status))
            return limit ? STATUS_LIMIT : status;
        if (n == 0 && asked) {
            kill(command, SIGKILL);
            deadline = 0;
        } else if ((n == 0 || (n > 0 && info.ssi_signo != SIGCHLD)) && !asked) {
            asked = true;
            limit = n == 0;
            deadline = now_ms() + GRACE_MS;
            if (limit || info.ssi_code <= 0 || info.ssi_signo == SIGTERM)
                kill(command, SIGTERM);
        }
    }
}

int main(int argc, char **argv) {
    char *end = NULL;
    long seconds = argc > 2 ? strtol(argv[1], &end, 10) : -1;
    if (seconds < 0 || seconds > LIMIT_S_MAX || *end) {
        fprintf(stderr, "usage: reap SECONDS COMMAND…\n");
        return STATUS_BROKEN;
    }
    sigset_t set, before;
    sigemptyset(&set);
    const int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        sigaddset(&set, wanted[i]);
    pid_t parent = getppid();
    sigprocmask(SIG_BLOCK, &set, &before);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        return STATUS_BROKEN;
    if (getppid() != parent) // it ended before the request
        return STATUS_BROKEN;
    pid_t command = fork();
    if (command == 0)
        reap_start(argv + 2, &before);
    int status = command < 0
                     ? STATUS_BROKEN
                     : reap_watch(command, signals, seconds ? now_ms() + seconds * 1000 : 0);
    reap_the_rest();
    return status;
}
