// SPDX-License-Identifier: Apache-2.0
// dtctl run: the tasks of the configuration file, one after the other, each by its own dtctl
// train. The first one that fails ends the command.
#include "cmd_run.h"

#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "run/inputs/input_from_run.h"
#include "run/run_start.h"
#include "run/task.h"
#include "run/task_order.h"
#include "sys/proc.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MORE = 8 }; // of a child's command line, beside the flags that were given

struct run_flags {
    struct option_list tasks;
    bool force;
};

#define AT(field) .offset = offsetof(struct run_flags, field)
static const struct option_row ROWS[] = {
    {.flag = "task",
     .verbs = "run",
     .type = OPTION_LIST,
     .marks = OPTION_NO_ENV,
     AT(tasks),
     .arg = "NAME",
     .check = option_plain_name,
     .help = "Run this task and those that it comes after, no others; may be repeated."},
    {.flag = "force",
     .verbs = "run",
     .type = OPTION_BOOL,
     .marks = OPTION_NO_ENV,
     AT(force),
     .text = "false",
     .help = "Run every task, although a finished run could be reused."},
};
static const struct option_table TABLE = {"Tasks", ROWS, sizeof ROWS / sizeof ROWS[0]};

// One task of the file, in the order of the file.
struct file_task {
    const struct config *config; // the file's, with the task's own values
    const char *run;             // id; NULL: it did not run
    bool stood_in;
    int64_t ms;
};

struct graph {
    struct context *context;
    const char *const *flags; // given to this command, for its children
    size_t flag_count;
    bool force;
    struct task_node *nodes;
    struct file_task *tasks;
    size_t count;
    size_t *order, wanted;
};

// ---- reading the tasks --------------------------------------------------------------------------

// The command line of `dtctl train` for one task; NULL-terminated.
static const char **train_words(const struct graph *g, const char *task, const char *more) {
    size_t n = 0;
    const char **words = arena_new(g->context->arena, const char *, g->flag_count + WORDS_MORE);
    words[n++] = "/proc/self/exe";
    words[n++] = "train";
    for (size_t i = 0; i < g->flag_count; i++)
        words[n++] = g->flags[i];
    words[n++] = arena_printf(g->context->arena, "--config=%s", g->context->config->file);
    words[n++] = arena_printf(g->context->arena, "--task=%s", task);
    if (more)
        words[n++] = more;
    return words;
}

// Every task that comes before this one: by task.after, or as the source of an input.
static const char *const *earlier_of(struct arena *a, const struct config *c) {
    const char **after = arena_new(a, const char *, c->job.after.count + c->inputs.count + 1);
    size_t n = 0;
    for (size_t i = 0; i < c->job.after.count; i++)
        after[n++] = c->job.after.items[i];
    for (size_t i = 0; i < c->inputs.count; i++) {
        const char *run, *task = input_from_run_task(a, config_input(c, i)->source, &run);
        if (task && !*run && !str_is_one_of(task, after))
            after[n++] = task;
    }
    return after;
}

static int read_task(struct graph *g, size_t i, struct err *e) {
    struct context *s = g->context;
    const char *name = s->config->sections.names[i];
    const char *const *words = train_words(g, name, NULL) + 2;
    struct config *c = arena_new(s->arena, struct config, 1);
    struct cli_rest rest;
    int count = 0;
    while (words[count])
        count++;
    config_open(c, s->arena, "dtctl", s->env);
    if (config_load(c, &(struct config_verb){.verb = "train"}, count, words, &rest, e) < 0 ||
        run_start_command_check(c, e) < 0)
        return err_wrap(e, "task '%s'", name);
    if (c->job.detach)
        return err_set(e, ERR_CONFIG, "task '%s': %s: dtctl run waits for the end of each task",
                       name, config_where(c, "train.detach"));
    g->tasks[i] = (struct file_task){.config = c};
    g->nodes[i] =
        (struct task_node){.name = name, .after = earlier_of(s->arena, c), .wanted = true};
    return 0;
}

