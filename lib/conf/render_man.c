// SPDX-License-Identifier: Apache-2.0
// Manual pages in roff with the macros of man(7).
#include "conf/render.h"
#include "conf/render_row.h"

#include <string.h>

// Text with roff's own characters escaped. A line may not start with a request.
static void add(struct strbuf *out, const char *text) {
    bool start = out->len == 0 || out->data[out->len - 1] == '\n';
    for (const char *p = text; *p; p++) {
        if (start && (*p == '.' || *p == '\''))
            strbuf_adds(out, "\\&");
        start = *p == '\n';
        if (*p == '\\')
            strbuf_adds(out, "\\e");
        else if (*p == '-')
            strbuf_adds(out, "\\-");
        else
            strbuf_addc(out, *p);
    }
}

static void line(struct strbuf *out, const char *macro, const char *text) {
    strbuf_addf(out, "%s ", macro);
    add(out, text);
    strbuf_addc(out, '\n');
}

static void paragraphs(struct strbuf *out, const char *text) {
    for (const char *end; text && *text; text = end + strspn(end, "\n")) {
        end = strstr(text, "\n\n");
        end = end ? end : text + strlen(text);
        strbuf_adds(out, ".PP\n");
        struct arena a = {0};
        add(out, arena_strndup(&a, text, (size_t)(end - text)));
        arena_fini(&a);
        strbuf_addc(out, '\n');
    }
}

