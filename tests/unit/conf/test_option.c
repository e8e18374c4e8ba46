// SPDX-License-Identifier: Apache-2.0
// lib/conf/option: every type from text and from TOML, precedence, places, the check of tables.
#include "conf/option.h"
#include "tests/unit/conf/option_rows.h"

static const char *file(const char *text) {
    fresh();
    option_set_file(&s, "dir/f.toml", text, strlen(text));
    return problems();
}

static const char *env(const char *variable) {
    char *list[] = {arena_strdup(&a, variable), NULL};
    fresh();
    option_set_env(&s, list);
    return problems();
}

static void test_defaults(void) {
    fresh();
    ok(!v.flag && v.on && v.integer == 3 && v.duration == 5000 && v.bytes == 1024,
       "the struct has its defaults");
    ok(v.count == -2 && v.choice == 2 && v.real == 0.5, "words and numbers have their defaults");
    ok(v.string && !*v.string && v.path && !*v.path, "an unset string is empty, not NULL");
    ok(v.range.min == 0 && v.list.count == 0 && v.ints.count == 2,
       "unset lists are empty, and a list may have a default");
    is_int(option_place(&s, "t.integer")->source, OPTION_DEFAULT, "a default's place is 'default'");
}

// key, text, what option_format gives
static const struct {
    const char *key, *text, *want;
} good[] = {
    {"t.flag", "yes", "true"},
    {"t.flag", "0", "false"},
    {"t.integer", "10", "10"},
    {"t.duration", "1500ms", "\"1500ms\""},
    {"t.duration", "60", "\"1m\""},
    {"t.bytes", "1.5M", "\"1536KiB\""},
    {"t.bytes", "0", "\"0\""},
    {"t.count", "4", "4"},
    {"t.count", "red", "\"red\""},
    {"t.real", "1", "1.0"},
    {"t.string", "a\"b", "\"a\\\"b\""},
    {"t.choice", "red", "\"red\""},
    {"t.ternary", "true", "\"true\""},
    {"t.range", "2:5", "\"2:5\""},
    {"t.range", "4", "4"},
    {"t.range", "", "\"\""},
    {"t.list", "a,b", "[\"a\", \"b\"]"},
    {"t.list", "['a,b']", "[\"a,b\"]"},
    {"t.list", "g[1,3].l,b", "[\"g[1,3].l\", \"b\"]"},
    {"t.list", "'a,b',\"c,d\"", "[\"a,b\", \"c,d\"]"},
    {"t.list", "it's,b[,{c", "[\"it's\", \"b[\", \"{c\"]"},
    {"t.list", "a\\,b,(c,d),", "[\"a\\\\,b\", \"(c,d)\", \"\"]"},
    {"t.list", "[^{],b", "[\"[^{]\", \"b\"]"},
    {"t.list", "[::1]:22,b", "[\"[::1]:22\", \"b\"]"},
    {"t.duration", "1s500ms", "\"1500ms\""},
    {"t.ints", "7, 8", "[7, 8]"},
    {"t.ints", "", "[]"},
    {"t.ints", "[7, 8]", "[7, 8]"},
    {"t.string", "[x", "\"[x\""},
    {"t.reals", "[1, 2.5, 3]", "[1.0, 2.5, 3.0]"},
    {"map", "a={1,2},b=2", "{ a = \"{1,2}\", b = \"2\" }"},
    {"map", "a=1,b=2=3", "{ a = \"1\", b = \"2=3\" }"},
    {"map", "{ 'x y' = 'z' }", "{ \"x y\" = \"z\" }"},
    {"named", "n=5", "{ n = { port = 5 } }"},
    {"named", "{ n = { port = 5 } }", "{ n = { port = 5 } }"},
};

