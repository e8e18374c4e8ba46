// SPDX-License-Identifier: Apache-2.0
// transport_ssh: one session per link, one channel per command. A channel passes through the states
// of enum run_state; ssh_link_step drives all channels whenever bytes arrive or leave.
#include "base/clock.h"
#include "base/str.h"
#include "remote/ssh_impl.h"
#include "remote/transport_impl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum {
    LINK_READ_BYTES = 64 << 10,
    LINK_READS_PER_STEP_MAX = 64, // of one command, so that others get a turn
    // Limit of unread bytes in the channel of a nearby node. OpenSSH's server grows and clears its
    // buffers for each waiting byte, and its window of 2 MB fills at once. It reopens the window
    // after 96 KB; other servers may wait for more than this limit.
    LINK_NEAR_US = 500,
    LINK_NEAR_BYTES = 512 << 10,
    LINK_WINDOW_BYTES = 8 << 20, // receive window per channel
};

struct ssh_link {
    struct transport_link link; // first
    struct ssh ssh;
};

enum run_state {
    RUN_OPEN,  // opening the channel
    RUN_PTY,   // requesting a terminal
    RUN_START, // sending the command
    RUN_ON,
    RUN_CLOSE, // closed by the far end or by the caller
    RUN_GONE,  // may be freed
};

struct ssh_run {
    struct transport_run run; // first
    enum run_state state;
    LIBSSH2_CHANNEL *channel;
    char *line, *term; // heap
    bool pty, input_end_sent, resize;
    int columns, rows;
    struct ssh_early early;
    bool openssh;         // the far end reopens its window early, see LINK_NEAR_BYTES
    unsigned long window; // largest window of the far end so far
};

static struct ssh *session_of(const struct ssh_run *r) {
    return &((struct ssh_link *)r->run.link)->ssh;
}

static void run_fail(struct ssh_run *r, const char *doing) {
    struct err e;
    (void)ssh_error(session_of(r), doing, &e);
    transport_notify_lost(&r->run, &e);
    r->state = RUN_CLOSE;
}

// An error of a call on one channel may affect the whole session: a malformed packet, a wrong
// authentication tag. False when it concerns only this channel, or is no error.
static bool session_fail(struct ssh_run *r, ssize_t rc) {
    struct err e;
    if (rc >= 0 || rc == LIBSSH2_ERROR_EAGAIN || rc == LIBSSH2_ERROR_CHANNEL_CLOSED ||
        rc == LIBSSH2_ERROR_CHANNEL_EOF_SENT)
        return false;
    (void)ssh_error(session_of(r), "moving data", &e);
    ssh_fail(session_of(r), &e);
    return true;
}

// Each step function returns 1 after progress, 0 to wait.

static int step_open(struct ssh_run *r) {
    struct ssh *s = session_of(r);
    if (s->opener && s->opener != r)
        return 0;
    if (!s->opener && r->run.closed) {
        r->state = RUN_GONE;
        return 1;
    }
    r->channel =
        libssh2_channel_open_ex(s->session, "session", sizeof "session" - 1, LINK_WINDOW_BYTES,
                                LIBSSH2_CHANNEL_PACKET_DEFAULT, NULL, 0);
    if (!r->channel && libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN) {
        if (!s->opener)
            s->opener_ns = clock_mono_ns();
        s->opener = r;
        return 0;
    }
    // sshd answers at once, except for the first channel, when it switches to the user.
    if (s->opener && r->channel)
        transport_round_trip_seen(r->run.link, (clock_mono_ns() - s->opener_ns) / 1000);
    s->opener = NULL;
    ssh_kick(s); // the next one may open
    if (!r->channel) {
        run_fail(r, "starting a command (does MaxSessions of sshd allow it?)");
        r->state = RUN_GONE;
        return 1;
    }
    r->state = r->pty ? RUN_PTY : RUN_START;
    return 1;
}

static int step_pty(struct ssh_run *r) {
    int rc = libssh2_channel_request_pty_ex(r->channel, r->term, (unsigned)strlen(r->term), NULL, 0,
                                            r->columns, r->rows, 0, 0);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return 0;
    if (rc < 0)
        run_fail(r, "asking for a terminal");
    else
        r->state = RUN_START;
    return 1;
}

static bool is_openssh(const struct ssh_run *r) {
    const char *banner = libssh2_session_banner_get(session_of(r)->session);
    return banner && str_starts(banner, "SSH-2.0-OpenSSH");
}

static int step_start(struct ssh_run *r) {
    int rc = r->line ? libssh2_channel_process_startup(r->channel, "exec", 4, r->line,
                                                       (unsigned)strlen(r->line))
                     : libssh2_channel_process_startup(r->channel, "shell", 5, NULL, 0);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return 0;
    if (rc < 0)
        run_fail(r, "starting a command");
    else
        r->state = RUN_ON;
    r->openssh = is_openssh(r);
    return 1;
}

