// SPDX-License-Identifier: Apache-2.0
// Metrics: people's expressions, values from lines, refusals with the place, limits of a search.
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "follow/metrics.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <unistd.h>

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
    if (ok(metrics_add(set, &a, "m", regex, &e) == 0, "'%s' compiles %s", regex, e.text)) {
        metrics_match(set, 0, line, strlen(line), on_value, &s);
        is_int(s.count, 1, "'%s' matches '%s'", regex, line);
        near(s.last, want, 1e-12, "'%s' has its value", line);
    }
    metrics_fini(set);
    arena_fini(&a);
}

static void refuses(const char *regex, const char *why) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    is_int(metrics_add(set, &a, "m", regex, &e), -1, "'%s' is refused", regex);
    has_str(e.text, why, "'%s' says why", regex);
    is_int(e.code, ERR_CONFIG, "a bad expression is a configuration error");
    metrics_fini(set);
    arena_fini(&a);
}

static void figures(void) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    struct seen s = {0};
    metrics_add(set, &a, "loss", "Loss ([0-9.na]+)", &e);
    metrics_add(set, &a, "acc", "Acc@1 ([0-9.]+)", &e);
    const char *lines[] = {"Loss 2.5 Acc@1 10.0", "Loss 0.5", "nothing", "Loss nan", "Loss 1.5"};
    for (size_t i = 0; i < 5; i++)
        metrics_match(set, 1, lines[i], strlen(lines[i]), on_value, &s);
    is_int(s.count, 5, "each metric of a line is reported, also nan");
    is_uint(set->metrics[0].count, 3, "finite values count");
    near(set->metrics[0].first, 2.5, 0, "the first value is kept");
    near(set->metrics[0].last, 1.5, 0, "the last value is kept");
    near(set->metrics[0].min, 0.5, 0, "the minimum is kept");
    near(set->metrics[0].max, 2.5, 0, "the maximum is kept");
    const struct {
        int rank;
        const char *line;
    } ranks[] = {{-1, "Loss 9"}, {2, "Loss 3"},   {0, "Loss 0.8"},
                 {1, "Loss 4"},  {0, "Loss 0.7"}, {1, "Loss 0.1"}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        metrics_match(set, ranks[i].rank, ranks[i].line, strlen(ranks[i].line), on_value, &s);
    near(set->metrics[0].first, 0.8, 0, "the first value is that of the lowest rank");
    near(set->metrics[0].last, 0.7, 0, "the last value is that of the lowest rank");
    near(set->metrics[0].min, 0.1, 0, "the minimum is that of all ranks");
    near(set->metrics[0].max, 9, 0, "the maximum is that of all ranks");
    char *long_line = arena_new(&a, char, 100000);
    memset(long_line, 'x', 99999);
    memcpy(long_line + 90000, "Loss 7", 6);
    s.count = 0;
    metrics_match(set, 0, long_line, 99999, on_value, &s);
    is_int(s.count, 0, "beyond the limit of a line nothing is looked at");
    metrics_fini(set);
    arena_fini(&a);
}

