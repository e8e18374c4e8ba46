// SPDX-License-Identifier: Apache-2.0
// Pages: escaping, bounded tables, columns of a curve, SVG of any numbers, steps that count.
#include "run/report/html.h"
#include "run/report/plot.h"
#include "run/report/report.h"

#include "tests/tap.h"

#include <math.h>
#include <string.h>

static struct arena a;

// ---- HTML ---------------------------------------------------------------------------------------

static void test_text(void) {
    struct strbuf out = {0};
    html_text(&out, "a<b>&\"'\n\t\x1b[31m\xff\xe2\x80\xae\0z", 20);
    is_str(strbuf_cstr(&out), "a&lt;b&gt;&amp;&quot;&#39;\n\t\\x1b[31m\\xff\\xe2\\x80\\xae\\x00z",
           "marks, control bytes, bytes that are no text and changes of direction are harmless");
    strbuf_clear(&out);
    html_cut(&out, "ab\xc3\xa4z", 3);
    is_str(strbuf_cstr(&out), "ab…", "a text is cut between characters");
    strbuf_clear(&out);
    html_textf(&out, "%s %d", "</script>", 7);
    is_str(strbuf_cstr(&out), "&lt;/script&gt; 7", "a formatted text is escaped as a whole");
    strbuf_fini(&out);
}

static void test_table(void) {
    const char *heads[] = {"a", "<b>"}, *cells[] = {"1", NULL};
    struct strbuf out = {0};
    struct html_table t;
    html_table_open(&t, &out, 400, heads, 2);
    for (int i = 0; i < 100; i++)
        html_table_row(&t, cells);
    html_table_close(&t);
    ok(out.len < 600, "a table keeps to its bytes");
    ok(strstr(out.data, "&lt;b&gt;") && strstr(out.data, "<td>1</td><td>-</td>"),
       "heads are escaped, and a cell without a text has a dash");
    ok(t.left_out > 80 && strstr(out.data, "more rows are left out"), "other rows are counted");
    strbuf_fini(&out);
}

// ---- curves -------------------------------------------------------------------------------------

static struct curve *new_curve(void) {
    return arena_new(&a, struct curve, 1);
}

static void test_spike(void) {
    struct curve *c = new_curve();
    for (int64_t i = 0; i < 1000000; i++)
        curve_add(c, i, i == 654321 ? 99 : i == 654322 ? -99 : (double)(i % 7));
    is_uint(c->count, 1000000, "all points are counted");
    size_t used = curve_reduce(c, 64);
    ok(used > 16 && used <= 64, "a million points are 17 to 64 columns");
    bool up = false, down = false;
    for (size_t i = 0; i < CURVE_COLUMNS; i++) {
        up |=
            c->columns[i].used && c->columns[i].max.place == 654321 && c->columns[i].max.value > 98;
        down |= c->columns[i].used && c->columns[i].min.place == 654322 &&
                c->columns[i].min.value < -98;
    }
    ok(up && down, "spikes of one value stay, at their places");
}

static void test_order(void) {
    struct curve *forth = new_curve(), *back = new_curve();
    for (int64_t i = 0; i < 5000; i++) {
        curve_add(forth, i * 3, (double)i);
        curve_add(back, (4999 - i) * 3, (double)(4999 - i));
    }
    size_t columns[2] = {curve_reduce(forth, 100), curve_reduce(back, 100)};
    ok(columns[0] > 20 && columns[1] > 20, "points that come backwards have columns, too");
    is_int(back->first_place, 0, "the first place is the least");
    is_int(back->last_place, 14997, "the last place is the greatest");
    struct curve *far = new_curve();
    curve_add(far, INT64_MAX, 1);
    curve_add(far, INT64_MIN, 2);
    is_uint(curve_reduce(far, CURVE_COLUMNS), 2, "places without a bound are bounded");
    curve_add(far, 5, (double)NAN);
    curve_add(far, 4, (double)INFINITY);
    ok(far->count == 2 && far->not_finite == 2 && far->bad_place == 5,
       "values that are not finite are counted, with the place of the first");
}

// ---- SVG ----------------------------------------------------------------------------------------

static struct plot_set set_of(size_t plots, size_t places, size_t values, const double *v) {
    struct plot_set s;
    plot_set_init(&s, &a, "Metrics", "rank");
    for (size_t p = 0; p < plots; p++)
        for (size_t r = 0; r < places; r++)
            for (size_t i = 0; i < values; i++) {
                int at = plot_find(&s, arena_printf(&a, "m%zu", p), PLOT_STEPS, PLOT_PLAIN);
                plot_add(&s, (size_t)at, 0, places > 1 ? (int64_t)r : -1, (int64_t)i,
                         v ? v[i] : sin((double)(i * (r + 1))));
            }
    return s;
}

