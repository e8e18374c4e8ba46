// SPDX-License-Identifier: Apache-2.0
// Runs Terraform. Its output goes to terraform.log; sys/file_changes reports when the file grows;
// complete lines are parsed and passed on. A pidfd reports the end of the process, after which the
// rest of the file is read. The loop is never blocked.
#include "terraform/terraform.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/file_changes.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct terraform_tail {
    struct terraform *t;
    struct terraform_result *out;
    terraform_on_line *on_line;
    void *ctx;
    struct file_changes changes;
    struct watch watch; // of the log file
    struct child child;
    int log_fd;
    struct strbuf pending; // of an incomplete line
    bool ended, skipping;  // skipping: the rest of an overlong line follows
    int wait_status;
    struct arena line_arena;
};

// ---- lines -------------------------------------------------------------------------------------

const char *terraform_problem(struct arena *a, const struct terraform_line *l) {
    if (l->kind != TERRAFORM_DIAGNOSTIC || !l->is_error)
        return NULL;
    char *text = arena_printf(a, "%.*s%s%.*s", TERRAFORM_PROBLEM_BYTES_MAX / 2, l->summary,
                              l->detail[0] ? ": " : "", TERRAFORM_PROBLEM_BYTES_MAX / 2, l->detail);
    for (char *c = text; *c; c++)
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
    return str_printable(a, text, strlen(text));
}

static void keep_problem(struct terraform_tail *p, const struct terraform_line *l) {
    const char *problem = p->out->diagnosed ? NULL : terraform_problem(p->t->context->arena, l);
    if (!problem)
        return;
    p->out->problem = problem;
    p->out->diagnosed = true;
    p->out->not_locked = strcmp(l->summary, TERRAFORM_NOT_LOCKED) == 0;
    terraform_lock_parse(p->t->context->arena, l->detail, &p->out->lock);
}

static void take_line(struct terraform_tail *p, const char *line, size_t len) {
    struct terraform_line l;
    arena_reset(&p->line_arena);
    terraform_line_parse(&p->line_arena, line, len, &l);
    if (l.kind == TERRAFORM_OUTPUTS && l.outputs) { // the outputs must outlive the line
        terraform_line_parse(p->t->context->arena, line, len, &l);
        p->out->outputs = l.outputs;
    }
    if (l.kind == TERRAFORM_SUMMARY) {
        p->out->add = l.add;
        p->out->change = l.change;
        p->out->remove = l.remove;
    }
    // Text that is not JSON comes from a program that failed to start.
    if (l.kind == TERRAFORM_TEXT && str_starts(l.message, "Error: ") && !p->out->problem[0])
        p->out->problem = str_printable(p->t->context->arena, l.message + 7, strlen(l.message + 7));
    keep_problem(p, &l);
    log_debug("terraform", "message=\"%s\"", l.message);
    if (p->on_line)
        p->on_line(p->ctx, &l);
}

static void take_bytes(struct terraform_tail *p, const char *data, size_t len) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t part = end ? (size_t)(end - data) : len;
        if (!p->skipping)
            strbuf_add(&p->pending, data, part);
        p->skipping |= p->pending.overflow;
        if (end) {
            if (!p->skipping)
                take_line(p, strbuf_cstr(&p->pending), p->pending.len);
            strbuf_clear(&p->pending);
            p->pending.overflow = p->skipping = false;
            part++;
        }
        data += part;
        len -= part;
    }
}

static void read_more(struct terraform_tail *p) {
    char chunk[65536];
    ssize_t n;
    while ((n = read(p->log_fd, chunk, sizeof chunk)) > 0)
        take_bytes(p, chunk, (size_t)n);
}

static void on_grown(struct watch *w, unsigned events) {
    (void)events;
    struct terraform_tail *p = container_of(w, struct terraform_tail, watch);
    file_changes_drain(&p->changes);
    read_more(p);
}

static void on_ended(struct child *c, int status) {
    struct terraform_tail *p = container_of(c, struct terraform_tail, child);
    p->ended = true;
    p->wait_status = status;
}

// ---- running -----------------------------------------------------------------------------------

static int open_log(struct terraform_tail *p, const char *path, int *write_fd, struct err *e) {
    *write_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (*write_fd >= 0) // Terraform inherits this lock and holds it as long as it lives
        (void)file_lock_fd(*write_fd, F_WRLCK, false);
    p->log_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*write_fd < 0 || p->log_fd < 0 || lseek(p->log_fd, 0, SEEK_END) < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", path);
    if (file_changes_open(&p->changes, e) < 0)
        return -1;
    if (file_changes_add(&p->changes, path, IN_MODIFY) < 0)
        return err_errno(e, ERR_SYS, "cannot watch '%s'", path);
    return 0;
}

