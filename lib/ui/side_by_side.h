// SPDX-License-Identifier: Apache-2.0
// A table of several things side by side: a column each, or where these do not fit a row each.
//
//     struct side_table t = {.arena = a, .title = "SETTINGS", .heads = names, .count = n};
//     side_table_add(&t, "nodes", cells); // one cell for each thing
//     side_table_print(&t, screen);
//
// Long texts are wrapped in their column, so nothing is cut. Rows that are wider than the terminal
// come in several blocks, which all begin with the thing's head. Off a terminal lines have any
// length. The caller's texts are safe for a terminal, and stay where they are.
#ifndef UI_SIDE_BY_SIDE_H
#define UI_SIDE_BY_SIDE_H

#include "base/arena.h"
#include "ui/screen.h"

#include <stddef.h>

enum {
    SIDE_COLUMNS_MAX = 8,       // things off a terminal that have columns
    SIDE_CELL_COLUMNS_MIN = 12, // of a column that wraps its texts
};

struct side_row {
    const char *label, **cells;
};

struct side_table {
    struct arena *arena;
    const char *title;
    const char *const *heads;
    size_t count; // of things
    struct side_row *rows;
    size_t row_count, room;
};

void side_table_add(struct side_table *t, const char *label, const char **cells);
// The same, in lines of at most `width` cells; 0: any length. Pure.
void side_table_format(const struct side_table *t, int width, struct strbuf *out);
void side_table_print(const struct side_table *t, struct screen *s);

#endif
