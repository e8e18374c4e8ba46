// SPDX-License-Identifier: Apache-2.0
// `dtrun --node setup`: prepares this node for a run, once for each hash of the script and the
// files that it needs.
#include "base/clock.h"
#include "base/log.h"
#include "node/node_verb.h"
#include "protocol/job_spec.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SETUP_LOCK_WAIT_MS = 24 * 3600 * 1000, // for another run with the same setup
    SETUP_STOP_MS = 5000,                  // from SIGTERM to SIGKILL when dtctl is gone
    SETUP_LOOK_MS = 200,                   // between looks for a shell that has ended
    SETUP_READ_BYTES = 64 * 1024,
};

struct setup {
    struct arena arena;
    struct node_args args;
    struct job_spec spec;
    const char *dir; // of this hash
    char **env;
    int lock_fd, log_fd, out_fd; // out_fd: output of the script
    pid_t pid;
    bool ended;
    int status; // waitpid's
};

static int read_job(struct setup *s, struct err *e) {
    char *text;
    size_t len;
    if (node_read_record(&s->arena, NODE_ROSTER_WAIT_MS_MAX, &text, &len, e) < 0 ||
        job_spec_parse(&s->arena, text, len, &s->spec, e) < 0)
        return -1;
    if (!s->spec.setup || !s->spec.setup_hash)
        return err_set(e, ERR_CONFIG, "the job has no setup");
    s->dir = file_join(&s->arena, s->args.root, job_setup_dir(&s->arena, s->spec.setup_hash));
    return 0;
}

// The environment of this program, the variables of the job, and the folder of this setup.
static void make_env(struct setup *s, char *const *own) {
    size_t count = 0, n = 0;
    while (own[count])
        count++;
    s->env = arena_new(&s->arena, char *, count + (size_t)s->spec.env_count + 2);
    s->env[n++] = arena_printf(&s->arena, "DTCTL_SETUP_DIR=%s", s->dir);
    for (int i = 0; i < s->spec.env_count; i++)
        s->env[n++] = arena_printf(&s->arena, "%s=%s", s->spec.env[i].name, s->spec.env[i].value);
    for (size_t i = 0; i < count; i++) // the first entry of a name counts
        s->env[n++] = own[i];
}

static int start(struct setup *s, struct err *e) {
    // The first command that fails ends the script.
    static const char shell[] = "command -v bash >/dev/null && exec bash -e -c \"$1\" setup\n"
                                "exec sh -e -c \"$1\" setup";
    const char *const argv[] = {"sh", "-c", shell, "setup", s->spec.setup, NULL};
    const char *work = file_join(&s->arena, s->args.root, s->spec.workdir);
    int pipe_fds[2];
    if (file_make_dirs(work, 0755, e) < 0)
        return -1;
    s->log_fd = open(file_join(&s->arena, s->dir, "setup.log"),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (s->log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot write the log of the setup in '%s'", s->dir);
    struct proc_spec spec = {.argv = argv,
                             .env = s->env,
                             .cwd = work,
                             .in = -1,
                             .out = pipe_fds[1],
                             .err = pipe_fds[1],
                             .new_group = true};
    s->pid = proc_start(&spec, e);
    s->out_fd = pipe_fds[0];
    close(pipe_fds[1]);
    return s->pid < 0 ? -1 : 0;
}

// One piece of output to the log and to dtctl; false at the end of the output.
static bool pass_on(struct setup *s, struct err *e) {
    char piece[SETUP_READ_BYTES];
    struct err ignored = {0};
    ssize_t n = read(s->out_fd, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    (void)file_write_all(STDERR_FILENO, piece, (size_t)n, &ignored);
    return file_write_all(s->log_fd, piece, (size_t)n, e) == 0;
}

static void stop(struct setup *s) {
    int64_t until = clock_mono_ms() + SETUP_STOP_MS;
    proc_kill_group(s->pid, SIGTERM);
    while (!s->ended && clock_mono_ms() < until) {
        poll(NULL, 0, SETUP_LOOK_MS);
        s->ended = waitpid(s->pid, &s->status, WNOHANG) != 0;
    }
    proc_kill_group(s->pid, SIGKILL);
    if (!s->ended)
        waitpid(s->pid, &s->status, 0);
}

// Until the script has ended. A process that it left behind may keep the pipe open. The connection
// is the operator: a script whose dtctl is gone is stopped.
static int await(struct setup *s, struct err *e) {
    bool open = true;
    while (!s->ended || open) {
        struct pollfd fds[] = {{.fd = open ? s->out_fd : -1, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
        int ready = poll(fds, 2, s->ended ? 0 : SETUP_LOOK_MS);
        char ignored[64];
        if (ready > 0 && fds[0].revents)
            open = pass_on(s, e) && !e->code;
        else if (s->ended)
            open = false;
        if (!e->code && ready > 0 && fds[1].revents &&
            read(STDIN_FILENO, ignored, sizeof ignored) == 0)
            err_set(e, ERR_INTERRUPTED, "the connection of dtctl ended during the setup");
        if (e->code) {
            stop(s);
            return -1;
        }
        if (!s->ended)
            s->ended = waitpid(s->pid, &s->status, WNOHANG) == s->pid;
    }
    int code = proc_status_code(s->status);
    return code == 0 ? 0
                     : err_set(e, ERR_FAILED, "the setup ended with status %d (its log: %s)", code,
                               file_join(&s->arena, s->dir, "setup.log"));
}

static int answer(bool ran, int64_t ms) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "ready");
    json_bool(&j, "ran", ran);
    json_int(&j, "ms", ms);
    json_end(&j);
    int rc = node_answer(&line) < 0;
    strbuf_fini(&line);
    return rc;
}

int node_setup(const struct node_call *c) {
    struct setup s = {.lock_fd = -1, .log_fd = -1, .out_fd = -1};
    struct err e = {0};
    int64_t began = clock_mono_ms();
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGHUP, &ignore, NULL); // the end of standard input stops the script
    sigaction(SIGPIPE, &ignore, NULL);
    int rc = node_args(&s.arena, c, true, &s.args, &e);
    if (rc == 0)
        rc = read_job(&s, &e);
    if (rc == 0)
        rc = file_make_dirs(s.dir, 0755, &e);
    if (rc == 0)
        rc = file_lock(file_join(&s.arena, s.dir, "lock"), "setup", SETUP_LOCK_WAIT_MS, &s.lock_fd,
                       &e);
    const char *mark = rc == 0 ? file_join(&s.arena, s.dir, "done") : NULL;
    bool known = mark && file_exists(mark);
    if (rc == 0 && !known) {
        make_env(&s, c->env);
        rc = start(&s, &e);
        if (rc == 0)
            rc = await(&s, &e);
        if (rc == 0)
            rc = file_write_atomic(mark, "", 0, 0644, &e);
    }
    rc = rc == 0 ? answer(!known, clock_mono_ms() - began) : node_fail(&e);
    arena_fini(&s.arena);
    return rc; // the process ends; the lock goes with it
}
