// SPDX-License-Identifier: Apache-2.0
// Runs side by side, as text and JSON, compared with compare_show.txt: runs that are over, active
// or failed, metrics with one goal, several or none.
#include "cmd/dtctl/compare_show.h"

#include "tests/tap.h"
#include "tests/unit/expected.h"
#include "tests/unit/said.h"

#include <math.h>

enum { RUNS = 3 };

static struct arena a;
static struct screen screen;
static struct context context = {.arena = &a, .screen = &screen};
static struct compare_flags flags;
static struct compare_run runs[RUNS];
static struct left_out left[2];
static struct comparison comparison;
static struct compared_settings settings;

static struct metric_point point(double value, uint64_t number, int64_t step, int64_t epoch) {
    return (struct metric_point){value, number, step, epoch};
}

static void add_metric(struct compare_run *r, const struct metric_figure *m) {
    metric_figures_init(&r->metrics, &a, NULL);
    r->metrics.items = arena_new(&a, struct metric_figure, 8);
    for (; m->name; m++) {
        size_t *place = arena_new(&a, size_t, 1);
        *place = r->metrics.count++;
        r->metrics.items[*place] = *m;
        name_map_put(&r->metrics.by_name, m->name, place);
    }
}

static void set(struct compare_run *r, const char *words) {
    char **all;
    size_t count = str_split(&a, words, ' ', &all);
    r->settings.items = arena_new(&a, struct compare_setting, count);
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(all[i], '=');
        *equals = '\0';
        r->settings.items[r->settings.count++] =
            (struct compare_setting){.name = all[i], .value = equals + 1};
    }
}

static void make_runs(void) {
    runs[0] = (struct compare_run){.run = {.id = "task-1",
                                           .name = "task",
                                           .state = "finished",
                                           .created_ms = 1700000000000,
                                           .node_count = 2},
                                   .train_ms = 61000,
                                   .world_size = 4,
                                   .results = {0.5, 0.25, (double)NAN}};
    runs[1] = (struct compare_run){.run = {.id = "task-2",
                                           .name = "task",
                                           .state = "started",
                                           .exit_status = 9,
                                           .created_ms = 1700000100000,
                                           .node_count = 1},
                                   .active = true,
                                   .train_ms = 30000,
                                   .world_size = -1,
                                   .restarts = 2,
                                   .results = {0.75, (double)NAN, (double)NAN}};
    runs[2] = (struct compare_run){.run = {.id = "other-3",
                                           .name = "other",
                                           .state = "failed\x1b",
                                           .exit_status = 137,
                                           .created_ms = 1700000200000},
                                   .train_ms = -1,
                                   .world_size = 1,
                                   .restarts = -1,
                                   .results = {0.75, 0.125, (double)NAN}};
    set(&runs[0], "lr=0.1 batch=32 seed=1 only=first");
    set(&runs[1], "lr=0.2 batch=32 seed=1");
    set(&runs[2], "lr=0.1 batch=32 seed=1");
    compare_add_problem(&context, &runs[0], "the first problem");
    compare_add_problem(&context, &runs[0], "problem %d", 2);
}

