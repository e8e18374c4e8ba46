// SPDX-License-Identifier: Apache-2.0
// Reads the command line of a verb of dtrun and runs it.
#include "verb.h"

#include "conf/cli.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>

static int fail(const struct verb *v, const struct err *e, int status) {
    fprintf(stderr, "dtrun: %s: %s\n", v->name, e->text);
    return status;
}

static int print_help(const struct verb *v, const struct option_set *set) {
    struct strbuf text = {0};
    struct err e;
    render_help(&text, set, v->program, 0);
    int r = file_print(strbuf_cstr(&text), &e);
    strbuf_fini(&text);
    return r < 0 ? fail(v, &e, 1) : 0;
}

int verb_main(const struct verb *v, int argc, const char *const *argv, char *const *env) {
    static struct arena arena; // until the process ends
    struct option_set set;
    struct cli_rest rest;
    struct err e = {0};
    const char *help;
    option_set_init(&set, &arena, v->program->name, "", env);
    option_set_add(&set, v->table, v->flags);
    cli_scan(&set, NULL, 0, argc, argv, &rest);
    option_set_env(&set, env);
    cli_apply(&set);
    if (cli_has(&set, "help", &help) && strcmp(help, "true") == 0)
        return print_help(v, &set);
    if (option_set_finish(&set, &e) < 0)
        return fail(v, &e, 2);
    size_t count = rest.count + rest.command_count;
    const char **words = arena_new(&arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        words[i] = i < rest.count ? rest.args[i] : rest.command[i - rest.count];
    int status = v->run(words, count, &e);
    return e.code ? fail(v, &e, status) : status;
}