static int start(struct terraform_tail *p, const char *const *argv, int out_fd, int err_fd,
                 struct err *e) {
    struct terraform *t = p->t;
    struct proc_spec spec = {.argv = argv,
                             .env = t->env,
                             .cwd = t->folder,
                             .in = -1,
                             .out = out_fd,
                             .err = err_fd,
                             .new_group = true};
    pid_t pid = proc_start(&spec, e);
    if (pid < 0)
        return -1;
    return child_start(t->context->loop, &p->child, pid, on_ended, e);
}

static void wait_until_ended(struct terraform_tail *p) {
    struct context *s = p->t->context;
    while (!p->ended) {
        loop_once(s->loop, -1);
        // An interrupt that arrives at the end is kept, so that it stops the next step.
        if (p->ended || !context_take_interrupt(s))
            continue;
        screen_erase(s->screen);
        if (p->out->interrupted) {
            log_warn("still waiting: terraform records its changes", "pid=%d", p->child.pid);
            continue;
        }
        p->out->interrupted = true;
        kill(p->child.pid, SIGINT);
        log_warn("terraform was asked to stop; it finishes current operations and records them",
                 "pid=%d", p->child.pid);
    }
}

static void close_tail(struct terraform_tail *p) {
    watch_stop(&p->watch);
    if (p->log_fd >= 0)
        close(p->log_fd);
    file_changes_close(&p->changes);
    strbuf_fini(&p->pending);
    arena_fini(&p->line_arena);
}

static const char *const *command(struct terraform *t, const char *root, const char *const *args) {
    size_t n = 0;
    while (args[n])
        n++;
    const char **argv = arena_new(t->context->arena, const char *, n + 3);
    argv[0] = t->program;
    argv[1] = arena_printf(t->context->arena, "-chdir=%s/%s", t->folder, root);
    memcpy(argv + 2, args, n * sizeof *args);
    return argv;
}

int terraform_run(struct terraform *t, const char *root, const char *const *args,
                  terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                  struct err *e) {
    struct terraform_tail p = {.t = t, .out = out, .on_line = on_line, .ctx = ctx};
    int64_t started = clock_mono_ms();
    int write_fd = -1;
    *out = (struct terraform_result){.problem = "", .status = -1, .lock.id = ""};
    p.changes = CHANGES_CLOSED;
    p.log_fd = -1;
    strbuf_init(&p.pending, TERRAFORM_LINE_BYTES_MAX);
    int result = context_check(t->context, e);
    if (result == 0)
        result = open_log(&p, t->log_path, &write_fd, e);
    if (result == 0)
        result = watch_start(t->context->loop, &p.watch, p.changes.fd, LOOP_READ, on_grown, e);
    if (result == 0)
        result = start(&p, command(t, root, args), write_fd, write_fd, e);
    if (write_fd >= 0)
        close(write_fd);
    if (result == 0) {
        wait_until_ended(&p);
        read_more(&p);
        if (p.pending.len && !p.skipping)
            take_line(&p, strbuf_cstr(&p.pending), p.pending.len);
        out->status = proc_status_code(p.wait_status);
    }
    close_tail(&p);
    t->spent_ms += clock_mono_ms() - started;
    return result;
}

// ---- apply -------------------------------------------------------------------------------------

static const char *unclean_path(const struct terraform *t) {
    return file_join(t->context->arena, t->folder, "unclean");
}

bool terraform_is_unclean(const struct terraform *t) {
    return !file_is_absent(unclean_path(t));
}

void terraform_set_clean(const struct terraform *t) {
    unlink(unclean_path(t));
}

// Keeps a copy of the state for manual repair.
static int copy_state(const struct terraform *t, struct err *e) {
    struct arena a = {0};
    char *text;
    size_t len;
    int result = 0;
    if (!file_is_absent(t->state_path)) {
        result = file_read(&a, t->state_path, TERRAFORM_STATE_BYTES_MAX, &text, &len, e);
        if (result == 0)
            result =
                file_write_atomic(arena_printf(&a, "%s.before", t->state_path), text, len, 0600, e);
    }
    arena_fini(&a);
    return result;
}

static void on_words(void *ctx, const struct terraform_line *l) {
    if (l->kind == TERRAFORM_TEXT)
        strbuf_addf(ctx, "%s\n", l->message);
}