static void make_metrics(void) {
    const struct metric_figure first[] = {{"acc", METRIC_GOAL_MAX, 3, 0, point(0.5, 3, 30, 3),
                                           point(0.25, 1, 10, 1), point(0.75, 2, 20, 2), 0},
                                          {"loss", METRIC_GOAL_MIN, 2, 1, point(0.5, 2, 7, -1),
                                           point(0.25, 1, -1, 4), point(0.75, 2, -1, -1), 0},
                                          {"mixed", METRIC_GOAL_MIN, 1, 0, point(1, 1, 1, 1),
                                           point(1, 1, 1, 1), point(1, 1, 1, 1), 0},
                                          {0}};
    const struct metric_figure second[] = {
        {"acc", METRIC_GOAL_MAX, 1, 0, point(0.625, 1, 1, 1), point(0.625, 1, 1, 1),
         point(0.625, 1, 1, 1), 0},
        {"loss", METRIC_GOAL_MIN, 0, 3, point(0, 0, 0, 0), point(0, 0, 0, 0), point(0, 0, 0, 0),
         -1},
        {"mixed", METRIC_GOAL_MAX, 1, 0, point(2, 1, 1, 1), point(2, 1, 1, 1), point(2, 1, 1, 1),
         0},
        {"own", METRIC_GOAL_NONE, 1, 0, point(5, 1, 0, 0), point(5, 1, 0, 0), point(5, 1, 0, 0), 0},
        {0}};
    const struct metric_figure third[] = {
        {"loss", METRIC_GOAL_MIN, 1, 0, point(0.25, 1, 1, 1), point(0.25, 1, 1, 1),
         point(0.25, 1, 1, 1), 0},
        {"own", METRIC_GOAL_NONE, 1, 0, point(4, 1, 0, 0), point(4, 1, 0, 0), point(4, 1, 0, 0), 0},
        {0}};
    add_metric(&runs[0], first);
    add_metric(&runs[1], second);
    add_metric(&runs[2], third);
}

static void compare(size_t count, size_t left_count) {
    comparison = (struct comparison){.context = &context,
                                     .flags = &flags,
                                     .runs = runs,
                                     .count = count,
                                     .left = left,
                                     .left_count = left_count};
    compare_find_metrics(&comparison);
    compare_find_settings(&comparison, &settings);
}

// Compares the output since the last call, without the times of events.
static void is_said(const char *name) {
    struct strbuf text = {0};
    for (const char *p = said(); *p;) {
        strbuf_addc(&text, *p);
        if (strncmp(p, "\"time_ms\":", 10) == 0) {
            strbuf_adds(&text, "time_ms\":?");
            p += strlen("\"time_ms\":");
            p += strspn(p, "0123456789");
        } else
            p++;
    }
    said_clear();
    is_expected(&text, name);
    strbuf_fini(&text);
}

static void test_text(void) {
    compare(RUNS, 2);
    compare_show_text(&comparison, &settings);
    is_said("three runs");
    flags.all = true;
    compare(2, 0);
    compare_show_text(&comparison, &settings);
    is_said("two runs with all settings");
    flags.all = false;
    compare(1, 1);
    compare_show_text(&comparison, &settings);
    is_said("one run");
}

static void test_json(void) {
    screen_fini(&screen);
    screen_init(&screen, said_fd, said_fd, SCREEN_JSON, false);
    compare(RUNS, 2);
    compare_show_json(&comparison, &settings);
    is_said("three runs, as JSON");
    compare(1, 0);
    compare_show_json(&comparison, &settings);
    is_said("one run, as JSON");
}

static void test_names(void) {
    static const char *const names[] = {"one", "two"};
    struct run all[2];
    struct err e = {0};
    size_t count = 0;
    ok(compare_has_name(names, 2, "two") && !compare_has_name(names, 1, "two"),
       "a name is looked for among so many");
    is_int(compare_add_run(all, &count, &runs[0].run, "x", &e), 0, "a run is added");
    is_int(compare_add_run(all, &count, &runs[1].run, "y", &e), 0, "another run is added");
    is_int(compare_add_run(all, &count, &runs[1].run, "z", &e), -1, "no run is added twice");
    is_str(e.text, "'z': run 'task-2' is named twice", "the error has both names");
    is_uint(count, 2, "two runs are there");
}

int main(int argc, char **argv) {
    (void)argv;
    said_open(&screen);
    expected_open("tests/unit/cmd/compare_show.txt", argc);
    make_runs();
    make_metrics();
    left[0].name = "task-8";
    (void)err_set(&left[0].why, ERR_FORMAT, "its record is damaged");
    left[1].name = "task-9";
    (void)err_set(&left[1].why, ERR_NOT_FOUND, "it has \x1b no record");
    test_text();
    test_json();
    test_names();
    said_close(&screen);
    for (size_t i = 0; i < RUNS; i++)
        metric_figures_end(&runs[i].metrics);
    arena_fini(&a);
    return expected_end();
}
