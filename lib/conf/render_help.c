// SPDX-License-Identifier: Apache-2.0
// The text of --help, from the option tables.
#include "conf/render.h"
#include "conf/render_row.h"

#include <string.h>

enum { WIDTH = 80, WIDTH_MIN = 60, NAME_COLUMNS = 28, KEY_INDENT = 6 };

static int usable(int width) {
    return width <= 0 ? WIDTH : width < WIDTH_MIN ? WIDTH_MIN : width;
}

static void entry(struct strbuf *out, const char *name, const char *text, int width) {
    strbuf_addf(out, "  %s", name);
    int at = 2;
    for (const char *p = name; *p; p++)
        at += ((unsigned char)*p & 0xC0) != 0x80;
    if (at + 2 > NAME_COLUMNS) {
        strbuf_addc(out, '\n');
        at = 0;
    }
    strbuf_addf(out, "%*s", NAME_COLUMNS - at, "");
    render_wrap(out, text, NAME_COLUMNS, NAME_COLUMNS, width);
}

static void flag_entry(struct strbuf *out, struct arena *a, const struct option_row *r, int width) {
    entry(out, render_flag(a, r), render_sentence(a, r), width);
}

static void global_flags(struct strbuf *out, const struct option_set *s, struct arena *a,
                         const char *title, int width) {
    strbuf_addf(out, "\n%s:\n", title);
    for (struct render_each x = {0}; render_next(&x, s);)
        if (render_is_global(x.row))
            flag_entry(out, a, x.row, width);
}

// Keys without a flag that --set reaches: those of the verb's table, or all of a program that has
// no verbs.
static void settable_keys(struct strbuf *out, const struct option_set *s, struct arena *a,
                          const char *verb, int width) {
    const char *table = verb ? arena_printf(a, "%s.", verb) : "";
    bool any = false;
    for (struct render_each x = {0}; render_next(&x, s);) {
        const struct option_row *r = x.row;
        if (!r->key || !x.value || (verb && r->flag) || !str_starts(r->key, table) ||
            (r->marks & (OPTION_REST | OPTION_HIDDEN)))
            continue;
        if (!any)
            strbuf_adds(out, "\nKeys (in the file, or --set KEY=VALUE):\n");
        any = true;
        strbuf_addf(out, "  %s = %s\n%*s", r->key,
                    r->type == OPTION_BOOL ? "true|false" : render_arg(a, r), KEY_INDENT, "");
        const char *text = r->type == OPTION_BOOL
                               ? arena_printf(a, "%s Default: %s.", r->help, r->text)
                               : render_sentence(a, r);
        render_wrap(out, text, KEY_INDENT, KEY_INDENT, width);
    }
}

static bool takes_set(const struct option_set *s, const char *verb) {
    for (struct render_each x = {0}; render_next(&x, s);)
        if ((x.row->marks & OPTION_ASSIGN) && x.value && option_row_has_verb(x.row, verb))
            return true;
    return false;
}

void render_help(struct strbuf *out, const struct option_set *s, const struct render_program *p,
                 int width) {
    struct arena a = {0};
    width = usable(width);
    strbuf_addf(out, "%s: ", p->name);
    render_wrap(out, p->summary, (int)strlen(p->name) + 2, 0, width);
    strbuf_addf(out, "\nUsage: %s %s\n", p->name, p->synopsis);
    if (p->text) {
        strbuf_addc(out, '\n');
        render_wrap(out, p->text, 0, 0, width);
    }
    if (p->verbs)
        strbuf_adds(out, "\nCommands:\n");
    for (const struct render_verb *const *v = p->verbs; v && *v; v++)
        entry(out, (*v)->name, (*v)->summary, width);
    global_flags(out, s, &a, p->verbs ? "Flags of every command" : "Flags", width);
    if (!p->verbs && takes_set(s, NULL))
        settable_keys(out, s, &a, NULL, width);
    if (p->verbs)
        strbuf_addf(out, "\n'%s COMMAND --help' says more about a command.\n", p->name);
    if (p->topics) {
        struct strbuf topics = {0};
        strbuf_addf(&topics, "'%s help TOPIC' prints a document; topics: ", p->name);
        render_topics(&topics, p);
        render_wrap(out, strbuf_cstr(&topics), 0, 0, width);
        strbuf_fini(&topics);
    }
    arena_fini(&a);
}

void render_help_verb(struct strbuf *out, const struct option_set *s,
                      const struct render_program *p, const struct render_verb *verb, int width) {
    struct arena a = {0};
    width = usable(width);
    bool any = false;
    strbuf_addf(out, "%s %s: ", p->name, verb->name);
    render_wrap(out, verb->summary, (int)(strlen(p->name) + strlen(verb->name)) + 3, 0, width);
    strbuf_addf(out, "\nUsage: %s %s [FLAGS]%s%s\n", p->name, verb->name, verb->args ? " " : "",
                verb->args ? verb->args : "");
    if (verb->text) {
        strbuf_addc(out, '\n');
        render_wrap(out, verb->text, 0, 0, width);
    }
    for (struct render_each x = {0}; render_next(&x, s);)
        if (render_is_own(x.row, verb->name)) {
            strbuf_adds(out, any ? "" : "\nFlags:\n");
            any = true;
            flag_entry(out, &a, x.row, width);
        }
    global_flags(out, s, &a, "Flags of every command", width);
    if (takes_set(s, verb->name))
        settable_keys(out, s, &a, verb->name, width);
    if (verb->examples)
        strbuf_addf(out, "\nExamples:\n%s%s", verb->examples,
                    str_ends(verb->examples, "\n") ? "" : "\n");
    arena_fini(&a);
}
