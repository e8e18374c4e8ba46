// SPDX-License-Identifier: Apache-2.0
// Runs a program and, at the N-th system call of its first thread, sends it a signal or makes the
// call fail. tests/soak sweeps N.
//
//     nth_call -n N [-s SIGNAL | -e ERRNO] [-c CALL[,CALL…]] -- PROGRAM [ARG…]
//     nth_call -n 0 [-c …] -- PROGRAM …         counts only
//
// -c: only these calls count (by number or name). The last one, exit_group, never counts: the
// program has ended by then, with a status that no signal changes. With -e the call is not made.
// Further threads and children are left alone, and after the N-th call the program is, too. On
// descriptor 3 comes "calls=COUNT at=CALL" (CALL: number of the call that was hit, -1: there were
// fewer than N); the exit status is the program's, 128 + signal when one ended it.
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS_MAX = 32, STATUS_BROKEN = 99, REPORT_FD = 3 };

struct name {
    const char *name;
    long number;
};

static const struct name CALLS[] = {
    {"accept4", SYS_accept4},
    {"bind", SYS_bind},
    {"clone", SYS_clone},
    {"connect", SYS_connect},
    {"epoll_ctl", SYS_epoll_ctl},
    {"eventfd2", SYS_eventfd2},
    {"fcntl", SYS_fcntl},
    {"fsync", SYS_fsync},
    {"ftruncate", SYS_ftruncate},
    {"faccessat", SYS_faccessat},
    {"fstat", SYS_fstat},
    {"getdents64", SYS_getdents64},
    {"inotify_init1", SYS_inotify_init1},
    {"linkat", SYS_linkat},
    {"lseek", SYS_lseek},
    {"mkdirat", SYS_mkdirat},
    {"mmap", SYS_mmap},
    {"newfstatat", SYS_newfstatat},
    {"openat", SYS_openat},
    {"pipe2", SYS_pipe2},
    {"pread64", SYS_pread64},
    {"pwrite64", SYS_pwrite64},
    {"read", SYS_read},
    {"renameat", SYS_renameat},
    {"renameat2", SYS_renameat2},
    {"socket", SYS_socket},
    {"socketpair", SYS_socketpair},
    {"symlinkat", SYS_symlinkat},
    {"syncfs", SYS_syncfs},
    {"unlinkat", SYS_unlinkat},
    {"write", SYS_write},
    {"writev", SYS_writev},
#ifdef SYS_open // calls that newer architectures do without
    {"access", SYS_access},
    {"fork", SYS_fork},
    {"link", SYS_link},
    {"lstat", SYS_lstat},
    {"mkdir", SYS_mkdir},
    {"open", SYS_open},
    {"rename", SYS_rename},
    {"stat", SYS_stat},
    {"symlink", SYS_symlink},
    {"unlink", SYS_unlink},
#endif
};

static const struct name SIGNALS[] = {
    {"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}, {"KILL", SIGKILL}};
static const struct name ERRORS[] = {{"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EIO", EIO},
                                     {"EMFILE", EMFILE}, {"EACCES", EACCES}, {"EAGAIN", EAGAIN}};

struct plan {
    long at;
    int signal, error;
    long calls[CALLS_MAX];
    size_t call_count;
};

static void broken(const char *what) {
    fprintf(stderr, "nth_call: %s: %s\n", what, strerror(errno));
    exit(STATUS_BROKEN);
}

// The number of a name; -1: it is not in the table (or this architecture has no such call).
static long find(const struct name *table, size_t count, const char *text) {
    char *end;
    long number = strtol(text, &end, 10);
    if (*text && !*end)
        return number;
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, text) == 0)
            return table[i].number;
    return -1;
}

#define FIND(table, text) find(table, sizeof(table) / sizeof *(table), text)

