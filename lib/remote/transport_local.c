// SPDX-License-Identifier: Apache-2.0
// Commands of provider `local`: processes of this machine that start in the node's folder, each in
// a session of its own, with pipes or a pseudo terminal.
#include "base/str.h"
#include "remote/transport_impl.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOCAL_READ_BYTES = 128 << 10,
    LOCAL_READS_PER_EVENT_MAX = 8,
    LOCAL_LINGER_MS = 500, // wait for output that remaining processes may hold open
};

struct local_link {
    struct transport_link link; // first
    struct timer kick;
    int busy; // handlers on the stack; closed objects are freed at 0
};

struct local_run {
    struct transport_run run; // first
    struct watch in, out, err;
    struct child child;
    struct timer linger;
    int in_fd, out_fd, err_fd; // -1: closed. With a pty all three are one fd
    bool pty, exited;
    int status;
};

static void on_linger(struct timer *t);

static struct local_link *local_of(struct transport_run *r) {
    return (struct local_link *)r->link;
}

static void run_shut(struct local_run *r) {
    watch_stop(&r->in);
    watch_stop(&r->out);
    watch_stop(&r->err);
    child_stop(&r->child);
    timer_stop(&r->linger);
    if (r->in_fd >= 0)
        close(r->in_fd);
    if (r->out_fd >= 0)
        close(r->out_fd);
    if (r->err_fd >= 0)
        close(r->err_fd);
    r->in_fd = r->out_fd = r->err_fd = -1;
}

static void link_enter(struct local_link *l) {
    l->busy++;
}

static void link_leave(struct local_link *l) {
    if (--l->busy > 0)
        return;
    for (struct transport_run *r = l->link.runs, *next; r; r = next) {
        next = r->next;
        if (!r->closed && !r->ended)
            continue;
        run_shut((struct local_run *)r);
        transport_run_release(r);
    }
    if (l->link.closed) {
        timer_stop(&l->kick);
        transport_link_release(&l->link);
    }
}

// ---- output -----------------------------------------------------------------------------------

static void run_maybe_end(struct local_run *r, bool give_up) {
    if (!r->exited || r->run.ended || r->run.closed)
        return;
    if (!give_up && (r->out_fd >= 0 || r->err_fd >= 0))
        return;
    struct transport_end end = {.how = TRANSPORT_EXITED, .status = proc_status_code(r->status)};
    if (WIFSIGNALED(r->status)) {
        const char *name = proc_signal_name(WTERMSIG(r->status));
        end.how = TRANSPORT_SIGNALED;
        snprintf(end.signal, sizeof end.signal, "%s", str_starts(name, "SIG") ? name + 3 : name);
    }
    transport_notify_end(&r->run, &end);
}

static void read_from(struct local_run *r, struct watch *w, int *fd, bool is_stderr) {
    static char buf[LOCAL_READ_BYTES]; // one thread; callbacks do not keep it
    for (int i = 0; i < LOCAL_READS_PER_EVENT_MAX && *fd >= 0; i++) {
        ssize_t n = read(*fd, buf, sizeof buf);
        if (n > 0) {
            transport_notify_output(&r->run, is_stderr, buf, (size_t)n);
            if (r->run.closed)
                return;
            if (r->exited)
                timer_start(r->run.link->env->loop, &r->linger, LOCAL_LINGER_MS, on_linger);
            continue;
        }
        if (err_interrupted(n))
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        // End of file; a terminal without processes returns EIO.
        watch_stop(w);
        close(*fd);
        *fd = -1;
    }
}

static void on_out(struct watch *w, unsigned events) {
    struct local_run *r = container_of(w, struct local_run, out);
    struct local_link *l = local_of(&r->run);
    (void)events;
    link_enter(l);
    read_from(r, w, &r->out_fd, false);
    run_maybe_end(r, false);
    link_leave(l);
}

static void on_err(struct watch *w, unsigned events) {
    struct local_run *r = container_of(w, struct local_run, err);
    struct local_link *l = local_of(&r->run);
    (void)events;
    link_enter(l);
    read_from(r, w, &r->err_fd, true);
    run_maybe_end(r, false);
    link_leave(l);
}

static void on_linger(struct timer *t) {
    struct local_run *r = container_of(t, struct local_run, linger);
    struct local_link *l = local_of(&r->run);
    link_enter(l);
    run_maybe_end(r, true);
    link_leave(l);
}

static void on_child(struct child *c, int status) {
    struct local_run *r = container_of(c, struct local_run, child);
    struct local_link *l = local_of(&r->run);
    link_enter(l);
    r->exited = true;
    r->status = status;
    timer_start(r->run.link->env->loop, &r->linger, LOCAL_LINGER_MS, on_linger);
    run_maybe_end(r, false);
    link_leave(l);
}

