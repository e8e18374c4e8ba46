// SPDX-License-Identifier: Apache-2.0
// Metrics: translation of people's expressions, values from lines, refusals.
#include "run/metrics.h"
#include "tests/tap.h"

struct seen {
    int count;
    double last;
    const char *name;
};

static void on_value(void *ctx, const struct metric *m, double value) {
    struct seen *s = ctx;
    s->count++;
    s->last = value;
    s->name = m->name;
}

static void finds(const char *regex, const char *line, double want) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    struct seen s = {0};
    if (ok(metric_add(set, &a, "m", regex, &e) == 0, "'%s' compiles %s", regex, e.text)) {
        metric_match(set, line, strlen(line), on_value, &s);
        is_int(s.count, 1, "'%s' matches '%s'", regex, line);
        near(s.last, want, 1e-12, "value of '%s'", line);
    }
    metric_fini(set);
    arena_fini(&a);
}

static void refuses(const char *regex, const char *why) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    is_int(metric_add(set, &a, "m", regex, &e), -1, "'%s' is refused", regex);
    has_str(e.text, why, "'%s' says why", regex);
    is_int(e.code, ERR_CONFIG, "as a configuration error");
    metric_fini(set);
    arena_fini(&a);
}

static void figures(void) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    struct seen s = {0};
    metric_add(set, &a, "loss", "Loss ([0-9.na]+)", &e);
    metric_add(set, &a, "acc", "Acc@1 ([0-9.]+)", &e);
    const char *lines[] = {"Loss 2.5 Acc@1 10.0", "Loss 0.5", "nothing", "Loss nan", "Loss 1.5"};
    for (size_t i = 0; i < 5; i++)
        metric_match(set, lines[i], strlen(lines[i]), on_value, &s);
    is_int(s.count, 5, "each metric of a line is reported, also nan");
    is_uint(set->metrics[0].count, 3, "finite values count");
    near(set->metrics[0].first, 2.5, 0, "first");
    near(set->metrics[0].last, 1.5, 0, "last");
    near(set->metrics[0].min, 0.5, 0, "min");
    near(set->metrics[0].max, 2.5, 0, "max");
    char *long_line = arena_new(&a, char, 100000);
    memset(long_line, 'x', 99999);
    memcpy(long_line + 90000, "Loss 7", 6);
    s.count = 0;
    metric_match(set, long_line, 99999, on_value, &s);
    is_int(s.count, 0, "beyond the limit of a line nothing is looked at");
    metric_fini(set);
    arena_fini(&a);
}

static void names(void) {
    static const char *const good[] = {"loss", "train:loss", "validation:error", "val/acc@1", "5"};
    static const char *const bad[] = {"", ":x", "a b", "a=b", "a\x1b", "\xc3\xa9", "a\nb"};
    struct err e = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        is_int(metric_expression_check_name(good[i], &e), 0, "'%s' is a name", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(metric_expression_check_name(bad[i], &e), -1, "name %zu is refused", i);
}

int main(void) {
    finds("Loss ([0-9.]+)", "Epoch: [0] Loss 2.30 (2.31)", 2.30);
    finds("loss=(\\d+\\.\\d+)", "step=3 loss=0.125", 0.125);
    finds("(?:train|test)\\s+acc:\\s*([-+.\\deE]+)", "test  acc: 9.5e1", 95);
    finds("Acc@1\\s+(\\S+)", " * Acc@1 46.340 Acc@5 72.484", 46.34);
    finds("\\[\\s*(\\d+)/", "Epoch: [0][ 10/782]", 10);
    finds("x\\t([0-9]+)", "x\t5", 5);
    finds("train_loss=(.*?);", "a;train_loss=0.5;val=3;", 0.5);
    finds("loss: (.*?),", "loss: 1e-3, acc: 2,", 1e-3);
    finds("loss (.*?)\\)", "(loss 4) (5)", 4);
    finds("([e\\-+0-9\\\\.]*)$", "x 1e-5", 1e-5);
    finds("=([^\\]]+)", "[a=5]", 5);
    refuses("Loss", "has no group");
    refuses("(.*?)", "as few as possible");
    refuses("(.*?);x", "as few as possible");
    refuses("(.*?).", "as few as possible");
    refuses("(.*?)\\d", "as few as possible");
    refuses("(.+?);", "as few as possible");
    refuses("\\S+?=([0-9]+)", "as few as possible");
    refuses("([0-9]++)", "without going back");
    refuses("(\\x41)", "'\\x' is not supported");
    refuses("([a-\\]])", "end of a range");
    refuses("([\\--9])", "end of a range");
    refuses("(a", "metric 'm'");
    refuses("([0-9)", "'[' without ']'");
    refuses("(a*?)b", "as few as possible");
    refuses("(?=x)(1)", "only (?:");
    refuses("(a)\\1", "back-references");
    refuses("(a)\\", "ends with a backslash");
    refuses("([\\D])", "inside brackets");
    figures();
    names();
    return done_testing();
}
