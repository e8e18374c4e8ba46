// SPDX-License-Identifier: Apache-2.0
// dtctl exec: a command on all nodes at once.
#include "command.h"

#include "base/log.h"
#include "base/str.h"
#include "cluster/nodeset.h"
#include "fleet/fleet.h"
#include "run/rank_nodes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { FOLD_BYTES_MAX = 16 << 20, LINE_BYTES_MAX = 64 * 1024 };

struct exec_flags {
    const char *node, *run;
    struct option_ints ranks;
    bool fold, exit_code, no_prefix;
};

static const struct option_row ROWS[] = {
    {.flag = "node",
     .letter = 'w',
     .verbs = "exec",
     .type = OPTION_STRING,
     .arg = "NODES",
     .offset = offsetof(struct exec_flags, node),
     .marks = OPTION_NO_ENV,
     .help = "Only these nodes, such as gpu[01-04]."},
    {.flag = "rank",
     .verbs = "exec",
     .type = OPTION_INTS,
     .max = 1000000,
     .arg = "RANK,RANK",
     .offset = offsetof(struct exec_flags, ranks),
     .marks = OPTION_NO_ENV,
     .help = "Only the nodes with these ranks of an active run."},
    {.flag = "run",
     .verbs = "exec",
     .type = OPTION_STRING,
     .arg = "RUN",
     .offset = offsetof(struct exec_flags, run),
     .marks = OPTION_NO_ENV,
     .help = "With --rank: the run; needed when several runs are active."},
    {.flag = "fold",
     .letter = 'b',
     .verbs = "exec",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct exec_flags, fold),
     .marks = OPTION_NO_ENV,
     .help = "Show equal output of several nodes once, when all have ended."},
    {.flag = "no-prefix",
     .letter = 'N',
     .verbs = "exec",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct exec_flags, no_prefix),
     .marks = OPTION_NO_ENV,
     .help = "Leave out the node's name in front of every line."},
    {.flag = "exit-code",
     .verbs = "exec",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct exec_flags, exit_code),
     .marks = OPTION_NO_ENV,
     .help = "End with the exit status of the first node, in order, whose command failed."},
};
static const struct option_table TABLE = {"Exec", ROWS, sizeof ROWS / sizeof ROWS[0]};

struct exec_node {
    const struct exec_flags *flags;
    const char *line;
    struct strbuf out, err_text; // --fold: all output; else the open line of a stream
    struct transport_run *run;
    bool ended, no_status;
    int status;
    char signal[16];
};

static void print(struct fleet_node *n, const char *line, size_t len, bool is_error) {
    struct exec_node *w = n->work;
    struct screen *screen = n->fleet->context->screen;
    struct strbuf text = {0};
    struct json_out j;
    if (screen->style == SCREEN_JSON) {
        screen_event(&text, &j, "line");
        json_str(&j, "node", n->info->name);
        json_str(&j, "stream", is_error ? "stderr" : "stdout");
        json_strn(&j, "text", line, len);
        screen_event_end(screen, &text, &j);
        return;
    }
    char label[INVENTORY_NAME_BYTES_MAX + 3] = "";
    if (!w->flags->no_prefix)
        snprintf(label, sizeof label, "%s: ", n->info->name);
    screen_words(screen, label, line, len, is_error);
}

// The commands end when the reader of their output is gone, as with `dtctl exec -- yes | head`.
static void show(struct fleet_node *n, const char *line, size_t len, bool is_error) {
    struct context *s = n->fleet->context;
    print(n, line, len, is_error);
    if (s->screen->broken && !s->interrupt)
        s->interrupt = SIGPIPE;
}