static void names(void) {
    static const char *const good[] = {"loss", "train:loss", "validation:error", "val/acc@1", "5"};
    static const char *const bad[] = {"", ":x", "a b", "a=b", "a\x1b", "\xc3\xa9", "a\nb"};
    struct err e = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        is_int(metric_regex_check_name(good[i], &e), 0, "'%s' is a name", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(metric_regex_check_name(bad[i], &e), -1, "name %zu is refused", i);
}

static void finds_nothing(const char *regex, const char *line) {
    struct metric_regex x;
    struct err e = {0};
    double value = 0;
    if (ok(metric_regex_compile(&x, regex, &e) == 0, "'%s' compiles %s", regex, e.text)) {
        is_int(metric_regex_find(&x, line, strlen(line), &value), METRIC_NONE,
               "'%s' finds nothing in '%s'", regex, line);
        metric_regex_fini(&x);
    }
}

// A line of len bytes of filler whose tail comes last.
static char *long_line(struct arena *a, size_t len, const char *filler, const char *tail) {
    struct strbuf text = {0};
    while (text.len + strlen(filler) + strlen(tail) <= len)
        strbuf_adds(&text, filler);
    strbuf_adds(&text, tail);
    char *line = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return line;
}

// A line is searched in parts; no border between two of them may hide a number.
static void parts(void) {
    struct arena a = {0};
    struct metric_regex x, anchored;
    struct err e = {0};
    int missed = 0, begun = 0;
    metric_regex_compile(&x, "(?<!x)loss=(\\d+);", &e);
    metric_regex_compile(&anchored, "^é.*loss=(\\d+);$", &e);
    for (size_t len = 8; len < 300; len++) {
        char *line = long_line(&a, len, "é", "loss=5;");
        double value = 0, other = 0;
        if (metric_regex_find(&x, line, strlen(line), &value) != METRIC_FOUND || value != 5)
            missed++;
        bool filled = line[0] != 'l';
        if ((metric_regex_find(&anchored, line, strlen(line), &other) == METRIC_FOUND) != filled)
            begun++;
    }
    is_int(missed, 0, "a number is found at any place");
    is_int(begun, 0, "'^' is the beginning of the line, and of no part of it");
    const char *wild = "\xff\xc3\x80\xbf loss=5; \xe2\x82";
    double value = 0;
    is_int(metric_regex_find(&x, wild, strlen(wild), &value), METRIC_FOUND,
           "a number is found in a line that is not UTF-8 throughout");
    char *bytes = long_line(&a, 4000, "\xbf", "loss=5;");
    is_int(metric_regex_find(&x, bytes, strlen(bytes), &value), METRIC_FOUND,
           "a value is found behind thousands of bytes that begin no character");
    metric_regex_fini(&x);
    metric_regex_fini(&anchored);
    arena_fini(&a);
}

static char logged[4096];

static void keep_log(const char *line, size_t len) {
    size_t at = strlen(logged);
    if (at + len < sizeof logged)
        memcpy(logged + at, line, len);
}

static const char *warned_of(const char *regex, const char *line) {
    static char warned[sizeof logged];
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    struct seen s = {0};
    metrics_add(set, &a, "loss", regex, &e);
    logged[0] = 0;
    metrics_match(set, 0, line, strlen(line), on_value, &s);
    memcpy(warned, logged, sizeof warned);
    logged[0] = 0;
    metrics_match(set, 1, line, strlen(line), on_value, &s);
    is_str(logged, "", "'%s' has no second warning", regex);
    is_int(s.count, 0, "'%s' gives no value", regex);
    ok(set->metrics[0].matched == (warned[0] != '\0'), "'%s': a warned metric has matched", regex);
    metrics_fini(set);
    arena_fini(&a);
    return warned;
}

static void texts(void) {
    static const struct {
        const char *regex, *line, *value;
    } cases[] = {
        {"loss=(\\S+)", "loss=1,234.5", "value=\"1,234.5\""},
        {"loss=(\\S+)", "loss=none", "value=\"none\""},
        {"loss (.*)", "loss 5 of 7", "value=\"5 of 7\""},
        {"loss=(.*)", "loss=\x1b[1m5", "value=\"\\x1b[1m5\""},
        {"loss=(.*)", "loss= ", "value=\" \""},
    };
    static const char *const none[][2] = {
        {"loss=(\\S*)", "loss= 5"}, {"a=(\\d+)|b=\\d+", "b=5"}, {"x(\\d)", "loss"}};
    char tail[200] = "loss=";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *warned = warned_of(cases[i].regex, cases[i].line);
        has_str(warned, "the value of a metric is no number", "'%s' is warned of", cases[i].regex);
        has_str(warned, "metric=loss", "the warning names the metric");
        has_str(warned, cases[i].value, "the warning has the text");
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        is_str(warned_of(none[i][0], none[i][1]), "", "'%s' is not warned of", none[i][0]);
    memset(tail + 5, 'y', 100);
    const char *cut = strstr(warned_of("loss=(.*)", tail), "value=\"");
    is_uint(cut ? strspn(cut + 7, "y") : 0, 64, "a long text is cut");
}

// Expressions that go back exponentially often, or that try each place of a line for long.
static void overruns(void) {
    static const struct {
        const char *regex, *filler;
    } slow[] = {
        {"(x+x+)+;", "x"},
        {"((?:a|aa)+)$", "a"},
        {"(.*.*.*.*=[0-9]);", "=;"},
        {"(?:(?:\\w+\\s?)+)=(\\d+)#", "ab "},
        {"\\w+\\w\\d?(:[0-9]#)", "x"},
        {"(?:(.)|.)*#", "é"},
    };
    int overran = 0;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        struct arena a = {0};
        struct metric_set *set = arena_new(&a, struct metric_set, 1);
        struct err e = {0};
        struct seen s = {0};
        char *line = long_line(&a, METRIC_LINE_BYTES_MAX, slow[i].filler, "=7;#!");
        int64_t longest = 0;
        metrics_add(set, &a, "slow", slow[i].regex, &e);
        metrics_add(set, &a, "fine", "=(\\d);", &e);
        logged[0] = 0;
        for (int n = 0; n < 2 * METRIC_OVERRUNS_MAX; n++) {
            int64_t began = clock_cpu_ns();
            metrics_match(set, 0, line, strlen(line), on_value, &s);
            int64_t took = clock_cpu_ns() - began;
            longest = took > longest ? took : longest;
        }
        printf("# '%s': a line took %ld us at most\n", slow[i].regex, (long)(longest / 1000));
        ok(longest < 1000000000, "'%s' costs little time on a line that is made for it",
           slow[i].regex);
        if (set->metrics[0].overruns) {
            is_int(set->metrics[0].overruns, METRIC_OVERRUNS_MAX, "a slow expression is given up");
            overran++;
            char *said = strstr(logged, "takes too long on a line");
            ok(said && !strstr(said + 1, "takes too long"), "a slow expression is logged once");
            has_str(logged, "metric=slow", "the log line names the metric");
        }
        is_uint(set->metrics[1].count, 2 * METRIC_OVERRUNS_MAX, "other metrics are still read");
        metrics_fini(set);
        arena_fini(&a);
    }
    ok(overran >= 3, "the limits are reached (%d)", overran);
}

