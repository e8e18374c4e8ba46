// SPDX-License-Identifier: Apache-2.0
// A series of any number of points in fixed memory: the least and the greatest value of each column
// of its places, so that a spike of one point stays visible. Points come in any order. The width of
// a column doubles when the places outgrow the columns. Pure.
#ifndef RUN_REPORT_CURVE_H
#define RUN_REPORT_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CURVE_COLUMNS = 512 };
#define CURVE_PLACE_MAX ((int64_t)1 << 52) // greater places count as this one

struct curve_point {
    int64_t place;
    double value;
};

struct curve_column {
    struct curve_point min, max;
    bool used;
};

struct curve {
    int64_t from, width;                        // of the first column; of each
    int64_t first_place, last_place, bad_place; // of any point; of the first that is not finite
    uint64_t count, not_finite;                 // count: of finite values
    double min, max;
    struct curve_column columns[CURVE_COLUMNS];
};

// A zeroed curve is empty. place: from 0.
void curve_add(struct curve *c, int64_t place, double value);
// Widens the columns until at most `max` of them have points; max: 1 or more. The number that have.
size_t curve_reduce(struct curve *c, size_t max);

#endif
