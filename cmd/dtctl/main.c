// SPDX-License-Identifier: Apache-2.0
// dtctl: flags, command, configuration, then the command's own function.
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "command.h"
#include "fleet/embedded_files.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

enum { SIGNALED = 128 }; // as shells report the end by a signal

struct program {
    struct arena arena;
    struct config config;
    struct screen screen;
    struct context context;
};

static int usage(const struct err *e) {
    log_error(e->text, "%s", "");
    return err_status(e->code);
}

static int print_and_free(struct strbuf *text) {
    struct err e = {0};
    int failed = file_write_all(STDOUT_FILENO, strbuf_cstr(text), text->len, &e);
    strbuf_fini(text);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int help_top(struct program *p) {
    struct strbuf text = {0};
    render_help(&text, &p->config.set, &command_program, screen_columns(&p->screen));
    return print_and_free(&text);
}

// A document of docs/, as it is.
static int help_topic(struct program *p, const struct embed_file *file) {
    struct strbuf text = {0};
    struct err e = {0};
    const void *data = embedded_unpack(&p->arena, file, &e);
    if (!data)
        return usage(&e);
    strbuf_add(&text, data, file->size);
    return print_and_free(&text);
}

static int help_verb(struct program *p, const struct command *c) {
    struct strbuf text = {0};
    render_help_verb(&text, &p->config.set, &command_program, &c->verb, screen_columns(&p->screen));
    return print_and_free(&text);
}

// Many nodes need many descriptors: take as many as the system allows.
static void raise_file_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

// True on a terminal that can move its cursor. Emacs' shell and serial lines set TERM=dumb, or
// none.
static bool can_redraw(char *const *env) {
    const char *term = env_get(env, "TERM");
    return isatty(STDERR_FILENO) && term && *term && !str_eq(term, "dumb");
}

static int open_session(struct program *p, struct err *e) {
    struct context *s = &p->context;
    const struct config *c = &p->config;
    enum screen_style style = c->json                  ? SCREEN_JSON
                              : can_redraw(c->set.env) ? SCREEN_TERMINAL
                                                       : SCREEN_PLAIN;
    screen_init(&p->screen, STDOUT_FILENO, STDERR_FILENO, style, c->quiet);
    *s = (struct context){.arena = &p->arena, .config = c, .env = c->set.env, .screen = &p->screen};
    const char *base = c->file_found ? file_dir(&p->arena, c->file) : ".";
    if (cluster_open(&s->cluster, &p->arena, base, c->cluster.name, e) < 0)
        return c->cluster.name[0] ? -1
                                  : err_set(e, ERR_CONFIG, "%s: the name of a cluster is not empty",
                                            config_where(c, "cluster.name"));
    s->loop = loop_open(e);
    if (!s->loop)
        return -1;
    screen_take_log(&p->screen); // from here on signals are blocked
    return context_signals(s, e);
}

// Prints the error as log lines, and as an event with --json.
static void show_error(struct program *p, const struct err *e) {
    struct strbuf text = {0};
    struct json_out j;
    screen_erase(&p->screen);
    // Several problems come as one line each.
    char *copy = arena_strdup(&p->arena, e->text), *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        log_error(line, "%s", "");
    screen_event(&text, &j, "error");
    json_str(&j, "code", err_name(e->code));
    json_str(&j, "text", e->text);
    json_int(&j, "exit_status", err_status(e->code));
    screen_event_end(&p->screen, &text, &j);
}

// "node0 -- hostname -f" of "node0 hostname -f".
static const char *with_dashes(struct arena *a, const struct command *c,
                               const struct cli_rest *rest) {
    struct strbuf text = {0};
    for (size_t i = 0; i < rest->count; i++)
        strbuf_addf(&text, "%s%s%s", i ? " " : "", i == c->args_max ? "-- " : "",
                    str_shell_quote(a, rest->args[i]));
    const char *copy = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static int check_arguments(struct arena *a, const struct command *c, const struct cli_rest *rest,
                           struct err *e) {
    if (rest->count < c->args_min)
        return err_set(e, ERR_USAGE, "'%s' needs %s (try: dtctl %s --help)", c->verb.name,
                       c->verb.args ? c->verb.args : "an argument", c->verb.name);
    if (rest->count > c->args_max && (c->marks & COMMAND_REST))
        return err_set(e, ERR_USAGE, "'%s': a command goes behind '--' (try: dtctl %s %s)",
                       c->verb.name, c->verb.name, with_dashes(a, c, rest));
    if (rest->count > c->args_max)
        return err_set(e, ERR_USAGE, "'%s' does not take '%s' (try: dtctl %s --help)", c->verb.name,
                       rest->args[c->args_max], c->verb.name);
    for (size_t i = 0; i < rest->count; i++) // "$RUN" of a script, which would be the newest run
        if (!*rest->args[i])
            return err_set(e, ERR_USAGE, "argument %zu of '%s' is empty (is a variable not set?)",
                           i + 1, c->verb.name);
    if (rest->dashes && !(c->marks & COMMAND_REST))
        return err_set(e, ERR_USAGE, "'%s' takes no command after '--' (try: dtctl train -- …)",
                       c->verb.name);
    return 0;
}

// Rules that no single row of the option table can state.
static int check_config(const struct config *c, struct err *e) {
    if (c->cluster.provider == CONFIG_LOCAL && !option_given(&c->set, "cluster.provider") &&
        c->hosts.list.count + c->hosts.host.count > 0)
        return err_set(e, ERR_CONFIG,
                       "%s: hosts are listed, and the provider is local (try: provider = \"hosts\" "
                       "in [cluster])",
                       config_where(c, "hosts.list"));
    const char *path = c->ssh.config_file;
    if (option_given(&c->set, "ssh.config") && path[0] && strcmp(path, "none") != 0 &&
        file_is_absent(path))
        return err_set(e, ERR_CONFIG, "%s: '%s' is not there", config_where(c, "ssh.config"), path);
    return 0;
}

static int run_command(struct program *p, const struct command *c, int argc,
                       const char *const *argv) {
    struct err e = {0};
    struct cli_rest rest = {0};
    void *flags = arena_alloc(&p->arena, c->flags_bytes ? c->flags_bytes : 1, 16, 1);
    struct config_verb verb = {c->verb.name, c->rows, flags, (c->marks & COMMAND_FILE) != 0};
    int bad = config_load(&p->config, &verb, argc, argv, &rest, &e);
    if (p->config.help)
        return help_verb(p, c);
    log_open("dtctl",
             p->config.verbose ? LOG_DEBUG
             : p->config.quiet ? LOG_WARN
                               : LOG_INFO,
             LOG_PLAIN);
    const char *unknown = config_unknown_env(&p->config);
    if (*unknown && !(c->marks & COMMAND_FOR_SHELL))
        log_warn(arena_printf(&p->arena, "environment: nothing reads %s", unknown), "%s", "");
    if (bad && !((c->marks & COMMAND_ANY_CONFIG) && e.code == ERR_CONFIG)) {
        screen_init(&p->screen, STDOUT_FILENO, STDERR_FILENO,
                    p->config.json ? SCREEN_JSON : SCREEN_PLAIN, false);
        show_error(p, &e);
        return err_status(e.code);
    }
    err_clear(&e);
    int result = check_arguments(&p->arena, c, &rest, &e);
    if (result == 0 && !(c->marks & COMMAND_ANY_CONFIG))
        result = check_config(&p->config, &e);
    if (result == 0)
        result = open_session(p, &e);
    if (result == 0)
        result = c->run(&p->context, &rest, flags, &e);
    screen_fini(&p->screen);
    cluster_close(&p->context.cluster);
    // A signal that came too late to stop anything still ends the script that called dtctl.
    if (result == 0 && p->context.loop)
        result = context_check(&p->context, &e);
    if (result == 0 && p->screen.write_error && p->screen.write_error != EPIPE) {
        errno = p->screen.write_error;
        result = err_errno(&e, ERR_SYS, "cannot write the result");
    }
    if (result < 0) {
        show_error(p, &e);
        result = err_status(e.code);
        if (e.code == ERR_INTERRUPTED && p->context.last_signal)
            result = SIGNALED + p->context.last_signal;
        result = result ? result : EXIT_FAILURE;
    }
    return result;
}

int main(int argc, char **argv) {
    static struct program p;
    struct err e = {0};
    const char *name = NULL;
    int used = 0;
    proc_prepare();
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL); // write(2) fails instead
    raise_file_limit();
    log_open("dtctl", LOG_INFO, LOG_PLAIN);
    screen_init(&p.screen, STDOUT_FILENO, STDERR_FILENO, SCREEN_PLAIN, false);
    config_open(&p.config, &p.arena, "dtctl", environ);
    command_topics_find(&p.arena);
    const char *const *args = (const char *const *)argv + 1;
    if (argc == 2 && (str_eq(argv[1], "--version") || str_eq(argv[1], "-V")))
        return run_command(&p, command_find("version"), 0, args);
    if (config_verb(&p.config, argc - 1, args, &name, &used, &e) < 0)
        return usage(&e);
    if (!name) {
        int status = help_top(&p);
        return cli_has(&p.config.set, "help", NULL) ? status : err_status(ERR_USAGE);
    }
    if (strcmp(name, "help") == 0 && used < argc - 1) {
        name = argv[1 + used];
        const struct command *about = command_find(name);
        const struct embed_file *topic = command_topic(&p.arena, name);
        if (about)
            return run_command(&p, about, 1, (const char *const[]){"--help", NULL});
        if (topic)
            return help_topic(&p, topic);
    } else if (strcmp(name, "help") == 0) {
        return help_top(&p);
    }
    const struct command *c = command_find(name);
    if (!c) {
        err_set(&e, ERR_USAGE, "there is no command '%s'%s (try: dtctl --help)", name,
                command_meant(&p.arena, name));
        return usage(&e);
    }
    return run_command(&p, c, argc - 1 - used, args + used);
}
