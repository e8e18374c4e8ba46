// SPDX-License-Identifier: Apache-2.0
// A set from the text of a file: every key is looked up in the tables; a key without a row is an
// error.
#include "conf/option.h"

#include "base/env.h"
#include "base/name_map.h"
#include "conf/cli.h"
#include "conf/option_value.h"

#include <string.h>

struct file_reader {
    struct option_set *set;
    enum option_source source;
    const char *file;
    struct option_reader values;
    bool names_only; // checks the keys, and stores no value
};

static struct option_place place_of(const struct file_reader *f, int line, int column) {
    return (struct option_place){f->source, f->file, line, column};
}

static void fail_value(void *ctx, const struct toml *at, const char *name, const char *text) {
    struct file_reader *f = ctx;
    option_problem(f->set, place_of(f, at->line, at->column), "%s: %s", name, text);
}

// True when a row's key is below the table `path`.
static bool is_table(const struct option_set *s, const char *path) {
    size_t len = strlen(path);
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const char *key = s->tables[t].table->rows[i].key;
            if (key && strncmp(key, path, len) == 0 && key[len] == '.')
                return true;
        }
    return false;
}

// The known table whose name is nearest to the one written.
static const char *nearest_table(const struct option_set *s, const char *path) {
    size_t n = 0;
    const char **names = arena_new(s->arena, const char *, option_set_row_count(s) + 1);
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            const char *dot = r->key ? strrchr(r->key, '.') : NULL;
            if (dot)
                names[n++] = arena_strndup(s->arena, r->key, (size_t)(dot - r->key));
            else if (r->key)
                names[n++] = r->key;
        }
    return cli_nearest(s->arena, path, names);
}

static void unknown(struct file_reader *f, const struct toml *c, const char *path) {
    bool table = c->type == TOML_TABLE ||
                 (c->type == TOML_ARRAY && c->child && c->child->type == TOML_TABLE);
    if (f->set->problem_count >= OPTION_PROBLEMS_MAX) { // no more looking for near names
        f->set->problem_count++;
        return;
    }
    option_problem(f->set, place_of(f, c->key_line, c->key_column), "%s: unknown %s%s", path,
                   table ? "table" : "key",
                   table ? nearest_table(f->set, path) : option_nearest_key(f->set, path));
}

// Whether a kept value holds: the row is of that kind, and this command sets no other value.
static bool holds(const struct option_row *r, const struct option_place *known) {
    return (r->marks & OPTION_KEEP) && known->source < OPTION_KEPT;
}