// ---- input ------------------------------------------------------------------------------------

static void close_input(struct local_run *r) {
    if (r->in_fd < 0)
        return;
    watch_stop(&r->in);
    if (r->pty)
        (void)!write(r->in_fd, "\004", 1); // Ctrl-D ends the input of a terminal
    close(r->in_fd);
    r->in_fd = -1;
}

static void write_input(struct local_run *r) {
    size_t len;
    const void *p;
    while (r->in_fd >= 0 && (p = transport_input_peek(&r->run, &len))) {
        ssize_t n = write(r->in_fd, p, len);
        if (err_interrupted(n))
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { // the command does not read any more; its output still counts
            transport_input_sent(&r->run, len);
            close_input(r);
            return;
        }
        transport_input_sent(&r->run, (size_t)n);
    }
    if (r->run.input_ended && transport_run_unsent(&r->run) == 0)
        close_input(r);
}

static void input_watch(struct local_run *r) {
    struct err e;
    bool want = r->in_fd >= 0 && transport_run_unsent(&r->run) > 0;
    if (!want)
        watch_stop(&r->in);
    else if (!r->in.loop &&
             watch_start(r->run.link->env->loop, &r->in, r->in_fd, LOOP_WRITE, r->in.cb, &e) < 0)
        transport_notify_lost(&r->run, &e);
}

static void on_in(struct watch *w, unsigned events) {
    struct local_run *r = container_of(w, struct local_run, in);
    struct local_link *l = local_of(&r->run);
    (void)events;
    link_enter(l);
    write_input(r);
    input_watch(r);
    link_leave(l);
}

static void on_kick(struct timer *t) {
    struct local_link *l = container_of(t, struct local_link, kick);
    link_enter(l);
    if (l->link.state == TRANSPORT_OPENING)
        transport_notify_open(&l->link);
    for (struct transport_run *t_run = l->link.runs; t_run; t_run = t_run->next) {
        struct local_run *r = (struct local_run *)t_run;
        if (t_run->closed || t_run->ended)
            continue;
        write_input(r);
        r->in.cb = on_in;
        input_watch(r);
    }
    link_leave(l);
}

// ---- the table --------------------------------------------------------------------------------

static struct transport_link *local_open(const struct transport_env *env,
                                         const struct transport_target *target, struct err *e) {
    if (target->folder && file_make_dirs(target->folder, 0700, e) < 0)
        return NULL;
    struct local_link *l = heap_alloc(sizeof *l);
    timer_start(env->loop, &l->kick, 0, on_kick);
    return &l->link;
}

static void local_close(struct transport_link *link) {
    struct local_link *l = (struct local_link *)link;
    link_enter(l);
    for (struct transport_run *r = link->runs; r; r = r->next)
        if (!r->ended && !((struct local_run *)r)->exited)
            proc_kill_group(((struct local_run *)r)->child.pid, SIGHUP);
    link_leave(l);
}

