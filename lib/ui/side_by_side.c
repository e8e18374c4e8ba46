// SPDX-License-Identifier: Apache-2.0
// Tables of things side by side.
#include "ui/side_by_side.h"

#include "base/array.h"

#include <limits.h>
#include <string.h>

enum { GAP = 2, LABEL_COLUMNS_MAX = 28, ROW_CELL_COLUMNS_MAX = 32 };

void side_table_add(struct side_table *t, const char *label, const char **cells) {
    array_grow_in(t->arena, t->rows, &t->room, t->row_count + 1);
    t->rows[t->row_count++] = (struct side_row){label, cells};
}

static int width_of(const char *text) {
    int used = 0;
    screen_cut(text, strlen(text), INT_MAX, &used);
    return used;
}

static int at_least(int width, const char *text) {
    int w = width_of(text);
    return w > width ? w : width;
}

static int at_most(int width, int max) {
    return width < max ? width : max;
}

// One row of a grid, in as many lines as its longest text needs.
static void add_line(struct strbuf *out, const char **cells, const int *widths, size_t count) {
    for (bool more = true; more;) {
        size_t begin = out->len;
        int at = 0, start = 0;
        more = false;
        for (size_t c = 0; c < count; c++) {
            int used = 0;
            size_t n = screen_cut(cells[c], strlen(cells[c]), widths[c], &used);
            if (n) {
                strbuf_addf(out, "%*s", start > at ? start - at : 0, "");
                strbuf_add(out, cells[c], n);
                at = start + used;
            }
            start += widths[c] + GAP;
            cells[c] += n;
            more |= cells[c][0] != '\0';
        }
        if (out->len > begin)
            strbuf_addc(out, '\n');
    }
}

// ---- a column for each thing --------------------------------------------------------------------

// The widths of the columns; false: they do not fit.
static bool fit_columns(const struct side_table *t, int width, int *widths) {
    int total = 0, label = width_of(t->title);
    for (size_t r = 0; r < t->row_count; r++)
        label = at_least(label, t->rows[r].label);
    widths[0] = width ? at_most(label, LABEL_COLUMNS_MAX) : label;
    for (size_t i = 0; i < t->count; i++) {
        widths[i + 1] = width_of(t->heads[i]);
        for (size_t r = 0; r < t->row_count; r++)
            widths[i + 1] = at_least(widths[i + 1], t->rows[r].cells[i]);
        total += widths[i + 1] + GAP;
    }
    if (width == 0)
        return t->count <= SIDE_COLUMNS_MAX;
    if (widths[0] + total <= width)
        return true;
    int each = (width - widths[0]) / (int)t->count - GAP;
    for (size_t i = 0; i < t->count; i++)
        widths[i + 1] = at_most(widths[i + 1], each);
    return each >= SIDE_CELL_COLUMNS_MIN;
}

static void add_columns(const struct side_table *t, const int *widths, struct strbuf *out) {
    const char **cells = arena_new(t->arena, const char *, t->count + 1);
    cells[0] = t->title;
    memcpy(cells + 1, t->heads, t->count * sizeof *cells);
    add_line(out, cells, widths, t->count + 1);
    for (size_t r = 0; r < t->row_count; r++) {
        cells[0] = t->rows[r].label;
        memcpy(cells + 1, t->rows[r].cells, t->count * sizeof *cells);
        add_line(out, cells, widths, t->count + 1);
    }
}

// ---- a row for each thing -----------------------------------------------------------------------

// A block with the rows from … to as columns; widths[0] is that of the heads.
static void add_block(const struct side_table *t, size_t from, size_t to, const int *widths,
                      struct strbuf *out) {
    size_t count = to - from + 1;
    const char **cells = arena_new(t->arena, const char *, count);
    cells[0] = t->title;
    for (size_t r = from; r < to; r++)
        cells[r - from + 1] = t->rows[r].label;
    add_line(out, cells, widths, count);
    for (size_t i = 0; i < t->count; i++) {
        cells[0] = t->heads[i];
        for (size_t r = from; r < to; r++)
            cells[r - from + 1] = t->rows[r].cells[i];
        add_line(out, cells, widths, count);
    }
}

static void add_rows(const struct side_table *t, int width, struct strbuf *out) {
    int *widths = arena_new(t->arena, int, t->row_count + 1);
    int head = width_of(t->title);
    for (size_t i = 0; i < t->count; i++)
        head = at_least(head, t->heads[i]);
    for (size_t from = 0, to = 0; from < t->row_count; from = to) {
        int total = widths[0] = head;
        for (; to < t->row_count; to++) {
            int w = width_of(t->rows[to].label);
            for (size_t i = 0; i < t->count; i++)
                w = at_least(w, t->rows[to].cells[i]);
            w = width ? at_most(w, ROW_CELL_COLUMNS_MAX) : w;
            if (width && to > from && total + GAP + w > width)
                break;
            widths[to - from + 1] = w;
            total += GAP + w;
        }
        if (from)
            strbuf_addc(out, '\n');
        add_block(t, from, to, widths, out);
    }
}

void side_table_format(const struct side_table *t, int width, struct strbuf *out) {
    int *widths = arena_new(t->arena, int, t->count + 1);
    if (t->row_count == 0 || t->count == 0)
        return;
    if (fit_columns(t, width, widths))
        add_columns(t, widths, out);
    else
        add_rows(t, width, out);
}

void side_table_print(const struct side_table *t, struct screen *s) {
    struct strbuf text = {0};
    side_table_format(t, s->out_is_terminal ? screen_columns(s) : 0, &text);
    screen_out(s, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
}
