// SPDX-License-Identifier: Apache-2.0
// Series in columns.
#include "run/report/curve.h"

#include <math.h>
#include <string.h>

static void merge(struct curve_column *to, const struct curve_column *from) {
    if (!from->used)
        return;
    if (!to->used || from->min.value < to->min.value)
        to->min = from->min;
    if (!to->used || from->max.value > to->max.value)
        to->max = from->max;
    to->used = true;
}

// Two columns become one. at: the place of the old columns among the new ones.
static void widen(struct curve *c, size_t at) {
    for (size_t i = 0; i < CURVE_COLUMNS / 2; i++) {
        struct curve_column both = c->columns[2 * i];
        merge(&both, &c->columns[2 * i + 1]);
        c->columns[i] = both;
    }
    memset(c->columns + CURVE_COLUMNS / 2, 0, sizeof c->columns / 2);
    if (at) {
        memcpy(c->columns + at, c->columns, sizeof c->columns / 2);
        memset(c->columns, 0, sizeof c->columns / 2);
        c->from -= c->width * CURVE_COLUMNS;
    }
    c->width *= 2;
}

static void note_place(struct curve *c, int64_t place) {
    bool first = c->count + c->not_finite == 0;
    c->first_place = first || place < c->first_place ? place : c->first_place;
    c->last_place = first || place > c->last_place ? place : c->last_place;
}

void curve_add(struct curve *c, int64_t place, double value) {
    place = place < 0 ? 0 : place > CURVE_PLACE_MAX ? CURVE_PLACE_MAX : place;
    note_place(c, place);
    if (!isfinite(value)) {
        c->bad_place = c->not_finite++ == 0 ? place : c->bad_place;
        return;
    }
    if (c->count++ == 0) {
        c->from = place;
        c->width = 1;
        c->min = c->max = value;
    }
    c->min = value < c->min ? value : c->min;
    c->max = value > c->max ? value : c->max;
    while (place < c->from)
        widen(c, CURVE_COLUMNS / 2);
    while ((place - c->from) / c->width >= CURVE_COLUMNS)
        widen(c, 0);
    struct curve_column one = {{place, value}, {place, value}, true};
    merge(&c->columns[(place - c->from) / c->width], &one);
}

size_t curve_reduce(struct curve *c, size_t max) {
    for (;;) {
        size_t used = 0;
        for (size_t i = 0; i < CURVE_COLUMNS; i++)
            used += c->columns[i].used;
        if (used <= max)
            return used;
        widen(c, 0);
    }
}
