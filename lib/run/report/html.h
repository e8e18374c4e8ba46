// SPDX-License-Identifier: Apache-2.0
// HTML of foreign texts. html_text is the only function that escapes; no other code of the report
// adds a foreign byte to a page. Pure.
//
//     struct html_table t;
//     html_table_open(&t, out, bytes_max, heads, 2);
//     html_table_row(&t, cells);
//     html_table_close(&t);
#ifndef RUN_REPORT_HTML_H
#define RUN_REPORT_HTML_H

#include "base/str.h"

// The text as text of an element or as the value of an attribute in quotes. Bytes that are no
// UTF-8, control characters except line ends and tabs, and changes of direction are shown as \xNN.
void html_text(struct strbuf *out, const char *text, size_t len);
// At most so many bytes of the text; "…" stands for the rest.
void html_cut(struct strbuf *out, const char *text, size_t bytes_max);
// Formats numbers and foreign texts, then escapes the whole.
void html_textf(struct strbuf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum { HTML_CELL_BYTES_MAX = 2000 };

// A table of bounded size: rows that do not fit are counted in the last line.
struct html_table {
    struct strbuf *out;
    size_t columns, end, left_out; // end: length of out that no row may pass
};

// heads: columns texts.
void html_table_open(struct html_table *t, struct strbuf *out, size_t bytes_max,
                     const char *const *heads, size_t columns);
void html_table_row(struct html_table *t, const char *const *cells);
void html_table_close(struct html_table *t);

#endif