// key, text, the error
static const struct {
    const char *key, *text, *want;
} bad[] = {
    {"t.flag", "maybe", "'maybe' is neither true nor false"},
    {"t.integer", "0", "0 is below the minimum 1"},
    {"t.integer", "11", "11 is above the maximum 10"},
    {"t.integer", "3x", "'3x' is not a whole number"},
    {"t.integer", "+5", "'+5' is not a whole number"},
    {"t.real", "0x1p-3", "'0x1p-3' is not a number"},
    {"t.real", "+0.5", "'+0.5' is not a number"},
    {"t.bytes", "0x10", "'0x10' is not a size (such as 64 MB)"},
    {"t.duration", "61s", "61s is above the maximum 1m"},
    {"t.duration", "1h30", "'1h30' is not a duration (such as 90s, 15m or 1h30m)"},
    {"t.duration", "1h1h1x",
     "'1x' is not a duration (such as 90s, 15m or 1h30m): unknown unit 'x'"},
    {"t.open", "1", "1 is not below the limit 1"},
    {"t.range", "2:1", "'2:1': the minimum is above the maximum"},
    {"t.duration", "50ms", "50ms is below the minimum 100ms"},
    {"t.real", "nan", "'nan' is not a number"},
    {"t.real", "inf", "'inf' is not a finite number"},
    {"t.choice", "gren", "'gren' is none of red, green, blue (did you mean 'green'?)"},
    {"t.count", "9", "9 is above the maximum 8"},
    {"t.count", "pink", "'pink' is none of a number, red, green, blue"},
    {"t.range", "5:2", "'5:2': the minimum is above the maximum"},
    {"t.range", "0:2", "0 is below the minimum 1"},
    {"t.range", "a:b", "'a:b' is not N or MIN:MAX"},
    {"t.string", "much too long", "'much too long' is too long"},
    {"t.list", "a,much too long", "'much too long' is too long"},
    {"t.ints", "1,2,3,4", "4 items are above the maximum 3"},
    {"t.ints", "1,x", "'x' is not a whole number"},
    {"t.reals", "1,2", "2 items are below the minimum 3"},
    {"map", "novalue", "'novalue' is not NAME=VALUE"},
    {"map", "much too long=1", "'much too long' is too long"},
    {"t.list", "['a', 1]", "expected a string, found an integer"},
};

static void test_values(void) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fresh();
        const struct option_row *r = row(good[i].key);
        struct err e;
        err_clear(&e);
        is_int(option_parse(&a, r, good[i].text, (char *)&v + r->offset, &e), 0, "%s = %s %s",
               good[i].key, good[i].text, e.text);
        is_str(formatted(good[i].key), good[i].want, "the value is written as TOML");
        const char *text = formatted(good[i].key);
        const char *dot = strchr(good[i].key, '.');
        is_str(file(arena_printf(&a, "%s%s = %s\n", dot ? "[t]\n" : "", dot ? dot + 1 : good[i].key,
                                 text)),
               "", "a file reads that");
        is_str(formatted(good[i].key), text, "the formatted value reads back");
    }
}

static void test_wrong_values(void) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fresh();
        const struct option_row *r = row(bad[i].key);
        struct err e;
        is_int(option_parse(&a, r, bad[i].text, (char *)&v + r->offset, &e), -1, "%s = %s",
               bad[i].key, bad[i].text);
        is_str(e.text, bad[i].want, "the error says why");
    }
}

