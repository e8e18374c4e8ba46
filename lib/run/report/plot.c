// SPDX-License-Identifier: Apache-2.0
// Values to the curves of plots.
#include "run/report/plot.h"

#include "base/array.h"

#include <math.h>

void plot_set_init(struct plot_set *s, struct arena *a, const char *title, const char *place_word) {
    *s = (struct plot_set){.arena = a, .title = title, .place_word = place_word};
}

void plot_set_end(struct plot_set *s) {
    name_map_fini(&s->by_name);
}

int plot_find(struct plot_set *s, const char *name, enum plot_axis axis, enum plot_unit unit) {
    size_t *at = name_map_find(&s->by_name, name);
    if (at)
        return (int)*at;
    if (s->count == PLOTS_MAX)
        return -1;
    array_grow_in(s->arena, s->plots, &s->room, s->count + 1);
    s->plots[s->count] =
        (struct plot){.name = arena_strdup(s->arena, name), .axis = axis, .unit = unit};
    at = arena_new(s->arena, size_t, 1);
    *at = s->count;
    name_map_put(&s->by_name, s->plots[s->count].name, at);
    return (int)s->count++;
}

// The curve of a run's place; NULL: there are too many.
static struct curve *curve_of(struct plot_set *s, struct plot *p, size_t run, int64_t place) {
    size_t at = (size_t)(place + 1);
    if (place < -1 || place >= PLOT_PLACES_MAX)
        return NULL;
    array_grow_in(s->arena, p->by_place, &p->place_room, at + 1);
    array_grow_in(s->arena, p->by_place, &p->place_room, p->place_room);
    must(p->by_place);
    for (size_t i = 0; p->run != run && i < p->place_room; i++)
        p->by_place[i] = 0;
    p->run = run;
    if (p->by_place[at])
        return p->curves[p->by_place[at] - 1].curve;
    if (s->curve_count == PLOT_CURVES_MAX)
        return NULL;
    s->curve_count++;
    s->place_count = at > s->place_count ? at : s->place_count;
    array_grow_in(s->arena, p->curves, &p->room, p->count + 1);
    must(p->curves);
    p->curves[p->count] = (struct plot_curve){run, place, arena_new(s->arena, struct curve, 1)};
    p->by_place[at] = ++p->count;
    return p->curves[p->count - 1].curve;
}

void plot_add(struct plot_set *s, size_t plot, size_t run, int64_t place, int64_t x, double value) {
    struct curve *c = curve_of(s, &s->plots[plot], run, place);
    if (!c) {
        s->no_room++;
        return;
    }
    s->points++;
    curve_add(c, x, value);
    if (s->plots[plot].axis == PLOT_TIME && c->last_place > s->time_end)
        s->time_end = c->last_place;
}
