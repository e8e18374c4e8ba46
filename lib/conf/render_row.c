// SPDX-License-Identifier: Apache-2.0
// Parts that the renderers share: the names of a row, its sentence, wrapped text.
#include "conf/render_row.h"

#include <string.h>

bool render_next(struct render_each *x, const struct option_set *s) {
    while (x->table < s->table_count && x->index >= s->tables[x->table].table->count) {
        x->table++;
        x->index = 0;
    }
    if (x->table >= s->table_count)
        return false;
    x->bound = &s->tables[x->table];
    x->row = &x->bound->table->rows[x->index];
    x->place = &x->bound->places[x->index];
    x->value = x->bound->target ? (const char *)x->bound->target + x->row->offset : NULL;
    x->index++;
    return true;
}

static const char *words(struct arena *a, const char *const *choices) {
    struct strbuf b = {0};
    for (; *choices; choices++)
        strbuf_addf(&b, "%s%s", b.len ? "|" : "", *choices);
    const char *text = arena_strdup(a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return text;
}

const char *render_arg(struct arena *a, const struct option_row *r) {
    static const char *const names[] = {
        [OPTION_BOOL] = "",        [OPTION_INT] = "N",       [OPTION_REAL] = "X",
        [OPTION_STRING] = "TEXT",  [OPTION_PATH] = "PATH",   [OPTION_DURATION] = "TIME",
        [OPTION_BYTES] = "SIZE",   [OPTION_CHOICE] = "WORD", [OPTION_COUNT] = "N",
        [OPTION_RANGE] = "N",      [OPTION_LIST] = "TEXT",   [OPTION_PATHS] = "PATH",
        [OPTION_INTS] = "N,N,…",   [OPTION_REALS] = "X,X,…", [OPTION_MAP] = "NAME=VALUE",
        [OPTION_RECORDS] = "TEXT",
    };
    if (r->arg)
        return r->arg;
    return r->type == OPTION_CHOICE ? words(a, r->choices) : names[r->type];
}

const char *render_flag(struct arena *a, const struct option_row *r) {
    bool off = r->type == OPTION_BOOL && str_eq(r->text, "true");
    const char *arg = render_arg(a, r);
    const char *letter = r->letter ? arena_printf(a, "-%c, ", r->letter) : "    ";
    return arena_printf(a, "%s--%s%s%s%s", letter, off ? "no-" : "", r->flag, *arg ? " " : "", arg);
}

const char *render_sentence(struct arena *a, const struct option_row *r) {
    bool plain = r->text && *r->text && r->type != OPTION_BOOL;
    return plain ? arena_printf(a, "%s Default: %s.", r->help, r->text) : r->help;
}

bool render_is_global(const struct option_row *r) {
    return r->flag && !(r->marks & OPTION_HIDDEN) && option_row_has_verb(r, NULL);
}

bool render_is_own(const struct option_row *r, const char *verb) {
    return r->flag && !(r->marks & OPTION_HIDDEN) && !option_row_has_verb(r, NULL) &&
           option_row_has_verb(r, verb);
}

// Columns of UTF-8 text, one per character.
static int columns(const char *s, size_t len) {
    int n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

void render_wrap(struct strbuf *out, const char *text, int at, int indent, int width) {
    bool first = true;
    while (*text) {
        size_t len = strcspn(text, " \n");
        int wide = columns(text, len);
        if (!first && at + 1 + wide > width) {
            strbuf_addf(out, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            strbuf_addc(out, ' ');
            at++;
        }
        strbuf_add(out, text, len);
        at += wide;
        first = false;
        text += len;
        if (str_starts(text, "\n\n")) { // a new paragraph
            strbuf_addf(out, "\n\n%*s", indent, "");
            at = indent;
            first = true;
        }
        text += strspn(text, " \n");
    }
    strbuf_addc(out, '\n');
}

void render_topics(struct strbuf *out, const struct render_program *p) {
    for (size_t i = 0; p->topics[i]; i++)
        strbuf_addf(out, "%s%s", i ? ", " : "", p->topics[i]);
    strbuf_addc(out, '.');
}
