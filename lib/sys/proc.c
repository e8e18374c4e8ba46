// SPDX-License-Identifier: Apache-2.0
// Starting works with fork and exec: the child reports a failed step through a close-on-exec pipe,
// so the parent knows before proc_start returns whether the program runs.
#include "sys/proc.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP_STREAMS, STEP_CWD, STEP_EXEC };
static const char *const step_names[] = {": standard streams", ": working folder", ""};

struct report {
    int step, error;
};

static _Noreturn void give_up(int fd, int step) {
    struct report r = {step, errno};
    ssize_t ignored = write(fd, &r, sizeof r);
    (void)ignored;
    _exit(127);
}

// execvp against the PATH of the new environment (execvpe is a GNU name that not every libc has).
static void exec_on_path(const char *const *argv, char *const *env) {
    if (strchr(argv[0], '/')) {
        execve(argv[0], (char *const *)argv, env);
        return;
    }
    const char *path = env_get(env, "PATH");
    int best = ENOENT;
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; p;) {
        char file[4096];
        size_t len = strcspn(p, ":");
        int n = snprintf(file, sizeof file, "%.*s/%s", len ? (int)len : 1, len ? p : ".", argv[0]);
        if (n > 0 && (size_t)n < sizeof file) {
            execve(file, (char *const *)argv, env);
            if (errno != ENOENT && errno != ENOTDIR)
                best = errno;
        }
        p = p[len] ? p + len + 1 : NULL;
    }
    errno = best;
}

