// SPDX-License-Identifier: Apache-2.0
// A table of keys inside the table of a map: [env.bundle] in [env].
#include "conf/config.h"
#include "tests/tap.h"

static struct arena a;
static struct config c;

static const char *load(const char *task, const char *text) {
    struct err e = {0};
    config_open(&c, &a, "dtctl", NULL);
    c.sections.chosen = task;
    option_set_file(&c.set, "dtctl.toml", text, strlen(text));
    return option_set_finish(&c.set, &e) < 0 ? arena_strdup(&a, e.text) : "";
}

int main(void) {
    static const char both[] = "[env]\nA = \"1\"\n[env.bundle]\narchive = \"e.tar\"\n"
                               "[tasks.t.env]\nB = \"2\"\n[tasks.t.env.bundle]\n"
                               "archive = \"t.tar\"\n";
    is_str(load(NULL, both), "", "variables, and a table of keys among them, are read");
    is_uint(c.env.count, 1, "the table is no variable");
    is_str(c.job.env_bundle, "e.tar", "the key of the table is read");
    is_str(load("t", both), "", "a task has both, too");
    is_uint(c.env.count, 2, "the task's variables are added");
    is_str(c.job.env_bundle, "t.tar", "the task's key counts");
    option_set_text(&c.set, "env.bundle.archive=s.tar", (struct option_place){.name = "--set"});
    is_str(c.job.env_bundle, "s.tar", "--set changes the key");
    option_set_text(&c.set, "env.bundle.archve=s.tar", (struct option_place){.name = "--set"});
    struct err e = {0};
    is_int(option_set_finish(&c.set, &e), -1, "a mistyped key in it is refused");
    has_str(e.text, "'env.bundle.archve' (did you mean 'env.bundle.archive'?)",
            "the nearest key is named");
    is_str(load(NULL, "[env.bundle]\narchive = \"e.tar\"\n"), "", "the table may be alone");
    is_uint(c.env.count, 0, "there are no variables then");
    is_str(c.job.env_bundle, "e.tar", "the key is read");
    is_str(load(NULL, "[env]\nbundle = \"1\"\n"), "", "a variable may have the table's name");
    is_uint(c.env.count, 1, "a string is a variable");
    has_str(load(NULL, "[env.bundle]\nother = 1\n"),
            "dtctl.toml:2:1: env.bundle.other: unknown key", "an unknown key in it is refused");
    has_str(load(NULL, "[env.other]\nA = \"1\"\n"), "env.other: expected a string, found a table",
            "another table is refused");
    has_str(load(NULL, "[tasks.t.env.bundle]\nother = 1\n"), "unknown key",
            "an unknown key in a task that is not chosen is refused");
    is_str(load("b", "[tasks.a]\nnodes = 1\n[tasks.b]\nnodes = 2\n[tasks.c]\nnodes = 3\n"), "",
           "several tasks are read");
    is_uint(c.sections.count, 3, "each task has a name");
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};
        is_str(c.sections.names[i], names[i], "tasks are in the order of the file");
    }
    arena_fini(&a);
    return done_testing();
}