static void test_file(void) {
    is_str(
        file("[t]\ninteger = 0\nstrng = 1\non = \"x\"\n[u]\nx = 1\n[[plain]]\nname='p'\n"
             "[named.n]\nport = 70000\nprt = 1\n[named.'much too long']\nport=1\n[map]\nx = [1]\n"
             "'much too long' = 1\n"),
        "dir/f.toml:2:11: t.integer: 0 is below the minimum 1\n"
        "dir/f.toml:3:1: t.strng: unknown key (did you mean 't.string'?)\n"
        "dir/f.toml:4:6: t.on: expected true or false, found a string\n"
        "dir/f.toml:5:2: u: unknown table (did you mean 't'?)\n"
        "dir/f.toml:7:1: plain: 'port' is missing\n"
        "dir/f.toml:10:8: named.n.port: 70000 is above the maximum 65535\n"
        "dir/f.toml:11:1: named.n.prt: unknown key (did you mean 'port'?)\n"
        "dir/f.toml:12:1: named.much too long: 'much too long' is too long\n"
        "dir/f.toml:15:5: map.x: expected a string, found an array\n"
        "dir/f.toml:16:19: map.much too long: 'much too long' is too long",
        "all errors are reported at once, each at its place");
    is_str(file("[t]\npath = 'x/y'\npaths = ['a', '/b', '~/c']\nduration = 2\nbytes = 10\n"
                "count = 3\nrange = 4\nreals = [1,2,3]\n[[plain]]\nport=1\n[[plain]]\nport=2\n"),
           "", "a good file is read");
    is_str(v.path, "dir/x/y", "paths are relative to the file");
    ok(strcmp(v.paths.items[0], "dir/a") == 0 && strcmp(v.paths.items[1], "/b") == 0,
       "relative paths in lists are relative to the file");
    is_str(v.paths.items[2], "/home/ada/c", "'~' is the home folder of the environment");
    ok(v.duration == 2000 && v.bytes == 10 && v.count == 3 && v.range.max == 4,
       "plain numbers are read");
    const struct thing *things = v.plain.items;
    ok(v.plain.count == 2 && things[1].port == 2, "an array of tables is read");
    is_int(things[1].place.line, 11, "a record has its line");
    is_str(option_place_text(&a, option_place(&s, "t.path")), "dir/f.toml:2:8",
           "a value has its line");
    is_str(file("t = 1\n"), "dir/f.toml:1:5: t: expected a table, found an integer",
           "a value in place of a table is refused");
    is_str(file("'t.integer' = 2\n"),
           "dir/f.toml:1:1: t.integer: unknown key (did you mean 't.integer'?)",
           "a quoted dot is not a path");
    is_str(file("[u]\ninteger = 1\n"), "dir/f.toml:1:2: u: unknown table (did you mean 't'?)",
           "an unknown table is refused");
    is_str(file("[t]\nstring = \"a\\u0000b\"\n"),
           "dir/f.toml:2:10: t.string: the string contains a NUL", "NUL");
}

// A choice whose words are those of a boolean takes one, too.
static void test_file_ternary(void) {
    static const char *const words[] = {"true", "false", "'auto'"};
    static const int want[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        is_str(file(arena_printf(&a, "[t]\nternary = %s\n", words[i])), "", "a file may have %s",
               words[i]);
        is_int(v.ternary, want[i], "the value is that word");
    }
    is_str(
        file("[t]\nchoice = true\n"),
        "dir/f.toml:2:10: t.choice: expected one of \"red\", \"green\", \"blue\", found a boolean",
        "a boolean that is none of the words is refused");
}

// A file must refuse the same values as flags.
static void test_file_numbers(void) {
    has_str(file("[t]\nreal = nan\n"), "expected a finite number",
            "a value that is no number is refused");
    has_str(file("[t]\nreal = inf\n"), "expected a finite number", "infinity is refused");
    has_str(file("[t]\nduration = 9223372036854775807\n"), "out of range",
            "seconds beyond 64 bits are refused");
}

static void test_many_problems(void) {
    struct strbuf b = {0};
    struct err e;
    strbuf_adds(&b, "[t]\n");
    for (int i = 0; i < 500; i++)
        strbuf_addf(&b, "unknown_%d = 1\n", i);
    fresh();
    option_set_file(&s, "f", strbuf_cstr(&b), b.len);
    is_int(option_set_finish(&s, &e), -1, "500 unknown keys are refused");
    is_int(s.problem_count, 500, "all are counted");
    int described = 0;
    for (const struct option_problem *p = s.problems; p; p = p->next)
        described++;
    is_int(described, OPTION_PROBLEMS_MAX, "as many errors are described as the limit allows");
    ok(strlen(e.text) < ERR_TEXT_BYTES_MAX && strstr(e.text, "\nand ") && strstr(e.text, " more"),
       "the text says how many are not shown");
    is_int(e.code, ERR_CONFIG, "an error of a file has its code");
    strbuf_fini(&b);
}