// Puts fds on 0, 1, 2 without clobbering one that is needed later.
static int place_streams(const struct proc_spec *spec) {
    int want[3] = {spec->in, spec->out, spec->err};
    for (int i = 0; i < 3; i++) {
        if (want[i] < 0)
            want[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (want[i] >= 0 && want[i] < 3)
            want[i] = fcntl(want[i], F_DUPFD_CLOEXEC, 3);
        if (want[i] < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++)
        if (dup2(want[i], i) < 0)
            return -1;
    return 0;
}

static void reset_signals(void) {
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int s = 1; s < NSIG; s++)
        sigaction(s, &dfl, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_others(void) {
    enum { FDS_MAX = 1 << 16 };
    if (syscall(SYS_close_range, 3, INT32_MAX, 0) < 0) // kernels before 5.9
        for (int fd = 3; fd < FDS_MAX; fd++)
            close(fd);
}

static _Noreturn void run_child(const struct proc_spec *spec, int report_fd, pid_t parent) {
    if (report_fd < 3) // must survive place_streams
        report_fd = fcntl(report_fd, F_DUPFD_CLOEXEC, 3);
    if (spec->new_session)
        setsid();
    else if (spec->new_group)
        setpgid(0, 0);
    if (spec->parent_death_signal) {
        prctl(PR_SET_PDEATHSIG, spec->parent_death_signal);
        if (getppid() != parent) // it died before the request
            _exit(127);
    }
    if (place_streams(spec) < 0)
        give_up(report_fd, STEP_STREAMS);
    if (spec->unawaited)
        close_others();
    for (const int *k = spec->keep; k && *k >= 0; k++)
        fcntl(*k, F_SETFD, 0);
    reset_signals();
    if (spec->cwd && chdir(spec->cwd) < 0)
        give_up(report_fd, STEP_CWD);
    exec_on_path(spec->argv, spec->env);
    give_up(report_fd, STEP_EXEC);
}

pid_t proc_start(const struct proc_spec *spec, struct err *e) {
    int fds[2];
    must(spec->env);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot create a pipe");
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        err_errno(e, ERR_SYS, "cannot start a process");
        close(fds[0]);
        close(fds[1]);
        return -1;
    }
    if (pid == 0)
        run_child(spec, fds[1], parent);
    close(fds[1]);
    if (spec->unawaited) {
        close(fds[0]);
        return pid;
    }
    struct report r;
    ssize_t n;
    do
        n = read(fds[0], &r, sizeof r);
    while (err_interrupted(n));
    close(fds[0]);
    if (n != (ssize_t)sizeof r)
        return pid;
    waitpid(pid, NULL, 0);
    errno = r.error;
    bool in_folder = r.step == STEP_CWD;
    return err_errno(e, r.error == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "cannot start '%s'%s%s%s%s",
                     spec->argv[0], step_names[r.step], in_folder ? " '" : "",
                     in_folder ? spec->cwd : "", in_folder ? "'" : "");
}

void proc_kill_group(pid_t pgid, int signal) {
    if (pgid > 1)
        kill(-pgid, signal);
}

// ---- run to the end -----------------------------------------------------------------------------

// Collects until end of file, the cap or the deadline.
static int collect(int fd, struct strbuf *buf, int64_t deadline_ms, const char *name,
                   struct err *e) {
    for (;;) {
        int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_mono_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = deadline_ms >= 0 && left <= 0 ? 0 : poll(&p, 1, (int)left);
        if (err_interrupted(n))
            continue;
        if (n == 0)
            return err_set(e, ERR_TIMEOUT, "'%s' did not end in time", name);
        char chunk[16384];
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (err_interrupted(got))
            continue;
        if (got <= 0)
            return 0;
        strbuf_add(buf, chunk, (size_t)got);
        if (buf->overflow)
            return err_set(e, ERR_LIMIT, "'%s' printed more than %zu bytes", name, buf->cap_max);
    }
}

// Waits for the end of a program, until the deadline.
static int await_end(pid_t pid, int64_t deadline_ms, int *status, const char *name, struct err *e) {
    enum { STEP_MS = 10 };
    for (;;) {
        pid_t ended = waitpid(pid, status, deadline_ms < 0 ? 0 : WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return 0;
        if (ended == 0 && clock_mono_ms() >= deadline_ms)
            return err_set(e, ERR_TIMEOUT, "'%s' did not end in time", name);
        if (ended == 0)
            poll(NULL, 0, STEP_MS);
    }
}

static void kill_and_reap(pid_t pid, int *status) {
    kill(pid, SIGKILL);
    while (err_interrupted(waitpid(pid, status, 0)))
        ;
}

void proc_end(pid_t pid, int timeout_ms) {
    struct err ignored;
    int status;
    kill(pid, SIGTERM);
    if (await_end(pid, clock_mono_ms() + timeout_ms, &status, "", &ignored) < 0)
        kill_and_reap(pid, &status);
}

int proc_run(const struct proc_spec *spec, char **out, size_t out_bytes_max, int timeout_ms,
             int *status, struct err *e) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot create a pipe");
    struct proc_spec with_pipe = *spec;
    with_pipe.out = fds[1];
    pid_t pid = proc_start(&with_pipe, e);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return -1;
    }
    struct strbuf buf;
    strbuf_init(&buf, out_bytes_max);
    int64_t deadline_ms = timeout_ms < 0 ? -1 : clock_mono_ms() + timeout_ms;
    int rc = collect(fds[0], &buf, deadline_ms, spec->argv[0], e);
    close(fds[0]);
    if (rc == 0)
        rc = await_end(pid, deadline_ms, status, spec->argv[0], e);
    if (rc < 0) {
        kill_and_reap(pid, status);
        strbuf_fini(&buf);
        return -1;
    }
    if (!buf.data)
        strbuf_addc(&buf, '\0');
    *out = buf.data;
    return 0;
}

// ---- small facts --------------------------------------------------------------------------------

void proc_prepare(void) {
    int fd;
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    do // each gets the lowest free number
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int proc_status_code(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"},     {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGCHLD, "SIGCHLD"},
    {SIGCONT, "SIGCONT"},     {SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"},
    {SIGTTOU, "SIGTTOU"},     {SIGURG, "SIGURG"},   {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
    {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"}, {SIGSYS, "SIGSYS"},   {SIGWINCH, "SIGWINCH"},
};

const char *proc_signal_name(int signal) {
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i].number == signal)
            return signals[i].name;
    return "unknown signal";
}

int proc_signal_parse(const char *name, struct err *e) {
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(signals[i].name, name) == 0 || strcmp(signals[i].name + 3, name) == 0)
            return signals[i].number;
    int64_t v;
    struct err ignored;
    if (str_parse_i64(name, 1, NSIG - 1, &v, &ignored) == 0)
        return (int)v;
    return err_set(e, ERR_USAGE, "'%.40s' is not a signal (try SIGTERM)", name);
}

pid_t proc_detach(int err_fd, struct err *e) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot create a pipe");
    pid_t first = fork();
    if (first < 0) {
        err_errno(e, ERR_SYS, "cannot start a process");
        close(fds[0]);
        close(fds[1]);
        return -1;
    }
    if (first == 0) {
        setsid();
        pid_t second = fork();
        if (second != 0) {
            ssize_t ignored = write(fds[1], &second, sizeof second);
            (void)ignored;
            _exit(second < 0);
        }
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, 0);
        dup2(null, 1);
        dup2(err_fd >= 0 ? err_fd : null, 2);
        if (null > 2)
            close(null);
        close(fds[0]);
        close(fds[1]);
        return 0;
    }
    close(fds[1]);
    pid_t pid = -1;
    ssize_t n = read(fds[0], &pid, sizeof pid);
    close(fds[0]);
    waitpid(first, NULL, 0);
    if (n != (ssize_t)sizeof pid || pid < 0)
        return err_set(e, ERR_SYS, "cannot detach a process");
    return pid;
}

int proc_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

// "/proc/<pid>/stat" has the parent after the name in parentheses, and the start 18 fields later.
int proc_look(pid_t pid, struct proc_facts *out) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    int parent;
    unsigned long long started;
    if (!p || sscanf(p + 1,
                     " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                     "%llu",
                     &out->state, &parent, &started) != 3)
        return -1;
    out->parent = parent;
    out->started_ticks = started;
    return 0;
}

int proc_signal(pid_t pid, uint64_t started_ticks, int signal, struct err *e) {
    struct proc_facts f;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return err_errno(e, errno == ESRCH ? ERR_NOT_FOUND : ERR_SYS, "process %d", (int)pid);
    int rc = 0; // the descriptor stays with the process that had the number when it was opened
    if (proc_look(pid, &f) < 0 || f.started_ticks != started_ticks)
        rc = err_set(e, ERR_NOT_FOUND, "process %d has ended", (int)pid);
    else if (syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0)
        rc = err_errno(e, errno == ESRCH ? ERR_NOT_FOUND : ERR_SYS, "signal %d to process %d",
                       signal, (int)pid);
    close(fd);
    return rc;
}