// The text of the SVG; every number of its points is within the plane.
static struct strbuf svg_of(struct plot_set *s, size_t bytes_max, bool *good) {
    struct strbuf out = {0};
    plot_set_svg(s, 1, bytes_max, &out);
    plot_set_end(s);
    *good = out.len <= bytes_max;
    for (const char *at = strbuf_cstr(&out); (at = strstr(at, "points=\"")); at++)
        for (const char *p = at + 8; *p != '"';) {
            int x = -1, y = -1, used = 0;
            *good &= sscanf(p, "%d,%d %n", &x, &y, &used) == 2 && x >= 0 && x <= 6200 && y >= 0 &&
                     y <= 1900;
            if (!used)
                return out;
            p += used;
        }
    *good &= !strstr(strbuf_cstr(&out), "nan") && !strstr(strbuf_cstr(&out), "inf");
    return out;
}

static void check_values(const char *what, const double *v, size_t count, size_t curves) {
    bool good = false;
    struct plot_set s = set_of(1, 1, count, v);
    struct strbuf out = svg_of(&s, 100000, &good);
    size_t found = 0;
    for (const char *at = strbuf_cstr(&out); (at = strstr(at, "<polyline")); at++)
        found++;
    ok(good && found == curves, "%s: %zu curve, and coordinates are whole numbers in the plane",
       what, curves);
    strbuf_fini(&out);
}

// Both texts are at an axis.
static void check_labels(const char *what, enum plot_unit unit, const double *v, size_t count,
                         const char *low, const char *high) {
    bool good = false;
    struct plot_set s;
    plot_set_init(&s, &a, "Metrics", "rank");
    size_t at = (size_t)plot_find(&s, "m", PLOT_TIME, unit);
    for (size_t i = 0; i < count; i++)
        plot_add(&s, at, 0, -1, 60000 + (int64_t)i * 30000, v[i]);
    struct strbuf out = svg_of(&s, 100000, &good);
    ok(good && strstr(out.data, low) && strstr(out.data, high), "%s: the axis has %s and %s", what,
       low, high);
    ok(strstr(out.data, "x=\"0\" y=\"2040\" text-anchor=\"middle\">0 ms<"), "%s: time begins at 0",
       what);
    strbuf_fini(&out);
}

// Many values can have the same time.
static void test_same_place(void) {
    bool good = false;
    struct plot_set s;
    plot_set_init(&s, &a, "Metrics", "rank");
    size_t at = (size_t)plot_find(&s, "m", PLOT_TIME, PLOT_PLAIN);
    for (int i = 0; i < 9; i++)
        plot_add(&s, at, 0, -1, 100, i == 5 ? 50 : 40 + i % 2);
    struct strbuf out = svg_of(&s, 100000, &good);
    ok(good && strstr(out.data, ",1900 ") && strstr(out.data, ",0 "),
       "the least and the greatest value of one place are drawn");
    strbuf_fini(&out);
}

