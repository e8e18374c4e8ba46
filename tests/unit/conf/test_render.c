// SPDX-License-Identifier: Apache-2.0
// The texts that are made from tables of options, as a whole, of a small program with a row of
// each shape.
#include "conf/render.h"

#include "tests/unit/expected.h"

struct thing {
    const char *name, *source;
    int64_t port;
    struct option_place place;
};

struct all {
    bool fast, kept;
    int64_t nodes, wait, size, retry;
    double rate;
    const char *resume, *file, *note;
    int mode;
    struct option_range range;
    struct option_list set, paths;
    struct option_ints ints;
    struct option_reals reals;
    struct option_map env;
    struct option_records inputs, hosts;
};

static const char *const modes[] = {"one", "two", NULL}, *const never[] = {"never", NULL};

static const struct option_row fields[] = {
    {.key = "name", .type = OPTION_STRING, .offset = offsetof(struct thing, name), .help = "N."},
    {.key = "source",
     .type = OPTION_STRING,
     .offset = offsetof(struct thing, source),
     .help = "S."},
    {.key = "port",
     .type = OPTION_INT,
     .offset = offsetof(struct thing, port),
     .text = "22",
     .help = "P."},
};
static const struct option_record input = {sizeof(struct thing),          fields, 3, true,
                                           offsetof(struct thing, place), NULL};
static const struct option_record host = {sizeof(struct thing),          fields, 3, false,
                                          offsetof(struct thing, place), NULL};

#define AT(field) .offset = offsetof(struct all, field)
static const struct option_row rows[] = {
    {.flag = "file", .letter = 'f', .type = OPTION_PATH, AT(file), .help = "[A]: it's \\ 'b'."},
    {.key = "t.nodes",
     .flag = "nodes",
     .letter = 'n',
     .verbs = "up plan",
     .type = OPTION_INT,
     AT(nodes),
     .text = "2",
     .min = 1,
     .max = 9,
     .marks = OPTION_KEEP,
     .help = "How many… nodes the cluster begins with."},
    {.key = "t.kept",
     .flag = "kept",
     .verbs = "up",
     .type = OPTION_BOOL,
     AT(kept),
     .text = "true",
     .help = "Keep."},
    {.key = "t.mode",
     .flag = "mode",
     .type = OPTION_CHOICE,
     AT(mode),
     .choices = modes,
     .text = "two",
     .help = "The way in which each is made, by name."},
    {.key = "t.resume",
     .flag = "resume",
     .verbs = "up",
     .type = OPTION_STRING,
     AT(resume),
     .arg = "auto|never|x2|RUN",
     .text = "auto",
     .help = "From."},
    {.key = "t.paths",
     .flag = "paths",
     .letter = 'p',
     .verbs = "up",
     .type = OPTION_PATHS,
     AT(paths),
     .marks = OPTION_NO_ENV,
     .help = "Where."},
    {.key = "t.note",
     .flag = "note",
     .type = OPTION_STRING,
     AT(note),
     .marks = OPTION_HIDDEN,
     .help = "Hidden."},
    {.flag = "set",
     .type = OPTION_LIST,
     AT(set),
     .marks = OPTION_ASSIGN | OPTION_NO_ENV,
     .arg = "KEY=VALUE",
     .help = "Any key."},
    {.key = "up.fast",
     .type = OPTION_BOOL,
     AT(fast),
     .text = "false",
     .marks = OPTION_NO_ENV,
     .help = "Whether it is soon; 1 of 3 sentences of as many columns as that."},
    {.key = "up.wait", .type = OPTION_DURATION, AT(wait), .text = "90s", .help = "Long."},
    {.key = "up.size", .type = OPTION_BYTES, AT(size), .text = "1m", .env = "SIZE", .help = "Big."},
    {.key = "up.rate", .type = OPTION_REAL, AT(rate), .text = "0.5", .help = "Rate."},
    {.key = "up.retry",
     .type = OPTION_COUNT,
     AT(retry),
     .text = "never",
     .choices = never,
     .help = "Again."},
    {.key = "up.range", .type = OPTION_RANGE, AT(range), .help = "Few."},
    {.key = "up.ints", .type = OPTION_INTS, AT(ints), .text = "1,2", .help = "Some."},
    {.key = "up.reals", .type = OPTION_REALS, AT(reals), .help = "Reals."},
    {.key = "env", .type = OPTION_MAP, AT(env), .arg = "NAME=a b", .help = "Variables."},
    {.key = "inputs", .type = OPTION_RECORDS, AT(inputs), .record = &input, .help = "Inputs."},
    {.key = "hosts.host", .type = OPTION_RECORDS, AT(hosts), .record = &host, .help = "Hosts."},
};
static const struct option_table table = {"all", rows, sizeof rows / sizeof rows[0]};
// Keys that are known, and have no values here.
static const struct option_row far_rows[] = {
    {.key = "far.key", .type = OPTION_INT, .text = "1", .help = "Far."}};
static const struct option_table far = {"far", far_rows, 1};

