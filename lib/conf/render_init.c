// SPDX-License-Identifier: Apache-2.0
// Files made from the tables: `dtctl init`, and one table's share with its values.
#include "base/array.h"
#include "conf/option_value.h"
#include "conf/render.h"
#include "conf/render_row.h"

#include <string.h>

enum { WIDTH = 96 };

// "train.torchrun" of "train.torchrun.tee"; "" of "env".
static const char *table_of(struct arena *a, const struct option_row *r) {
    const char *dot = strrchr(r->key, '.');
    return dot ? arena_strndup(a, r->key, (size_t)(dot - r->key)) : "";
}

static const char *last_part(const struct option_row *r) {
    const char *dot = strrchr(r->key, '.');
    return dot ? dot + 1 : r->key;
}

static void comment(struct strbuf *out, const char *text) {
    struct strbuf b = {0};
    render_wrap(&b, text, 2, 0, WIDTH - 2);
    for (const char *p = strbuf_cstr(&b); *p;) {
        size_t len = strcspn(p, "\n");
        strbuf_addf(out, "# %.*s\n", (int)len, p);
        p += len + (p[len] == '\n');
    }
    strbuf_fini(&b);
}

static void words_comment(struct strbuf *out, struct arena *a, const struct option_row *r) {
    const char *text = r->help;
    if (r->type == OPTION_CHOICE)
        text = arena_printf(
            a, "%s One of: %s.", r->help,
            render_arg(a, &(struct option_row){.type = OPTION_CHOICE, .choices = r->choices}));
    comment(out, text);
}

// ---- tables of a name: [env], [metrics], [inputs.NAME], [[hosts.host]] -------------------------
static void write_fields(struct strbuf *out, const struct option_record *rec, const char *element) {
    for (size_t i = rec->named ? 1 : 0; i < rec->count; i++) {
        strbuf_addf(out, "%s = ", rec->rows[i].key);
        option_format(out, &rec->rows[i], element + rec->rows[i].offset);
        strbuf_addc(out, '\n');
    }
}

static void write_tables(struct strbuf *out, const struct render_each *x) {
    const struct option_row *r = x->row;
    if (r->type == OPTION_MAP) {
        const struct option_map *map = x->value;
        toml_write_table(out, r->key, NULL);
        for (size_t i = 0; i < map->count; i++)
            toml_write_str(out, map->items[i].name, map->items[i].value);
        return;
    }
    const struct option_records *all = x->value;
    for (size_t i = 0; i < all->count; i++) {
        const char *element = (const char *)all->items + i * r->record->size;
        if (r->record->named)
            toml_write_table(out, r->key, option_record_name(r->record, element));
        else
            toml_write_element(out, r->key);
        write_fields(out, r->record, element);
    }
}

static void example_tables(struct strbuf *out, struct arena *a, const struct option_row *r) {
    strbuf_addc(out, '\n');
    comment(out, r->help);
    if (r->type == OPTION_MAP) {
        const char *equals = r->arg ? strchr(r->arg, '=') : NULL;
        strbuf_addf(out, "#[%s]\n", r->key);
        if (equals)
            strbuf_addf(out, "#%.*s = \"%s\"\n", (int)(equals - r->arg), r->arg, equals + 1);
        return;
    }
    strbuf_addf(out, r->record->named ? "#[%s.NAME]\n" : "#[[%s]]\n", r->key);
    for (size_t i = r->record->named ? 1 : 0; i < r->record->count; i++) {
        const struct option_row *f = &r->record->rows[i];
        comment(out, arena_printf(a, "%s: %s", f->key, f->help));
    }
}

// A map without entries is one that is not there: the header of [env.bundle] makes an empty [env].
static bool has_entries(const struct render_each *x) {
    const struct option_map *map = x->value;
    return x->place->source != OPTION_DEFAULT && (x->row->type != OPTION_MAP || map->count > 0);
}

// ---- init ------------------------------------------------------------------------------------
static bool is_table_row(const struct option_row *r) {
    return r->type == OPTION_MAP || r->type == OPTION_RECORDS;
}

static const char *found_of(const struct option_map *found, const struct option_row *r) {
    for (size_t i = 0; found && i < found->count; i++)
        if (strcmp(found->items[i].name, r->key) == 0)
            return found->items[i].value;
    return NULL;
}