static void take(struct fleet_node *n, struct strbuf *rest, const void *p, size_t len,
                 bool is_error) {
    struct exec_node *w = n->work;
    strbuf_add(rest, p, len);
    if (w->flags->fold)
        return;
    size_t used = 0;
    const char *end;
    while ((end = memchr(rest->data + used, '\n', rest->len - used))) {
        show(n, rest->data + used, (size_t)(end - rest->data) - used, is_error);
        used = (size_t)(end - rest->data) + 1;
    }
    strbuf_consume(rest, used);
    if (rest->len >= LINE_BYTES_MAX) {
        show(n, rest->data, rest->len, is_error);
        strbuf_clear(rest);
    }
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct fleet_node *n = ctx;
    take(n, &((struct exec_node *)n->work)->out, p, len, false);
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct fleet_node *n = ctx;
    struct exec_node *w = n->work;
    // Folding compares what people see: both streams together.
    take(n, w->flags->fold ? &w->out : &w->err_text, p, len, true);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)r;
    struct fleet_node *n = ctx;
    struct exec_node *w = n->work;
    struct err e = {0};
    w->run = NULL;
    w->ended = true;
    w->status = end->status;
    if (!w->flags->fold && w->out.len)
        show(n, w->out.data, w->out.len, false);
    if (!w->flags->fold && w->err_text.len)
        show(n, w->err_text.data, w->err_text.len, true);
    if (end->how == TRANSPORT_LOST) {
        w->no_status = true;
        err_set(&e, ERR_NO_STATUS, "no exit status: %s",
                end->err ? end->err->text : "the connection ended");
    } else if (end->how == TRANSPORT_SIGNALED) {
        err_set(&e, ERR_FAILED, "ended by signal %s", end->signal);
    } else if (end->status != 0) {
        err_set(&e, ERR_FAILED, "exit status %d", end->status);
    }
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_error = on_error, .on_end = on_end};
    struct exec_node *w = n->work;
    strbuf_init(&w->out, w->flags->fold ? FOLD_BYTES_MAX : 0);
    w->run = transport_run(n->link, &(struct transport_command){.line = w->line}, &events, n, e);
    if (!w->run)
        return -1;
    transport_run_send_end(w->run);
    return 0;
}

static void show_lines(struct screen *screen, const char *text, size_t len) {
    for (const char *end; len > 0; len -= (size_t)(end - text), text = end) {
        end = memchr(text, '\n', len);
        end = end ? end + 1 : text + len;
        screen_words(screen, "", text, (size_t)(end - text) - (end[-1] == '\n'), false);
    }
}

// As clush -b does: nodes with the same output share one header.
static void show_folded(struct context *s, struct fleet *f, const struct exec_node *work) {
    bool *shown = arena_new(s->arena, bool, f->count);
    const char **names = arena_new(s->arena, const char *, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        size_t same = 0;
        if (shown[i] || !work[i].ended)
            continue;
        for (size_t k = i; k < f->count; k++) {
            if (!work[k].ended || work[k].out.len != work[i].out.len ||
                memcmp(strbuf_cstr(&work[k].out), strbuf_cstr(&work[i].out), work[i].out.len) != 0)
                continue;
            shown[k] = true;
            names[same++] = f->nodes[k].info->name;
        }
        struct strbuf text = {0};
        struct json_out j;
        const char *folded = nodeset_fold(s->arena, names, same);
        screen_event(&text, &j, "output");
        json_str(&j, "nodes", folded);
        json_int(&j, "count", (int64_t)same);
        json_strn(&j, "text", strbuf_cstr(&work[i].out), work[i].out.len);
        screen_event_end(s->screen, &text, &j);
        screen_out(s->screen, "---------------\n%s (%zu)\n---------------\n", folded, same);
        if (s->screen->style != SCREEN_JSON)
            show_lines(s->screen, strbuf_cstr(&work[i].out), work[i].out.len);
        if (work[i].out.overflow)
            log_warn("output was cut", "nodes=%s limit_bytes=%d", folded, FOLD_BYTES_MAX);
    }
}

