// SPDX-License-Identifier: Apache-2.0
// Private to the renderers: how one row is named and described.
#ifndef CONF_RENDER_ROW_H
#define CONF_RENDER_ROW_H

#include "conf/option.h"
#include "conf/render.h"

// "N", "FILE", "local|hosts|aws"; "" for a bool.
const char *render_arg(struct arena *a, const struct option_row *r);
// "-f, --config FILE", "    --json"; a bool that is on by default is shown as --no-x.
const char *render_flag(struct arena *a, const struct option_row *r);
// The sentence, and "Default: X." where there is something to say.
const char *render_sentence(struct arena *a, const struct option_row *r);
// Whether help shows the row as a flag: of the verb itself (own), or of all.
bool render_is_own(const struct option_row *r, const char *verb);
bool render_is_global(const struct option_row *r);

// Adds text in lines of at most width columns; the first starts at column `at`, further ones are
// indented.
void render_wrap(struct strbuf *out, const char *text, int at, int indent, int width);

// "aws, data, …."
void render_topics(struct strbuf *out, const struct render_program *p);

// For every row of every table of set s:
//     for (struct render_each x = {0}; render_next(&x, s);) … x.row, x.bound …
struct render_each {
    size_t table, index;
    const struct option_bound *bound;
    const struct option_row *row;
    const struct option_place *place;
    const void *value; // NULL when the table is not bound to a struct
};
bool render_next(struct render_each *x, const struct option_set *s);

#endif