// True when a nearby node has enough unread input. Reading answers updates the window.
static bool is_ahead(struct ssh_run *r) {
    unsigned long left = libssh2_channel_window_write(r->channel);
    r->window = left > r->window ? left : r->window;
    int64_t us = transport_round_trip_us(r->run.link); // falls with quicker answers
    return r->openssh && us > 0 && us < LINK_NEAR_US && r->window - left >= LINK_NEAR_BYTES;
}

static void write_input(struct ssh_run *r) {
    size_t len;
    const void *p;
    while (ssh_has_room(session_of(r)) && !is_ahead(r) &&
           (p = transport_input_peek(&r->run, &len))) {
        ssize_t n = libssh2_channel_write(r->channel, p, len);
        if (n == LIBSSH2_ERROR_EAGAIN || n == 0)
            return;
        if (session_fail(r, n))
            return;
        if (n < 0) { // the command does not read any more; its status will follow
            transport_input_sent(&r->run, len);
            return;
        }
        transport_input_sent(&r->run, (size_t)n);
    }
    if (r->run.input_ended && !r->input_end_sent && transport_run_unsent(&r->run) == 0 &&
        libssh2_channel_send_eof(r->channel) != LIBSSH2_ERROR_EAGAIN)
        r->input_end_sent = true;
}

// Delivers output of the command without the text of its login shell. False when that text exceeds
// the limit.
static bool notify_output(struct ssh_run *r, bool is_stderr, const char *p, size_t len) {
    struct err e;
    int rc = is_stderr ? 1 : ssh_mark_take(&r->early, &p, &len);
    if (rc > 0) {
        if (r->early.over)
            strbuf_fini(&r->early.text);
        if (len)
            transport_notify_output(&r->run, is_stderr, p, len);
        return true;
    }
    if (rc == 0)
        return true;
    (void)err_set(&e, ERR_FORMAT,
                  "%s: its login shell prints more than %d KiB before it does anything (try: make "
                  "it silent for commands)",
                  session_of(r)->host.label, SSH_EARLY_BYTES_MAX >> 10);
    transport_notify_lost(&r->run, &e);
    r->state = RUN_CLOSE;
    return false;
}

// Returns 1 when it stopped before the end of the available output.
static int read_output(struct ssh_run *r, int stream) {
    static char buf[LINK_READ_BYTES]; // one thread; callbacks do not keep it
    for (int i = 0; i < LINK_READS_PER_STEP_MAX; i++) {
        ssize_t n = libssh2_channel_read_ex(r->channel, stream, buf, sizeof buf);
        if (session_fail(r, n) || n <= 0)
            return 0;
        if (!notify_output(r, stream == SSH_EXTENDED_DATA_STDERR, buf, (size_t)n) || r->run.closed)
            return 0;
    }
    return 1;
}

