// SPDX-License-Identifier: Apache-2.0
// dtctl ssh: a shell on one node, in this terminal.
//
// This terminal goes into raw mode, so every key, Ctrl-C too, travels to the node; it is put back
// however the shell ends. Signals from outside (SIGTERM, SIGHUP) end the session.
#include "command.h"

#include "base/env.h"
#include "base/log.h"
#include "fleet/fleet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum { INPUT_BYTES = 4096 };

struct shell {
    struct fleet_node *node;
    struct context *session;
    const char *line; // the command; "": a login shell
    struct transport_run *run;
    struct watch input;
    struct termios before;
    bool raw, terminal, ended;
    bool plain_file; // standard input is a file, which no loop can watch and which never blocks
    char pending[INPUT_BYTES]; // read and not yet taken by the transport
    size_t pending_len;
    struct err err;
    int status;
};

static void restore(struct shell *sh) {
    if (sh->raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &sh->before);
    sh->raw = false;
}

static int go_raw(struct shell *sh, struct err *e) {
    if (!sh->terminal)
        return 0;
    if (tcgetattr(STDIN_FILENO, &sh->before) < 0)
        return err_errno(e, ERR_SYS, "cannot read the terminal's settings");
    struct termios raw = sh->before;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
        return err_errno(e, ERR_SYS, "cannot change the terminal's settings");
    sh->raw = true;
    return 0;
}

static void push_pending(struct shell *sh) {
    size_t taken = transport_run_send(sh->run, sh->pending, sh->pending_len);
    memmove(sh->pending, sh->pending + taken, sh->pending_len - taken);
    sh->pending_len -= taken;
    if (sh->input.loop)
        watch_modify(&sh->input, sh->pending_len ? 0 : LOOP_READ);
}

// Feeds from a plain file as long as the transport takes it.
static void feed_file(struct shell *sh) {
    while (sh->plain_file && sh->pending_len == 0) {
        ssize_t n = read(STDIN_FILENO, sh->pending, sizeof sh->pending);
        if (n <= 0) {
            sh->plain_file = false;
            transport_run_send_end(sh->run);
            return;
        }
        sh->pending_len = (size_t)n;
        push_pending(sh);
    }
}

static void on_room(struct transport_run *r, void *ctx) {
    (void)r;
    struct shell *sh = ((struct fleet_node *)ctx)->work;
    push_pending(sh);
    feed_file(sh);
}

static void on_input(struct watch *w, unsigned events) {
    (void)events;
    struct shell *sh = container_of(w, struct shell, input);
    ssize_t n = read(w->fd, sh->pending + sh->pending_len, sizeof sh->pending - sh->pending_len);
    if (err_not_yet(n))
        return;
    if (n <= 0) {
        watch_stop(w);
        transport_run_send_end(sh->run);
        return;
    }
    sh->pending_len += (size_t)n;
    push_pending(sh);
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct shell *sh = ((struct fleet_node *)ctx)->work;
    screen_write(sh->session->screen, p, len);
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    (void)ctx;
    ssize_t n = write(STDERR_FILENO, p, len);
    (void)n;
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)r;
    struct fleet_node *n = ctx;
    struct shell *sh = n->work;
    sh->run = NULL;
    sh->ended = true;
    sh->status = end->status;
    watch_stop(&sh->input);
    restore(sh);
    if (end->how == TRANSPORT_LOST)
        err_set(&sh->err, ERR_NO_STATUS, "node '%s': %s", n->info->name,
                end->err ? end->err->text : "the connection ended");
    fleet_done(n, NULL);
}

static void on_signal(void *ctx, int signal) {
    struct shell *sh = ctx;
    if (signal != SIGWINCH)
        sh->session->interrupt = signal;
    else if (sh->run && sh->terminal)
        transport_run_resize(sh->run, screen_columns(sh->session->screen),
                             screen_rows(sh->session->screen));
}

static int start(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_error = on_error, .on_room = on_room, .on_end = on_end};
    struct shell *sh = n->work;
    const char *term = env_get(sh->session->env, "TERM");
    struct transport_command command = {
        .pty = sh->terminal,
        .term = term && *term ? term : "vt100",
        .line = *sh->line ? sh->line : NULL,
        .columns = screen_columns(sh->session->screen),
        .rows = screen_rows(sh->session->screen),
    };
    if (!sh->terminal && !command.line)
        command.line = "exec \"${SHELL:-/bin/sh}\" -l";
    sh->run = transport_run(n->link, &command, &events, n, e);
    if (!sh->run || go_raw(sh, e) < 0)
        return -1;
    struct stat st;
    bool known = fstat(STDIN_FILENO, &st) == 0;
    // A file, or the null device.
    sh->plain_file = known && (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(0)));
    if (sh->plain_file) {
        feed_file(sh);
        return 0;
    }
    return watch_start(sh->session->loop, &sh->input, STDIN_FILENO, LOOP_READ, on_input, e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)flags;
    struct inventory inv;
    struct fleet f;
    size_t *indices = NULL, count = 0;
    if (cluster_load(&s->cluster, &inv, e) < 0 ||
        inventory_select(s->arena, &inv, rest->count ? rest->args[0] : inv.nodes[0].name, &indices,
                         &count, e) < 0)
        return -1;
    if (count != 1)
        return err_set(e, ERR_USAGE, "ssh takes one node, '%s' are %zu", rest->args[0], count);
    struct shell *sh = arena_new(s->arena, struct shell, 1);
    *sh = (struct shell){.session = s,
                         .line = rest->command_count ? command_line(s->arena, rest) : ""};
    sh->terminal = !*sh->line && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    fleet_open(&f, s, &inv, indices, count);
    sh->node = &f.nodes[0];
    f.nodes[0].work = sh;
    s->screen->style = SCREEN_PLAIN; // the terminal belongs to the node now
    int result = fleet_connect(&f, false, e);
    if (result == 0 && f.nodes[0].failed)
        result = err_set(e, f.nodes[0].err.code, "node '%s': %s", inv.nodes[indices[0]].name,
                         f.nodes[0].err.text);
    context_listen(s, on_signal, sh);
    if (result == 0)
        result = fleet_each(&f, NULL, start, e);
    restore(sh);
    watch_stop(&sh->input);
    context_listen(s, NULL, NULL);
    if (result == 0 && sh->err.code)
        result = err_set(e, sh->err.code, "%s", sh->err.text);
    else if (result == 0 && f.nodes[0].failed)
        result = err_set(e, f.nodes[0].err.code, "%s", f.nodes[0].err.text);
    if (sh->run)
        transport_run_close(sh->run);
    fleet_close(&f);
    return result < 0 ? -1 : sh->status;
}

const struct command cmd_ssh = {
    .verb =
        {.name = "ssh",
         .summary = "open a shell on a node",
         .args = "[NODE] [-- COMMAND…]",
         .text =
             "Opens a login shell on the node (by default the first) in this terminal, or runs the "
             "command there. One word after -- is a line for the node's shell; several are a "
             "program and its arguments. The exit status is that of the shell or the command."},
    .marks = COMMAND_REST,
    .args_max = 1,
    .run = run,
};