static void header(struct strbuf *out, const char *name, int section,
                   const struct render_program *p) {
    struct arena a = {0};
    char *upper = arena_strdup(&a, name);
    for (char *c = upper; *c; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
    strbuf_addf(out,
                ".\\\" Made from the tables of options and commands.\n.TH \"%s\" %d \"\" "
                "\"%s %s\"\n",
                upper, section, p->name, p->version);
    arena_fini(&a);
}

// Where else a flag's value can be set.
static void elsewhere(struct strbuf *out, struct arena *a, const struct option_set *s,
                      const struct option_row *r) {
    const char *env = option_row_env(a, s, r);
    if (r->key || env) {
        strbuf_adds(out, ".br\n");
        add(out, arena_printf(a, "%s%s%s%s%s", r->key ? "Key " : "", r->key ? r->key : "",
                              r->key && env ? ", variable "
                              : env         ? "Variable "
                                            : "",
                              env ? env : "", ".\n"));
    }
}

static void flag_item(struct strbuf *out, struct arena *a, const struct option_set *s,
                      const struct option_row *r) {
    const char *flag = render_flag(a, r);
    line(out, ".TP\n.B", flag + strspn(flag, " "));
    add(out, render_sentence(a, r));
    strbuf_addc(out, '\n');
    elsewhere(out, a, s, r);
}

static void verb_section(struct strbuf *out, struct arena *a, const struct option_set *s,
                         const struct render_program *p, const struct render_verb *v) {
    strbuf_adds(out, ".SS ");
    add(out, arena_printf(a, "%s %s [FLAGS]%s%s", p->name, v->name, v->args ? " " : "",
                          v->args ? v->args : ""));
    strbuf_addc(out, '\n');
    char *summary = arena_printf(a, "%s.", v->summary);
    if (summary[0] >= 'a' && summary[0] <= 'z')
        summary[0] = (char)(summary[0] - 32);
    add(out, summary);
    strbuf_addc(out, '\n');
    paragraphs(out, v->text);
    for (struct render_each x = {0}; render_next(&x, s);)
        if (render_is_own(x.row, v->name))
            flag_item(out, a, s, x.row);
    if (v->examples) {
        strbuf_adds(out, ".PP\n.nf\n");
        add(out, v->examples);
        strbuf_adds(out, str_ends(v->examples, "\n") ? ".fi\n" : "\n.fi\n");
    }
}

static void exit_section(struct strbuf *out) {
    strbuf_adds(out, ".SH EXIT STATUS\n");
    for (int status = 0; status <= 4; status++) {
        bool first = true;
        strbuf_addf(out, ".TP\n.B %d\n", status);
#define X(code, name, exit_status, text)                                                           \
    if (exit_status == status) {                                                                   \
        strbuf_adds(out, first ? "" : "; ");                                                       \
        add(out, text);                                                                            \
        first = false;                                                                             \
    }
        ERR_CODES(X)
#undef X
        strbuf_adds(out, ".\n");
    }
}

static void file_keys(struct strbuf *out, struct arena *a, const struct option_set *s);

void render_man(struct strbuf *out, const struct option_set *s, const struct render_program *p) {
    struct arena a = {0};
    header(out, p->name, 1, p);
    strbuf_adds(out, ".SH NAME\n");
    add(out, p->name);
    strbuf_adds(out, " \\- ");
    add(out, p->summary);
    strbuf_adds(out, "\n.SH SYNOPSIS\n");
    line(out, ".B", p->name);
    add(out, p->synopsis);
    strbuf_addc(out, '\n');
    if (p->text) {
        strbuf_adds(out, ".SH DESCRIPTION\n");
        paragraphs(out, p->text);
    }
    strbuf_adds(out, ".SH OPTIONS\n");
    for (struct render_each x = {0}; render_next(&x, s);)
        if (render_is_global(x.row))
            flag_item(out, &a, s, x.row);
    if (p->verbs)
        strbuf_adds(out, ".SH COMMANDS\n");
    for (const struct render_verb *const *v = p->verbs; v && *v; v++)
        verb_section(out, &a, s, p, *v);
    bool keys = false;
    for (struct render_each x = {0}; !p->verbs && render_next(&x, s);)
        keys = keys || (x.row->key && x.value);
    if (keys) {
        strbuf_adds(out, ".SH KEYS\n");
        file_keys(out, &a, s);
    }
    exit_section(out);
    if (p->topics) {
        struct strbuf topics = {0};
        render_topics(&topics, p);
        strbuf_adds(out, ".SH SEE ALSO\n");
        line(out, ".BR", arena_printf(&a, "%s.toml (5)", p->name));
        paragraphs(out, arena_printf(&a, "'%s help TOPIC' prints a document; topics: %s", p->name,
                                     strbuf_cstr(&topics)));
        strbuf_fini(&topics);
    }
    arena_fini(&a);
}

static void key_item(struct strbuf *out, struct arena *a, const struct option_set *s,
                     const struct option_row *r) {
    const char *env = option_row_env(a, s, r);
    const char *arg = r->type == OPTION_BOOL ? "true|false" : render_arg(a, r);
    const char *key = r->type == OPTION_RECORDS && r->record->named
                          ? arena_printf(a, "[%s.NAME]", r->key)
                      : r->type == OPTION_RECORDS ? arena_printf(a, "[[%s]]", r->key)
                                                  : arena_printf(a, "%s = %s", r->key, arg);
    line(out, ".TP\n.B", key);
    add(out, r->type == OPTION_BOOL ? arena_printf(a, "%s Default: %s.", r->help, r->text)
                                    : render_sentence(a, r));
    strbuf_addc(out, '\n');
    for (size_t i = r->record && r->record->named; r->record && i < r->record->count; i++) {
        const struct option_row *f = &r->record->rows[i];
        strbuf_adds(out, ".br\n");
        add(out, arena_printf(a, "%s: %s\n", f->key, render_sentence(a, f)));
    }
    if (r->flag || env) {
        strbuf_adds(out, ".br\n");
        add(out, arena_printf(a, "%s%s%s%s.\n", r->flag ? "Flag --" : "", r->flag ? r->flag : "",
                              !env      ? ""
                              : r->flag ? ", variable "
                                        : "Variable ",
                              env ? env : ""));
    }
}

static void file_keys(struct strbuf *out, struct arena *a, const struct option_set *s) {
    for (struct render_each x = {0}; render_next(&x, s);)
        if (x.row->key && x.value && !(x.row->marks & OPTION_HIDDEN))
            key_item(out, a, s, x.row);
}

void render_man_file(struct strbuf *out, const struct option_set *s, const struct render_program *p,
                     const char *file) {
    struct arena a = {0};
    header(out, file, 5, p);
    strbuf_adds(out, ".SH NAME\n");
    add(out, file);
    strbuf_adds(out, " \\- configuration of ");
    add(out, p->name);
    strbuf_adds(out, "\n.SH DESCRIPTION\n");
    paragraphs(out, arena_printf(&a,
                                 "A TOML 1.0 file. A flag goes before an environment variable, "
                                 "that before the file, and the file before the default. Keys "
                                 "that are not listed here are errors. '%s config show' prints "
                                 "every value and where it comes from.",
                                 p->name));
    strbuf_adds(out, ".SH KEYS\n");
    file_keys(out, &a, s);
    arena_fini(&a);
}
