// SPDX-License-Identifier: Apache-2.0
// The slowest rank of a run, by the time between the values of its metrics.
#include "run/report/report.h"
#include "tests/tap.h"

enum { RANKS = 4, PLOTS = 2, VALUES = 8, RUN_MS = 20000 };

static struct curve curves[PLOTS][RANKS];
static struct plot_curve drawn[PLOTS][RANKS];
static struct plot plots[PLOTS];
static struct report_run run;
static struct report_page page;

// Each rank has this many milliseconds from its first value to its last; 0: no such rank.
static void put(size_t plot, const char *name, enum plot_axis axis, const int64_t *ms,
                uint64_t values) {
    struct plot *p = &plots[plot];
    *p = (struct plot){.name = name, .axis = axis, .curves = drawn[plot]};
    for (int i = 0; i < RANKS && ms[i]; i++) {
        curves[plot][i] = (struct curve){
            .first_place = 1000, .last_place = 1000 + ms[i], .count = values - 1, .not_finite = 1};
        drawn[plot][i] = (struct plot_curve){.place = 10 + i, .curve = &curves[plot][i]};
        p->count++;
    }
    page.series[0].plots = plots;
    page.series[0].count = plot + 1;
}

static void find(void) {
    page.slow = (struct report_slow){0};
    report_find_slow(&page);
}

static void one_plot(void) {
    static const struct {
        int64_t ms[RANKS];
        uint64_t values;
        enum plot_axis axis;
        int64_t rank; // -1: none is slow
        double slow_ms, median_ms;
    } cases[] = {
        {{14000, 14000, 28000}, VALUES, PLOT_TIME, 12, 4000, 2000},
        {{28000, 14000, 14000}, VALUES, PLOT_TIME, 10, 4000, 2000},
        {{14000, 28000, 14000, 21000}, VALUES, PLOT_TIME, 11, 4000, 2500},
        {{14000, 28000, 14000}, VALUES - 1, PLOT_TIME, -1, 0, 0},
        {{14000, 28000, 14000}, VALUES, PLOT_STEPS, -1, 0, 0},
        {{28000}, VALUES, PLOT_TIME, -1, 0, 0},
        {{14000, 21000, 42000}, VALUES, PLOT_TIME, 12, 6000, 3000},
        {{14000, 21000}, VALUES, PLOT_TIME, 11, 3000, 2500},
        {{14000, 14000, 15400}, VALUES, PLOT_TIME, 12, 2200, 2000},
        {{14000, 14000, 15399}, VALUES, PLOT_TIME, -1, 0, 0},
        {{7000, 7000, 10000}, VALUES, PLOT_TIME, 12, 10000.0 / 7, 1000},
        {{7000, 7000, 9999}, VALUES, PLOT_TIME, -1, 0, 0},
        {{7000, 28000, 7000, 7001}, VALUES, PLOT_TIME, 11, 4000, 7000.5 / 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(0, "loss", cases[i].axis, cases[i].ms, cases[i].values);
        find();
        is_str(page.slow.metric, cases[i].rank < 0 ? NULL : "loss", "case %zu: a rank is slow", i);
        if (cases[i].rank < 0)
            continue;
        is_int(page.slow.rank, cases[i].rank, "case %zu: the slowest rank is named", i);
        near(page.slow.ms, cases[i].slow_ms, 1e-9, "case %zu: the rank has its interval", i);
        near(page.slow.median_ms, cases[i].median_ms, 1e-9, "case %zu: the ranks have a median", i);
    }
    static const int64_t few[RANKS] = {14000, 28000, 14000};
    put(0, "loss", PLOT_TIME, few, VALUES);
    curves[0][2].count--;
    find();
    is_str(page.slow.metric, NULL, "a rank with few values cannot be compared");
    put(0, "loss", PLOT_TIME, few, VALUES);
    for (int i = 0; i < 3; i++)
        curves[0][i].last_place = curves[0][i].first_place;
    run.times.rounds[0].started_ms = 0;
    find();
    is_str(page.slow.metric, NULL, "values that came at once say nothing");
    run.times.rounds[0].started_ms = 5000;
}

// Of two metrics the one in which the ranks differ most counts.
static void two_plots(void) {
    static const int64_t twice[RANKS] = {14000, 28000, 14000},
                         thrice[RANKS] = {14000, 42000, 14000},
                         as_much[RANKS] = {28000, 28000, 56000};
    put(0, "a", PLOT_TIME, twice, VALUES);
    put(1, "b", PLOT_TIME, thrice, VALUES);
    find();
    is_str(page.slow.metric, "b", "the second metric differs more");
    put(0, "a", PLOT_TIME, thrice, VALUES);
    put(1, "b", PLOT_TIME, twice, VALUES);
    find();
    is_str(page.slow.metric, "a", "the first metric differs more");
    put(0, "a", PLOT_TIME, twice, VALUES);
    put(1, "b", PLOT_TIME, as_much, VALUES);
    find();
    is_str(page.slow.metric, "b", "the last of two alike counts");
    page.count = 2;
    find();
    is_str(page.slow.metric, NULL, "several runs have no slowest rank");
    page.count = 1;
}

int main(void) {
    run.times.round_count = 1;
    run.times.rounds[0].started_ms = 5000;
    run.times.rounds[0].broke_ms = 5000 + RUN_MS;
    page.runs = &run;
    page.count = 1;
    one_plot();
    two_plots();
    return done_testing();
}