int terraform_run_words(struct terraform *t, const char *root, const char *const *args,
                        const char **words, struct terraform_result *out, struct err *e) {
    struct strbuf text = {0};
    int result = terraform_run(t, root, args, on_words, &text, out, e);
    *words = arena_strdup(t->context->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return result;
}

static int apply(struct terraform *t, const char *root, const char *const *further,
                 int lock_timeout_s, terraform_on_line *on_line, void *ctx,
                 struct terraform_result *out, struct err *e) {
    enum { ARGS_MAX = 8 };
    size_t n = 0, extra = 0;
    while (further && further[extra])
        extra++;
    const char **args = arena_new(t->context->arena, const char *, extra + ARGS_MAX);
    args[n++] = "apply";
    args[n++] = "-json";
    args[n++] = "-auto-approve";
    args[n++] = "-input=false";
    args[n++] = TERRAFORM_PARALLELISM;
    args[n++] = arena_printf(t->context->arena, "-lock-timeout=%ds", lock_timeout_s);
    for (size_t i = 0; i < extra; i++)
        args[n++] = further[i];
    return terraform_run(t, root, args, on_line, ctx, out, e);
}

int terraform_apply(struct terraform *t, const char *root, const char *const *further,
                    terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                    struct err *e) {
    bool unclean_before = terraform_is_unclean(t);
    if (context_check(t->context, e) < 0 || copy_state(t, e) < 0 ||
        file_write_atomic(unclean_path(t), "", 0, 0600, e) < 0 ||
        apply(t, root, further, 0, on_line, ctx, out, e) < 0)
        return -1;
    if (out->lock.id[0] && !out->interrupted) {
        screen_erase(t->context->screen);
        log_warn("another command works on this cluster; waiting for its end",
                 "for_s=%d holder=\"%s\" remedy=\"%s\"", TERRAFORM_LOCK_TIMEOUT_S,
                 terraform_lock_words(t, &out->lock), terraform_lock_remedy(t, &out->lock));
        if (apply(t, root, further, TERRAFORM_LOCK_TIMEOUT_S, on_line, ctx, out, e) < 0)
            return -1;
    }
    // If Terraform exited by itself its state file is complete, even after an error. A killed
    // Terraform records nothing. An interrupted one drops pending requests, and resources that AWS
    // then creates are in no state.
    if (out->status < 128 && !out->interrupted && !unclean_before)
        terraform_set_clean(t);
    return 0;
}

static int describe(const struct terraform *t, const struct terraform_result *r, const char *what,
                    struct err *e) {
    if (r->interrupted)
        return err_set(e, ERR_INTERRUPTED,
                       "%s was stopped; dtctl up continues it, dtctl down removes what was "
                       "made",
                       what);
    if (r->lock.id[0])
        return err_set(e, ERR_BUSY, "%s: another command works on this cluster: %s; %s", what,
                       terraform_lock_words(t, &r->lock), terraform_lock_remedy(t, &r->lock));
    if (r->not_locked && t->cloud->explain(t->context, r->problem, e))
        return -1;
    if (r->status > 128)
        return err_set(e, ERR_FAILED,
                       "%s: terraform was ended by %s; dtctl up, down or gc removes leftovers "
                       "(log: %s)",
                       what, proc_signal_name(r->status - 128), t->log_path);
    return err_set(e, ERR_FAILED, "%s: %s (log: %s)", what,
                   r->problem[0] ? r->problem : "terraform failed without a reason", t->log_path);
}

int terraform_failure(const struct terraform *t, const struct terraform_result *r, const char *what,
                      struct err *e) {
    if (!r->interrupted && t->cloud->refused(t, r, e))
        return err_wrap(e, "%s", what);
    describe(t, r, what, e);
    const char *next = e->code == ERR_FAILED ? t->cloud->next_step(t->context, r->problem) : "";
    if (*next) {
        const char *text = arena_strdup(t->context->arena, e->text);
        err_set(e, e->code, "%.1200s; %s", text, next);
    }
    return -1;
}

int terraform_state(struct terraform *t, const char *root, struct terraform_state *out,
                    struct err *e) {
    static const char *const args[] = {"state", "pull", NULL};
    char *text = NULL;
    int status = 0;
    int64_t started = clock_mono_ms();
    auto_close int log_fd = open(t->log_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    off_t said = log_fd < 0 ? 0 : lseek(log_fd, 0, SEEK_END);
    struct proc_spec spec = {.argv = command(t, root, args),
                             .env = t->env,
                             .cwd = t->folder,
                             .in = -1,
                             .out = -1,
                             .err = log_fd,
                             .new_group = true};
    int result = proc_run(&spec, &text, TERRAFORM_STATE_BYTES_MAX, TERRAFORM_LOCK_TIMEOUT_S * 1000,
                          &status, e);
    t->spent_ms += clock_mono_ms() - started;
    if (result == 0 && status != 0) {
        char words[TERRAFORM_PROBLEM_BYTES_MAX] = "";
        if (log_fd >= 0)
            (void)pread(log_fd, words, sizeof words - 1, said);
        result = -1;
        if (!t->cloud->explain(t->context, words, e))
            err_set(e, ERR_FAILED, "cannot read terraform's state (status %d; log: %s)",
                    proc_status_code(status), t->log_path);
    }
    if (result == 0)
        result = terraform_state_parse(t->context->arena, text, strlen(text), out, e);
    free(text);
    return result;
}