static void test_numbers(void) {
    const double none[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    const double some[] = {1, (double)NAN, 3, (double)INFINITY, 2};
    const double huge[] = {-1.7e308, 1.7e308, 0}, tiny[] = {5e-324, 1e-320}, one[] = {7};
    const double same[] = {1e308, 1e308}, zero[] = {0, 0, 0}, decades[] = {1e-300, 1e300};
    check_values("no finite value", none, 3, 0);
    check_values("some finite values", some, 5, 1);
    check_values("the greatest numbers", huge, 3, 1);
    check_values("the smallest numbers", tiny, 2, 1);
    check_values("one value", one, 1, 1);
    check_values("one great value twice", same, 2, 1);
    check_values("zero", zero, 3, 1);
    check_values("600 decades", decades, 2, 1);
    check_labels("zero", PLOT_PLAIN, zero, 3, ">0</text>", ">1</text>");
    const double large[] = {1000000.001, 1000000.002}, least[] = {1e-300, 1e-300};
    check_labels("close great values", PLOT_PLAIN, large, 2, ">1000000.0014</text>",
                 ">1000000.0016</text>");
    check_labels("a small value twice", PLOT_PLAIN, least, 2, ">1e-300</text>", ">1.02e-300<");
    const double busy[] = {99.9, 100}, memory[] = {1.04e9, 0.9e9};
    check_labels("processors in use", PLOT_PERCENT, busy, 2, ">0</text>", ">100</text>");
    check_labels("memory", PLOT_BYTES, memory, 2, ">0 B</text>", ">1.0 GB</text>");
    bool good = false;
    struct plot_set s = set_of(1, 1, 5, some);
    struct strbuf out = svg_of(&s, 100000, &good);
    ok(strstr(strbuf_cstr(&out), "2 values are not finite, the first at step 1"),
       "values that are not finite are named");
    strbuf_fini(&out);
}

static void test_sizes(void) {
    bool good = false;
    struct plot_set s = set_of(4, 64, 2000, NULL);
    struct strbuf out = svg_of(&s, 400000, &good);
    ok(good && !strstr(out.data, "left out"), "four plots of 64 ranks fit into 400 kB");
    ok(strstr(out.data, "rank 63</title>") && strstr(out.data, "and 48 more"),
       "each curve has a name, and the legend is bounded");
    strbuf_fini(&out);
    s = set_of(40, 20, 100, NULL);
    out = svg_of(&s, 60000, &good);
    ok(good && strstr(strbuf_cstr(&out), "more plots are left out for the size of the page"),
       "plots that do not fit are counted");
    strbuf_fini(&out);
    bool all = true;
    for (size_t bytes = 4500; all && bytes > 1000; bytes -= 100) {
        s = set_of(3, 1, 3, NULL);
        out = svg_of(&s, bytes, &good);
        all = !strstr(strbuf_cstr(&out), "left out");
        ok(good && (all || strstr(out.data, ">1 more plot is left out")),
           "one plot of three is left out first");
        strbuf_fini(&out);
    }
    s = set_of(1, PLOT_CURVES_MAX, 9, NULL);
    out = svg_of(&s, 450000, &good);
    ok(good && strstr(strbuf_cstr(&out), "rank 2047</title>"), "2048 ranks have a plot");
    strbuf_fini(&out);
    s = set_of(1, 1, 5, NULL);
    plot_add(&s, 0, 0, PLOT_PLACES_MAX, 1, 1);
    out = svg_of(&s, 60000, &good);
    ok(good && strstr(strbuf_cstr(&out), "1 value has no curve: there are too many series"),
       "the number of ranks is bounded");
    strbuf_fini(&out);
}

// ---- steps --------------------------------------------------------------------------------------

static void test_steps(void) {
    struct report_steps s = {0};
    static const int64_t at[] = {1, 11, 21, 31, 21, 31, 41}; // the training fell back to 11
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        report_steps_take(&s, &a, REPORT_STEP_DATA, at[i], 1);
        report_steps_take(&s, &a, REPORT_STEP_COMPUTE, at[i], 8);
        report_steps_take(&s, &a, REPORT_STEP_COMM, at[i], 1);
    }
    ok(fabs(report_steps_ms(&s, -1) - 410) < 1e-6, "41 steps of 10 ms count once");
    ok(fabs(s.repeated_ms - 200) < 1e-6, "20 steps were repeated");
    ok(fabs(report_steps_ms(&s, REPORT_STEP_DATA) - 41) < 1e-6, "a tenth is waiting for data");
    report_steps_take(&s, &a, REPORT_STEP_DATA, 50, (double)NAN);
    report_steps_take(&s, &a, REPORT_STEP_DATA, -1, 1);
    is_uint(s.count, 5, "a time that is none is left out");
    struct report_steps many = {0};
    for (int64_t i = 1; i <= 3 * REPORT_STEPS_MAX; i++)
        report_steps_take(&many, &a, REPORT_STEP_DATA, i, 1);
    ok(many.count <= REPORT_STEPS_MAX &&
           fabs(report_steps_ms(&many, -1) - 3.0 * REPORT_STEPS_MAX) < 1,
       "marks are bounded, and their sum stays");
    enum { DISTANCE_MAX = 16 }; // the first marks were thinned out four times
    bool even = true;
    for (size_t i = 1; i < many.count; i++)
        even &= many.marks[i].step - many.marks[i - 1].step <= DISTANCE_MAX;
    ok(even && many.marks[0].step <= DISTANCE_MAX, "marks that were thinned out are spread evenly");
    ok(many.count > REPORT_STEPS_MAX / 2, "half of the marks stay each time");
}

static void test_running(void) {
    struct compare_run c = {.active = false};
    struct report_run r = {.run = &c, .times.round_count = 3};
    r.times.rounds[0] =
        (struct report_round){.started_ms = 100, .first_exit_ms = 250, .exited_ms = 300};
    r.times.rounds[2] = (struct report_round){.started_ms = 400, .broke_ms = 390};
    is_int(report_running_ms(&r), 150, "a round counts from all starts to the first exit");
}

int main(void) {
    test_running();
    test_text();
    test_table();
    test_spike();
    test_order();
    test_numbers();
    test_same_place();
    test_sizes();
    test_steps();
    arena_fini(&a);
    return done_testing();
}
