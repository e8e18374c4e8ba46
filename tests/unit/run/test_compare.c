// SPDX-License-Identifier: Apache-2.0
// Comparing runs: settings side by side, secrets left out, and figures of lines from any node.
#include "run/compare/compare.h"
#include "run/compare/compare_settings.h"
#include "run/compare/metric_figures.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>

static struct arena a;

// ---- settings -----------------------------------------------------------------------------------

static const char *value_of(const struct compare_settings *s, const char *name) {
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return s->items[i].value;
    return NULL;
}

static struct compare_settings settings_of(const struct run *r, const char *inputs) {
    struct compare_settings s;
    struct json *j = NULL;
    struct err e;
    if (inputs && json_parse(&a, inputs, strlen(inputs), &j, &e) < 0)
        bail_out("%s", e.text);
    compare_settings_of(&a, r, j, &s);
    return s;
}

static void test_command(void) {
    const char *words[] = {"python", "a b.py", "--lr", "0.1", "--fast", "--lr=3", "--m\x1b", "x"};
    struct run r = {.name = "t", .command = words, .command_count = 8, .version = "1"};
    struct compare_settings s = settings_of(&r, NULL);
    is_str(value_of(&s, "command"), "python 'a b.py'", "words before the flags are the command");
    is_str(value_of(&s, "--lr"), "0.1", "a flag has the words that follow");
    is_str(value_of(&s, "--lr (2)"), "3", "a flag that comes again has its number");
    is_str(value_of(&s, "--fast"), "given", "a flag without a word is given");
    bool safe = true;
    for (size_t i = 0; i < s.count; i++)
        safe &= !strchr(s.items[i].name, '\x1b') && !strchr(s.items[i].value, '\x1b');
    ok(safe, "no name and no value has a control byte");
}

static void test_inputs(void) {
    struct run r = {.name = "t"};
    struct compare_settings s = settings_of(
        &r, "{\"inputs\":[{\"name\":\"x\",\"source\":\"https://me:pw@h/p?X-Amz-Signature=s#f\","
            "\"digest\":\"0123456789abcdef\",\"files\":3},{\"source\":\"no name\"},"
            "{\"name\":\"y\",\"source\":\"https://h/a@b\"},{\"name\":\"z\",\"files\":\"many\"}]}");
    is_str(value_of(&s, "inputs.x.source"), "https://h/p?…", "a source has no login and no query");
    is_str(value_of(&s, "inputs.x.digest"), "0123456789ab", "a digest is short");
    is_str(value_of(&s, "inputs.x.files"), "3", "files are counted");
    is_str(value_of(&s, "inputs.y.source"), "https://h/a@b", "an @ in a path is none of a login");
    ok(!value_of(&s, "inputs.z.files"), "a number that is none is left out");
}

static const struct compare_row *row_of(const struct compare_row *rows, size_t count,
                                        const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    bail_out("no row '%s'", name);
}

static void test_rows(void) {
    struct option_pair one[] = {{"lr", "1"}, {"same", "x"}}, two[] = {{"same", "x"}};
    struct run runs[] = {{.name = "t", .version = "1", .settings = {.items = one, .count = 2}},
                         {.name = "t", .version = "1", .settings = {.items = two, .count = 1}},
                         {.name = "u", .version = ""}};
    struct compare_settings s[3];
    struct compare_row *rows;
    size_t count;
    for (size_t i = 0; i < 3; i++)
        s[i] = settings_of(&runs[i], NULL);
    compare_settings_rows(&a, s, 2, &rows, &count);
    ok(!row_of(rows, count, "task")->differs, "equal settings do not differ");
    ok(!row_of(rows, count, "same")->differs, "equal settings of another table do not differ");
    ok(row_of(rows, count, "lr")->differs && !row_of(rows, count, "lr")->values[1],
       "a setting that one run does not have differs");
    compare_settings_rows(&a, s, 3, &rows, &count);
    ok(row_of(rows, count, "task")->differs, "one of three runs differs");
    ok(!row_of(rows, count, "same")->differs, "a record that is too old to have it does not");
}

// ---- metrics ------------------------------------------------------------------------------------

static void take(struct metric_figures *f, const char *line, bool good) {
    is_int(metric_figures_take(f, line, strlen(line), 1), good, "%.70s", line);
}