static int choose_tasks(struct graph *g, const struct option_list *chosen, struct err *e) {
    const char *const *names = g->context->config->sections.names;
    for (size_t i = 0; i < g->count; i++)
        g->nodes[i].wanted = chosen->count == 0 || str_is_one_of(g->nodes[i].name, chosen->items);
    for (size_t k = 0; k < chosen->count; k++) {
        size_t i = 0;
        while (i < g->count && strcmp(chosen->items[k], names[i]) != 0)
            i++;
        if (i == g->count)
            return err_set(e, ERR_USAGE, "--task: '%s' has no task '%s'%s",
                           g->context->config->file, chosen->items[k],
                           cli_nearest(g->context->arena, chosen->items[k], names));
    }
    return task_order(g->context->arena, g->nodes, g->count, g->order, &g->wanted, e);
}

static void open_graph(struct graph *g) {
    struct arena *a = g->context->arena;
    g->count = g->context->config->sections.count;
    g->nodes = arena_new(a, struct task_node, g->count + 1);
    g->tasks = arena_new(a, struct file_task, g->count + 1);
    g->order = arena_new(a, size_t, g->count + 1);
}

int cmd_run_check(struct context *s, struct err *e) {
    struct graph g = {.context = s};
    struct strbuf all = {0};
    struct err first = {0};
    open_graph(&g);
    for (size_t i = 0; i < g.count; i++) {
        struct err one = {0};
        if (read_task(&g, i, &one) == 0)
            continue;
        strbuf_addf(&all, "%s%s", all.len ? "\n" : "", one.text);
        first = first.code ? first : one;
    }
    int result = first.code ? err_set_lines(e, first.code, strbuf_cstr(&all))
                            : choose_tasks(&g, &(struct option_list){0}, e);
    strbuf_fini(&all);
    return result;
}

static int read_tasks(struct graph *g, const struct option_list *chosen, struct err *e) {
    struct context *s = g->context;
    open_graph(g);
    if (!s->config->file_found)
        return err_set(e, ERR_NOT_FOUND, "there is no '%s' here (try: dtctl run FILE)",
                       s->config->file);
    if (!g->count)
        return err_set(e, ERR_CONFIG,
                       "'%s' has no [tasks.NAME] (try: dtctl train, which runs one command)",
                       s->config->file);
    for (size_t i = 0; i < g->count; i++)
        if (read_task(g, i, e) < 0)
            return -1;
    return choose_tasks(g, chosen, e);
}

// ---- one task -----------------------------------------------------------------------------------

struct running {
    struct context *context;
    struct child child;
    pid_t pid;
    bool ended;
    int status;
};

static void on_ended(struct child *c, int status) {
    struct running *r = container_of(c, struct running, child);
    r->ended = true;
    r->status = status;
    loop_stop(r->context->loop);
}

// A terminal sends its signals to both; others send them to this program alone.
static void on_signal(void *ctx, int signal) {
    struct running *r = ctx;
    if (signal != SIGWINCH && !(signal == SIGINT && isatty(STDIN_FILENO)))
        kill(r->pid, signal);
}

static int run_child(struct graph *g, const char *const *words, int *status, struct err *e) {
    struct context *s = g->context;
    struct running r = {.context = s};
    struct proc_spec spec = {.argv = words,
                             .env = s->env,
                             .in = STDIN_FILENO,
                             .out = STDOUT_FILENO,
                             .err = STDERR_FILENO};
    r.pid = proc_start(&spec, e);
    if (r.pid < 0 || child_start(s->loop, &r.child, r.pid, on_ended, e) < 0)
        return -1;
    context_listen(s, on_signal, &r);
    while (!r.ended)
        loop_run(s->loop);
    context_listen(s, NULL, NULL);
    *status = proc_status_code(r.status);
    return 0;
}

// The newest run of the task, and whether it was there before the task was started.
static int look_at_result(struct graph *g, size_t i, int64_t began_ms, struct err *e) {
    struct context *s = g->context;
    const char *name = g->nodes[i].name;
    struct run r;
    int found = task_find(&s->cluster, name, NULL, &r, e);
    if (found <= 0)
        return found < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "task '%s' has left no run", name);
    g->tasks[i].run = r.id;
    g->tasks[i].stood_in = r.created_ms < began_ms;
    if (g->tasks[i].stood_in || strcmp(r.state, "finished") == 0)
        return 0;
    return err_set(e, ERR_FAILED,
                   "task '%s' is active as run %s (try: dtctl logs -f %s, then dtctl run again)",
                   name, r.id, r.id);
}

