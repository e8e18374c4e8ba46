// SPDX-License-Identifier: Apache-2.0
// The table of commands: every one is complete, its flags do not contradict each other or the
// options of everybody, and what is made from the tables names all of them.
#include "cmd/dtctl/command.h"
#include "tests/tap.h"

int main(void) {
    struct arena a = {0};
    struct config c;
    struct strbuf text = {0}, problems = {0};
    config_open(&c, &a, "dtctl", NULL);
    struct option_set set = c.set;
    command_all_options(&set, &a);
    is_int(option_verify(&set, command_names(), &problems), 0, "the tables agree: %s",
           strbuf_cstr(&problems));
    render_help(&text, &set, &command_program, 80);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *v = commands[i];
        is_str(command_names()[i], v->verb.name, "%s has its place among the names", v->verb.name);
        is_str(command_program.verbs[i]->name, v->verb.name, "%s has its place in the manual",
               v->verb.name);
        ok(command_find(v->verb.name) == v, "%s: the command is found by name", v->verb.name);
        ok(v->verb.summary && v->verb.summary[0] && v->run,
           "%s: the command has a summary and a function", v->verb.name);
        ok(v->args_min <= v->args_max, "%s: the limits of its arguments agree", v->verb.name);
        ok(!v->rows == !v->flags_bytes, "%s: a command with options has room for them",
           v->verb.name);
        has_str(strbuf_cstr(&text), v->verb.name, "%s: the general help lists the command",
                v->verb.name);
        for (size_t k = 0; v->rows && k < v->rows->count; k++)
            ok(v->rows->rows[k].offset < v->flags_bytes &&
                   option_row_has_verb(&v->rows->rows[k], v->verb.name),
               "%s: --%s belongs to it", v->verb.name, v->rows->rows[k].flag);
    }
    for (size_t i = 0; render_shells[i]; i++) {
        struct err e = {0};
        strbuf_clear(&text);
        is_int(render_completion(&text, &set, &command_program, render_shells[i], &e), 0,
               "completions for %s are made", render_shells[i]);
        for (size_t k = 0; commands[k]; k++)
            has_str(strbuf_cstr(&text), commands[k]->verb.name, "%s completes %s", render_shells[i],
                    commands[k]->verb.name);
    }
    strbuf_fini(&text);
    strbuf_fini(&problems);
    arena_fini(&a);
    return done_testing();
}