static int open_pipes(struct local_run *r, int far[3], struct err *e) {
    int fds[3][2];
    for (int i = 0; i < 3; i++)
        if (pipe2(fds[i], O_CLOEXEC) < 0) {
            (void)err_errno(e, ERR_SYS, "cannot make a pipe");
            while (i-- > 0) {
                close(fds[i][0]);
                close(fds[i][1]);
            }
            return -1;
        }
    far[0] = fds[0][0];
    r->in_fd = fds[0][1];
    r->out_fd = fds[1][0];
    far[1] = fds[1][1];
    r->err_fd = fds[2][0];
    far[2] = fds[2][1];
    fcntl(r->in_fd, F_SETFL, O_NONBLOCK);
    fcntl(r->out_fd, F_SETFL, O_NONBLOCK);
    fcntl(r->err_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_terminal(struct local_run *r, int far[3], const struct transport_command *c,
                         char *name, struct err *e) {
    struct winsize size = {.ws_col = (unsigned short)c->columns, .ws_row = (unsigned short)c->rows};
    int near_fd;
    if (openpty(&near_fd, &far[0], name, NULL, c->columns > 0 ? &size : NULL) < 0)
        return err_errno(e, ERR_SYS, "cannot open a pseudo terminal");
    fcntl(near_fd, F_SETFL, O_NONBLOCK);
    fcntl(near_fd, F_SETFD, FD_CLOEXEC);
    fcntl(far[0], F_SETFD, FD_CLOEXEC);
    far[1] = far[2] = -1;
    r->pty = true;
    r->out_fd = near_fd;
    r->in_fd = fcntl(near_fd, F_DUPFD_CLOEXEC, 3); // epoll accepts each number once
    if (r->in_fd < 0)
        return err_errno(e, ERR_SYS, "cannot duplicate a file descriptor");
    return 0;
}

// Splits a line of plain words (as str_shell_quote writes them) that begins with a program's path
// into arguments; NULL when a shell is needed. Agents thus also start on machines without a shell.
static const char *const *plain_words(struct arena *a, const char *line) {
    const char **words = arena_new(a, const char *, strlen(line) / 2 + 2);
    size_t count = 0;
    line += str_starts(line, "exec ") ? strlen("exec ") : 0; // implied here
    if (*line != '/' && *line != '\'')
        return NULL;
    for (const char *p = line; *p;) {
        char *word = arena_new(a, char, strlen(p) + 1);
        size_t len = 0;
        while (*p && *p != ' ') {
            if (*p == '\'') {
                const char *close = strchr(p + 1, '\'');
                if (!close)
                    return NULL;
                memcpy(word + len, p + 1, (size_t)(close - p - 1));
                len += (size_t)(close - p - 1);
                p = close + 1;
            } else if (p[0] == '\\' && p[1] == '\'') {
                word[len++] = '\'';
                p += 2;
            } else if (isalnum((unsigned char)*p) || strchr("_./:=@%+,-", *p)) {
                word[len++] = *p++;
            } else {
                return NULL;
            }
        }
        words[count++] = word;
        p += strspn(p, " ");
    }
    return words[0][0] == '/' ? words : NULL;
}

static int start(struct local_run *r, struct transport_link *link,
                 const struct transport_command *c, const int far[3], const char *tty,
                 struct err *e) {
    struct arena a = {0};
    const char *line = c->line ? c->line : "exec \"${SHELL:-/bin/sh}\" -l";
    // A session leader that opens a terminal gets it as its controlling terminal.
    r->run.link = link; // the child's callback may come before transport_run() returns
    if (r->pty)
        line = arena_printf(&a, "exec <%s >%s 2>&1; TERM=%s; export TERM; %s", tty, tty,
                            str_shell_quote(&a, c->term ? c->term : "dumb"), line);
    struct proc_spec spec = {
        .argv = r->pty ? NULL : plain_words(&a, line),
        .env = link->env->env,
        .cwd = link->target.folder,
        .in = far[0],
        .out = r->pty ? far[0] : far[1],
        .err = r->pty ? far[0] : far[2],
        .new_session = true,
    };
    const char *const shell[] = {"/bin/sh", "-c", line, NULL};
    if (!spec.argv)
        spec.argv = shell;
    pid_t pid = proc_start(&spec, e);
    arena_fini(&a);
    if (pid < 0)
        return -1;
    struct loop *loop = link->env->loop;
    if (child_start(loop, &r->child, pid, on_child, e) < 0 ||
        watch_start(loop, &r->out, r->out_fd, LOOP_READ, on_out, e) < 0 ||
        (r->err_fd >= 0 && watch_start(loop, &r->err, r->err_fd, LOOP_READ, on_err, e) < 0)) {
        proc_kill_group(pid, SIGKILL);
        return -1;
    }
    return 0;
}

static struct transport_run *local_run(struct transport_link *link,
                                       const struct transport_command *c, struct err *e) {
    struct local_run *r = heap_alloc(sizeof *r);
    int far[3] = {-1, -1, -1};
    char tty[64] = "";
    r->in_fd = r->out_fd = r->err_fd = -1;
    int rc = c->pty ? open_terminal(r, far, c, tty, e) : open_pipes(r, far, e);
    if (rc == 0)
        rc = start(r, link, c, far, tty, e);
    for (int i = 0; i < 3; i++)
        if (far[i] >= 0)
            close(far[i]);
    if (rc < 0) {
        run_shut(r);
        free(r);
        return NULL;
    }
    return &r->run;
}

static void local_wake(struct transport_run *r) {
    timer_start(r->link->env->loop, &local_of(r)->kick, 0, on_kick);
}

static void local_resize(struct transport_run *t, int columns, int rows) {
    struct local_run *r = (struct local_run *)t;
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    if (r->pty && r->out_fd >= 0)
        (void)ioctl(r->out_fd, TIOCSWINSZ, &size);
}

static void local_run_close(struct transport_run *t) {
    struct local_run *r = (struct local_run *)t;
    struct local_link *l = local_of(t);
    link_enter(l);
    if (!t->ended && !r->exited)
        proc_kill_group(r->child.pid, SIGHUP);
    link_leave(l);
}

const struct transport transport_local = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .run = local_run,
    .run_wake = local_wake,
    .run_resize = local_resize,
    .run_close = local_run_close,
};
