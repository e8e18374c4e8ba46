// SPDX-License-Identifier: Apache-2.0
// One row of every type, and a set of them, for the tests of options (test_option,
// test_option_cli).
#ifndef TESTS_UNIT_OPTION_ROWS_H
#define TESTS_UNIT_OPTION_ROWS_H

#include "conf/cli.h"
#include "conf/option.h"
#include "tests/tap.h"

#include <stddef.h>

struct thing {
    const char *name;
    int64_t port;
    struct option_place place;
};

struct all {
    bool flag, on, needy;
    int64_t integer, duration, bytes, count;
    double real, open;
    const char *string, *path;
    int choice, ternary;
    struct option_range range;
    struct option_list list, paths, rest, set;
    struct option_ints ints;
    struct option_reals reals;
    struct option_map map;
    struct option_records named, plain;
    bool own_f;
};

static const char *const colors[] = {"red", "green", "blue", NULL};
static const char *const ternary_words[] = {"auto", "true", "false", NULL};

static int thing_from_text(struct arena *a, const char *text, void *element, struct err *e) {
    struct thing *t = element;
    const char *equals = strchr(text, '=');
    if (!equals)
        return err_set(e, ERR_CONFIG, "no '='");
    t->name = arena_strndup(a, text, (size_t)(equals - text));
    return str_parse_i64(equals + 1, 0, 65535, &t->port, e);
}

static int check_short(const char *s, struct err *e) {
    return strlen(s) <= 8 ? 0 : err_set(e, ERR_CONFIG, "'%s' is too long", s);
}

static const struct option_row thing_rows[] = {
    {.key = "name", .type = OPTION_STRING, .offset = offsetof(struct thing, name), .help = "N."},
    {.key = "port",
     .type = OPTION_INT,
     .offset = offsetof(struct thing, port),
     .text = "22",
     .min = 0,
     .max = 65535,
     .marks = OPTION_REQUIRED,
     .help = "P."},
};
static const struct option_record named = {sizeof(struct thing),          thing_rows,     2, true,
                                           offsetof(struct thing, place), thing_from_text};
static const struct option_record plain = {sizeof(struct thing),          thing_rows, 2, false,
                                           offsetof(struct thing, place), NULL};

static const struct option_rule needy_rules[] = {
    {OPTION_RULE_WORD, "t.choice", "red"}, {OPTION_RULE_POSITIVE, "t.real", NULL}, {0}};
static const struct option_rule open_rules[] = {{OPTION_RULE_AT_MOST, "t.real", NULL}, {0}};

