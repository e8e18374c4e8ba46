// SPDX-License-Identifier: Apache-2.0
// Escaping, and tables of bounded size.
#include "run/report/html.h"

#include <string.h>

static const char *entity(char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void html_text(struct strbuf *out, const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        char shown[STR_VISIBLE_BYTES_MAX];
        const char *known = entity(text[at]);
        if (known || text[at] == '\n') {
            strbuf_adds(out, known ? known : "\n");
            at++;
            continue;
        }
        at += str_visible(text + at, len - at, shown);
        strbuf_adds(out, shown);
    }
}

void html_cut(struct strbuf *out, const char *text, size_t bytes_max) {
    size_t len = strlen(text), take = len < bytes_max ? len : bytes_max;
    while (take < len && take > 0 && ((unsigned char)text[take] & 0xc0) == 0x80)
        take--; // no part of a character
    html_text(out, text, take);
    if (take < len)
        strbuf_adds(out, "…");
}

void html_textf(struct strbuf *out, const char *fmt, ...) {
    struct strbuf text = {0};
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&text, fmt, ap);
    va_end(ap);
    html_text(out, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
}

// ---- tables -------------------------------------------------------------------------------------

static void add_cells(struct strbuf *out, const char *tag, const char *const *cells, size_t count) {
    strbuf_adds(out, "<tr>");
    for (size_t i = 0; i < count; i++) {
        strbuf_addf(out, "<%s>", tag);
        html_cut(out, cells[i] ? cells[i] : "-", HTML_CELL_BYTES_MAX);
        strbuf_addf(out, "</%s>", tag);
    }
    strbuf_adds(out, "</tr>\n");
}

void html_table_open(struct html_table *t, struct strbuf *out, size_t bytes_max,
                     const char *const *heads, size_t columns) {
    *t = (struct html_table){.out = out, .columns = columns, .end = out->len + bytes_max};
    strbuf_adds(out, "<div class=\"wide\"><table>\n");
    add_cells(out, "th", heads, columns);
}

void html_table_row(struct html_table *t, const char *const *cells) {
    struct strbuf row = {0};
    add_cells(&row, "td", cells, t->columns);
    if (t->left_out || t->out->len + row.len > t->end)
        t->left_out++;
    else
        strbuf_add(t->out, row.data, row.len);
    strbuf_fini(&row);
}

void html_table_close(struct html_table *t) {
    strbuf_adds(t->out, "</table></div>\n");
    if (t->left_out)
        strbuf_addf(t->out, "<p class=\"note\">%zu more row%s left out.</p>\n", t->left_out,
                    t->left_out == 1 ? " is" : "s are");
}