static void test_env(void) {
    is_str(env("P_T_INTEGER=4"), "", "a variable is read");
    is_int(v.integer, 4, "a variable sets the value");
    is_str(option_place_text(&a, option_place(&s, "t.integer")), "P_T_INTEGER",
           "a variable is the value's place");
    is_str(env("P_T_INTEGER="), "", "an empty variable is ignored");
    is_int(v.integer, 3, "the default stays");
    is_str(env("P_T_INTEGER=x"), "P_T_INTEGER: 'x' is not a whole number",
           "a wrong variable is refused");
    is_str(env("P_MAP=a=1,b=2"), "", "a variable may hold a map");
    is_int(v.map.count, 2, "a map has both entries");
    is_str(env("P_MAP=a=1,2"),
           "P_MAP: '2' is not NAME=VALUE (try: '\"a=1,2\"' where the comma belongs to the value)",
           "a value with a comma needs quotes");
    is_str(env("P_MAP=\"a=1,2\",b=3"), "", "a quoted value may have commas");
    is_str(formatted("map"), "{ a = \"1,2\", b = \"3\" }",
           "a quoted comma belongs to the map's value");
    is_str(env("P_SET=t.integer=9"), "", "--set has no variable");
    is_int(v.integer, 3, "a refused --set changes nothing");
    is_str(env("P_FLAG=1"), "", "P_FLAG is not P_T_FLAG");
    ok(!v.flag, "rows with a key are named by it");
}

static void test_precedence(void) {
    static const char text[] =
        "[t]\ninteger = 2\nreal = 0.25\nstring = 'file'\nlist = ['f']\n"
        "[map]\na = 1\nb = 1\nc = 1\n[named.n]\nport = 1\n[named.m]\nport=1\n";
    static char e1[] = "P_T_REAL=0.75", e2[] = "P_T_STRING=env", e3[] = "P_MAP=b=2,c=2",
                e4[] = "P_NAMED=m=2", e5[] = "P_T_LIST=e,e";
    char *environ_[] = {e1, e2, e3, e4, e5, NULL};
    static const char *const argv[] = {"--string", "flag", "--map", "c=3", "--list", "g", NULL};
    fresh();
    cli_scan(&s, NULL, 0, 6, argv, &rest);
    option_set_file(&s, "f", text, strlen(text));
    option_set_env(&s, environ_);
    cli_apply(&s);
    is_str(problems(), "", "file, environment and flags are read");
    ok(v.integer == 2 && v.real == 0.75 && strcmp(v.string, "flag") == 0 && v.duration == 5000,
       "flags beat the environment, the file and the defaults");
    is_int(option_place(&s, "t.integer")->source, OPTION_FILE, "the file beats the default");
    is_int(option_place(&s, "t.real")->source, OPTION_ENV, "the environment beats the file");
    is_int(option_place(&s, "t.string")->source, OPTION_FLAG, "a flag beats the environment");
    is_int(option_place(&s, "t.duration")->source, OPTION_DEFAULT, "a default has its source");
    is_str(formatted("map"), "{ a = \"1\", b = \"2\", c = \"3\" }", "maps are merged");
    is_str(formatted("named"), "{ n = { port = 1 }, m = { port = 2 } }",
           "records with names are merged");
    is_str(formatted("t.list"), "[\"g\"]", "lists are replaced");
    option_set_text(&s, "named.n.port=7", (struct option_place){.name = "--set"});
    option_set_text(&s, "named.m.port=8", (struct option_place){.name = "--set"});
    is_str(formatted("named"), "{ n = { port = 7 }, m = { port = 8 } }",
           "fields of records are set by themselves");
}

