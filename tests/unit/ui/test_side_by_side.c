// SPDX-License-Identifier: Apache-2.0
// Tables of things side by side: columns while they fit, then rows; nothing is wider than asked.
#include "ui/side_by_side.h"

#include "base/str.h"
#include "tests/tap.h"

#include <string.h>

static struct arena a;
static const char *const heads[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};

static struct side_table table(size_t count, const char *cell) {
    struct side_table t = {.arena = &a, .title = "NAME", .heads = heads, .count = count};
    for (int r = 0; r < 2; r++) {
        const char **cells = arena_new(&a, const char *, count);
        for (size_t i = 0; i < count; i++)
            cells[i] = r ? "x" : cell;
        side_table_add(&t, r ? "second" : "first", cells);
    }
    return t;
}

static const char *format(const struct side_table *t, int width) {
    struct strbuf text = {0};
    side_table_format(t, width, &text);
    const char *out = arena_strndup(&a, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
    return out;
}

// The cells of the widest line; texts here have one byte for each.
static size_t widest(const char *text) {
    size_t most = 0;
    for (const char *end; *text; text = end + (*end != '\0')) {
        end = text + strcspn(text, "\n");
        most = (size_t)(end - text) > most ? (size_t)(end - text) : most;
    }
    return most;
}

int main(void) {
    struct side_table two = table(2, "0.5"), ten = table(10, "abcdefghijklmnop");
    struct side_table none = {.arena = &a, .title = "NAME", .heads = heads, .count = 2};
    is_str(format(&two, 80), "NAME    1    2\nfirst   0.5  0.5\nsecond  x    x\n",
           "each thing has a column");
    is_str(format(&none, 80), "", "a table without rows prints nothing");
    struct side_table wraps = table(2, "abcdefghijklmnopqrstuvwxyz");
    is_str(format(&wraps, 40),
           "NAME    1                2\n"
           "first   abcdefghijklmno  abcdefghijklmno\n"
           "        pqrstuvwxyz      pqrstuvwxyz\n"
           "second  x                x\n",
           "long texts are wrapped in their column");
    has_str(format(&ten, 60), "NAME  first", "things that do not fit as columns are rows");
    size_t wrong = 0, lost = 0;
    for (int width = 30; width < 200; width++) {
        const char *text = format(&ten, width);
        wrong += widest(text) > (size_t)width;
        size_t seen = 0;
        for (const char *p = text; (p = strchr(p, 'p')); p++)
            seen++;
        lost += seen != 10;
    }
    is_uint(wrong, 0, "no line is wider than the terminal");
    is_uint(lost, 0, "no text loses its end");
    ok(widest(format(&ten, 0)) > 20, "off a terminal lines have any length");
    arena_fini(&a);
    return done_testing();
}
