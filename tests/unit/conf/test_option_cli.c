// SPDX-License-Identifier: Apache-2.0
// lib/conf/cli: command lines.
#include "conf/cli.h"
#include "tests/unit/conf/option_rows.h"

// One command line, words separated by spaces.
static const char *line_of(const char *verb, unsigned style, const char *words) {
    char **argv;
    size_t argc = *words ? str_split(&a, words, ' ', &argv) : 0;
    fresh();
    s.style = style;
    cli_scan(&s, verb, 0, (int)argc, argc ? (const char *const *)argv : NULL, &rest);
    cli_apply(&s);
    return problems();
}

static const char *cli(const char *words) {
    return line_of(NULL, 0, words);
}

static void test_flags(void) {
    is_str(cli("--integer 4 --no-on --flag --string=--x --duration 1m"), "",
           "long flags are accepted");
    ok(v.integer == 4 && !v.on && v.flag && strcmp(v.string, "--x") == 0 && v.duration == 60000,
       "long flags set their values");
    is_str(option_place_text(&a, option_place(&s, "t.on")), "--no-on",
           "a long flag is the value's place");
    is_str(cli("-xo -i5 -l a -lb -l=c"), "", "short flags are accepted");
    ok(v.flag && v.on && v.integer == 5 && v.list.count == 3, "short flags set their values");
    is_str(v.list.items[2], "c", "-l=c");
    is_str(cli("-l a -l []"), "", "an element and [] behind it are accepted");
    ok(v.list.count == 2, "adds to the list");
    is_str(cli("-l []"), "", "[] alone is accepted");
    ok(v.list.count == 0, "clears the list");
    is_str(cli("a --integer 4 b -- c --flag"), "", "arguments and flags may be mixed");
    ok(rest.count == 2 && strcmp(rest.args[1], "b") == 0 && rest.command_count == 2 &&
           rest.dashes && strcmp(rest.command[1], "--flag") == 0,
       "arguments and the command are separated from flags");
    is_str(line_of("go", 0, "--integer=4 -- python3 --integer 5"), "",
           "the words of a command are accepted");
    ok(v.rest.count == 3 && strcmp(v.rest.items[2], "5") == 0 && v.integer == 4,
       "the arguments set the option of the command");
    is_str(line_of("go", 0, "-x"), "", "a letter of the verb is accepted");
    ok(v.own_f && !v.flag, "hides that of every verb");
    is_str(cli("--map a=1 --map b=2 --map a=3 --named n=1 --ints 4,5"), "",
           "repeated flags are accepted");
    is_str(formatted("map"), "{ a = \"3\", b = \"2\" }", "a name again replaces");
    is_str(formatted("t.ints"), "[4, 5]", "a list of numbers is replaced as a whole");
    is_str(cli("--set t.integer=7 --set t.list=a,b --set named={n={port=3}}"), "",
           "--set is accepted");
    ok(v.integer == 7 && v.list.count == 2 && v.named.count == 1 && v.set.count == 3,
       "--set sets its values");
    is_str(option_place_text(&a, option_place(&s, "t.integer")), "--set t.integer",
           "--set is the value's place");
    is_str(cli("--integer -5"), "--integer: -5 is below the minimum 1",
           "a negative number is taken as a value");
    ok(cli_has(&s, "integer", NULL) && !cli_has(&s, "real", NULL),
       "the flags that were given are known");
}

