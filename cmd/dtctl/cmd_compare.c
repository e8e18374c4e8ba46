// SPDX-License-Identifier: Apache-2.0
// dtctl compare: in what runs differ, and their figures, from the files on this side.
#include "command.h"

#include "base/str.h"
#include "compare_show.h"
#include "run/inputs/input_from_run.h"

#include <math.h>
#include <string.h>

enum { RUNS_MAX = 1000 };

static const struct option_row ROWS[] = {
    {.flag = "metric",
     .verbs = "compare",
     .type = OPTION_LIST,
     .arg = "NAME",
     .offset = offsetof(struct compare_flags, metrics),
     .marks = OPTION_NO_ENV,
     .help = "Only this metric, such as loss, or eval.acc1 of the native trainer; may be "
             "repeated."},
    {.flag = "sort",
     .verbs = "compare",
     .type = OPTION_STRING,
     .arg = "NAME",
     .offset = offsetof(struct compare_flags, sort),
     .marks = OPTION_NO_ENV,
     .help = "Order the runs by the last value of this metric, the smallest first; runs without "
             "it come last."},
    {.flag = "all",
     .letter = 'a',
     .verbs = "compare",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct compare_flags, all),
     .marks = OPTION_NO_ENV,
     .help = "Also the settings that are equal in all runs."},
};
static const struct option_table TABLE = {"Compare", ROWS, sizeof ROWS / sizeof ROWS[0]};

// ---- finding the runs ---------------------------------------------------------------------------

// The run of an argument whose record cannot be read; NULL: it names no run that is there.
static const char *unreadable(const struct context *s, const char *text, const struct err *why) {
    const char *at = strchr(text, '@'), *id = NULL;
    struct err ignored = {0};
    bool known = why->code != ERR_USAGE && why->code != ERR_CONFIG &&
                 cluster_find_run(&s->cluster, at ? at + 1 : text, &id, &ignored) == 0;
    return known ? id : NULL;
}

static int find_runs(struct comparison *c, const struct cli_rest *rest, struct run *runs,
                     size_t *count, struct err *e) {
    struct context *s = c->context;
    if (rest->count == 1)
        return err_set(e, ERR_USAGE, "compare takes two runs or more (try: dtctl ps --all)");
    if (rest->count == 0) {
        *count = 2;
        return compare_newest(s, runs, e);
    }
    for (size_t i = 0; i < rest->count; i++) {
        struct run r;
        struct err why = {0};
        if (input_from_run_named(s, rest->args[i], &r, &why) < 0) {
            const char *id = unreadable(s, rest->args[i], &why);
            if (!id) {
                *e = why;
                return -1;
            }
            c->left[c->left_count++] = (struct left_out){id, why};
        } else if (compare_add_run(runs, count, &r, rest->args[i], e) < 0) {
            return -1;
        }
    }
    if (*count == 0)
        *e = c->left[0].why;
    return *count ? 0 : -1;
}

// ---- metrics ------------------------------------------------------------------------------------

static int check_metric(const struct comparison *c, const char *name, struct err *e) {
    struct arena *a = c->context->arena;
    if (compare_has_name(c->metrics, c->metric_count, name))
        return 0;
    return err_set(e, ERR_NOT_FOUND, "none of these runs has a metric '%.80s'%s", name,
                   cli_nearest(a, name, c->metrics));
}

// Leaves out what only --sort needed.
static int choose_metrics(struct comparison *c, struct err *e) {
    const struct option_list *chosen = &c->flags->metrics;
    for (size_t i = 0; i < chosen->count; i++)
        if (check_metric(c, chosen->items[i], e) < 0)
            return -1;
    if (c->flags->sort[0] && check_metric(c, c->flags->sort, e) < 0)
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < c->metric_count; i++)
        if (!chosen->count || compare_has_name(chosen->items, chosen->count, c->metrics[i]))
            c->metrics[kept++] = c->metrics[i];
    c->metric_count = kept;
    return 0;
}

static double last_of(const struct compare_run *r, const char *metric) {
    const struct metric_figure *m = metric_figures_find(&r->metrics, metric);
    return m && m->count ? m->last.value : (double)NAN;
}

// Insertion keeps the order of equal runs.
static void sort_runs(struct comparison *c) {
    const char *by = c->flags->sort;
    for (size_t i = 1; by[0] && i < c->count; i++) {
        struct compare_run r = c->runs[i];
        double value = last_of(&r, by);
        size_t k = i;
        for (; k > 0; k--) {
            double before = last_of(&c->runs[k - 1], by);
            if (isnan(value) || before <= value)
                break;
            c->runs[k] = c->runs[k - 1];
        }
        c->runs[k] = r;
    }
}

// ---- command ------------------------------------------------------------------------------------

// The metrics to read: those of --metric, and that of --sort.
static void set_wanted(struct comparison *c) {
    const struct option_list *chosen = &c->flags->metrics;
    c->wanted.items = arena_new(c->context->arena, const char *, chosen->count + 2);
    for (size_t i = 0; i < chosen->count; i++)
        c->wanted.items[c->wanted.count++] = chosen->items[i];
    if (chosen->count && c->flags->sort[0])
        c->wanted.items[c->wanted.count++] = c->flags->sort;
}

static int load_runs(struct comparison *c, const struct run *runs, size_t count, struct err *e) {
    c->runs = arena_new(c->context->arena, struct compare_run, count);
    for (size_t i = 0; i < count; i++) {
        if (context_check(c->context, e) < 0)
            return -1;
        struct compare_run *r = &c->runs[c->count++];
        compare_load(c->context, &runs[i], NULL, r);
        compare_load_metrics(c->context, r, &c->wanted, NULL, NULL);
    }
    compare_find_metrics(c);
    if (choose_metrics(c, e) < 0)
        return -1;
    sort_runs(c);
    return 0;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    struct comparison c = {.context = s, .flags = flags};
    struct run *runs = arena_new(s->arena, struct run, rest->count + 2);
    struct compared_settings all;
    size_t count = 0;
    c.left = arena_new(s->arena, struct left_out, rest->count + 1);
    set_wanted(&c);
    if (find_runs(&c, rest, runs, &count, e) < 0 || load_runs(&c, runs, count, e) < 0)
        return -1;
    compare_find_settings(&c, &all);
    if (s->screen->style == SCREEN_JSON)
        compare_show_json(&c, &all);
    else
        compare_show_text(&c, &all);
    if (c.left_count)
        return err_set(e, ERR_FAILED, "the record%s of %zu run%s cannot be read",
                       str_plural(c.left_count), c.left_count, str_plural(c.left_count));
    return 0;
}

const struct command cmd_compare = {
    .verb = {.name = "compare",
             .summary = "show in what runs differ, and their figures",
             .args = "[RUN RUN…]",
             .text = "Shows the settings in which runs differ, then their figures and metrics: the "
                     "last, the smallest and the largest value, and where each came. By default "
                     "the last two runs that have finished. RUN may also be a task, whose newest "
                     "run is meant, however it ended. All of it comes from the files on this "
                     "side, also of a run that is not over. Values of environment variables are "
                     "compared by digest. An asterisk marks the best value, where the better end "
                     "is known: of the native trainer's metrics.",
             .examples = "dtctl compare   # the last two finished runs\n"
                         "dtctl compare small large --metric loss   # two tasks, one metric\n"
                         "dtctl compare RUN RUN RUN --sort loss   # the smallest loss first\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct compare_flags),
    .args_max = RUNS_MAX,
    .run = run,
};