// flag > variable > what an earlier command kept > file.
static void test_kept(void) {
    static const char text[] = "[t]\ninteger = 2\n", kept[] = "[t]\ninteger = 4\n";
    static char variable[] = "P_T_INTEGER=6";
    char *environ_[] = {variable, NULL};
    fresh();
    option_set_file(&s, "f", text, strlen(text));
    option_set_kept(&s, "k", kept, strlen(kept));
    is_int(v.integer, 4, "a kept value beats the file's");
    fresh();
    option_set_file(&s, "f", text, strlen(text));
    option_set_env(&s, environ_);
    option_set_kept(&s, "k", kept, strlen(kept));
    is_int(v.integer, 6, "a variable beats the kept one");
}

static void test_rules(void) {
    is_str(file("[t]\nneedy = true\nchoice = 'green'\n"),
           "dir/f.toml:2:9: t.needy needs t.choice = \"red\", and it is \"green\"",
           "a rule names the word that is needed");
    is_str(file("[t]\nneedy = false\nchoice = 'green'\n"), "", "a switch that is off asks nothing");
    is_str(file("[t]\nneedy = true\nchoice = 'red'\n"), "", "the word is there");
    is_str(file("[t]\nneedy = true\nchoice = 'red'\nreal = 0\n"),
           "dir/f.toml:2:9: t.needy needs t.real above 0",
           "a rule names the number that is needed");
    is_str(file("[t]\nopen = 0.75\nreal = 0.5\n"),
           "dir/f.toml:2:8: t.open is 0.75, and t.real only 0.5",
           "an option that must not exceed another is refused above it");
    is_str(file("[t]\nopen = 0.5\nreal = 0.5\n"), "", "an option may equal its upper bound");
    is_str(file("[t]\nreal = 0\n"), "", "a default value is not checked against another option");
    static const struct option_row more[] = {
        {.key = "u.most", .type = OPTION_REAL, .rules = open_rules, .text = "0", .help = "H."}};
    static const struct option_table second = {"more", more, 1};
    static const char text[] = "[t]\nreal = 0.5\n[u]\nmost = 1\n";
    double most;
    fresh();
    option_set_add(&s, &second, &most);
    option_set_file(&s, "f", text, strlen(text));
    is_str(problems(), "f:4:8: u.most is 1, and t.real only 0.5",
           "a rule of a later table is checked, too");
}

static void test_check(void) {
    static const struct option_row wrong[] = {
        {.key = "w.a",
         .flag = "dup",
         .type = OPTION_INT,
         .text = "0",
         .min = 1,
         .max = 2,
         .help = "H."},
        {.key = "w.a", .flag = "dup", .letter = 'd', .type = OPTION_STRING, .help = "H."},
        {.key = "w.a.b", .type = OPTION_CHOICE, .text = "x", .help = "no stop"},
        {.key = "w.c", .type = OPTION_BOOL, .verbs = "nope", .help = "H."},
    };
    static const struct option_table t = {"wrong", wrong, 4};
    static struct option_place places[4];
    static const char *const verbs[] = {"go", "other", NULL};
    struct strbuf b = {0};
    fresh();
    is_int(option_verify(&s, verbs, &b), 0, "the good table has no faults%s", strbuf_cstr(&b));
    option_set_init(&s, &a, "prog", "P_", NULL);
    // Bound by hand: option_set_add would abort on the defaults.
    s.tables[s.table_count++] = (struct option_bound){&t, &v, places};
    ok(option_verify(&s, verbs, &b) > 0, "the wrong one has");
    static const char *const want[] = {
        "w.a: its default: 0 is below the minimum 1",
        "two rows have this key",
        "shares the flag --dup",
        "shares the variable P_W_A",
        "w.a: is a value, and a table because of w.a.b",
        "has no help that ends",
        "has words without being a choice",
        "w.c: has no default",
        "'nope' is no verb",
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        has_str(strbuf_cstr(&b), want[i], "the text has the error: %s", want[i]);
    strbuf_fini(&b);
}

int main(void) {
    test_defaults();
    test_values();
    test_wrong_values();
    test_file();
    test_file_ternary();
    test_file_numbers();
    test_many_problems();
    test_env();
    test_precedence();
    test_kept();
    test_rules();
    test_check();
    arena_fini(&a);
    return done_testing();
}