static void test_lines(void) {
    struct metric_figures f;
    metric_figures_init(&f, &a, NULL);
    take(&f, "{\"name\":\"loss\",\"value\":2}", true);
    take(&f, "{\"name\":\"loss\",\"value\":-1.5}", true);
    take(&f, "{\"name\":\"loss\",\"value\":null}", true);
    take(&f, "{\"name\":\"loss\",\"value\":1e999}", true);
    take(&f, "{\"name\":\"loss\",\"value\":1}", true);
    take(&f, "{\"name\":\"loss\",\"value\":\"1\"}", false);
    take(&f, "{\"name\":\"loss\"}", false);
    take(&f, "{\"name\":\"a\\u0000b\",\"value\":1}", false);
    take(&f, "{\"name\":\"\\u001b[31m\",\"value\":1}", false);
    take(&f, "{\"name\":7,\"value\":1}", false);
    take(&f, "{\"event\":\"eval\",\"step\":9,\"epoch\":2,\"acc1\":0.5,\"loss\":3,\"b c\":1}", true);
    take(&f, "{\"event\":\"eval\",\"step\":-4,\"acc1\":0.25}", true);
    take(&f, "{\"event\":[],\"acc1\":1}", false);
    take(&f, "[1]", false);
    take(&f, "{\"name\":\"loss\",\"value\":1", false);
    const struct metric_figure *m = metric_figures_find(&f, "loss");
    if (!m)
        bail_out("no loss");
    ok(m->last.value > 0.9 && m->last.number == 3, "the last value is the third finite one");
    ok(m->min.value < -1.4 && m->min.number == 2, "the smallest one is the second");
    ok(m->max.value > 1.9 && m->max.number == 1, "the largest one is the first");
    is_uint(m->not_finite, 2, "values that are not finite are counted apart");
    is_int(m->goal, METRIC_GOAL_NONE, "the better end of a user's metric is not known");
    m = metric_figures_find(&f, "eval.acc1");
    ok(m && m->max.step == 9 && m->max.epoch == 2 && m->last.step == -1,
       "values of a record have its step and epoch");
    ok(m && m->goal == METRIC_GOAL_MAX, "the better end of an accuracy is known");
    is_uint(f.bad, 8, "lines without a metric are counted");
    metric_figures_end(&f);
}

static void test_ranks(void) {
    struct metric_figures f;
    metric_figures_init(&f, &a, NULL);
    take(&f, "{\"rank\":1,\"name\":\"loss\",\"value\":4}", true);
    take(&f, "{\"rank\":0,\"name\":\"loss\",\"value\":2}", true);
    take(&f, "{\"rank\":1,\"name\":\"loss\",\"value\":1}", true);
    const struct metric_figure *m = metric_figures_find(&f, "loss");
    ok(m && m->last.number == 2, "the last value is that of the lowest rank");
    ok(m && m->min.number == 3 && m->max.number == 1, "the ends are those of all ranks");
    metric_figures_end(&f);
}

static void test_bounds(void) {
    struct option_list wanted = {.items = (const char *[]){"m3"}, .count = 1};
    struct metric_figures f;
    char line[64];
    metric_figures_init(&f, &a, NULL);
    for (int i = 0; i < METRIC_FIGURES_MAX + 5; i++) {
        snprintf(line, sizeof line, "{\"name\":\"m%d\",\"value\":1}", i);
        (void)metric_figures_take(&f, line, strlen(line), 1);
    }
    is_uint(f.count, METRIC_FIGURES_MAX, "the number of metrics is bounded");
    is_uint(f.left_out, 5, "later ones are counted");
    metric_figures_end(&f);
    metric_figures_init(&f, &a, &wanted);
    for (int i = 0; i < 5; i++) {
        snprintf(line, sizeof line, "{\"name\":\"m%d\",\"value\":1}", i);
        (void)metric_figures_take(&f, line, strlen(line), 1);
    }
    ok(f.count == 1 && metric_figures_find(&f, "m3"), "only wanted metrics are kept");
    metric_figures_end(&f);
}

// ---- the last two runs --------------------------------------------------------------------------

static void test_newest(void) {
    static const struct {
        const char *id, *state, *why; // why NULL: there are two
    } cases[] = {
        {"t-20260101T000000Z-000001", "failed", "has no finished run"},
        {"t-20260102T000000Z-000002", "finished", "has one finished run; compare takes two"},
        {"t-20260103T000000Z-000003", "started", "has one finished run"},
        {"u-20260104T000000Z-000004", "finished", NULL},
        {"u-20260105T000000Z-000005", "stopped", NULL},
    };
    char folder[] = "/tmp/test_compare.XXXXXX";
    const char *node = "n", *command = NULL;
    struct context s = {.arena = &a};
    struct err e = {0};
    struct run out[2];
    if (!mkdtemp(folder) || cluster_open(&s.cluster, &a, folder, "c", &e) < 0)
        bail_out("no folder");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run r = {.id = cases[i].id,
                        .name = arena_strndup(&a, cases[i].id, 1),
                        .cluster = "c",
                        .provider = "local",
                        .command = &command,
                        .nodes = &node,
                        .node_count = 1,
                        .nproc = "1",
                        .output_dir = "/o",
                        .s3 = "",
                        .state = cases[i].state};
        if (run_save(&s.cluster, &r, &e) < 0)
            bail_out("%s", e.text);
        int result = compare_newest(&s, out, &e);
        is_int(result, cases[i].why ? -1 : 0, "with %zu runs there are two or not", i + 1);
        if (cases[i].why)
            has_str(e.text, cases[i].why, "the error says: %s", cases[i].why);
        else
            ok(result == 0 && strcmp(out[0].id, cases[1].id) == 0 &&
                   strcmp(out[1].id, cases[3].id) == 0,
               "the older run comes first");
    }
    cluster_close(&s.cluster);
    file_remove_tree(folder, &e);
}

int main(void) {
    test_command();
    test_inputs();
    test_rows();
    test_lines();
    test_ranks();
    test_bounds();
    test_newest();
    arena_fini(&a);
    return done_testing();
}
