// SPDX-License-Identifier: Apache-2.0
// Plots as SVG. Coordinates are whole tenths of a unit, so a point takes few bytes. Numbers that
// are not finite never come to a coordinate.
#include "run/report/html.h"
#include "run/report/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 6200,       // of the plane, in tenths
    HEIGHT = 1900,      // the same
    TICKS_MAX = 8,      // of an axis
    NAMED_MAX = 16,     // curves with an entry in the legend
    COLUMNS_MIN = 2,    // of a curve
    POINT_BYTES = 11,   // of a point of a curve, at most
    CURVE_BYTES = 120,  // of a curve without its points, with its entry
    FRAME_BYTES = 6000, // of a plot without its curves
    NOTE_BYTES = 600,   // below the plots
    DECADES_LOG = 3,    // a positive plot of more decades has a logarithmic axis
    DIGITS_MIN = 6,     // of a number at an axis
    DIGITS_MAX = 15,
};

struct view {
    int64_t x_from, x_to;
    double y_from, y_to; // of the logarithm where log is set
    bool log;
    enum plot_axis axis;
    enum plot_unit unit;
};

// ---- coordinates --------------------------------------------------------------------------------

static int clamp(double at, int max) {
    return !(at > 0) ? 0 : at > max ? max : (int)(at + 0.5);
}

static int x_of(const struct view *v, int64_t place) {
    double span = (double)(v->x_to - v->x_from);
    return clamp(span > 0 ? (double)(place - v->x_from) / span * WIDTH : WIDTH / 2.0, WIDTH);
}

// Halves, so that the difference of two great numbers stays finite.
static int y_of(const struct view *v, double value) {
    double y = v->log ? log10(value) : value, span = v->y_to / 2 - v->y_from / 2;
    return clamp(HEIGHT - (y / 2 - v->y_from / 2) / span * HEIGHT, HEIGHT);
}

// Makes room around one value, on the side of the others of its kind where it is 0.
static void widen_view(struct view *v) {
    double apart = fmax(fabs(v->y_to) * 0.05, 5e-308);
    if (v->y_from >= 0 && v->y_to <= 0)
        v->y_to = 1;
    else if (!(v->y_to / 2 - v->y_from / 2 > 1e-12 * fmax(fabs(v->y_to / 2), 1e-280))) {
        v->y_from = fmax(v->y_from - apart, -1.7e308);
        v->y_to = fmin(v->y_to + apart, 1.7e308);
    }
}

// False: no curve has a finite value.
static bool find_view(const struct plot_set *s, const struct plot *p, struct view *v) {
    double low = (double)INFINITY, high = -(double)INFINITY;
    *v = (struct view){.x_from = INT64_MAX, .axis = p->axis, .unit = p->unit};
    for (size_t i = 0; i < p->count; i++) {
        const struct curve *c = p->curves[i].curve;
        v->x_from = c->first_place < v->x_from ? c->first_place : v->x_from;
        v->x_to = c->last_place > v->x_to ? c->last_place : v->x_to;
        low = c->count && c->min < low ? c->min : low;
        high = c->count && c->max > high ? c->max : high;
    }
    if (!(low <= high))
        return false;
    if (v->axis == PLOT_TIME) {
        v->x_from = 0;
        v->x_to = s->time_end;
    }
    v->log = v->unit == PLOT_PLAIN && low > 0 && log10(high) - log10(low) > DECADES_LOG;
    v->y_from = v->log ? log10(low) : v->unit != PLOT_PLAIN ? fmin(low, 0) : low;
    v->y_to = v->log ? log10(high) : v->unit == PLOT_PERCENT ? fmax(high, 100) : high;
    widen_view(v);
    return true;
}

// A step of 1, 2 or 5 times a power of ten that gives at most TICKS_MAX steps in the span.
static double tick_step(double span) {
    double least = span / TICKS_MAX, power = pow(10, floor(log10(least)));
    static const double of[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] * power >= least)
            return of[i] * power;
    return 10 * power;
}

// ---- axes ---------------------------------------------------------------------------------------

static void add_label(struct strbuf *out, int x, int y, const char *anchor, const char *text) {
    strbuf_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
    html_text(out, text, strlen(text));
    strbuf_adds(out, "</text>");
}

// So many digits that two ticks have different labels.
static int digits_of(const struct view *v, double step) {
    double digits = log10(fmax(fabs(v->y_from), fabs(v->y_to))) - floor(log10(step)) + 1;
    return v->log || !(digits > DIGITS_MIN) ? DIGITS_MIN
           : digits > DIGITS_MAX            ? DIGITS_MAX
                                            : (int)digits;
}

