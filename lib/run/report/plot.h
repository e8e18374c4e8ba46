// SPDX-License-Identifier: Apache-2.0
// Plots of series by name, and as SVG of a bounded size.
//
// A plot has one curve for each run and each place of the run (rank, node). Its horizontal axis is
// that of its first value. Names are foreign texts.
#ifndef RUN_REPORT_PLOT_H
#define RUN_REPORT_PLOT_H

#include "base/arena.h"
#include "base/name_map.h"
#include "base/str.h"
#include "run/report/curve.h"

enum {
    PLOTS_MAX = 256,
    PLOT_CURVES_MAX = 2048, // of all plots of a set; each takes 20 kB
    PLOT_PLACES_MAX = 4096, // of a run
};

enum plot_axis { PLOT_STEPS, PLOT_TIME, PLOT_NUMBERS };  // TIME: milliseconds, from 0
enum plot_unit { PLOT_PLAIN, PLOT_BYTES, PLOT_PERCENT }; // the latter two: axes from 0

struct plot_curve {
    size_t run;
    int64_t place; // -1: the whole run
    struct curve *curve;
};

struct plot {
    const char *name;
    enum plot_axis axis;
    enum plot_unit unit;
    struct plot_curve *curves;
    size_t count, room;
    size_t *by_place, place_room; // places among the curves from 1; of the last run that was added
    size_t run;
};

struct plot_set {
    struct arena *arena;
    const char *title, *place_word; // "Metrics", "rank"
    struct plot *plots;
    size_t count, room, curve_count, place_count;
    struct name_map by_name;
    int64_t time_end;                     // of the axes of all plots by time
    uint64_t points, no_room, other_axis; // values; those without a curve, by the reason
};

void plot_set_init(struct plot_set *s, struct arena *a, const char *title, const char *place_word);
void plot_set_end(struct plot_set *s); // the plots stay
// The plot of that name, made for this axis and unit if there is none; -1: there are too many.
int plot_find(struct plot_set *s, const char *name, enum plot_axis axis, enum plot_unit unit);
// Runs come one after the other.
void plot_add(struct plot_set *s, size_t plot, size_t run, int64_t place, int64_t x, double value);

// All plots, at most bytes_max: first the columns get fewer, then plots are left out and counted.
// Several runs have a colour each, else places have, the same one in all plots.
void plot_set_svg(struct plot_set *s, size_t runs, size_t bytes_max, struct strbuf *out);

#endif