#define AT(field) .offset = offsetof(struct all, field)
static const struct option_row rows[] = {
    {.key = "t.flag",
     .flag = "flag",
     .letter = 'x',
     .type = OPTION_BOOL,
     AT(flag),
     .text = "false",
     .help = "H."},
    {.key = "t.on",
     .flag = "on",
     .letter = 'o',
     .type = OPTION_BOOL,
     AT(on),
     .text = "true",
     .help = "H."},
    {.key = "t.integer",
     .flag = "integer",
     .letter = 'i',
     .type = OPTION_INT,
     .marks = OPTION_KEEP,
     AT(integer),
     .text = "3",
     .min = 1,
     .max = 10,
     .help = "H."},
    {.key = "t.duration",
     .flag = "duration",
     .type = OPTION_DURATION,
     AT(duration),
     .text = "5s",
     .min = 100,
     .max = 60000,
     .help = "H."},
    {.key = "t.bytes",
     .flag = "bytes",
     .type = OPTION_BYTES,
     AT(bytes),
     .text = "1k",
     .help = "H."},
    {.key = "t.count",
     .flag = "count",
     .type = OPTION_COUNT,
     AT(count),
     .text = "green",
     .min = 1,
     .max = 8,
     .choices = colors,
     .help = "H."},
    {.key = "t.real",
     .flag = "real",
     .type = OPTION_REAL,
     AT(real),
     .text = "0.5",
     .min = 0,
     .max = 1,
     .help = "H."},
    {.key = "t.needy",
     .type = OPTION_BOOL,
     AT(needy),
     .rules = needy_rules,
     .text = "false",
     .help = "H."},
    {.key = "t.open",
     .type = OPTION_REAL,
     .marks = OPTION_OPEN_MAX,
     AT(open),
     .rules = open_rules,
     .text = "0",
     .min = 0,
     .max = 1,
     .help = "H."},
    {.key = "t.string",
     .flag = "string",
     .type = OPTION_STRING,
     AT(string),
     .check = check_short,
     .help = "H."},
    {.key = "t.path", .flag = "path", .type = OPTION_PATH, AT(path), .help = "H."},
    {.key = "t.ternary",
     .type = OPTION_CHOICE,
     AT(ternary),
     .text = "auto",
     .choices = ternary_words,
     .help = "H."},
    {.key = "t.choice",
     .flag = "choice",
     .type = OPTION_CHOICE,
     AT(choice),
     .text = "blue",
     .choices = colors,
     .help = "H."},
    {.key = "t.range",
     .flag = "range",
     .type = OPTION_RANGE,
     AT(range),
     .min = 1,
     .max = 9,
     .help = "H."},
    {.key = "t.list",
     .flag = "list",
     .letter = 'l',
     .type = OPTION_LIST,
     .marks = OPTION_BRACKETS,
     AT(list),
     .check = check_short,
     .help = "H."},
    {.key = "t.paths", .flag = "paths", .type = OPTION_PATHS, AT(paths), .help = "H."},
    {.key = "t.ints",
     .flag = "ints",
     .type = OPTION_INTS,
     AT(ints),
     .text = "1,2",
     .min = 1,
     .max = 9,
     .items_max = 3,
     .help = "H."},
    {.key = "t.reals",
     .type = OPTION_REALS,
     AT(reals),
     .items_min = 3,
     .items_max = 3,
     .help = "H."},
    {.key = "map",
     .flag = "map",
     .type = OPTION_MAP,
     AT(map),
     .check_name = check_short,
     .help = "H."},
    {.key = "named",
     .flag = "named",
     .type = OPTION_RECORDS,
     AT(named),
     .record = &named,
     .check_name = check_short,
     .help = "H."},
    {.key = "plain", .type = OPTION_RECORDS, AT(plain), .record = &plain, .help = "H."},
    {.flag = "set",
     .type = OPTION_LIST,
     AT(set),
     .marks = OPTION_ASSIGN | OPTION_NO_ENV,
     .help = "H."},
    {.key = "t.rest",
     .verbs = "go",
     .type = OPTION_LIST,
     AT(rest),
     .marks = OPTION_REST,
     .help = "H."},
    {.flag = "follow",
     .letter = 'x',
     .verbs = "go",
     .type = OPTION_BOOL,
     AT(own_f),
     .text = "false",
     .help = "H."},
    {.flag = "gone",
     .verbs = "go",
     .type = OPTION_STRING,
     AT(string),
     .marks = OPTION_UNSERVED | OPTION_NO_ENV,
     .help = "H."},
};
static const struct option_table table = {"all", rows, sizeof rows / sizeof rows[0]};

static struct arena a;
static struct option_set s;
static struct all v;
static struct cli_rest rest;

static void fresh(void) {
    static char home[] = "HOME=/home/ada", *env[] = {home, NULL};
    option_set_init(&s, &a, "prog", "P_", env);
    option_set_add(&s, &table, &v);
}

// Problems of the set, one per line.
static const char *problems(void) {
    struct err e;
    err_clear(&e);
    option_set_finish(&s, &e);
    return arena_strdup(&a, e.text);
}

static const struct option_row *row(const char *key) {
    return option_find(&s, key, NULL);
}

static const char *formatted(const char *key) {
    struct strbuf b = {0};
    const struct option_row *r = row(key);
    option_format(&b, r, (const char *)&v + r->offset);
    const char *text = arena_strdup(&a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return text;
}

#endif