static void add_y_axis(struct strbuf *out, const struct view *v) {
    char text[64], size[STR_HUMAN_BYTES_MAX];
    double half = v->y_to / 2 - v->y_from / 2, step = v->log ? 1 : tick_step(half) * 2;
    if (v->log && 2 * half > TICKS_MAX)
        step = ceil(2 * half / TICKS_MAX);
    if (v->unit == PLOT_BYTES) // labels are whole bytes
        step = fmax(step, 1);
    double first = ceil(v->y_from / step);
    for (int i = 0; i <= TICKS_MAX + 1; i++) {
        double y = (first + i) * step;
        if (!(y <= v->y_to) || !isfinite(y))
            break;
        double value = v->log ? pow(10, y) : fabs(y) < step * 1e-6 ? 0 : y;
        int at = y_of(v, value);
        snprintf(text, sizeof text, "%.*g", digits_of(v, step), value);
        strbuf_addf(out, "<path class=\"grid\" d=\"M0 %dH%d\"/>", at, WIDTH);
        add_label(out, -60, at + 35, "end",
                  v->unit == PLOT_BYTES ? str_human_bytes(size, (uint64_t)fmax(value, 0)) : text);
    }
}

static void add_x_axis(struct strbuf *out, const struct view *v) {
    // Steps of time: whole numbers of seconds, minutes, hours or days.
    static const double times[] = {1,     2,     5,     10,     20,    50,   100,  200,
                                   500,   1e3,   2e3,   5e3,    1e4,   2e4,  3e4,  6e4,
                                   12e4,  3e5,   6e5,   12e5,   18e5,  36e5, 72e5, 18e6,
                                   216e5, 432e5, 864e5, 1728e5, 432e6, 864e6};
    double span = (double)(v->x_to - v->x_from), step = span > 0 ? tick_step(span) : 1;
    char text[64], age[STR_HUMAN_BYTES_MAX];
    for (size_t i = 0; v->axis == PLOT_TIME && i < sizeof times / sizeof *times; i++)
        if (times[i] * TICKS_MAX >= span) {
            step = times[i];
            break;
        }
    step = step < 1 ? 1 : step;
    double first = ceil((double)v->x_from / step);
    for (int i = 0; i <= TICKS_MAX + 1; i++) {
        double x = (first + i) * step;
        if (x > (double)v->x_to)
            break;
        int at = x_of(v, (int64_t)x);
        snprintf(text, sizeof text, "%.15g", x);
        strbuf_addf(out, "<path class=\"grid\" d=\"M%d 0V%d\"/>", at, HEIGHT);
        add_label(out, at, HEIGHT + 140, "middle",
                  v->axis == PLOT_TIME ? str_human_ms(age, (int64_t)x) : text);
    }
}

// ---- curves -------------------------------------------------------------------------------------

static void add_label_of(struct strbuf *out, const struct plot_set *s, const struct plot_curve *c,
                         bool by_run) {
    if (by_run)
        strbuf_addf(out, "run %zu", c->run + 1);
    else if (c->place >= 0)
        strbuf_addf(out, "%s %lld", s->place_word, (long long)c->place);
    else
        strbuf_adds(out, "the run");
}

static void add_point(struct strbuf *out, const struct view *v, const struct curve_point *p) {
    strbuf_addf(out, "%d,%d ", x_of(v, p->place), y_of(v, p->value));
}

static void add_curve(struct strbuf *out, const struct view *v, const struct curve *c) {
    const struct curve_point *last = NULL;
    size_t points = 0;
    for (size_t i = 0; i < CURVE_COLUMNS; i++) {
        const struct curve_column *k = &c->columns[i];
        if (!k->used)
            continue;
        bool low_first = k->min.place <= k->max.place;
        bool one = k->min.place == k->max.place && !(k->min.value < k->max.value);
        last = low_first ? &k->max : &k->min;
        add_point(out, v, low_first ? &k->min : &k->max);
        if (!one)
            add_point(out, v, last);
        points += one ? 1 : 2;
    }
    if (points == 1) // a line of no length with round ends is a dot
        add_point(out, v, last);
}

// "hsl(…)" of its run, or of its place where there is one run.
static const char *colour_of(char out[32], const struct plot_set *s, const struct plot_curve *c,
                             size_t runs) {
    size_t i = runs > 1 ? c->run : c->place > 0 ? (size_t)c->place : 0;
    size_t count = runs > 1 ? runs : s->place_count, hue = count ? i * 360 / count : 0;
    snprintf(out, 32, "hsl(%zu,70%%,%d%%)", (hue + 210) % 360, i % 2 ? 55 : 42);
    return out;
}

static void add_legend(struct strbuf *out, const struct plot_set *s, const struct plot *p,
                       size_t runs) {
    bool by_run = runs > 1;
    char colour[32];
    if (p->count == 1 && !by_run && p->curves[0].place < 0)
        return;
    strbuf_adds(out, "<figcaption>");
    for (size_t i = 0; i < p->count && i < NAMED_MAX; i++) {
        strbuf_addf(out,
                    "<span><svg class=\"key\" viewBox=\"0 0 10 10\"><rect width=\"10\" "
                    "height=\"10\" fill=\"%s\"/></svg> ",
                    colour_of(colour, s, &p->curves[i], runs));
        add_label_of(out, s, &p->curves[i], by_run);
        strbuf_adds(out, "</span> ");
    }
    if (p->count > NAMED_MAX)
        strbuf_addf(out, "and %zu more; a pointer on a curve shows its name", p->count - NAMED_MAX);
    strbuf_adds(out, "</figcaption>");
}

