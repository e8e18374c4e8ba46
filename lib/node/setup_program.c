// SPDX-License-Identifier: Apache-2.0
// Runs the program that prepares the node, with a log and a time limit.
#include "node/setup_program.h"

#include "base/clock.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STOP_MS = 5000, // from SIGTERM to SIGKILL when dtctl is gone
    LOOK_MS = 200,  // between looks for a program that has ended
    READ_BYTES = 64 * 1024,
};

struct running {
    pid_t pid;
    int log_fd, out_fd; // out_fd: output of the program
    bool ended;
    int status; // waitpid's
};

static int start(struct running *r, const struct setup_program *p, struct err *e) {
    int pipe_fds[2];
    r->log_fd = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (r->log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot write the log '%s'", p->log);
    struct proc_spec spec = {.argv = p->argv,
                             .env = p->env,
                             .cwd = p->cwd,
                             .in = -1,
                             .out = pipe_fds[1],
                             .err = pipe_fds[1],
                             .new_group = true};
    r->pid = proc_start(&spec, e);
    r->out_fd = pipe_fds[0];
    close(pipe_fds[1]);
    return r->pid < 0 ? -1 : 0;
}

// One piece of output to the log and to dtctl; false at the end of the output.
static bool pass_on(struct running *r, struct err *e) {
    char piece[READ_BYTES];
    struct err ignored = {0};
    ssize_t n = read(r->out_fd, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    (void)file_write_all(STDERR_FILENO, piece, (size_t)n, &ignored);
    return file_write_all(r->log_fd, piece, (size_t)n, e) == 0;
}

static void stop(struct running *r) {
    int64_t until = clock_mono_ms() + STOP_MS;
    proc_kill_group(r->pid, SIGTERM);
    while (!r->ended && clock_mono_ms() < until) {
        poll(NULL, 0, LOOK_MS);
        r->ended = waitpid(r->pid, &r->status, WNOHANG) != 0;
    }
    proc_kill_group(r->pid, SIGKILL);
    if (!r->ended)
        waitpid(r->pid, &r->status, 0);
}

static int look_at_dtctl(short revents, struct err *e) {
    char ignored[64];
    return revents && read(STDIN_FILENO, ignored, sizeof ignored) == 0
               ? err_set(e, ERR_INTERRUPTED, "the connection of dtctl ended during the setup")
               : 0;
}

int setup_program_check(struct err *e) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) > 0 ? look_at_dtctl(in.revents, e) : 0;
}

// Until the program has ended. A process that it left behind may keep the pipe open.
static int await(struct running *r, struct err *e) {
    bool open = true;
    err_clear(e);
    while (!r->ended || open) {
        struct pollfd fds[] = {{.fd = open ? r->out_fd : -1, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
        int ready = poll(fds, 2, r->ended ? 0 : LOOK_MS);
        if (ready > 0 && fds[0].revents)
            open = pass_on(r, e) && !e->code;
        else if (r->ended)
            open = false;
        if (e->code || (ready > 0 && look_at_dtctl(fds[1].revents, e) < 0)) {
            stop(r);
            return -1;
        }
        if (!r->ended)
            r->ended = waitpid(r->pid, &r->status, WNOHANG) == r->pid;
    }
    return 0;
}

int setup_program_run(const struct setup_program *p, struct err *e) {
    struct running r = {.log_fd = -1, .out_fd = -1};
    int rc = start(&r, p, e);
    if (rc == 0)
        rc = await(&r, e);
    if (r.log_fd >= 0)
        close(r.log_fd);
    if (r.out_fd >= 0)
        close(r.out_fd);
    int code = rc == 0 ? proc_status_code(r.status) : 0;
    return code == 0 ? rc
                     : err_set(e, ERR_FAILED, "%s ended with status %d (its log: %s)", p->name,
                               code, p->log);
}