static int signal_number(const char *name) {
    static const struct {
        const char *name;
        int number;
    } signals[] = {// RFC 4254, 6.10
                   {"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"FPE", SIGFPE},   {"HUP", SIGHUP},
                   {"ILL", SIGILL},   {"INT", SIGINT},   {"KILL", SIGKILL}, {"PIPE", SIGPIPE},
                   {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV}, {"TERM", SIGTERM}, {"USR1", SIGUSR1},
                   {"USR2", SIGUSR2}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (str_eq(signals[i].name, name))
            return signals[i].number;
    return 127;
}

static void notify_status(struct ssh_run *r) {
    char *name = NULL;
    size_t len = 0;
    struct transport_end end = {.how = TRANSPORT_EXITED};
    if (!r->early.over && r->early.text.len) // the command did not run; this text may say why
        transport_notify_output(&r->run, true, r->early.text.data, r->early.text.len);
    if (r->run.closed)
        return;
    (void)libssh2_channel_get_exit_signal(r->channel, &name, &len, NULL, NULL, NULL, NULL);
    end.status = libssh2_channel_get_exit_status(r->channel);
    if (name) {
        end.how = TRANSPORT_SIGNALED;
        snprintf(end.signal, sizeof end.signal, "%.*s", (int)len, name);
        end.status = 128 + signal_number(end.signal);
        libssh2_free(session_of(r)->session, name);
    } else if (end.status < 0) {
        struct err e;
        (void)err_set(&e, ERR_NO_STATUS, "%s: the command ended without an exit status",
                      session_of(r)->host.label);
        transport_notify_lost(&r->run, &e);
        return;
    }
    transport_notify_end(&r->run, &end);
}

static int step_on(struct ssh_run *r) {
    if (r->run.closed) {
        r->state = RUN_CLOSE;
        return 1;
    }
    if (r->resize) {
        r->resize = libssh2_channel_request_pty_size(r->channel, r->columns, r->rows) ==
                    LIBSSH2_ERROR_EAGAIN;
    }
    int more = read_output(r, 0);
    if (!r->run.closed && r->state == RUN_ON)
        more |= read_output(r, SSH_EXTENDED_DATA_STDERR);
    if (r->state == RUN_CLOSE)
        return 1;
    if (!r->run.closed && session_of(r)->state == SSH_OPEN)
        write_input(r);
    if (session_of(r)->state != SSH_OPEN)
        return 0;
    if (more)
        ssh_kick(session_of(r));
    // The end of output is not the end: the status and the close follow.
    if (more || !libssh2_channel_eof(r->channel))
        return r->run.closed;
    int rc = libssh2_channel_wait_closed(r->channel);
    if (session_fail(r, rc) || rc != 0)
        return r->run.closed;
    notify_status(r);
    r->state = RUN_CLOSE;
    return 1;
}

static int step_close(struct ssh_run *r) {
    if (libssh2_channel_free(r->channel) == LIBSSH2_ERROR_EAGAIN)
        return 0;
    r->channel = NULL;
    r->state = RUN_GONE;
    return 1;
}

static int step_gone(struct ssh_run *r) {
    (void)r;
    return 0;
}

static int (*const steps[])(struct ssh_run *) = {
    [RUN_OPEN] = step_open, [RUN_PTY] = step_pty,     [RUN_START] = step_start,
    [RUN_ON] = step_on,     [RUN_CLOSE] = step_close, [RUN_GONE] = step_gone,
};

// ---- the session's events ---------------------------------------------------------------------

static struct ssh_link *link_of(struct ssh *s) {
    return container_of(s, struct ssh_link, ssh);
}

static void on_open(struct ssh *s) {
    transport_notify_open(&link_of(s)->link);
}

static void on_step(struct ssh *s) {
    for (struct transport_run *r = link_of(s)->link.runs; r && s->state == SSH_OPEN; r = r->next) {
        struct ssh_run *run = (struct ssh_run *)r;
        while (s->state == SSH_OPEN && steps[run->state](run))
            ;
    }
}

static void on_down(struct ssh *s, const struct err *e) {
    struct ssh_link *l = link_of(s);
    struct err named = *e;
    (void)err_wrap(&named, "node %s", l->link.target.node);
    transport_notify_down(&l->link, &named);
}

static void run_free(struct ssh_run *r) {
    free(r->line);
    free(r->term);
    strbuf_fini(&r->early.text);
    transport_run_release(&r->run);
}

// Channels that the session has not freed yet are freed with it.
static void on_idle(struct ssh *s) {
    struct ssh_link *l = link_of(s);
    for (struct transport_run *r = l->link.runs, *next; r; r = next) {
        next = r->next;
        if (((struct ssh_run *)r)->state == RUN_GONE || l->link.closed)
            run_free((struct ssh_run *)r);
    }
    if (l->link.closed) {
        ssh_fini(s);
        transport_link_release(&l->link);
    }
}

static const struct ssh_events link_events = {
    .on_open = on_open, .on_step = on_step, .on_down = on_down, .on_idle = on_idle};

// ---- the table --------------------------------------------------------------------------------

static struct transport_link *link_open(const struct transport_env *env,
                                        const struct transport_target *target, struct err *e) {
    struct ssh_link *l = heap_alloc(sizeof *l);
    if (ssh_open(&l->ssh, env, target, &link_events, e) < 0) {
        ssh_fini(&l->ssh);
        free(l);
        return NULL;
    }
    return &l->link;
}

static void link_close(struct transport_link *link) {
    struct ssh_link *l = (struct ssh_link *)link;
    if (l->ssh.busy == 0)
        on_idle(&l->ssh);
}

static struct transport_run *link_run(struct transport_link *link,
                                      const struct transport_command *c, struct err *e) {
    struct ssh_run *r = heap_alloc(sizeof *r);
    (void)e;
    r->early.over = !c->line || c->pty;
    r->line = !c->line ? NULL : c->pty ? heap_strdup(c->line) : ssh_mark_line(c->line);
    r->term = heap_strdup(c->term ? c->term : "dumb");
    r->pty = c->pty;
    r->columns = c->columns > 0 ? c->columns : 80;
    r->rows = c->rows > 0 ? c->rows : 24;
    ssh_kick(&((struct ssh_link *)link)->ssh);
    return &r->run;
}

static void run_wake(struct transport_run *r) {
    ssh_kick(session_of((struct ssh_run *)r));
}

static void run_resize(struct transport_run *t, int columns, int rows) {
    struct ssh_run *r = (struct ssh_run *)t;
    r->columns = columns;
    r->rows = rows;
    r->resize = r->pty;
    ssh_kick(session_of(r));
}

static void run_close(struct transport_run *t) {
    ssh_kick(session_of((struct ssh_run *)t));
}

static int64_t distance_us(const struct transport_link *l) {
    return ssh_distance_us(&((const struct ssh_link *)l)->ssh);
}

static void trim(struct transport_link *l) {
    ssh_bytes_trim(&((struct ssh_link *)l)->ssh);
}

const struct transport transport_ssh = {
    .name = "ssh",
    .open = link_open,
    .close = link_close,
    .run = link_run,
    .run_wake = run_wake,
    .run_resize = run_resize,
    .run_close = run_close,
    .distance_us = distance_us,
    .trim = trim,
};