static int run_task(struct graph *g, size_t i, int *status, struct err *e) {
    struct context *s = g->context;
    const struct config *c = g->tasks[i].config;
    const char *more = g->force                                    ? "--force"
                       : !option_given(&c->set, "task.if_changed") ? "--if-changed"
                                                                   : NULL;
    int64_t began = clock_mono_ms(), wall = clock_wall_ms();
    screen_note(s->screen, "task     %s (%zu of %zu)", g->nodes[i].name, g->nodes[i].place + 1,
                g->wanted);
    if (run_child(g, train_words(g, g->nodes[i].name, more), status, e) < 0)
        return -1;
    g->tasks[i].ms = clock_mono_ms() - began;
    return *status ? 0 : look_at_result(g, i, wall, e);
}

// ---- all of them --------------------------------------------------------------------------------

static void show_plan(const struct graph *g) {
    for (size_t k = 0; k < g->wanted; k++) {
        const struct task_node *n = &g->nodes[g->order[k]];
        struct strbuf after = {0};
        for (const char *const *name = n->after; *name; name++)
            strbuf_addf(&after, "%s%s", after.len ? ", " : ", after ", *name);
        screen_note(g->context->screen, "task     %s (%zu of %zu)%s", n->name, k + 1, g->wanted,
                    strbuf_cstr(&after));
        strbuf_fini(&after);
    }
}

static void show_result(const struct graph *g, size_t i) {
    const struct file_task *t = &g->tasks[i];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "task");
    json_str(&j, "task", g->nodes[i].name);
    json_str(&j, "run", t->run);
    json_bool(&j, "stood_in", t->stood_in);
    json_int(&j, "ms", t->ms);
    screen_event_end(g->context->screen, &text, &j);
}

// The tasks that were not started, for the message of the one that failed.
static const char *names_behind(const struct graph *g, size_t k) {
    struct strbuf text = {0};
    for (size_t n = k + 1; n < g->wanted; n++)
        strbuf_addf(&text, "%s%s", text.len ? ", " : "; not started: ", g->nodes[g->order[n]].name);
    const char *copy = arena_strdup(g->context->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct run_flags *f = flags;
    struct graph g = {.context = s, .force = f->force};
    (void)rest;
    g.flags = cli_again(&s->config->set, &TABLE, &g.flag_count);
    if (read_tasks(&g, &f->tasks, e) < 0)
        return -1;
    if (s->config->dry_run) {
        show_plan(&g);
        return 0;
    }
    for (size_t k = 0; k < g.wanted; k++) {
        int status = 0;
        int result = context_check(s, e) < 0 ? -1 : run_task(&g, g.order[k], &status, e);
        if (result < 0)
            return err_set(e, e->code, "%s%s", arena_strdup(s->arena, e->text),
                           names_behind(&g, k));
        if (status) {
            log_error(arena_printf(s->arena, "task '%s' failed%s", g.nodes[g.order[k]].name,
                                   names_behind(&g, k)),
                      "%s", "");
            return status;
        }
        show_result(&g, g.order[k]);
    }
    return 0;
}

const struct command cmd_run = {
    .verb = {.name = "run",
             .summary = "run the tasks of the configuration file",
             .args = "[FILE]",
             .text =
                 "Runs every [tasks.NAME] of FILE (dtctl.toml) with dtctl train, each after those "
                 "that it names in `after` or takes an input from. A key of a task is one of "
                 "[task] or [train]; its tables inputs, outputs, state, env, metrics, setup, "
                 "hyperparameters and train add to those of the file.\n\n"
                 "A task is not run again when its newest finished run had the same command, "
                 "files, inputs, setup, environment and settings; if_changed = false in the task, "
                 "or --force, runs it. The first task that fails ends the command with its status.",
             .examples = "dtctl run   # all tasks of dtctl.toml\n"
                         "dtctl run pipeline.toml --task train   # one, and what it needs\n"
                         "dtctl run --dry-run   # the order only\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct run_flags),
    .marks = COMMAND_FILE,
    .args_max = 1,
    .run = run,
};