// An option of its own whose name begins with "no-" is no negation.
static void test_names_with_no(void) {
    static struct { bool wait, plain; } w;
    static const struct option_row own_rows[] = {{.key = "no-wait",
                                                  .flag = "no-wait",
                                                  .type = OPTION_BOOL,
                                                  .offset = offsetof(typeof(w), wait),
                                                  .help = "H."},
                                                 {.key = "plain",
                                                  .flag = "plain",
                                                  .type = OPTION_BOOL,
                                                  .offset = offsetof(typeof(w), plain),
                                                  .text = "true",
                                                  .help = "H."}};
    static const struct option_table own = {"own", own_rows, 2};
    static const struct {
        const char *word, *problem;
        bool wait, plain;
    } cases[] = {{"--no-wait", "", true, true},
                 {"--no-no-wait", "", false, true},
                 {"--no-plain", "", false, false},
                 {"--no-", "--no-: unknown flag (did you mean '--no-wait'?)", false, true},
                 {"--wait", "--wait: unknown flag", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char *env[] = {NULL};
        struct cli_rest others;
        option_set_init(&s, &a, "prog", "P_", env);
        option_set_add(&s, &own, &w);
        cli_scan(&s, NULL, 0, 1, &cases[i].word, &others);
        cli_apply(&s);
        is_str(problems(), cases[i].problem, "%s among names with 'no-'", cases[i].word);
        ok(w.wait == cases[i].wait && w.plain == cases[i].plain,
           "%s sets its own option and no other one", cases[i].word);
    }
}

static void test_flag_errors(void) {
    static const char *const cases[][2] = {
        {"--intger 4", "--intger: unknown flag (did you mean '--integer'?)"},
        {"--str", "--str: unknown flag (did you mean '--string'?)"},
        {"--integer-value 4", "--integer-value: unknown flag (did you mean '--integer'?)"},
        {"--gpu 4", "--gpu: unknown flag"},
        {"--integer", "--integer: needs a value (an integer)"},
        {"--integer --flag", "--integer: needs a value (an integer); one that starts with '-' is "
                             "joined with '='"},
        {"--no-integer", "--no-integer: unknown flag (did you mean '--integer'?)"},
        {"--no-flag=true", "--no-flag: takes no value"},
        {"--flag=perhaps", "--flag: 'perhaps' is neither true nor false"},
        {"-z", "-z: unknown flag"},
        {"-xz", "-z: unknown flag in -xz"},
        {"--reals 1", "--reals: unknown flag; write --set t.reals=VALUE"},
        {"--set t.intger=1", "--set: unknown key 't.intger' (did you mean 't.integer'?)"},
        {"--set nmed.x.port=1", "--set: unknown key 'nmed.x.port' (did you mean 'named.x.port'?)"},
        {"--set nmed.x.prt=1", "--set: unknown key 'nmed.x.prt' (did you mean 'named.x.port'?)"},
        {"--set zzzzzzz.x.port=1", "--set: unknown key 'zzzzzzz.x.port'"},
        {"--set named.x.prt=1",
         "--set named.x.prt: unknown key 'named.x.prt' (did you mean 'named.x.port'?)"},
        {"--set named.port=1",
         "--set named.port: unknown key 'named.port' (did you mean 'named.NAME.port'?)"},
        {"--set named.prt=1",
         "--set named.prt: unknown key 'named.prt' (did you mean 'named.NAME.port'?)"},
        {"--set named={web={port=3}} --set named.wbe.port=1",
         "--set named.wbe.port: there is no [named.wbe] before it (did you mean 'web'?)"},
        {"--set named.web.port=1",
         "--set named.web.port: there is no [named.web] before it (try first: --named web=VALUE)"},
        {"--set flag", "--set: 'flag' is not KEY=VALUE"},
        {"--set t.integer=0", "--set t.integer: 0 is below the minimum 1"},
        {"--follow", "--follow: this flag goes behind the command; it is for: go"},
        {"--integer 0 --real 2", "--integer: 0 is below the minimum 1\n"
                                 "--real: 2 is above the maximum 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_str(cli(cases[i][0]), cases[i][1], "%s", cases[i][0]);
    struct err e;
    option_set_finish(&s, &e);
    is_int(e.code, ERR_USAGE, "flags alone are a usage error");
    is_str(line_of("other", 0, "--follow"),
           "--follow: 'prog other' does not take this flag; it is for: go",
           "another verb's flag is refused");
    is_str(line_of("go", 0, "--gone x"), "--gone: torchrun knows this, prog does not serve it",
           "a flag that is not served is refused");
}

// argparse's rules, for dtrun.
static void test_styles(void) {
    unsigned style = OPTION_STYLE_UNDERSCORES | OPTION_STYLE_PREFIXES | OPTION_STYLE_REMAINDER;
    is_str(line_of("go", style, "--int=4 x.py --integer 9 -- y"),
           "--int: this could be --integer, "
           "--ints",
           "an ambiguous prefix is refused");
    is_str(line_of("go", style, "--inte=4 --foll x.py --integer 9 -- y"), "",
           "unique prefixes are accepted");
    ok(v.integer == 4 && v.own_f, "unique prefixes set their values");
    is_int(rest.command_count, 5, "all words from the first argument on are the command");
    is_str(rest.command[0], "x.py", "everything from the first argument on is the command");
    is_str(line_of("go", style, "--no_on"), "", "underscores stand for hyphens");
    ok(!v.on, "an underscore in a flag is a hyphen");
    is_str(line_of("go", 0, "--intege=4"), "--intege: unknown flag (did you mean '--integer'?)",
           "prefixes are refused without the style of torchrun");
}

int main(void) {
    test_flags();
    test_names_with_no();
    test_flag_errors();
    test_styles();
    arena_fini(&a);
    return done_testing();
}
