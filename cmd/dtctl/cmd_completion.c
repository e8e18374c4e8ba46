// SPDX-License-Identifier: Apache-2.0
// dtctl completion: completions for shells, the names on record that they offer, and the manual
// pages for the build.
#include "command.h"

#include "cluster/inventory.h"
#include "sys/file.h"

#include <string.h>

enum { LISTED_MAX = 1000 }; // names that a shell gets

// The cluster named on an incomplete command line, if it can be parsed.
static int cluster_of(struct context *s, const struct cli_rest *words, struct cluster *c,
                      struct err *e) {
    struct arena *a = s->arena;
    struct config config;
    struct cli_rest rest;
    struct err ignored = {0};
    const char *name = NULL;
    int used = 0;
    config_open(&config, a, "dtctl", s->env);
    config_verb(&config, (int)words->command_count, words->command, &name, &used, &ignored);
    const struct command *about = name ? command_find(name) : NULL;
    void *flags = about ? arena_alloc(a, about->flags_bytes + 1, 16, 1) : NULL;
    struct config_verb verb = {name, about ? about->rows : NULL, flags, false};
    config_load(&config, &verb, (int)words->command_count - used, words->command + used, &rest,
                &ignored);
    return cluster_open(c, a, config.file_found ? file_dir(a, config.file) : ".",
                        config.cluster.name, e);
}

// Names on record that are fit for a shell, one per line. Nothing is asked over the network.
static int list_names(struct context *s, const char *what, const struct cli_rest *words,
                      struct err *e) {
    struct cluster c;
    struct inventory inv = {0};
    char **names = NULL;
    size_t count = 0;
    if (cluster_of(s, words, &c, e) < 0)
        return -1;
    if (str_eq(what, "runs"))
        cluster_runs(&c, &names, &count, e);
    else if (str_eq(what, "clusters"))
        cluster_list(s->arena, c.base, &names, e);
    else if (cluster_exists(&c) && cluster_load(&c, &inv, e) == 0) {
        names = arena_new(s->arena, char *, inv.count + 1);
        for (size_t i = 0; i < inv.count; i++)
            names[i] = arena_strdup(s->arena, inv.nodes[i].name);
    }
    for (size_t i = 0; names && names[i] && i < LISTED_MAX; i++)
        if (str_is_name(names[i], INVENTORY_NAME_BYTES_MAX + CLUSTER_RUN_NAME_BYTES_MAX))
            screen_out(s->screen, "%s\n", names[i]);
    err_clear(e); // an unreadable record gives no names
    return 0;
}

static const char *const LISTS[] = {"runs", "nodes", "clusters", NULL};

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)flags;
    const char *what = rest->args[0];
    struct option_set set;
    struct strbuf text = {0};
    struct config defaults;
    int result = 0;
    for (size_t i = 0; LISTS[i]; i++)
        if (str_eq(what, LISTS[i]))
            return list_names(s, what, rest, e);
    // A separate set of options, with the flags of every command and default values only.
    config_open(&defaults, s->arena, "dtctl", s->env);
    set = defaults.set;
    command_all_options(&set, s->arena);
    if (strcmp(what, "man") == 0)
        render_man(&text, &set, &command_program);
    else if (strcmp(what, "man5") == 0)
        render_man_file(&text, &set, &command_program, "dtctl.toml");
    else
        result = render_completion(&text, &set, &command_program, what, e);
    screen_write(s->screen, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
    return result;
}

const struct command cmd_completion = {
    .verb = {.name = "completion",
             .summary = "print completions for bash, zsh or fish",
             .args = "SHELL",
             .text = "Prints a completion script for commands, flags, choices, and the names of "
                     "recorded runs, nodes and clusters. `man` and `man5` instead of a shell print "
                     "the manual pages dtctl(1) and dtctl.toml(5).",
             .examples = "source <(dtctl completion bash)\n",
             .words = render_shells},
    .marks = COMMAND_ANY_CONFIG | COMMAND_FOR_SHELL | COMMAND_REST,
    .args_min = 1,
    .args_max = 1,
    .run = run,
};