static const char *format(struct arena *a, const struct option_row *r, const void *value) {
    struct strbuf b = {0};
    option_format(&b, r, value);
    const char *text = arena_strdup(a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return text;
}

static void read_value(struct file_reader *f, const struct option_bound *b,
                       const struct option_row *r, const struct toml *c, const char *path) {
    struct option_place *known = &b->places[r - b->table->rows], before = *known;
    struct arena *a = f->set->arena;
    void *dest = (char *)b->target + r->offset;
    bool kept = f->source == OPTION_KEPT;
    if (kept && !holds(r, known))
        return;
    const char *was = kept && before.source == OPTION_FILE ? format(a, r, dest) : NULL;
    if (option_read_toml(&f->values, r, c, path, dest) < 0)
        return;
    option_expand_home(f->set, r, dest);
    *known = place_of(f, c->line, c->column);
    if (!was || strcmp(was, format(a, r, dest)) == 0)
        return;
    struct option_shadow *shadow = arena_new(a, struct option_shadow, 1);
    *shadow = (struct option_shadow){r, before, was, f->set->shadows};
    f->set->shadows = shadow;
}

static bool has_keys(void *ctx, const char *name) {
    return is_table(((struct file_reader *)ctx)->set, name);
}

static void read_table(struct file_reader *f, const struct toml *table, const char *prefix);

// The tables in the table of a map whose keys have rows: [env.bundle] in [env].
static void read_inner_tables(struct file_reader *f, const struct toml *map, const char *path) {
    for (const struct toml *c = map->child; c; c = c->next) {
        const char *part = str_printable(f->set->arena, c->key, c->key_len);
        const char *inner = arena_printf(f->set->arena, "%s.%s", path, part);
        if (c->type == TOML_TABLE && is_table(f->set, inner))
            read_table(f, c, inner);
    }
}

// Reads one key, or a table, whose full name is `path`. Depth is bounded by the parser's limit and
// by the depth of keys in rows.
static void read_member(struct file_reader *f, const struct toml *c, const char *path) {
    struct option_set *s = f->set;
    const struct option_bound *b;
    const struct option_row *r = option_find(s, path, &b);
    if (memchr(c->key, '.', c->key_len) || memchr(c->key, '\0', c->key_len)) {
        unknown(f, c, path); // "a.b" in quotes is not the key b of table a
    } else if (r && b->target) {
        if (!f->names_only)
            read_value(f, b, r, c, path);
        if (r->type == OPTION_MAP && c->type == TOML_TABLE)
            read_inner_tables(f, c, path);
    } else if (!r && !is_table(s, path)) {
        unknown(f, c, path);
    } else if (!r && c->type != TOML_TABLE) {
        option_problem(s, place_of(f, c->line, c->column), "%s: expected a table, found %s", path,
                       toml_type_name(c->type));
    } else if (!r) {
        read_table(f, c, path);
    }
}

static void read_table(struct file_reader *f, const struct toml *table, const char *prefix) {
    struct arena *a = f->set->arena;
    for (const struct toml *c = table->child; c; c = c->next) {
        const char *part = str_printable(a, c->key, c->key_len);
        const struct option_sections *x = f->set->sections;
        if (*prefix || !x || strcmp(part, x->table) != 0)
            read_member(f, c, *prefix ? arena_printf(a, "%s.%s", prefix, part) : part);
    }
}

// ---- sections -----------------------------------------------------------------------------------

// The row's key, or the table, that a member of a section stands for; NULL: none.
static const char *member_path(const struct option_set *s, const char *part) {
    const struct option_sections *x = s->sections;
    if (str_is_one_of(part, x->refused))
        return NULL;
    for (const char *const *own = x->own; *own; own++) {
        const char *path = arena_printf(s->arena, "%s.%s", *own, part);
        if (option_find(s, path, NULL))
            return path;
    }
    return str_is_one_of(part, x->whole) ? part : NULL;
}

// The names that a section may have, to find the one that was meant.
static const char *nearest_member(const struct option_set *s, const char *part) {
    const struct option_sections *x = s->sections;
    const char **names = arena_new(s->arena, const char *, 2 * option_set_row_count(s) + 1);
    size_t n = 0;
    for (const char *const *whole = x->whole; *whole; whole++)
        names[n++] = *whole;
    for (const char *const *own = x->own; *own; own++)
        for (size_t t = 0; t < s->table_count; t++)
            for (size_t i = 0; i < s->tables[t].table->count; i++) {
                const char *key = s->tables[t].table->rows[i].key;
                size_t len = strlen(*own);
                if (key && str_starts(key, *own) && key[len] == '.' && !strchr(key + len + 1, '.'))
                    names[n++] = key + len + 1;
            }
    return cli_nearest(s->arena, part, names);
}

static void read_section(struct file_reader *f, const struct toml *section, const char *name) {
    struct option_set *s = f->set;
    for (const struct toml *c = section->child; c; c = c->next) {
        const char *part = str_printable(s->arena, c->key, c->key_len);
        const char *path = member_path(s, part);
        bool elsewhere = str_is_one_of(part, s->sections->refused) || is_table(s, part);
        if (path)
            read_member(f, c, path);
        else
            option_problem(s, place_of(f, c->key_line, c->key_column), "%s.%s: %s%s", name, part,
                           elsewhere ? "cannot be set here" : "unknown key",
                           elsewhere ? "" : nearest_member(s, part));
    }
}

// The chosen section comes last, so that its values take the place of the file's own.
static void read_sections(struct file_reader *f, const struct toml *root) {
    struct option_set *s = f->set;
    struct option_sections *x = s->sections;
    const struct toml *all = x ? toml_member(root, x->table) : NULL, *chosen = NULL;
    struct name_map taken = {0};
    size_t count = 0;
    for (const struct toml *c = all && all->type == TOML_TABLE ? all->child : NULL; c; c = c->next)
        count++;
    if (all && !count)
        option_problem(s, place_of(f, all->line, all->column), "%s: expected tables [%s.NAME]",
                       x->table, x->table);
    if (!count)
        return;
    x->names = arena_new(s->arena, const char *, count + 1);
    for (const struct toml *c = all->child; c; c = c->next) {
        struct err e = {0};
        const char *part = str_printable(s->arena, c->key, c->key_len);
        const char *name = arena_printf(s->arena, "%s.%s", x->table, part);
        if (c->type != TOML_TABLE || option_plain_name(part, &e) < 0) {
            option_problem(s, place_of(f, c->key_line, c->key_column), "%s: %s", name,
                           c->type != TOML_TABLE ? "expected a table" : e.text);
            continue;
        }
        option_take_variable(s, &taken, place_of(f, c->key_line, c->key_column), x->table, part,
                             env_variable(s->arena, x->variable, part));
        x->names[x->count++] = part;
        if (x->chosen && strcmp(part, x->chosen) == 0)
            chosen = c;
        f->names_only = true;
        read_section(f, c, name);
    }
    name_map_fini(&taken);
    f->names_only = false;
    int faults = s->problem_count;
    if (chosen && !faults)
        read_section(f, chosen, arena_printf(s->arena, "%s.%s", x->table, x->chosen));
}

static void read_text(struct option_set *s, enum option_source source, const char *name,
                      const char *text, size_t len) {
    struct toml *root;
    struct toml_error *x;
    const char *slash = strrchr(name, '/');
    size_t dir_len = slash ? (size_t)(slash - name) : 0;
    const char *dir = arena_strndup(s->arena, name, dir_len + (slash == name));
    struct file_reader f = {.set = s, .source = source, .file = arena_strdup(s->arena, name)};
    f.values = (struct option_reader){.a = s->arena,
                                      .dir = dir,
                                      .file = f.file,
                                      .fail = fail_value,
                                      .has_keys = has_keys,
                                      .ctx = &f};
    int count = toml_parse_all(s->arena, text, len, &root, &x);
    for (; x; x = x->next, count--)
        option_problem(s, place_of(&f, x->line, x->column), "%s", x->text);
    s->problem_count += count; // those beyond TOML_ERRORS_MAX
    read_table(&f, root, "");
    if (source == OPTION_FILE)
        read_sections(&f, root);
}

void option_set_file(struct option_set *s, const char *name, const char *text, size_t len) {
    read_text(s, OPTION_FILE, name, text, len);
}

void option_set_kept(struct option_set *s, const char *name, const char *text, size_t len) {
    read_text(s, OPTION_KEPT, name, text, len);
}