static void parse(struct plan *p, int argc, char **argv) {
    int c;
    while ((c = getopt(argc, argv, "+n:s:e:c:")) != -1) {
        if (c == 'n')
            p->at = strtol(optarg, NULL, 10);
        else if (c == 's')
            p->signal = (int)FIND(SIGNALS, optarg);
        else if (c == 'e')
            p->error = (int)FIND(ERRORS, optarg);
        for (char *save, *word = c == 'c' ? strtok_r(optarg, ",", &save) : NULL; word;
             word = strtok_r(NULL, ",", &save)) {
            long number = FIND(CALLS, word);
            if (number >= 0 && p->call_count < CALLS_MAX)
                p->calls[p->call_count++] = number;
        }
        if (c == '?' || p->signal < 0 || p->error < 0)
            exit(STATUS_BROKEN);
    }
    if (optind >= argc)
        exit(STATUS_BROKEN);
}

static bool counts(const struct plan *p, long call) {
    if (call == SYS_exit_group)
        return false;
    for (size_t i = 0; i < p->call_count; i++)
        if (p->calls[i] == call)
            return true;
    return p->call_count == 0;
}

// Instead of the call that the thread is about to make it makes none.
static void drop_call(pid_t pid) {
#if defined(__x86_64__)
    enum { ORIG_RAX = 15 };
    if (ptrace(PTRACE_POKEUSER, pid, ORIG_RAX * sizeof(long), -1L) < 0)
        broken("cannot drop a call");
#elif defined(__aarch64__)
    int none = -1;
    struct iovec v = {&none, sizeof none};
    if (ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &v) < 0)
        broken("cannot drop a call");
#endif
}

static void set_result(pid_t pid, long result) {
#if defined(__x86_64__)
    enum { RAX = 10 };
    if (ptrace(PTRACE_POKEUSER, pid, RAX * sizeof(long), result) < 0)
        broken("cannot set a result");
#elif defined(__aarch64__)
    unsigned long long regs[34];
    struct iovec v = {regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) < 0)
        broken("cannot read the registers");
    regs[0] = (unsigned long long)result;
    if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v) < 0)
        broken("cannot set a result");
#endif
}

static int code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Goes on to the next stop at a system call; signals on the way are passed on. -1: it has ended.
static int next_stop(pid_t pid, int *status) {
    int pass = 0;
    for (;;) {
        if (ptrace(PTRACE_SYSCALL, pid, 0L, (long)pass) < 0 && errno != ESRCH)
            broken("cannot go on");
        if (waitpid(pid, status, 0) < 0)
            broken("cannot wait");
        if (!WIFSTOPPED(*status))
            return -1;
        if (WSTOPSIG(*status) == (SIGTRAP | 0x80))
            return 0;
        pass = WSTOPSIG(*status) == SIGTRAP ? 0 : WSTOPSIG(*status); // the trap of exec
    }
}

static void hit(const struct plan *p, pid_t pid, int *status) {
    if (p->error) {
        drop_call(pid);
        if (next_stop(pid, status) < 0)
            return;
        set_result(pid, -(long)p->error);
    }
    if (p->signal)
        kill(pid, p->signal);
    ptrace(PTRACE_DETACH, pid, 0L, 0L);
    if (waitpid(pid, status, 0) < 0)
        broken("cannot wait");
}

int main(int argc, char **argv) {
    struct plan p = {0};
    int status = 0;
    long count = 0, at = -1;
    parse(&p, argc, argv);
    pid_t pid = fork();
    if (pid == 0) {
        close(REPORT_FD);
        ptrace(PTRACE_TRACEME, 0, 0L, 0L);
        raise(SIGSTOP);
        execvp(argv[optind], argv + optind);
        broken(argv[optind]);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, pid, 0L, (long)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) < 0)
        broken("cannot trace");
    // The calls of this program's own part before exec do not count.
    for (bool entered = false, running = false; next_stop(pid, &status) == 0; entered = !entered) {
        struct __ptrace_syscall_info info = {0};
        if (entered)
            continue;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (long)sizeof info, &info) < 0)
            broken("cannot read the call");
        long call = (long)info.entry.nr;
        if (running && counts(&p, call) && ++count == p.at) {
            at = call;
            hit(&p, pid, &status);
            break;
        }
        running |= call == SYS_execve;
    }
    dprintf(REPORT_FD, "calls=%ld at=%ld\n", count, at);
    return code_of(status);
}