static const char *const shells[] = {"sh", "csh", NULL}, *const topics[] = {"aws", "data", NULL};
static const struct render_verb up = {.name = "up",
                                      .summary = "make it's cluster",
                                      .args = "[NODE]",
                                      .text = "One.\n\n\n.Two-\\\n'x",
                                      .examples = "  p up -n 4   # four"},
                                plan = {.name = "plan",
                                        .summary = "Plan",
                                        .args = "NODESET",
                                        .examples = "  p plan\n"},
                                shell = {.name = "shell", .summary = "zoo", .words = shells};
static const struct render_verb *const verbs[] = {&up, &plan, &shell, NULL};
static const struct render_program whole = {"p",     "train", "1.2", "[FLAGS] COMMAND",
                                            "Text.", verbs,   topics},
                                   plain = {"p", "train", "1.2", "[FLAGS]", NULL, NULL, NULL};

static struct arena a;
static struct option_set s;
static struct all v;
static struct strbuf out;

static void load(const char *text) {
    static char home[] = "HOME=/home/ada", *env[] = {home, NULL};
    struct err e = {0};
    option_set_init(&s, &a, "p", "P_", env);
    option_set_add(&s, &table, &v);
    option_set_add(&s, &far, NULL);
    if (text)
        option_set_file(&s, "p.toml", text, strlen(text));
    if (option_set_finish(&s, &e) < 0)
        bail_out("%s", e.text);
    strbuf_clear(&out);
}

static void test_completions(const struct render_program *p, const char *of) {
    struct err e;
    for (int i = 0; render_shells[i]; i++) {
        if (render_completion(&out, &s, p, render_shells[i], &e) < 0)
            bail_out("%s", e.text);
        is_expected(&out, arena_printf(&a, "%s of %s", render_shells[i], of));
    }
}

static void test_defaults(void) {
    load(NULL);
    render_man(&out, &s, &whole);
    is_expected(&out, "manual of verbs");
    render_man(&out, &s, &plain);
    is_expected(&out, "manual of keys");
    render_man_file(&out, &s, &whole, "p.toml");
    is_expected(&out, "manual of the file");
    render_help(&out, &s, &whole, 0);
    is_expected(&out, "help of verbs");
    render_help(&out, &s, &plain, 70);
    is_expected(&out, "help of keys");
    render_help_verb(&out, &s, &whole, &up, 1);
    is_expected(&out, "help of up");
    render_help_verb(&out, &s, &whole, &plan, 0);
    is_expected(&out, "help of plan");
    test_completions(&whole, "verbs");
    test_completions(&plain, "flags");
    render_show(&out, &s, false);
    is_expected(&out, "defaults");
    render_show_json(&out, &s, false);
    is_expected(&out, "defaults as JSON");
    render_init(&out, &s, NULL, NULL);
    is_expected(&out, "example");
}

static void test_given(void) {
    static const char *const others[] = {"t.mode", "t.note", NULL};
    static struct option_pair pairs[] = {{"t.resume", "r\"n"}, {"t.nodes", "5"}};
    const struct option_map found = {pairs, 2};
    const struct option_table *tables[] = {&table, NULL};
    load("[t]\nnodes=4\nkept=false\nmode='one'\npaths=['/a','b']\n[up]\nfast=true\nwait='1h'\n"
         "size='3k'\nrate=1\nretry=7\nrange='2:3'\nints=[5]\nreals=[1,2.5]\n[env]\nA='b c'\n"
         "B=''\n[inputs.x]\nsource='/d'\n[inputs.y]\n[[hosts.host]]\nname='h'\nport=23\n"
         "[[hosts.host]]\nname='i'\n");
    render_show(&out, &s, true);
    is_expected(&out, "values");
    render_show_json(&out, &s, true);
    is_expected(&out, "values as JSON");
    render_init(&out, &s, &found, others);
    is_expected(&out, "file with values");
    render_toml(&out, &s, tables);
    is_expected(&out, "share");
    struct option_map map = render_map(&a, &s, tables);
    for (size_t i = 0; i < map.count; i++)
        strbuf_addf(&out, "%s=%s\n", map.items[i].name, map.items[i].value);
    is_expected(&out, "share as texts");
    render_kept(&out, &s);
    is_expected(&out, "nothing kept");
    option_set_text(&s, "t.nodes=7",
                    (struct option_place){.source = OPTION_FLAG, .name = "--nodes"});
    option_set_text(&s, "up.rate=0.25",
                    (struct option_place){.source = OPTION_ENV, .name = "P_UP_RATE"});
    render_kept(&out, &s);
    is_expected(&out, "kept");
    load(NULL);
    option_set_kept(&s, "kept.toml", "t.nodes = 8\n", 12);
    option_set_text(&s, "up.rate=0.25",
                    (struct option_place){.source = OPTION_ENV, .name = "P_UP_RATE"});
    render_show(&out, &s, true);
    is_expected(&out, "kept value");
    render_show_json(&out, &s, true);
    is_expected(&out, "kept value as JSON");
    render_init(&out, &s, &found, others + 2);
    is_expected(&out, "file of found values");
}

int main(int argc, char **argv) {
    (void)argv;
    expected_open("tests/unit/conf/render.txt", argc);
    test_defaults();
    test_given();
    strbuf_fini(&out);
    arena_fini(&a);
    return expected_end();
}
