// SPDX-License-Identifier: Apache-2.0
// wall_clock FILE PROGRAM [ARG…]: PROGRAM with a wall clock that is wrong by the seconds in FILE,
// which may change while it runs. Its other clocks are right, as are those of what it executes.
//
// A seccomp filter redirects clock_gettime(CLOCK_REALTIME) to this process. The program's auxiliary
// vector hides the vDSO, which would answer instead. Coarse clocks and time stamps of files are
// those of the machine.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STAT_STACK_FIELD = 28, WORDS_MAX = 1 << 20, LOOK_MS = 50, STATUS_BROKEN = 99 };

static void die(const char *what) {
    fprintf(stderr, "wall_clock: %s: %s\n", what, strerror(errno));
    exit(STATUS_BROKEN);
}

static int listen_to_clock(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static int open_memory(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    return open(path, O_RDWR | O_CLOEXEC);
}

static uint64_t stack_of(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < STAT_STACK_FIELD; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        die(path);
    fclose(f);
    return strtoull(p + 1, NULL, 10);
}

// On the stack of a new program: argc, arguments, 0, environment, 0, pairs of type and value.
static void hide_vdso(pid_t pid) {
    uint64_t at = stack_of(pid), word, ends = 0;
    int memory = open_memory(pid);
    for (int i = 0; i < WORDS_MAX && pread(memory, &word, 8, (off_t)at) == 8; i++) {
        if (i > 0 && ends < 2) {
            ends += word == 0;
        } else if (i > 0 && word == AT_SYSINFO_EHDR) {
            word = AT_IGNORE;
            if (pwrite(memory, &word, 8, (off_t)at) != 8)
                die("memory");
            close(memory);
            return;
        } else if (i > 0) {
            at += 8;
        }
        at += 8;
    }
    die("no vDSO is named");
}

static int64_t seconds_in(const char *file) {
    char text[64] = "";
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return strtoll(text, NULL, 10);
}

static void answer(int fd, const char *file) {
    struct seccomp_notif ask = {0};
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &ask) < 0)
        return; // it was interrupted, or has ended
    struct seccomp_notif_resp reply = {.id = ask.id};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t told[2] = {now.tv_sec + seconds_in(file), now.tv_nsec};
    int memory = open_memory((pid_t)ask.pid);
    if (pwrite(memory, told, sizeof told, (off_t)ask.data.args[1]) != sizeof told)
        reply.error = -EFAULT;
    close(memory);
    ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

int main(int argc, char **argv) {
    int ready[2], fd = -1, status;
    if (argc < 3) {
        fprintf(stderr, "usage: wall_clock FILE PROGRAM [ARG…]\n");
        return 2;
    }
    if (pipe2(ready, O_CLOEXEC) < 0)
        die("pipe");
    // A common table of descriptors until the program is executed: its listener is ours, too.
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        int mine = listen_to_clock();
        if (write(ready[1], &mine, sizeof mine) == sizeof mine && mine >= 0 &&
            ptrace(PTRACE_TRACEME, 0, 0, 0) == 0)
            execv(argv[2], argv + 2);
        _exit(STATUS_BROKEN);
    }
    if (pid < 0 || read(ready[0], &fd, sizeof fd) != sizeof fd || fd < 0)
        die("seccomp");
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        die(argv[2]);
    hide_vdso(pid);
    ptrace(PTRACE_DETACH, pid, 0, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (waitpid(pid, &status, WNOHANG) == 0)
        if (poll(&p, 1, LOOK_MS) > 0 && p.revents & POLLIN)
            answer(fd, argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