// `first`: the line that matches "loss"; -1: none.
static const char *warned_after(int lines, int first, bool from_start) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    struct err e = {0};
    struct seen s = {0};
    metrics_add(set, &a, "loss", "loss=(\\S+)", &e);
    metrics_add(set, &a, "acc", "acc=([0-9]+)", &e);
    metrics_add(set, &a, "step", "step ([0-9]+)", &e);
    logged[0] = 0;
    for (int i = 0; i < lines; i++) {
        const char *line =
            arena_printf(&a, "step %d%s%s", i, i == first ? " loss=5" : "", i == 5 ? "\x1b" : "");
        metrics_match(set, 0, line, strlen(line), on_value, &s);
        metrics_count_line(set, line, strlen(line), from_start && i == 0);
    }
    metrics_fini(set);
    arena_fini(&a);
    return logged;
}

static void silent_metrics(void) {
    is_str(warned_after(METRIC_SILENT_LINES_MAX - 1, -1, true), "", "99 lines warn of nothing");
    has_str(warned_after(METRIC_SILENT_LINES_MAX, -1, true), "metric=\"loss, acc\" lines=100",
            "line 100 names the metrics without a match");
    has_str(logged, "newest=\"step 99\"", "the warning has the newest line");
    char *said = strstr(warned_after(5 * METRIC_SILENT_LINES_MAX, -1, true), "newest=");
    ok(said && !strstr(said + 1, "newest="), "the warning comes once");
    has_str(warned_after(200, 99, true), "metric=\"acc\"",
            "a metric that line 100 matches is none");
    is_str(warned_after(500, -1, false), "", "lines from the middle of a file warn of nothing");
}

static void python_forms(void) {
    finds("Epoch:.*Loss\\s+([e\\-+0-9\\\\.]*) \\(", "Epoch: [3][10/98]\tLoss 2.3e-01 (2.4e-01)",
          0.23);
    finds("Train_error=(.*?);", "Epoch=3;Train_error=0.125;Valid_error=4;", 0.125);
    finds("train_loss=(.*?);", "a;train_loss= 0.5 ;val=3;", 0.5);
    finds("(?i)LOSS=([\\d.]+)", "train Loss=2.5", 2.5);
    finds("loss=(?P<v>[\\d.]+)", "loss=2.5", 2.5);
    finds("(train|test) loss=(?P<v>[\\d.]+)", "test loss=2.5", 2.5);
    finds("(?P<a>\\d+)/(?P<b>\\d+)", "3/4", 3);
    finds("\\S+?=([0-9]+)", "a=b c=5", 5);
    finds("loss (.+?)[,;]", "loss 7;8", 7);
    finds("(?<=acc )(\\d+)(?!\\d|%)", "acc 55% acc 12.", 12);
    finds("(\\w)=\\1(\\d)", "a=b1 3=34", 3);
    finds("Verlust [→:] ([\\d.]+)", "Verlust → 2.5", 2.5);
    finds("(?i)größe=(\\d)", "GRÖSSE=1 GRÖßE=2", 2);
    finds("\\bw\\s*(\\d+)\\b", "w\u00a07", 7);
    finds("([0-9]++)", "x 12", 12);
    finds("(?x) loss = (\\d+) # the loss", "loss=4", 4);
    finds("[0-9\\-]+:([-+]?\\d+)", "1-2:-3", -3);
    finds("(\\x34)", "4", 4);
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
    python_forms();
    finds_nothing("loss=(\\S*)", "loss= 5");
    finds_nothing("a=(\\d+)|b=\\d+", "b=5");
    finds_nothing("(\\d+)", "");
    refuses("Loss", "has no group");
    refuses("(?:a)", "has no group");
    refuses("(a", "metric 'm': expression '(a': missing closing parenthesis, at character 2 of 2");
    refuses("([0-9)", "at character 6 of 6");
    refuses("größe=(é", "at character 8 of 8");
    refuses("(a)\\", "at end of pattern, at character 4 of 4");
    refuses("([z-a])", "range out of order in character class, at character ");
    refuses("(?<=a*)(1)", "lookbehind assertion");
    refuses("(a)\\C", "at character 5 of 5");
    refuses("(\xff)", "UTF-8 error");
    figures();
    names();
    parts();
    log_sink(keep_log);
    texts();
    overruns();
    silent_metrics();
    log_sink(NULL);
    return done_testing();
}