static void write_key(struct strbuf *out, struct arena *a, const struct render_each *x,
                      const struct option_map *found) {
    const char *value = x->place->source == OPTION_DEFAULT ? found_of(found, x->row) : NULL;
    words_comment(out, a, x->row);
    if (value) {
        toml_write_str(out, last_part(x->row), value);
        return;
    }
    strbuf_addf(out, "%s%s = ", x->place->source == OPTION_DEFAULT ? "#" : "", last_part(x->row));
    if (x->place->source == OPTION_DEFAULT && x->row->type == OPTION_PATH)
        toml_write_quoted(out, x->row->text ? x->row->text : "", // "~/" as written
                          x->row->text ? strlen(x->row->text) : 0);
    else
        option_format(out, x->row, x->value);
    strbuf_addc(out, '\n');
}

static bool is_wanted(const struct render_each *x, const struct option_map *found,
                      const char *const *others) {
    bool wanted = !others || x->place->source != OPTION_DEFAULT || found_of(found, x->row);
    for (; !wanted && *others; others++)
        wanted = strcmp(*others, x->row->key) == 0;
    return wanted;
}

// The keys of one table, in the order of the rows.
static void write_table(struct strbuf *out, struct arena *a, const struct option_set *s,
                        const char *table, const struct option_map *found,
                        const char *const *others) {
    bool any = false;
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!x.row->key || !x.value || is_table_row(x.row) ||
            strcmp(table_of(a, x.row), table) != 0 || !is_wanted(&x, found, others))
            continue;
        if (!any)
            strbuf_addf(out, "\n[%s]\n", table);
        any = true;
        write_key(out, a, &x, found);
    }
}

void render_init(struct strbuf *out, const struct option_set *s, const struct option_map *found,
                 const char *const *others) {
    struct arena a = {0};
    const char *keys = !others ? "Every key is here, with its default behind a '#'."
                               : arena_printf(&a,
                                              "Other keys have their defaults; '%s init --all "
                                              "--dry-run' prints every key with its meaning.",
                                              s->program);
    comment(out, arena_printf(&a,
                              "Configuration of %s. %s Flags and %s… variables go before this "
                              "file; '%s config show' prints all values.",
                              s->program, keys, s->env_prefix, s->program));
    struct strbuf done = {0}; // each "[table]" already written
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!x.row->key || !x.value || is_table_row(x.row))
            continue;
        const char *table = table_of(&a, x.row);
        const char *mark = arena_printf(&a, "[%s]", table);
        if (strstr(strbuf_cstr(&done), mark))
            continue;
        strbuf_adds(&done, mark);
        write_table(out, &a, s, table, found, others);
    }
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!x.row->key || !x.value || !is_table_row(x.row))
            continue;
        if (has_entries(&x))
            write_tables(out, &x);
        else if (!others)
            example_tables(out, &a, x.row);
    }
    strbuf_fini(&done);
    arena_fini(&a);
}

static bool is_in(const struct option_table *const *tables, const struct option_table *table) {
    while (*tables && *tables != table)
        tables++;
    return *tables != NULL;
}

void render_toml(struct strbuf *out, const struct option_set *s,
                 const struct option_table *const *tables) {
    struct arena a = {0};
    const char *open = "";
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!is_in(tables, x.bound->table) || !x.row->key || !x.value || is_table_row(x.row))
            continue;
        const char *name = table_of(&a, x.row);
        if (strcmp(name, open) != 0)
            strbuf_addf(out, "%s[%s]\n", out->len ? "\n" : "", name);
        open = name;
        strbuf_addf(out, "%s = ", last_part(x.row));
        option_format(out, x.row, x.value);
        strbuf_addc(out, '\n');
    }
    arena_fini(&a);
}

struct option_map render_map(struct arena *a, const struct option_set *s,
                             const struct option_table *const *tables) {
    struct option_map out = {0};
    size_t room = 0;
    for (struct render_each x = {0}; render_next(&x, s);) {
        struct strbuf text = {0};
        if (!is_in(tables, x.bound->table) || !x.row->key || !x.value || is_table_row(x.row))
            continue;
        option_format(&text, x.row, x.value);
        array_grow_in(a, out.items, &room, out.count + 1);
        out.items[out.count++] =
            (struct option_pair){x.row->key, arena_strndup(a, strbuf_cstr(&text), text.len)};
        strbuf_fini(&text);
    }
    return out;
}

void render_kept(struct strbuf *out, const struct option_set *s) {
    strbuf_adds(out, "# Flags and variables of the last `dtctl up`. Written by dtctl.\n");
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!x.row->key || !x.value || !(x.row->marks & OPTION_KEEP) ||
            x.place->source < OPTION_KEPT)
            continue;
        strbuf_addf(out, "%s = ", x.row->key);
        option_format(out, x.row, x.value);
        strbuf_addc(out, '\n');
    }
}