// Values that are no finite numbers have no place on the plane.
static void add_bad(struct strbuf *out, const struct plot *p) {
    static const char *const words[] = {"step", "", "value"};
    uint64_t bad = 0;
    int64_t first = INT64_MAX;
    char age[STR_HUMAN_BYTES_MAX];
    for (size_t i = 0; i < p->count; i++) {
        const struct curve *c = p->curves[i].curve;
        bad += c->not_finite;
        first = c->not_finite && c->bad_place < first ? c->bad_place : first;
    }
    if (bad == 0)
        return;
    strbuf_addf(out, "<p class=\"bad\">%llu value%s not finite, the first at ",
                (unsigned long long)bad, bad == 1 ? " is" : "s are");
    if (p->axis == PLOT_TIME)
        strbuf_addf(out, "%s.</p>", str_human_ms(age, first));
    else
        strbuf_addf(out, "%s %lld.</p>", words[p->axis], (long long)first);
}

static void add_plot(struct strbuf *out, const struct plot_set *s, struct plot *p, size_t runs,
                     size_t columns) {
    static const char *const axes[] = {"by step", "by time since the run was made",
                                       "by number of the value"};
    bool by_run = runs > 1;
    char colour[32];
    struct view v;
    strbuf_adds(out, "<figure><h3>");
    html_cut(out, p->name, 200);
    bool any = find_view(s, p, &v);
    strbuf_addf(out, " <small>%s%s</small></h3>", axes[p->axis],
                any && v.log ? ", logarithmic" : "");
    if (any) {
        strbuf_adds(out,
                    "<svg viewBox=\"0 0 720 230\" role=\"img\"><g transform=\"translate(80 12) "
                    "scale(.1)\">");
        add_y_axis(out, &v);
        add_x_axis(out, &v);
        for (size_t i = 0; i < p->count; i++) {
            struct curve *c = p->curves[i].curve;
            if (c->count == 0)
                continue;
            curve_reduce(c, columns);
            strbuf_addf(out, "<polyline stroke=\"%s\" points=\"",
                        colour_of(colour, s, &p->curves[i], runs));
            add_curve(out, &v, c);
            strbuf_adds(out, "\"><title>");
            add_label_of(out, s, &p->curves[i], by_run);
            strbuf_adds(out, "</title></polyline>\n");
        }
        strbuf_adds(out, "</g></svg>");
    }
    add_legend(out, s, p, runs);
    add_bad(out, p);
    strbuf_adds(out, "</figure>\n");
}

// The most columns of a curve with which the plots keep to the size.
static size_t find_columns(const struct plot_set *s, size_t bytes_max) {
    size_t fixed = s->count * FRAME_BYTES + s->curve_count * CURVE_BYTES, columns = CURVE_COLUMNS;
    while (columns > COLUMNS_MIN && fixed + s->curve_count * columns * 2 * POINT_BYTES > bytes_max)
        columns /= 2;
    return columns;
}

static void add_note(struct strbuf *out, uint64_t values, const char *why) {
    if (values)
        strbuf_addf(out, "<p class=\"note\">%llu value%s no curve: %s.</p>\n",
                    (unsigned long long)values, values == 1 ? " has" : "s have", why);
}

void plot_set_svg(struct plot_set *s, size_t runs, size_t bytes_max, struct strbuf *out) {
    size_t end = out->len + bytes_max - NOTE_BYTES, columns, left_out = 0;
    if (s->count == 0 || bytes_max < NOTE_BYTES)
        return;
    columns = find_columns(s, bytes_max - NOTE_BYTES);
    strbuf_addf(out, "<h2>%s</h2>\n<div class=\"plots\">\n", s->title);
    for (size_t i = 0; i < s->count; i++) {
        struct strbuf plot = {0};
        if (!left_out)
            add_plot(&plot, s, &s->plots[i], runs, columns);
        if (left_out || out->len + plot.len > end)
            left_out++;
        else
            strbuf_add(out, plot.data, plot.len);
        strbuf_fini(&plot);
    }
    strbuf_adds(out, "</div>\n");
    if (left_out)
        strbuf_addf(out,
                    "<p class=\"note\">%zu more plot%s left out for the size of the page.</p>\n",
                    left_out, left_out == 1 ? " is" : "s are");
    add_note(out, s->no_room, "there are too many series");
    add_note(out, s->other_axis, "the first value of that name has another axis (step, or time)");
}