static int judge(struct context *s, struct fleet *f, const struct exec_node *work,
                 const struct exec_flags *flags, struct err *e) {
    size_t none = 0;
    int first = 0;
    for (size_t i = 0; i < f->count; i++) {
        none += work[i].no_status || !work[i].ended;
        if (first == 0 && work[i].ended && !work[i].no_status)
            first = work[i].status;
        struct strbuf text = {0};
        struct json_out j;
        screen_event(&text, &j, "exit");
        json_str(&j, "node", f->nodes[i].info->name);
        if (work[i].ended && !work[i].no_status)
            json_int(&j, "status", work[i].status);
        else
            json_null(&j, "status");
        screen_event_end(s->screen, &text, &j);
    }
    fleet_report(f);
    if (flags->exit_code && first)
        return first;
    if (none) {
        fleet_verdict(f, "exec", e);
        return err_set(e, ERR_NO_STATUS, "exec: %zu of %zu nodes gave no status", none, f->count);
    }
    return fleet_verdict(f, "exec", e);
}

static int select_nodes(struct context *s, struct inventory *inv, const struct exec_flags *f,
                        size_t **indices, size_t *count, struct err *e) {
    if (f->ranks.count && f->node[0])
        return err_set(e, ERR_USAGE, "--rank names the nodes by their ranks: give it or --node");
    if (f->run[0] && !f->ranks.count)
        return err_set(e, ERR_USAGE, "--run says whose ranks are meant: it needs --rank");
    if (f->ranks.count)
        return rank_nodes_find(s, inv, f->run[0] ? f->run : NULL, &f->ranks, indices, count, e);
    return inventory_select(s->arena, inv, f->node, indices, count, e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct exec_flags *ef = flags;
    struct inventory inv;
    struct fleet f;
    size_t *indices = NULL, count = 0;
    const char *line = command_line(s->arena, rest);
    if (!*line)
        return err_set(e, ERR_USAGE, "exec needs a command (dtctl exec -- COMMAND…)");
    if (cluster_load(&s->cluster, &inv, e) < 0 ||
        select_nodes(s, &inv, ef, &indices, &count, e) < 0)
        return -1;
    if (s->config->dry_run) {
        const char **names = arena_new(s->arena, const char *, count + 1);
        for (size_t i = 0; i < count; i++)
            names[i] = inv.nodes[indices[i]].name;
        screen_out(s->screen, "would run on %zu node%s (%s): %s\n", count, str_plural(count),
                   nodeset_fold(s->arena, names, count), line);
        return 0;
    }
    fleet_open(&f, s, &inv, indices, count);
    struct exec_node *work = arena_new(s->arena, struct exec_node, count + 1);
    for (size_t i = 0; i < count; i++) {
        work[i] = (struct exec_node){.flags = ef, .line = line, .status = -1};
        f.nodes[i].work = &work[i];
    }
    int result = fleet_connect(&f, false, e);
    if (result == 0)
        result = fleet_each(&f, NULL, start, e);
    if (s->interrupt == SIGPIPE) {
        (void)context_take_interrupt(s);
        err_clear(e);
        result = 0;
    } else if (result == 0) {
        if (ef->fold)
            show_folded(s, &f, work);
        result = judge(s, &f, work, ef, e);
    }
    for (size_t i = 0; i < count; i++) {
        if (work[i].run)
            transport_run_close(work[i].run);
        strbuf_fini(&work[i].out);
        strbuf_fini(&work[i].err_text);
    }
    fleet_close(&f);
    return result;
}

const struct command cmd_exec = {
    .verb = {.name = "exec",
             .summary = "run a command on every node at once",
             .args = "-- COMMAND…",
             .text =
                 "Runs the command on every node at the same time. One argument is a line for the "
                 "node's shell; several are a program and its arguments. The exit status is 3 when "
                 "the command failed on some nodes, 4 when some nodes gave no status.",
             .examples = "dtctl exec -- nvidia-smi -L   # every node's devices\n"
                         "dtctl exec --rank 3 -- 'py-spy dump --pid $(pgrep -n python3)'   # "
                         "where rank 3 runs\n"
                         "dtctl exec -b -- 'uname -r; nproc'   # equal answers folded\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct exec_flags),
    .marks = COMMAND_REST,
    .args_max = 4096,
    .run = run,
};
